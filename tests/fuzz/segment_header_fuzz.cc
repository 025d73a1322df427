// Fuzz target: segment headers; one that is good is written again the same.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/assert.h"
#include "tests/fuzz/fuzz_pages.h"
#include "tiers/nvme/segment_header.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  namespace tiers = kvferry::tiers;
  const auto page = kvferry::fuzz::PagesOf(bytes, size);
  const tiers::SegmentIdentity expected = {
      .store = kvferry::fuzz::FuzzStore(), .drive_index = 1, .segment = 42};
  const tiers::SegmentHeaderRead read = tiers::ReadSegmentHeader(page, expected);
  KVFERRY_CHECK(read.status.ok() == (read.finding == tiers::PageFinding::kGood));
  if (read.finding == tiers::PageFinding::kGood) {
    KVFERRY_CHECK(read.header.identity == expected);
    std::array<std::byte, tiers::kDiskPageBytes> again{};
    tiers::EncodeSegmentHeader(read.header, again);
    KVFERRY_CHECK(std::equal(page.begin(), page.end(), again.begin(), again.end()));
  }
  return 0;
}
