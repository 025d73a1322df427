// Slots never overlap, counts add up, memory comes back whole: single cases and a naive model.
#include "tiers/host/host_slabs.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "base/random.h"
#include "tests/support/status_matchers.h"

namespace kvferry::tiers {
namespace {

constexpr std::uint32_t kMi = std::uint32_t{1} << 20;

std::unique_ptr<HostSlabs> MakeSlabs(std::uint64_t bytes, bool poison_freed = false) {
  auto slabs = HostSlabs::Create({.memory = {.bytes = bytes}, .poison_freed = poison_freed});
  EXPECT_OK(slabs);
  return std::move(slabs).value();
}

std::vector<HostSlot> ReserveAll(HostSlabs& slabs, std::uint32_t size_bytes) {
  std::vector<HostSlot> slots;
  while (const auto slot = slabs.Reserve(size_bytes)) {
    slots.push_back(*slot);
  }
  return slots;
}

TEST(HostSlabsTest, RefusesSizesThatCannotBe) {
  for (const std::uint64_t bytes : {std::uint64_t{0}, 2 * kMiB - 1, 16 * kTiB + 1}) {
    EXPECT_STATUS(HostSlabs::Create({.memory = {.bytes = bytes}}), StatusCode::kInvalidArgument);
  }
  const auto slabs = MakeSlabs(5 * kMiB);
  EXPECT_EQ(slabs->usage().bytes_total, 4 * kMiB);
  EXPECT_DEATH((void)slabs->Reserve(0), "size_bytes");
  EXPECT_DEATH((void)slabs->Reserve(kSlotBytesMax + 1), "size_bytes");
}

// Reserving must work before any page has been populated, at both ends of a large area.
TEST(HostSlabsTest, GivesSlotsOfAnAreaThatNobodyHasTouched) {
  const auto slabs = MakeSlabs(64 * kGiB);
  const auto first = slabs->Reserve(64 * kMi);
  ASSERT_TRUE(first);
  for (int i = 0; i < 1'022; ++i) {
    ASSERT_TRUE(slabs->Reserve(64 * kMi));
  }
  const auto last = slabs->Reserve(64 * kMi);
  ASSERT_TRUE(last);
  EXPECT_FALSE(slabs->CanReserve(1));
  slabs->BytesOf(*last, 64 * kMi).back() = std::byte{1};
  EXPECT_EQ(slabs->BytesOf(*first, 1).front(), std::byte{0});
  EXPECT_EQ(slabs->usage().bytes_reserved, 64 * kGiB);
}

// For every class: as many slots as the bound on waste promises, none overlapping, then nothing.
TEST(HostSlabsTest, FillsItsAreaToSevenEighthsWithAnySize) {
  constexpr std::uint64_t kArea = 1'088 * kMiB;  // 17 of the largest slots.
  const auto slabs = MakeSlabs(kArea);
  for (std::uint32_t index = 15; index < kSlotClassCount; ++index) {
    // The least size of the class, the worst case.
    const std::uint32_t size_bytes = (kSlotClasses[index - 1].slot_pages + 1) * kHostPageBytes;
    const std::vector<HostSlot> slots = ReserveAll(*slabs, size_bytes);

    // Beside the bound, what is left at the area's end is less than one slab.
    const std::uint64_t slab_bytes = std::uint64_t{kSlotClasses[index].slab_chunks} * kChunkBytes;
    EXPECT_GE(slots.size() * size_bytes * 8ULL, (kArea - slab_bytes) * 7) << size_bytes;
    EXPECT_EQ(slots.size(), slabs->SlotsMax(size_bytes));
    EXPECT_FALSE(slabs->CanReserve(size_bytes));
    EXPECT_EQ(slabs->class_usage(index).slots_reserved, slots.size());
    EXPECT_OK(slabs->CheckInvariants());
    for (const HostSlot slot : slots) {
      slabs->Free(slot);
    }
    EXPECT_EQ(slabs->usage().bytes_in_slabs, 0U);
  }
}

TEST(HostSlabsTest, AnAreaBelowTheUsualSlabStillHoldsASlot) {
  // A class of 4.25 MiB usually takes slabs of 18 MiB.
  const auto slabs = MakeSlabs(12 * kMiB);
  EXPECT_EQ(ReserveAll(*slabs, 4 * kMi + 1).size(), 2U);
  EXPECT_EQ(slabs->SlotsMax(4 * kMi + 1), 2U);
  EXPECT_EQ(slabs->SlotsMax(12 * kMi + 1), 0U);
  EXPECT_OK(slabs->CheckInvariants());
}

TEST(HostSlabsTest, AFreedSlabServesAnotherClass) {
  const auto slabs = MakeSlabs(8 * kMiB);
  std::vector<HostSlot> small = ReserveAll(*slabs, 64 << 10);
  ASSERT_EQ(small.size(), 128U);
  EXPECT_FALSE(slabs->CanReserve(2 * kMi));

  // One slot that stays holds its slab, and only that.
  for (std::size_t i = 1; i < small.size(); ++i) {
    slabs->Free(small[i]);
  }
  EXPECT_EQ(slabs->usage().bytes_in_slabs, 2 * kMiB);
  EXPECT_EQ(ReserveAll(*slabs, 2 * kMi).size(), 3U);
  EXPECT_OK(slabs->CheckInvariants());

  slabs->Free(small.front());
  EXPECT_TRUE(slabs->CanReserve(2 * kMi));
}

TEST(HostSlabsTest, CanReserveTellsWhatReserveDoes) {
  const auto slabs = MakeSlabs(2 * kMiB);
  const std::vector<HostSlot> slots = ReserveAll(*slabs, 1 * kMi);
  ASSERT_EQ(slots.size(), 2U);
  EXPECT_FALSE(slabs->CanReserve(1 * kMi));
  slabs->Free(slots.front());
  EXPECT_TRUE(slabs->CanReserve(1 * kMi));
  EXPECT_FALSE(slabs->CanReserve(64 << 10));  // The chunk belongs to the other class.
  EXPECT_EQ(slabs->Reserve(1 * kMi), slots.front());
}

// A kept name of a slot must not pass for its next owner, whatever became of the memory.
TEST(HostSlabsTest, AGenerationEndsWithItsReservation) {
  const auto slabs = MakeSlabs(2 * kMiB);
  const HostSlot slot = slabs->Reserve(1 * kMi).value();
  const std::uint32_t generation = slabs->GenerationOf(slot);
  EXPECT_TRUE(slabs->IsCurrent(slot, generation));

  slabs->Free(slot);
  EXPECT_FALSE(slabs->IsCurrent(slot, generation));
  ASSERT_EQ(slabs->Reserve(4'096), slot);
  EXPECT_FALSE(slabs->IsCurrent(slot, generation));
  EXPECT_TRUE(slabs->IsCurrent(slot, generation + 1));
  EXPECT_FALSE(slabs->IsCurrent({slot.page + 1}, 0));
  EXPECT_FALSE(slabs->IsCurrent({0xffffffff}, 0));
}

TEST(HostSlabsTest, BrokenPromisesStopTheProcess) {
  const auto slabs = MakeSlabs(4 * kMiB);
  const HostSlot slot = slabs->Reserve(8'192).value();
  ASSERT_TRUE(slabs->Reserve(8'192));
  EXPECT_DEATH((void)slabs->BytesOf(slot, 8'193), "SlotBytes");
  EXPECT_DEATH(slabs->Free({slot.page + 1}), "place");
  slabs->Free(slot);
  EXPECT_DEATH(slabs->Free(slot), "place");
  EXPECT_DEATH((void)slabs->BytesOf(slot, 1), "place");
}

TEST(HostSlabsTest, PoisonsWhatIsFreedWhenAskedTo) {
  const auto slabs = MakeSlabs(2 * kMiB, true);
  const HostSlot slot = slabs->Reserve(10'000).value();
  const std::span<std::byte> bytes = slabs->BytesOf(slot, 10'000);
  std::ranges::fill(bytes, std::byte{1});
  slabs->Free(slot);
  EXPECT_TRUE(std::ranges::all_of(bytes, [](std::byte b) { return b == HostSlabs::kPoison; }));
}

// Statistics are read while the mover works; each number by itself must be one that was true.
TEST(HostSlabsTest, TellsItsUsageToOtherThreads) {
  const auto slabs = MakeSlabs(4 * kMiB);
  std::atomic<bool> is_done = false;
  std::atomic<int> wrong_count = 0;
  std::thread reader([&] {
    while (!is_done.load()) {
      const HostUsage usage = slabs->usage();
      const bool is_right = usage.bytes_total == 4 * kMiB && usage.slots_reserved <= 3 &&
                            usage.bytes_reserved % 65'536 == 0 &&
                            slabs->class_usage(15).slots_reserved <= 3;
      wrong_count += is_right ? 0 : 1;
    }
  });
  for (int round = 0; round < 2'000; ++round) {
    std::array<HostSlot, 3> slots{};
    for (HostSlot& slot : slots) {
      slot = slabs->Reserve(65'536).value();
    }
    for (const HostSlot slot : slots) {
      slabs->Free(slot);
    }
  }
  is_done.store(true);
  reader.join();
  EXPECT_EQ(wrong_count.load(), 0);
}

// Reservations as ranges of pages in an ordered map: nothing may overlap or leave the area.
class NaiveModel {
 public:
  struct Held {
    HostSlot slot;
    std::uint32_t size_bytes;
    std::uint32_t generation;
  };

  void Add(const Held& held, std::uint32_t slot_bytes, std::uint64_t area_bytes) {
    const std::uint64_t begin = std::uint64_t{held.slot.page} * kHostPageBytes;
    const auto next = ends_.lower_bound(begin);
    ASSERT_LE(begin + slot_bytes, area_bytes);
    ASSERT_TRUE(next == ends_.end() || next->first >= begin + slot_bytes);
    ASSERT_TRUE(next == ends_.begin() || std::prev(next)->second <= begin);
    ends_[begin] = begin + slot_bytes;
    bytes_ += slot_bytes;
    held_.push_back(held);
  }
  Held Take(Random& random) {
    std::swap(held_[random.Below(held_.size())], held_.back());
    const Held held = held_.back();
    held_.pop_back();
    const auto range = ends_.find(std::uint64_t{held.slot.page} * kHostPageBytes);
    bytes_ -= range->second - range->first;
    ends_.erase(range);
    return held;
  }
  std::size_t count() const { return held_.size(); }
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::vector<Held> held_;
  std::map<std::uint64_t, std::uint64_t> ends_;
  std::uint64_t bytes_ = 0;
};

// The first and the last bytes of a slot hold its page, to be found again when it is freed.
void Mark(HostSlabs& slabs, const NaiveModel::Held& held) {
  const std::span<std::byte> bytes = slabs.BytesOf(held.slot, held.size_bytes);
  std::memcpy(bytes.data(), &held.slot.page, sizeof(held.slot.page));
  std::memcpy(bytes.last(4).data(), &held.slot.page, sizeof(held.slot.page));
}
void ExpectMark(HostSlabs& slabs, const NaiveModel::Held& held) {
  const std::span<std::byte> bytes = slabs.BytesOf(held.slot, held.size_bytes);
  EXPECT_EQ(std::memcmp(bytes.data(), &held.slot.page, sizeof(held.slot.page)), 0);
  EXPECT_EQ(std::memcmp(bytes.last(4).data(), &held.slot.page, sizeof(held.slot.page)), 0);
}

// One seed's slabs and their model, changed together.
class Comparison {
 public:
  explicit Comparison(std::uint64_t seed)
      : random_(seed),
        area_bytes_(random_.Between(1, 40) * 2 * kMiB),
        slabs_(MakeSlabs(area_bytes_)) {}

  void Play() {
    for (int step = 0; step < 1'500; ++step) {
      // Phases of growing and of shrinking, so that slabs fill up and come back.
      const bool is_growing = random_.Chance(step / 250 % 2 == 0 ? 0.7 : 0.3);
      ASSERT_NO_FATAL_FAILURE(is_growing ? Grow() : Shrink());
      ASSERT_EQ(slabs_->usage().slots_reserved, model_.count());
      ASSERT_EQ(slabs_->usage().bytes_reserved, model_.bytes());
      if (step % 20 == 0) {
        ASSERT_OK(slabs_->CheckInvariants());
      }
    }
    while (model_.count() > 0) {
      ASSERT_NO_FATAL_FAILURE(Shrink());
    }
    EXPECT_EQ(slabs_->usage().bytes_in_slabs, 0U);
    EXPECT_OK(slabs_->CheckInvariants());
  }

 private:
  void Grow() {
    const auto size_bytes =
        static_cast<std::uint32_t>(random_.Between(8, std::uint64_t{8} << random_.Below(21)));
    const bool is_possible = slabs_->CanReserve(size_bytes);
    const auto slot = slabs_->Reserve(size_bytes);
    ASSERT_EQ(slot.has_value(), is_possible);
    if (slot) {
      const NaiveModel::Held held{*slot, size_bytes, slabs_->GenerationOf(*slot)};
      model_.Add(held, slabs_->SlotBytes(*slot), area_bytes_);
      Mark(*slabs_, held);
    }
  }
  void Shrink() {
    if (model_.count() == 0) {
      return;
    }
    const NaiveModel::Held held = model_.Take(random_);
    ASSERT_TRUE(slabs_->IsCurrent(held.slot, held.generation));
    ExpectMark(*slabs_, held);
    slabs_->Free(held.slot);
    ASSERT_FALSE(slabs_->IsCurrent(held.slot, held.generation));
  }

  Random random_;
  std::uint64_t area_bytes_;
  std::unique_ptr<HostSlabs> slabs_;
  NaiveModel model_;
};

TEST(HostSlabsTest, AgreesWithANaiveModel) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    ASSERT_NO_FATAL_FAILURE(Comparison(seed).Play());
  }
}

}  // namespace
}  // namespace kvferry::tiers
