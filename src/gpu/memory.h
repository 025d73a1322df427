// DeviceBuffer, PinnedBuffer and HostRegistration: memory that CUDA gives, or takes note of.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "kvferry/status.h"

#include "gpu/device.h"

namespace kvferry::gpu {

// Device memory, which the host must not touch. Nothing of its content is set.
//
// Freeing waits for the device, so buffers live as long as pools do. Move-only; moved-from is
// empty. Thread-compatible.
class DeviceBuffer {
 public:
  // kResourceExhausted if the device has no more; that loses nothing.
  static Result<DeviceBuffer> Create(Device& device, std::size_t size_bytes);

  DeviceBuffer(DeviceBuffer&& other) noexcept
      : device_(std::exchange(other.device_, nullptr)), bytes_(std::exchange(other.bytes_, {})) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer() { Free(); }

  std::byte* data() const noexcept { return bytes_.data(); }  // A device address.
  std::size_t size_bytes() const noexcept { return bytes_.size(); }

 private:
  DeviceBuffer(Device& device, std::span<std::byte> bytes) : device_(&device), bytes_(bytes) {}
  void Free() noexcept;

  Device* device_;
  std::span<std::byte> bytes_;
};

// Pinned host memory, allocated by CUDA.
//
// Move-only; moved-from is empty. Thread-compatible.
class PinnedBuffer {
 public:
  static Result<PinnedBuffer> Create(Device& device, std::size_t size_bytes);

  PinnedBuffer(PinnedBuffer&& other) noexcept
      : device_(std::exchange(other.device_, nullptr)), bytes_(std::exchange(other.bytes_, {})) {}
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept;
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;
  ~PinnedBuffer() { Free(); }

  std::span<std::byte> bytes() const noexcept { return bytes_; }

 private:
  PinnedBuffer(Device& device, std::span<std::byte> bytes) : device_(&device), bytes_(bytes) {}
  void Free() noexcept;

  Device* device_;
  std::span<std::byte> bytes_;
};

// Memory of somebody else, registered with CUDA as pinned while this lives. It must stay mapped for
// that long.
//
// Move-only; moved-from is empty. Thread-compatible.
class HostRegistration {
 public:
  // An error leaves the memory usable, by staging.
  static Result<HostRegistration> Create(Device& device, std::span<std::byte> bytes);

  HostRegistration(HostRegistration&& other) noexcept
      : device_(std::exchange(other.device_, nullptr)), bytes_(std::exchange(other.bytes_, {})) {}
  HostRegistration& operator=(HostRegistration&& other) noexcept;
  HostRegistration(const HostRegistration&) = delete;
  HostRegistration& operator=(const HostRegistration&) = delete;
  ~HostRegistration() { Unregister(); }

  std::span<std::byte> bytes() const noexcept { return bytes_; }

 private:
  HostRegistration(Device& device, std::span<std::byte> bytes) : device_(&device), bytes_(bytes) {}
  void Unregister() noexcept;

  Device* device_;
  std::span<std::byte> bytes_;
};

// Whether an address lies in memory of this device; nothing is said of how far it goes on there.
Result<bool> IsDeviceMemory(Device& device, const void* memory);

}  // namespace kvferry::gpu
