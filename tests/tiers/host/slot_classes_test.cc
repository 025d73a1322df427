// Every size finds the least class that holds it; waste stays within its bounds for all of them.
#include "tiers/host/slot_classes.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace kvferry::tiers {
namespace {

TEST(SlotClassesTest, AreAscendingAndEndAtTheLargestSlot) {
  EXPECT_EQ(kSlotClasses.front().slot_pages, 1U);
  EXPECT_EQ(kSlotClasses.back().slot_pages, kSlotPagesMax);
  for (std::uint32_t i = 1; i < kSlotClassCount; ++i) {
    EXPECT_LT(kSlotClasses[i - 1].slot_pages, kSlotClasses[i].slot_pages) << i;
  }
}

// A class too small would let blocks overlap, one too large would waste memory for good.
TEST(SlotClassesTest, EveryNumberOfPagesGetsTheLeastSlotThatHoldsIt) {
  std::uint32_t expected = 0;
  for (std::uint32_t pages = 1; pages <= kSlotPagesMax; ++pages) {
    expected += kSlotClasses[expected].slot_pages < pages ? 1U : 0U;
    const std::uint32_t most = pages * kHostPageBytes;
    ASSERT_EQ(SlotClassOf(most), expected) << pages;
    ASSERT_EQ(SlotClassOf(most - kHostPageBytes + 1), expected) << pages;
    ASSERT_GE(kSlotClasses[expected].slot_pages, pages);
  }
}

// Waste of a slot, for every size in bytes that begins a class anew, and so for every size.
TEST(SlotClassesTest, ASlotIsAtMostASeventeenthTooLongOrExactToThePage) {
  for (std::uint32_t pages = 1; pages <= kSlotPagesMax; ++pages) {
    const std::uint32_t size_bytes = (pages - 1) * kHostPageBytes + 1;
    const std::uint32_t slot_pages = kSlotClasses[SlotClassOf(size_bytes)].slot_pages;
    const std::uint32_t unused_bytes = slot_pages * kHostPageBytes - size_bytes;
    ASSERT_TRUE(slot_pages == pages || unused_bytes * 17ULL <= slot_pages * 4096ULL) << pages;
  }
}

// The total bound: slots and the slab's end together, beside the rounding to pages.
TEST(SlotClassesTest, ASlabWastesAtMostAnEighth) {
  double worst = 0;
  for (std::uint32_t pages = 1; pages <= kSlotPagesMax; ++pages) {
    const SlotClass& found = kSlotClasses[SlotClassOf(pages * kHostPageBytes)];
    const std::uint32_t slab_pages = found.slab_chunks * kPagesPerChunk;
    const std::uint32_t slots = slab_pages / found.slot_pages;
    ASSERT_GT(slots, 0U);
    ASSERT_LE(found.slab_chunks, 32U);
    worst = std::max(worst, 1 - static_cast<double>(slots * pages) / slab_pages);
  }
  EXPECT_LE(worst, 0.125);
}

}  // namespace
}  // namespace kvferry::tiers
