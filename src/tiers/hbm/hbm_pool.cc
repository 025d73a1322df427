// Slots in device memory, and who still needs them.
#include "tiers/hbm/hbm_pool.h"

#include <limits>
#include <string>
#include <utility>

#include "base/assert.h"

namespace kvferry::tiers {
namespace {

constexpr std::uint64_t kSlotAlignmentBytes = 16;

Status CheckClasses(std::span<const HbmClass> classes) {
  if (classes.empty()) {
    return Status::Error(StatusCode::kInvalidArgument, "a pool in device memory needs a class");
  }
  for (const HbmClass& of : classes) {
    if (of.slots == 0 || of.slot_bytes == 0 || of.slot_bytes % kSlotAlignmentBytes != 0 ||
        of.slot_bytes > std::numeric_limits<std::uint64_t>::max() / of.slots) {
      return Status::Error(StatusCode::kInvalidArgument,
                           std::to_string(of.slots) + " slots of " + std::to_string(of.slot_bytes) +
                               " bytes: a slot has a multiple of 16 bytes, and there is one");
    }
  }
  return Status::Ok();
}

}  // namespace

Result<std::unique_ptr<HbmPool>> HbmPool::Create(gpu::Device& device,
                                                 std::span<const HbmClass> classes) {
  KVFERRY_RETURN_IF_ERROR(CheckClasses(classes));
  auto pool = std::make_unique<HbmPool>(Token(), device);
  for (const HbmClass& of : classes) {
    auto memory = gpu::DeviceBuffer::Create(device, of.slot_bytes * of.slots);
    if (!memory.ok()) {
      return memory.error().WithContext(std::to_string(of.slots) + " slots of " +
                                        std::to_string(of.slot_bytes) + " bytes in device memory");
    }
    ClassState state{of.slot_bytes, std::move(*memory), std::vector<Slot>(of.slots), {}, 0};
    state.free.reserve(of.slots);
    for (std::uint32_t index = of.slots; index > 0; --index) {
      state.free.push_back(index - 1);
    }
    pool->classes_.push_back(std::move(state));
  }
  return pool;
}

HbmPool::~HbmPool() {
  if (!device_.health().ok()) {
    return;
  }
  for (const ClassState& of : classes_) {
    for (const Slot& slot : of.slots) {
      KVFERRY_CHECK(slot.holds == 0);
    }
  }
}

Result<HbmSlot> HbmPool::Reserve(std::uint32_t class_index) {
  KVFERRY_CHECK(class_index < classes_.size());
  KVFERRY_RETURN_IF_ERROR(device_.health());
  ClassState& of = classes_[class_index];
  if (of.free.empty()) {
    return Status::Error(StatusCode::kResourceExhausted,
                         "all slots of this size in device memory are in use");
  }
  const std::uint32_t index = of.free.back();
  of.free.pop_back();
  KVFERRY_CHECK(of.slots[index].state == SlotState::kFree && of.slots[index].holds == 0);
  of.slots[index].state = SlotState::kReserved;
  return HbmSlot{class_index, index};
}

void HbmPool::Free(HbmSlot slot) {
  ClassState& of = ClassOf(slot);
  Slot& freed = of.slots[slot.index];
  KVFERRY_CHECK(freed.state == SlotState::kReserved);
  if (freed.holds > 0) {
    freed.state = SlotState::kDraining;
    ++of.draining;
    return;
  }
  GiveBack(of, slot.index);
}

void HbmPool::Hold(HbmSlot slot) {
  Slot& held = ClassOf(slot).slots[slot.index];
  KVFERRY_CHECK(held.state == SlotState::kReserved);
  KVFERRY_CHECK(held.holds < std::numeric_limits<std::uint32_t>::max());
  ++held.holds;
}

void HbmPool::Release(HbmSlot slot) {
  ClassState& of = ClassOf(slot);
  Slot& held = of.slots[slot.index];
  KVFERRY_CHECK(held.state != SlotState::kFree && held.holds > 0);
  --held.holds;
  if (held.holds == 0 && held.state == SlotState::kDraining) {
    --of.draining;
    GiveBack(of, slot.index);
  }
}

void HbmPool::GiveBack(ClassState& of, std::uint32_t index) {
  of.slots[index].state = SlotState::kFree;
  ++of.slots[index].generation;
  of.free.push_back(index);
}

std::byte* HbmPool::AddressOf(HbmSlot slot) const {
  const ClassState& of = ClassOf(slot);
  KVFERRY_CHECK(of.slots[slot.index].state != SlotState::kFree);
  return of.memory.data() + of.slot_bytes * slot.index;
}

std::byte* HbmPool::BaseOf(std::uint32_t class_index) const {
  KVFERRY_CHECK(class_index < classes_.size());
  return classes_[class_index].memory.data();
}

std::uint32_t HbmPool::GenerationOf(HbmSlot slot) const {
  return ClassOf(slot).slots[slot.index].generation;
}

bool HbmPool::IsCurrent(HbmSlot slot, std::uint32_t generation) const {
  const Slot& asked = ClassOf(slot).slots[slot.index];
  return asked.state == SlotState::kReserved && asked.generation == generation;
}

HbmClassUsage HbmPool::usage(std::uint32_t class_index) const {
  KVFERRY_CHECK(class_index < classes_.size());
  const ClassState& of = classes_[class_index];
  const auto slots = static_cast<std::uint32_t>(of.slots.size());
  return {of.slot_bytes, slots, slots - static_cast<std::uint32_t>(of.free.size()), of.draining};
}

Status HbmPool::CheckInvariants() const {
  const auto wrong = [](const char* what) {
    return Status::Error(StatusCode::kInternal, what);
  };
  for (const ClassState& of : classes_) {
    std::size_t free = 0;
    std::size_t draining = 0;
    for (const Slot& slot : of.slots) {
      free += slot.state == SlotState::kFree ? 1U : 0U;
      draining += slot.state == SlotState::kDraining ? 1U : 0U;
      if (slot.state == SlotState::kFree && slot.holds > 0) {
        return wrong("a free slot is held");
      }
      if (slot.state == SlotState::kDraining && slot.holds == 0) {
        return wrong("a slot drains that nobody holds");
      }
    }
    if (free != of.free.size() || draining != of.draining) {
      return wrong("the counts of free or draining slots differ from their states");
    }
    for (const std::uint32_t index : of.free) {
      if (of.slots[index].state != SlotState::kFree) {
        return wrong("the free list names a slot that is in use");
      }
    }
  }
  return Status::Ok();
}

HbmPool::ClassState& HbmPool::ClassOf(HbmSlot slot) {
  KVFERRY_CHECK(slot.class_index < classes_.size());
  ClassState& of = classes_[slot.class_index];
  KVFERRY_CHECK(slot.index < of.slots.size());
  return of;
}

const HbmPool::ClassState& HbmPool::ClassOf(HbmSlot slot) const {
  return const_cast<HbmPool*>(this)->ClassOf(slot);
}

}  // namespace kvferry::tiers
