// Entry functions: errors, versions, devices and the thread's own state.
#include <cstdio>
#include <cstring>

#include "sim/cuda/cuda_entries.h"
#include "sim/cuda/cuda_model.h"

namespace kvferry::sim::entry {
namespace {

constexpr int kMultiprocessors = 4;
constexpr int kSharedBytesOptIn = 227 << 10;

bool IsDevice(const CudaModel& model, int device) {
  return device >= 0 && static_cast<std::uint32_t>(device) < model.options.device_count;
}

}  // namespace

const char* GetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInsufficientDriver:
      return "cudaErrorInsufficientDriver";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    default:
      return "a cudaError of the simulated runtime";
  }
}

const char* GetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    default:
      return "simulated";
  }
}

cudaError_t GetLastError() {
  const cudaError_t error = ThisCudaThread().last_error;
  CudaModel* const model = CudaModel::Current();
  const Hush hush;
  const std::unique_lock<std::mutex> lock(model->mutex);
  if (model->sticky == cudaSuccess) {
    ThisCudaThread().last_error = cudaSuccess;
  }
  return error;
}

cudaError_t PeekAtLastError() {
  return ThisCudaThread().last_error;
}

cudaError_t RuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t DriverGetVersion(int* version) {
  // Documented: 0 without a driver, and no error.
  *version = CudaModel::Current()->options.has_driver ? CUDART_VERSION : 0;
  return cudaSuccess;
}

cudaError_t GetDeviceCount(int* count) {
  CudaCall call("cudaGetDeviceCount");
  *count = 0;
  if (call.failed()) {
    return call.error();
  }
  if (!call.model().options.has_driver) {
    return CudaCall::End(cudaErrorInsufficientDriver);
  }
  *count = static_cast<int>(call.model().options.device_count);
  return CudaCall::End(*count == 0 ? cudaErrorNoDevice : cudaSuccess);
}

cudaError_t SetDevice(int device) {
  CudaCall call("cudaSetDevice");
  if (call.failed()) {
    return call.error();
  }
  if (!IsDevice(call.model(), device)) {
    return CudaCall::End(cudaErrorInvalidDevice);
  }
  ThisCudaThread().device = device;
  return cudaSuccess;
}

cudaError_t GetDevice(int* device) {
  CudaCall call("cudaGetDevice");
  *device = ThisCudaThread().device;
  return call.error();
}

cudaError_t GetDeviceProperties(cudaDeviceProp* properties, int device) {
  CudaCall call("cudaGetDeviceProperties");
  if (call.failed()) {
    return call.error();
  }
  if (!IsDevice(call.model(), device)) {
    return CudaCall::End(cudaErrorInvalidDevice);
  }
  const SimCudaOptions& options = call.model().options;
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "simulated GPU %d", device);
  properties->uuid.bytes[15] = static_cast<char>(device + 1);
  properties->totalGlobalMem = options.device_bytes;
  properties->major = options.compute_major;
  properties->warpSize = 32;
  properties->multiProcessorCount = kMultiprocessors;
  properties->maxThreadsPerBlock = 1024;
  properties->sharedMemPerBlock = 48U << 10;
  properties->sharedMemPerBlockOptin = kSharedBytesOptIn;
  properties->asyncEngineCount = 2;
  properties->unifiedAddressing = 1;
  properties->hostRegisterSupported = 1;
  properties->integrated = options.is_integrated ? 1 : 0;
  return cudaSuccess;
}

cudaError_t DeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  CudaCall call("cudaDeviceGetAttribute");
  if (call.failed()) {
    return call.error();
  }
  if (!IsDevice(call.model(), device)) {
    return CudaCall::End(cudaErrorInvalidDevice);
  }
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = kMultiprocessors;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = kSharedBytesOptIn;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = call.model().options.compute_major;
      break;
    case cudaDevAttrIntegrated:
      *value = call.model().options.is_integrated ? 1 : 0;
      break;
    default:
      *value = 0;
  }
  return cudaSuccess;
}

cudaError_t DeviceGetPCIBusId(char* bus_id, int length, int device) {
  CudaCall call("cudaDeviceGetPCIBusId");
  if (call.failed()) {
    return call.error();
  }
  if (!IsDevice(call.model(), device) || length <= 0) {
    return CudaCall::End(cudaErrorInvalidValue);
  }
  std::snprintf(bus_id, static_cast<std::size_t>(length), "0000:%02x:00.0", device + 1);
  return cudaSuccess;
}

cudaError_t DeviceGetStreamPriorityRange(int* lowest, int* highest) {
  CudaCall call("cudaDeviceGetStreamPriorityRange");
  *lowest = 0;
  *highest = -5;
  return call.error();
}

cudaError_t DeviceSynchronize() {
  CudaCall call("cudaDeviceSynchronize", CudaCall::Capture::kUnsafe);
  if (call.failed()) {
    return call.error();
  }
  call.model().WaitForAll(call.lock());
  return CudaCall::End(call.model().sticky);
}

cudaError_t MemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  CudaCall call("cudaMemGetInfo");
  const DeviceArena& arena = call.model().arena;
  *free_bytes = arena.capacity_bytes() - arena.used_bytes();
  *total_bytes = arena.capacity_bytes();
  return call.error();
}

cudaError_t ThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  CudaCall call("cudaThreadExchangeStreamCaptureMode");
  if (call.failed()) {
    return call.error();
  }
  std::swap(*mode, ThisCudaThread().capture_mode);
  return cudaSuccess;
}

}  // namespace kvferry::sim::entry
