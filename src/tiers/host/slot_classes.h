// SlotClass: the sizes that host slots come in, and how long the slabs of each size are.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace kvferry::tiers {

inline constexpr std::uint32_t kHostPageBytes = 4096;
inline constexpr std::uint32_t kSlotBytesMax = std::uint32_t{64} << 20;
inline constexpr std::uint32_t kChunkBytes = std::uint32_t{2} << 20;
inline constexpr std::uint32_t kPagesPerChunk = kChunkBytes / kHostPageBytes;

// Up to 16 pages of 4 KiB every number of pages is a class; above, sixteen steps between powers of
// two. So a slot is less than a seventeenth (5.9 %) longer than the pages asked for. A slab is the
// shortest run of 2 MiB chunks that leaves at most a sixteenth (6.25 %) unused behind its last
// slot. Together a slab full of the least size of its class wastes at most 11.8 %, and 12.5 % is
// the bound that callers may count on, beside the rounding of small sizes to 4 KiB.
struct SlotClass {
  std::uint32_t slot_pages = 0;
  std::uint32_t slab_chunks = 0;
};

inline constexpr std::uint32_t kStepsPerDoubling = 16;
inline constexpr std::uint32_t kSlotPagesMax = kSlotBytesMax / kHostPageBytes;
inline constexpr std::uint32_t kSlotClassCount =
    kStepsPerDoubling * static_cast<std::uint32_t>(std::bit_width(kSlotPagesMax) - 4);

// The class of the least slot that holds `size_bytes`, which is 1 .. kSlotBytesMax.
constexpr std::uint32_t SlotClassOf(std::uint32_t size_bytes) {
  const std::uint32_t pages = (size_bytes - 1) / kHostPageBytes + 1;
  if (pages <= kStepsPerDoubling) {
    return pages - 1;
  }
  // 2^exponent < pages <= 2^(exponent + 1), in steps of 2^(exponent - 4).
  const auto exponent = static_cast<std::uint32_t>(std::bit_width(pages - 1) - 1);
  const std::uint32_t step_bits = exponent - 4;
  const std::uint32_t step = (pages - (1U << exponent) - 1) >> step_bits;
  return kStepsPerDoubling * (1 + step_bits) + step;
}

namespace slot_classes_internal {

constexpr std::array<SlotClass, kSlotClassCount> MakeTable() {
  constexpr std::uint32_t kTailShare = 16;
  std::array<SlotClass, kSlotClassCount> table{};
  for (std::uint32_t index = 0; index < kSlotClassCount; ++index) {
    const std::uint32_t octave = index / kStepsPerDoubling;
    const std::uint32_t step = index % kStepsPerDoubling + 1;
    const std::uint32_t pages = octave == 0 ? step : (kStepsPerDoubling + step) << (octave - 1);
    std::uint32_t chunks = (pages - 1) / kPagesPerChunk + 1;
    while (chunks * kPagesPerChunk % pages * kTailShare > chunks * kPagesPerChunk) {
      ++chunks;
    }
    table[index] = {pages, chunks};
  }
  return table;
}

}  // namespace slot_classes_internal

inline constexpr std::array<SlotClass, kSlotClassCount> kSlotClasses =
    slot_classes_internal::MakeTable();

}  // namespace kvferry::tiers
