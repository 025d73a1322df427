// DeviceArena: the simulated GPU's memory, which the host cannot touch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace kvferry::sim {

// A reserved range of addresses from which device memory is given. Each allocation ends at a guard
// page, is full of 0xCB, and its addresses are never given again: use after free faults. While
// closed, all of it is unreadable, so a host that follows a device pointer stops with one line that
// says so.
//
// Thread-compatible.
class DeviceArena {
 public:
  // As cudaMalloc promises.
  static constexpr std::size_t kAlignmentBytes = 256;

  explicit DeviceArena(std::uint64_t capacity_bytes, bool is_guarded);
  ~DeviceArena();
  DeviceArena(const DeviceArena&) = delete;
  DeviceArena& operator=(const DeviceArena&) = delete;

  // Null if there is no more.
  std::byte* Allocate(std::size_t size_bytes);
  // False if `memory` is no allocation.
  bool Free(std::byte* memory);

  // Whether `memory` is an address of this GPU, allocated or not.
  bool Contains(const void* memory) const noexcept;
  // The bytes from `memory` to the end of its allocation; 0 if it lies in none.
  std::size_t BytesFrom(const void* memory) const;
  // Where the allocation that starts at `memory` is; false if none does.
  bool IsStart(const void* memory) const;
  std::size_t SizeOf(const void* start) const;

  // Opens all of it for an operation of the device, and closes it again behind it.
  void SetOpen(bool is_open);

  std::uint64_t used_bytes() const noexcept { return used_bytes_; }
  std::uint64_t capacity_bytes() const noexcept { return capacity_bytes_; }
  std::size_t allocation_count() const noexcept { return allocations_.size(); }

 private:
  struct Allocation {
    std::size_t size_bytes;
    std::byte* pages;
    std::size_t pages_bytes;
  };

  std::map<const std::byte*, Allocation>::const_iterator Find(const void* memory) const;

  std::uint64_t capacity_bytes_;
  bool is_guarded_;
  bool is_open_ = false;
  std::byte* base_ = nullptr;
  std::size_t top_bytes_ = 0;
  std::uint64_t used_bytes_ = 0;
  std::map<const std::byte*, Allocation> allocations_;
};

}  // namespace kvferry::sim
