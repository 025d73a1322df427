// Fuzz target: superblocks; what is chosen is written again the same, and lies within its bounds.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/assert.h"
#include "tests/fuzz/fuzz_pages.h"
#include "tiers/nvme/superblock.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  namespace tiers = kvferry::tiers;
  const auto pages = kvferry::fuzz::PagesOf(bytes, size);
  // Four copies, or fewer pages that take turns, so that some can agree.
  tiers::SuperblockCopies copies;
  const std::size_t whole = std::max<std::size_t>(1, pages.size() / tiers::kDiskPageBytes);
  for (std::size_t i = 0; i < copies.size(); ++i) {
    const std::size_t at = std::min(i % whole * tiers::kDiskPageBytes, pages.size());
    const std::size_t length = std::min<std::size_t>(tiers::kDiskPageBytes, pages.size() - at);
    copies.at(i) = std::span(pages).subspan(at, length);
  }
  const tiers::SuperblockChoice choice = tiers::ChooseSuperblock(copies);
  KVFERRY_CHECK(choice.status.ok() == (choice.finding == tiers::PageFinding::kGood));
  if (choice.finding != tiers::PageFinding::kGood) {
    KVFERRY_CHECK(!choice.status.message().empty());
    return 0;
  }
  KVFERRY_CHECK(tiers::CheckLayout(choice.superblock.layout).ok());
  KVFERRY_CHECK(choice.next_sequence > choice.superblock.sequence);
  KVFERRY_CHECK(std::count(choice.is_current.begin(), choice.is_current.end(), true) >= 2);
  std::array<std::byte, tiers::kDiskPageBytes> again{};
  tiers::EncodeSuperblock(choice.superblock, again);
  KVFERRY_CHECK(std::any_of(copies.begin(), copies.end(), [&again](const auto& copy) {
    return std::equal(copy.begin(), copy.end(), again.begin(), again.end());
  }));
  return 0;
}
