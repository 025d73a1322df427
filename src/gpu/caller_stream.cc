// Callers' streams, touched only in the calls that name them.
#include "gpu/caller_stream.h"

namespace kvferry::gpu {
namespace {

Status RefuseUnusable(Device& device, cudaStream_t stream) {
  KVFERRY_RETURN_IF_ERROR(device.health());
  if (stream == nullptr || stream == cudaStreamLegacy) {
    return Status::Error(StatusCode::kInvalidArgument,
                         "the legacy default stream is not supported; pass a stream");
  }
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  KVFERRY_RETURN_IF_ERROR(
      device.Check(device.api().cudaStreamIsCapturing(stream, &capture), "cudaStreamIsCapturing"));
  if (capture != cudaStreamCaptureStatusNone) {
    return Status::Error(StatusCode::kInvalidArgument,
                         "the stream is under capture for a CUDA graph; call outside of it");
  }
  return Status::Ok();
}

}  // namespace

Status RecordCallerStream(Event& event, cudaStream_t stream) {
  Device& device = event.device();
  KVFERRY_RETURN_IF_ERROR(RefuseUnusable(device, stream));
  return device.Check(device.api().cudaEventRecord(event.native(), stream), "cudaEventRecord");
}

Status MakeCallerStreamWait(cudaStream_t stream, const Event& event) {
  Device& device = event.device();
  KVFERRY_RETURN_IF_ERROR(RefuseUnusable(device, stream));
  return device.Check(
      device.api().cudaStreamWaitEvent(stream, event.native(), cudaEventWaitDefault),
      "cudaStreamWaitEvent");
}

}  // namespace kvferry::gpu
