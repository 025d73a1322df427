// Fuzz target: segment footers; rows that come out lie in order and within the segment.
#include <cstddef>
#include <cstdint>

#include "base/assert.h"
#include "tests/fuzz/fuzz_pages.h"
#include "tiers/nvme/segment_footer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  namespace tiers = kvferry::tiers;
  const auto pages = kvferry::fuzz::PagesOf(bytes, size);
  const tiers::FooterIdentity expected = {
      .segment = {.store = kvferry::fuzz::FuzzStore(), .drive_index = 1, .segment = 42},
      .generation = 1'234'567'890'123,
      .pages_per_segment = 1024};
  const tiers::FooterRead read = tiers::ReadFooter(pages, expected);
  KVFERRY_CHECK(read.status.ok() == (read.finding == tiers::PageFinding::kGood));
  if (read.finding == tiers::PageFinding::kGood) {
    KVFERRY_CHECK(tiers::CheckRows(read.rows, expected.pages_per_segment - 1).ok());
    KVFERRY_CHECK(read.rows.size() <= tiers::kFooterRowsPerPage * pages.size() / 4096);
  } else {
    KVFERRY_CHECK(read.rows.empty() && !read.status.message().empty());
  }
  return 0;
}
