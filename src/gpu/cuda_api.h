// CudaApi: the table of CUDA runtime entry points that kvferry calls, whoever fills it.
#pragma once

#include <cuda_runtime_api.h>

// Each name once, without its "cuda". The types are NVIDIA's own declarations, so the compiler
// checks every call, and every function of the simulated runtime, against the header.
// clang-format off
#define KVFERRY_CUDA_ENTRY_POINTS(X)                                                         \
  X(GetErrorName) X(GetErrorString) X(GetLastError) X(PeekAtLastError)                       \
  X(RuntimeGetVersion) X(DriverGetVersion)                                                   \
  X(GetDeviceCount) X(SetDevice) X(GetDevice) X(GetDeviceProperties) X(DeviceGetAttribute)   \
  X(DeviceGetPCIBusId) X(DeviceGetStreamPriorityRange) X(DeviceSynchronize) X(MemGetInfo)    \
  X(ThreadExchangeStreamCaptureMode) X(StreamIsCapturing)                                    \
  X(Malloc) X(Free) X(MallocAsync) X(FreeAsync)                                              \
  X(HostAlloc) X(FreeHost) X(HostRegister) X(HostUnregister)                                 \
  X(HostGetDevicePointer) X(PointerGetAttributes)                                            \
  X(MemcpyAsync) X(Memcpy2DAsync) X(MemcpyBatchAsync) X(MemsetAsync)                         \
  X(StreamCreateWithPriority) X(StreamDestroy) X(StreamSynchronize) X(StreamQuery)           \
  X(StreamWaitEvent)                                                                         \
  X(EventCreateWithFlags) X(EventDestroy) X(EventRecord) X(EventQuery) X(EventSynchronize)   \
  X(EventElapsedTime)                                                                        \
  X(LibraryLoadData) X(LibraryUnload) X(LibraryGetKernel) X(LaunchKernel)                    \
  X(FuncSetAttribute) X(FuncGetAttributes) X(OccupancyMaxActiveBlocksPerMultiprocessor)
// clang-format on

namespace kvferry::gpu {

// The major version of the runtime that the table's types belong to; others are refused, since
// signatures change (12's batch copy takes one argument more).
inline constexpr int kCudaRuntimeMajor = 13;

// Names and meanings are CUDA's. Filled by CudaLibrary or by the simulated runtime; the RAII
// wrappers of this folder are its only callers. Immutable once filled, hence thread-safe.
struct CudaApi {
#define KVFERRY_CUDA_MEMBER(name) decltype(&::cuda##name) cuda##name = nullptr;
  KVFERRY_CUDA_ENTRY_POINTS(KVFERRY_CUDA_MEMBER)
#undef KVFERRY_CUDA_MEMBER
};

}  // namespace kvferry::gpu
