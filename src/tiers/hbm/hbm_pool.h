// HbmPool: the engine's own slots for blocks in device memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kvferry/status.h"

#include "gpu/device.h"
#include "gpu/memory.h"

namespace kvferry::tiers {

// Names a slot. `index` is what goes into a kernel's block table: the slot's bytes begin at
// HbmPool::BaseOf(class_index) + index * slot bytes.
struct HbmSlot {
  std::uint32_t class_index = 0;
  std::uint32_t index = 0;
  bool operator==(const HbmSlot&) const = default;
};

// Slots of one size; a layer group's blocks have one each.
struct HbmClass {
  std::uint64_t slot_bytes = 0;  // A multiple of 16, so that kernels can copy 128 bits at a time.
  std::uint32_t slots = 0;
};

struct HbmClassUsage {
  std::uint64_t slot_bytes = 0;
  std::uint32_t slots = 0;
  std::uint32_t slots_reserved = 0;  // Of them, those that are draining count too.
  std::uint32_t slots_draining = 0;  // Freed, but still held.
};

// All device memory is taken at Create, one run of slots a class, and given back at the end. A slot
// that is freed while someone holds it (a copy that reads it, a handle) drains: its place is given
// again only after the last hold. Whoever breaks the count stops the process: a slot that is freed
// twice, released more often than held, or named and not reserved.
//
// Thread-confined. The bytes of a slot are the affair of streams; the host must not touch them.
class HbmPool {
  struct Token {};  // Only Create can name it.

 public:
  // kInvalidArgument for no class, a class without slots or with a size that does not fit the rule;
  // kResourceExhausted, with the sizes, if the device has not so much memory.
  static Result<std::unique_ptr<HbmPool>> Create(gpu::Device& device,
                                                 std::span<const HbmClass> classes);

  HbmPool(Token /*token*/, gpu::Device& device) : device_(device) {}
  HbmPool(const HbmPool&) = delete;
  HbmPool& operator=(const HbmPool&) = delete;
  // Nothing may be held any more, unless the device is lost.
  ~HbmPool();

  // A slot whose bytes are whatever was there before. kResourceExhausted when none is free, which
  // eviction may change; the device's first sticky error once it is lost.
  Result<HbmSlot> Reserve(std::uint32_t class_index);
  void Free(HbmSlot slot);
  // Keeps the slot's place, also past Free.
  void Hold(HbmSlot slot);
  void Release(HbmSlot slot);

  // A device address.
  std::byte* AddressOf(HbmSlot slot) const;
  std::byte* BaseOf(std::uint32_t class_index) const;
  // How often the slot's place was given back. Whoever keeps its name for longer keeps this too.
  std::uint32_t GenerationOf(HbmSlot slot) const;
  // Whether the slot is reserved, not draining, and of that generation.
  bool IsCurrent(HbmSlot slot, std::uint32_t generation) const;

  std::size_t class_count() const noexcept { return classes_.size(); }
  HbmClassUsage usage(std::uint32_t class_index) const;
  gpu::Device& device() const noexcept { return device_; }

  // Compares lists, states and counts. kInternal, naming what is wrong. For tests.
  Status CheckInvariants() const;

 private:
  enum class SlotState : std::uint8_t { kFree, kReserved, kDraining };
  struct Slot {
    SlotState state = SlotState::kFree;
    std::uint32_t holds = 0;
    std::uint32_t generation = 0;
  };
  struct ClassState {
    std::uint64_t slot_bytes;
    gpu::DeviceBuffer memory;
    std::vector<Slot> slots;
    std::vector<std::uint32_t> free;  // The next one to be given is the last.
    std::uint32_t draining = 0;
  };

  ClassState& ClassOf(HbmSlot slot);
  const ClassState& ClassOf(HbmSlot slot) const;
  static void GiveBack(ClassState& of, std::uint32_t index);

  gpu::Device& device_;
  std::vector<ClassState> classes_;
};

}  // namespace kvferry::tiers
