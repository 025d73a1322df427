// From cudaError_t to Status.
#include "gpu/cuda_error.h"

#include <string>

#include "base/assert.h"

namespace kvferry::gpu {

StatusCode CodeOf(cudaError_t error) noexcept {
  switch (error) {
    case cudaSuccess:
      return StatusCode::kOk;
    case cudaErrorMemoryAllocation:
      return StatusCode::kResourceExhausted;
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorDevicesUnavailable:
    case cudaErrorSystemNotReady:
    case cudaErrorSystemDriverMismatch:
      return StatusCode::kUnavailable;
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureImplicit:
    case cudaErrorStreamCaptureIsolation:
    case cudaErrorStreamCaptureWrongThread:
      return StatusCode::kInvalidArgument;
    default:
      return StatusCode::kDeviceError;
  }
}

bool IsSticky(cudaError_t error) noexcept {
  switch (error) {
    // driver_types.h says of each: "leaves the process in an inconsistent state".
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorExternalDevice:
    // The device itself.
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

Status ErrorOf(const CudaApi& api, cudaError_t error, std::string_view call) {
  KVFERRY_CHECK(error != cudaSuccess);
  std::string text(call);
  text.append(": ").append(api.cudaGetErrorName(error));
  text.append(" (").append(api.cudaGetErrorString(error)).append(1, ')');
  if (IsSticky(error)) {
    text.append("; an earlier operation on the device may have caused it");
  }
  const StatusCode code = CodeOf(error);
  // A native code beside any other status code would read as an errno.
  const int native_code = code == StatusCode::kDeviceError ? static_cast<int>(error) : 0;
  return Status::Error(code, std::move(text), native_code);
}

}  // namespace kvferry::gpu
