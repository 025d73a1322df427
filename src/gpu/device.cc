// Opening a GPU, and telling why one is not used.
#include "gpu/device.h"

#include <cstring>
#include <utility>

#include "gpu/cuda_error.h"

namespace kvferry::gpu {
namespace {

std::string VersionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

Status NoDeviceReason(const CudaApi& api, cudaError_t error) {
  int driver = 0;
  int runtime = 0;
  // Asked for the message only: 0 stands for "no driver".
  static_cast<void>(api.cudaDriverGetVersion(&driver));
  static_cast<void>(api.cudaRuntimeGetVersion(&runtime));
  static_cast<void>(api.cudaGetLastError());
  std::string text = "no GPU is used: ";
  if (error == cudaErrorInsufficientDriver && driver == 0) {
    text += "there is no NVIDIA driver";
  } else if (error == cudaErrorInsufficientDriver) {
    text += "the driver serves CUDA " + VersionText(driver) + ", the runtime is " +
            VersionText(runtime);
  } else if (error == cudaErrorNoDevice || error == cudaSuccess) {
    text += "no device is visible (CUDA_VISIBLE_DEVICES may hide them)";
  } else {
    text += std::string(api.cudaGetErrorName(error)) + " (" + api.cudaGetErrorString(error) + ")";
  }
  return Status::Error(StatusCode::kUnavailable, std::move(text));
}

Result<DeviceFacts> FactsOf(const CudaApi& api, int index) {
  cudaDeviceProp properties{};
  if (const cudaError_t error = api.cudaGetDeviceProperties(&properties, index);
      error != cudaSuccess) {
    return ErrorOf(api, error, "cudaGetDeviceProperties");
  }
  DeviceFacts facts;
  facts.index = index;
  facts.name = properties.name;
  std::memcpy(facts.uuid.data(), &properties.uuid, facts.uuid.size());
  facts.compute_major = properties.major;
  facts.compute_minor = properties.minor;
  facts.memory_bytes = properties.totalGlobalMem;
  facts.multiprocessor_count = properties.multiProcessorCount;
  facts.copy_engine_count = properties.asyncEngineCount;
  facts.is_integrated = properties.integrated != 0;
  facts.uses_host_page_tables = properties.pageableMemoryAccessUsesHostPageTables != 0;
  std::array<char, 32> bus_id{};
  if (api.cudaDeviceGetPCIBusId(bus_id.data(), static_cast<int>(bus_id.size()), index) ==
      cudaSuccess) {
    facts.pci_bus_id = bus_id.data();
  }
  if (facts.compute_major < kComputeMajorMin) {
    facts.unusable_reason = "compute capability " + std::to_string(facts.compute_major) + "." +
                            std::to_string(facts.compute_minor) + ", kernels need " +
                            std::to_string(kComputeMajorMin) + ".0";
  } else if (properties.unifiedAddressing == 0) {
    facts.unusable_reason = "no unified addressing";
  }
  return facts;
}

}  // namespace

Result<std::vector<DeviceFacts>> DiscoverDevices(const CudaApi& api) {
  int count = 0;
  const cudaError_t error = api.cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    return NoDeviceReason(api, error);
  }
  std::vector<DeviceFacts> devices;
  for (int index = 0; index < count; ++index) {
    KVFERRY_ASSIGN_OR_RETURN(DeviceFacts facts, FactsOf(api, index));
    devices.push_back(std::move(facts));
  }
  return devices;
}

Result<std::unique_ptr<Device>> Device::Open(const CudaApi& api, int index) {
  KVFERRY_ASSIGN_OR_RETURN(const std::vector<DeviceFacts> devices, DiscoverDevices(api));
  if (index < 0 || static_cast<std::size_t>(index) >= devices.size()) {
    return Status::Error(
        StatusCode::kInvalidArgument,
        "GPU " + std::to_string(index) + " of " + std::to_string(devices.size()) + " visible ones");
  }
  const DeviceFacts& facts = devices[static_cast<std::size_t>(index)];
  if (!facts.unusable_reason.empty()) {
    return Status::Error(StatusCode::kUnavailable, "GPU " + std::to_string(index) + " (" +
                                                       facts.name +
                                                       ") is not used: " + facts.unusable_reason);
  }
  auto device = std::make_unique<Device>(Token(), api, facts);
  KVFERRY_RETURN_IF_ERROR(device->EnterThread());
  KVFERRY_RETURN_IF_ERROR(device->Check(
      api.cudaDeviceGetStreamPriorityRange(&device->priority_lowest_, &device->priority_highest_),
      "cudaDeviceGetStreamPriorityRange"));
  return device;
}

Device::Device(Token /*token*/, const CudaApi& api, DeviceFacts facts)
    : api_(api), facts_(std::move(facts)) {}

Status Device::EnterThread() {
  KVFERRY_RETURN_IF_ERROR(health());
  // The mode first: cudaSetDevice may create the context, which allocates.
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  KVFERRY_RETURN_IF_ERROR(Check(api_.cudaThreadExchangeStreamCaptureMode(&mode),
                                "cudaThreadExchangeStreamCaptureMode"));
  return Check(api_.cudaSetDevice(facts_.index), "cudaSetDevice");
}

Status Device::health() const {
  const int error = sticky_.load();
  if (error == 0) {
    return Status::Ok();
  }
  return ErrorOf(api_, static_cast<cudaError_t>(error), "the device is lost")
      .WithContext("GPU " + std::to_string(facts_.index));
}

Status Device::Check(cudaError_t result, std::string_view call) {
  if (result == cudaSuccess) {
    return Status::Ok();
  }
  if (IsSticky(result)) {
    int none = 0;
    sticky_.compare_exchange_strong(none, static_cast<int>(result));
  } else {
    static_cast<void>(api_.cudaGetLastError());
  }
  return ErrorOf(api_, result, call);
}

Result<bool> Device::CheckReady(cudaError_t result, std::string_view call) {
  if (result == cudaErrorNotReady) {
    static_cast<void>(api_.cudaGetLastError());
    return false;
  }
  KVFERRY_RETURN_IF_ERROR(Check(result, call));
  return true;
}

Result<Device::MemoryInfo> Device::memory_info() {
  KVFERRY_RETURN_IF_ERROR(health());
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  KVFERRY_RETURN_IF_ERROR(Check(api_.cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo"));
  return MemoryInfo{free_bytes, total_bytes};
}

}  // namespace kvferry::gpu
