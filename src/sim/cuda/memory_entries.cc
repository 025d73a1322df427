// Entry functions: device memory, pinned memory and copies.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "sim/cuda/cuda_entries.h"
#include "sim/cuda/cuda_model.h"

namespace kvferry::sim::entry {
namespace {

using Bytes = std::vector<std::byte>;

bool IsKindRight(const CudaModel& model,
                 const void* target,
                 const void* source,
                 cudaMemcpyKind kind) {
  const bool is_to_device = model.arena.Contains(target);
  const bool is_from_device = model.arena.Contains(source);
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return is_to_device && !is_from_device;
    case cudaMemcpyDeviceToHost:
      return !is_to_device && is_from_device;
    case cudaMemcpyDeviceToDevice:
      return is_to_device && is_from_device;
    case cudaMemcpyHostToHost:
      return !is_to_device && !is_from_device;
    default:
      return true;
  }
}

bool IsPageable(const CudaModel& model, const void* memory, std::size_t size_bytes) {
  return !model.arena.Contains(memory) && !model.IsPinned(memory, size_bytes);
}

Bytes CopyOf(const void* memory, std::size_t size_bytes) {
  const auto* const bytes = static_cast<const std::byte*>(memory);
  return {bytes, bytes + size_bytes};
}

StreamOperation Operation(const char* name, std::function<cudaError_t()> run) {
  StreamOperation operation;
  operation.name = name;
  operation.run = std::move(run);
  return operation;
}

cudaError_t AllocateDevice(CudaModel& model, void** memory, std::size_t size_bytes) {
  *memory = nullptr;
  if (size_bytes == 0) {
    return cudaSuccess;
  }
  *memory = model.arena.Allocate(size_bytes);
  return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

}  // namespace

cudaError_t Malloc(void** memory, std::size_t size_bytes) {
  CudaCall call("cudaMalloc", CudaCall::Capture::kUnsafe);
  if (call.failed()) {
    return call.error();
  }
  return CudaCall::End(AllocateDevice(call.model(), memory, size_bytes));
}

cudaError_t MallocAsync(void** memory, std::size_t size_bytes, cudaStream_t stream) {
  CudaCall call("cudaMallocAsync");
  if (call.failed()) {
    return call.error();
  }
  if (!call.model().IsStream(stream)) {
    return CudaCall::End(cudaErrorInvalidResourceHandle);
  }
  return CudaCall::End(AllocateDevice(call.model(), memory, size_bytes));
}

cudaError_t Free(void* memory) {
  CudaCall call("cudaFree", CudaCall::Capture::kUnsafe);
  if (call.failed() || memory == nullptr) {
    return call.error();
  }
  // As the real one does, which may hide a missing wait; pools make it rare.
  call.model().WaitForAll(call.lock());
  if (!call.model().arena.Free(static_cast<std::byte*>(memory))) {
    return CudaCall::End(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

cudaError_t FreeAsync(void* memory, cudaStream_t stream) {
  CudaCall call("cudaFreeAsync");
  if (call.failed()) {
    return call.error();
  }
  CudaModel& model = call.model();
  if (!model.IsStream(stream)) {
    return CudaCall::End(cudaErrorInvalidResourceHandle);
  }
  if (!model.arena.IsStart(memory)) {
    return CudaCall::End(cudaErrorInvalidValue);
  }
  // A visible write, so that a free that races with a use is a race.
  StreamOperation operation = Operation("free", [memory, size_bytes = model.arena.SizeOf(memory)] {
    std::memset(memory, 0xDD, size_bytes);
    return cudaSuccess;
  });
  operation.settle = [&model, memory] {
    model.arena.Free(static_cast<std::byte*>(memory));
  };
  model.Enqueue(*stream, std::move(operation));
  return cudaSuccess;
}

cudaError_t HostAlloc(void** memory, std::size_t size_bytes, unsigned /*flags*/) {
  CudaCall call("cudaHostAlloc", CudaCall::Capture::kUnsafe);
  if (call.failed()) {
    return call.error();
  }
  // Aligned to a page by hand: an array with an alignment of its own cannot be owned by unique_ptr.
  constexpr std::size_t kPageBytes = 4096;
  auto owned = std::make_unique<std::byte[]>(size_bytes + kPageBytes);
  void* aligned = owned.get();
  std::size_t room = size_bytes + kPageBytes;
  std::align(kPageBytes, size_bytes, aligned, room);
  std::memset(aligned, 0xCD, size_bytes);
  const auto* const start = static_cast<const std::byte*>(aligned);
  call.model().host_ranges[start] = size_bytes;
  call.model().host_memory[start] = std::move(owned);
  *memory = aligned;
  return cudaSuccess;
}

cudaError_t FreeHost(void* memory) {
  CudaCall call("cudaFreeHost", CudaCall::Capture::kUnsafe);
  if (call.failed() || memory == nullptr) {
    return call.error();
  }
  const auto* const start = static_cast<const std::byte*>(memory);
  if (!call.model().host_memory.contains(start)) {
    return CudaCall::End(cudaErrorInvalidValue);
  }
  call.model().WaitForAll(call.lock());
  call.model().host_ranges.erase(start);
  call.model().host_memory.erase(start);
  return cudaSuccess;
}

cudaError_t HostRegister(void* memory, std::size_t size_bytes, unsigned /*flags*/) {
  CudaCall call("cudaHostRegister", CudaCall::Capture::kUnsafe);
  if (call.failed()) {
    return call.error();
  }
  if (memory == nullptr || size_bytes == 0 || call.model().arena.Contains(memory)) {
    return CudaCall::End(cudaErrorInvalidValue);
  }
  const auto* const start = static_cast<const std::byte*>(memory);
  auto& ranges = call.model().host_ranges;
  const auto next = ranges.lower_bound(start);
  if (call.model().IsPinned(memory, 1) ||
      (next != ranges.end() && next->first < start + size_bytes)) {
    return CudaCall::End(cudaErrorHostMemoryAlreadyRegistered);
  }
  ranges[start] = size_bytes;
  return cudaSuccess;
}

cudaError_t HostUnregister(void* memory) {
  CudaCall call("cudaHostUnregister", CudaCall::Capture::kUnsafe);
  if (call.failed()) {
    return call.error();
  }
  const auto* const start = static_cast<const std::byte*>(memory);
  if (call.model().host_memory.contains(start)) {
    return CudaCall::End(cudaErrorInvalidValue);
  }
  return CudaCall::End(
      call.model().host_ranges.erase(start) == 1 ? cudaSuccess : cudaErrorHostMemoryNotRegistered);
}

cudaError_t HostGetDevicePointer(void** device, void* host, unsigned /*flags*/) {
  CudaCall call("cudaHostGetDevicePointer");
  if (call.failed()) {
    return call.error();
  }
  if (!call.model().IsPinned(host, 1)) {
    return CudaCall::End(cudaErrorInvalidValue);
  }
  *device = host;
  return cudaSuccess;
}

cudaError_t PointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  CudaCall call("cudaPointerGetAttributes");
  if (call.failed()) {
    return call.error();
  }
  *attributes = {};
  attributes->type = cudaMemoryTypeUnregistered;
  if (call.model().arena.BytesFrom(memory) > 0) {
    attributes->type = cudaMemoryTypeDevice;
    attributes->devicePointer = const_cast<void*>(memory);
  } else if (call.model().IsPinned(memory, 1)) {
    attributes->type = cudaMemoryTypeHost;
    attributes->hostPointer = const_cast<void*>(memory);
    attributes->devicePointer = const_cast<void*>(memory);
  }
  return cudaSuccess;
}

cudaError_t MemcpyAsync(void* target,
                        const void* source,
                        std::size_t size_bytes,
                        cudaMemcpyKind kind,
                        cudaStream_t stream) {
  CudaCall call("cudaMemcpyAsync");
  if (call.failed() || size_bytes == 0) {
    return call.error();
  }
  CudaModel& model = call.model();
  if (!model.IsStream(stream)) {
    return CudaCall::End(cudaErrorInvalidResourceHandle);
  }
  if (!IsKindRight(model, target, source, kind) || !model.IsValidRange(target, size_bytes) ||
      !model.IsValidRange(source, size_bytes)) {
    return CudaCall::End(cudaErrorInvalidValue);
  }
  ++model.counts.copies;
  model.counts.copied_bytes += size_bytes;
  if (IsPageable(model, source, size_bytes)) {
    // The driver stages it before it returns ("API synchronization behavior").
    ++model.counts.pageable_copies;
    model.Enqueue(*stream, Operation("staged copy", [target, bytes = CopyOf(source, size_bytes)] {
      std::memcpy(target, bytes.data(), bytes.size());
      return cudaSuccess;
    }));
    return cudaSuccess;
  }
  model.Enqueue(*stream, Operation("copy", [target, source, size_bytes] {
    std::memcpy(target, source, size_bytes);
    return cudaSuccess;
  }));
  if (IsPageable(model, target, size_bytes)) {
    // Into pageable memory the call is synchronous.
    ++model.counts.pageable_copies;
    model.WaitForStream(call.lock(), *stream);
  }
  return CudaCall::End(model.sticky);
}

// NOLINTNEXTLINE(readability-function-size): the runtime's own parameters.
cudaError_t Memcpy2DAsync(void* target,
                          std::size_t target_step,
                          const void* source,
                          std::size_t source_step,
                          std::size_t row_bytes,
                          std::size_t rows,
                          cudaMemcpyKind kind,
                          cudaStream_t stream) {
  CudaCall call("cudaMemcpy2DAsync");
  if (call.failed() || row_bytes == 0 || rows == 0) {
    return call.error();
  }
  CudaModel& model = call.model();
  if (!model.IsStream(stream)) {
    return CudaCall::End(cudaErrorInvalidResourceHandle);
  }
  if (row_bytes > target_step || row_bytes > source_step) {
    return CudaCall::End(cudaErrorInvalidPitchValue);
  }
  const std::size_t target_bytes = (rows - 1) * target_step + row_bytes;
  const std::size_t source_bytes = (rows - 1) * source_step + row_bytes;
  if (!IsKindRight(model, target, source, kind) || !model.IsValidRange(target, target_bytes) ||
      !model.IsValidRange(source, source_bytes)) {
    return CudaCall::End(cudaErrorInvalidValue);
  }
  ++model.counts.copies;
  model.counts.copied_bytes += rows * row_bytes;
  if (IsPageable(model, source, source_bytes) || IsPageable(model, target, target_bytes)) {
    ++model.counts.pageable_copies;
  }
  model.Enqueue(*stream, Operation("row copy", [=] {
    for (std::size_t row = 0; row < rows; ++row) {
      std::memcpy(static_cast<std::byte*>(target) + row * target_step,
                  static_cast<const std::byte*>(source) + row * source_step, row_bytes);
    }
    return cudaSuccess;
  }));
  return CudaCall::End(model.sticky);
}

namespace {

struct BatchedCopy {
  void* target;
  const void* source;
  std::size_t size_bytes;
  Bytes staged;  // Read during the call already.
};

// cudaMemcpyBatchAsync of 13.0: the first set of attributes begins at 0, each later one further on,
// and each has an access order.
bool AreAttributesRight(const cudaMemcpyAttributes* attributes,
                        const std::size_t* starts,
                        std::size_t sets,
                        std::size_t count) {
  if (sets == 0 || sets > count || starts[0] != 0) {
    return false;
  }
  for (std::size_t i = 0; i < sets; ++i) {
    const auto order = attributes[i].srcAccessOrder;
    if ((i > 0 && starts[i] <= starts[i - 1]) || starts[i] >= count ||
        order < cudaMemcpySrcAccessOrderStream || order > cudaMemcpySrcAccessOrderAny) {
      return false;
    }
  }
  return true;
}

}  // namespace

// NOLINTNEXTLINE(readability-function-size): the runtime's own parameters.
cudaError_t MemcpyBatchAsync(void* const* targets,
                             const void* const* sources,
                             const std::size_t* sizes,
                             std::size_t count,
                             cudaMemcpyAttributes* attributes,
                             std::size_t* starts,
                             std::size_t sets,
                             cudaStream_t stream) {
  CudaCall call("cudaMemcpyBatchAsync");
  if (call.failed()) {
    return call.error();
  }
  CudaModel& model = call.model();
  // The null stream is not allowed here, of all calls.
  if (!model.IsStream(stream) || count == 0 ||
      !AreAttributesRight(attributes, starts, sets, count)) {
    return CudaCall::End(cudaErrorInvalidValue);
  }
  std::vector<BatchedCopy> copies;
  for (std::size_t i = 0, set = 0; i < count; ++i) {
    while (set + 1 < sets && starts[set + 1] <= i) {
      ++set;
    }
    if (sizes[i] == 0 || !model.IsValidRange(targets[i], sizes[i]) ||
        !model.IsValidRange(sources[i], sizes[i])) {
      return CudaCall::End(cudaErrorInvalidValue);
    }
    copies.push_back({targets[i], sources[i], sizes[i], {}});
    const bool is_now = attributes[set].srcAccessOrder == cudaMemcpySrcAccessOrderDuringApiCall;
    if (is_now && !model.arena.Contains(sources[i])) {
      copies.back().staged = CopyOf(sources[i], sizes[i]);
    }
    ++model.counts.copies;
    model.counts.copied_bytes += sizes[i];
  }
  // No order within a batch.
  for (std::size_t i = copies.size(); i > 1; --i) {
    std::swap(copies[i - 1], copies[static_cast<std::size_t>(model.random.Below(i))]);
  }
  model.Enqueue(*stream, Operation("batch copy", [batch = std::move(copies)] {
    for (const BatchedCopy& copy : batch) {
      std::memcpy(copy.target, copy.staged.empty() ? copy.source : copy.staged.data(),
                  copy.size_bytes);
    }
    return cudaSuccess;
  }));
  return CudaCall::End(model.sticky);
}

cudaError_t MemsetAsync(void* target, int value, std::size_t size_bytes, cudaStream_t stream) {
  CudaCall call("cudaMemsetAsync");
  if (call.failed()) {
    return call.error();
  }
  CudaModel& model = call.model();
  if (!model.IsStream(stream)) {
    return CudaCall::End(cudaErrorInvalidResourceHandle);
  }
  if (!model.arena.Contains(target) || !model.IsValidRange(target, size_bytes)) {
    return CudaCall::End(cudaErrorInvalidValue);
  }
  model.Enqueue(*stream, Operation("memset", [target, value, size_bytes] {
    std::memset(target, value, size_bytes);
    return cudaSuccess;
  }));
  return CudaCall::End(model.sticky);
}

}  // namespace kvferry::sim::entry
