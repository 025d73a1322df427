// Memory over the table.
#include "gpu/memory.h"

namespace kvferry::gpu {

Result<DeviceBuffer> DeviceBuffer::Create(Device& device, std::size_t size_bytes) {
  KVFERRY_RETURN_IF_ERROR(device.health());
  void* memory = nullptr;
  KVFERRY_RETURN_IF_ERROR(device.Check(device.api().cudaMalloc(&memory, size_bytes), "cudaMalloc"));
  return DeviceBuffer(device, {static_cast<std::byte*>(memory), size_bytes});
}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  if (this != &other) {
    Free();
    device_ = std::exchange(other.device_, nullptr);
    bytes_ = std::exchange(other.bytes_, {});
  }
  return *this;
}

void DeviceBuffer::Free() noexcept {
  // What a lost device had is gone with it.
  if (device_ != nullptr && device_->health().ok()) {
    device_->Check(device_->api().cudaFree(bytes_.data()), "cudaFree").IgnoreError();
  }
}

Result<PinnedBuffer> PinnedBuffer::Create(Device& device, std::size_t size_bytes) {
  KVFERRY_RETURN_IF_ERROR(device.health());
  void* memory = nullptr;
  // Portable: pinned for every context of the process, whichever thread looks at it.
  KVFERRY_RETURN_IF_ERROR(device.Check(
      device.api().cudaHostAlloc(&memory, size_bytes, cudaHostAllocPortable), "cudaHostAlloc"));
  return PinnedBuffer(device, {static_cast<std::byte*>(memory), size_bytes});
}

PinnedBuffer& PinnedBuffer::operator=(PinnedBuffer&& other) noexcept {
  if (this != &other) {
    Free();
    device_ = std::exchange(other.device_, nullptr);
    bytes_ = std::exchange(other.bytes_, {});
  }
  return *this;
}

void PinnedBuffer::Free() noexcept {
  // On a lost device a copy may still be running into this memory: it is given up, not reused.
  if (device_ != nullptr && device_->health().ok()) {
    device_->Check(device_->api().cudaFreeHost(bytes_.data()), "cudaFreeHost").IgnoreError();
  }
}

Result<HostRegistration> HostRegistration::Create(Device& device, std::span<std::byte> bytes) {
  KVFERRY_RETURN_IF_ERROR(device.health());
  KVFERRY_RETURN_IF_ERROR(device.Check(
      device.api().cudaHostRegister(bytes.data(), bytes.size(), cudaHostRegisterPortable),
      "cudaHostRegister"));
  return HostRegistration(device, bytes);
}

HostRegistration& HostRegistration::operator=(HostRegistration&& other) noexcept {
  if (this != &other) {
    Unregister();
    device_ = std::exchange(other.device_, nullptr);
    bytes_ = std::exchange(other.bytes_, {});
  }
  return *this;
}

void HostRegistration::Unregister() noexcept {
  if (device_ != nullptr && device_->health().ok()) {
    device_->Check(device_->api().cudaHostUnregister(bytes_.data()), "cudaHostUnregister")
        .IgnoreError();
  }
}

Result<bool> IsDeviceMemory(Device& device, const void* memory) {
  KVFERRY_RETURN_IF_ERROR(device.health());
  cudaPointerAttributes attributes{};
  KVFERRY_RETURN_IF_ERROR(device.Check(device.api().cudaPointerGetAttributes(&attributes, memory),
                                       "cudaPointerGetAttributes"));
  return attributes.type == cudaMemoryTypeDevice && attributes.device == device.facts().index;
}

}  // namespace kvferry::gpu
