// Entry functions: streams and events.
#include <chrono>
#include <utility>

#include "sim/cuda/cuda_entries.h"
#include "sim/cuda/cuda_model.h"

namespace kvferry::sim::entry {

cudaError_t StreamCreateWithPriority(cudaStream_t* stream, unsigned /*flags*/, int /*priority*/) {
  CudaCall call("cudaStreamCreateWithPriority");
  if (call.failed()) {
    return call.error();
  }
  *stream = call.model().CreateStream();
  return cudaSuccess;
}

cudaError_t StreamDestroy(cudaStream_t stream) {
  CudaCall call("cudaStreamDestroy");
  if (call.failed()) {
    return call.error();
  }
  if (!call.model().IsStream(stream)) {
    return CudaCall::End(cudaErrorInvalidResourceHandle);
  }
  call.model().WaitForStream(call.lock(), *stream);
  call.model().DestroyStream(stream);
  return cudaSuccess;
}

cudaError_t StreamSynchronize(cudaStream_t stream) {
  CudaCall call("cudaStreamSynchronize", CudaCall::Capture::kUnsafe);
  if (call.failed()) {
    return call.error();
  }
  if (!call.model().IsStream(stream)) {
    return CudaCall::End(cudaErrorInvalidResourceHandle);
  }
  call.model().WaitForStream(call.lock(), *stream);
  return CudaCall::End(call.model().sticky);
}

cudaError_t StreamQuery(cudaStream_t stream) {
  CudaCall call("cudaStreamQuery", CudaCall::Capture::kUnsafe);
  if (call.failed()) {
    return call.error();
  }
  CudaModel& model = call.model();
  if (!model.IsStream(stream)) {
    return CudaCall::End(cudaErrorInvalidResourceHandle);
  }
  model.Nudge(*stream, stream->issued);
  if (stream->completed < stream->issued) {
    return CudaCall::End(cudaErrorNotReady);
  }
  const Speak speak;
  Acquire(stream->clock.get());
  return CudaCall::End(model.sticky);
}

cudaError_t StreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  CudaCall call("cudaStreamIsCapturing");
  if (call.failed()) {
    return call.error();
  }
  if (!call.model().IsStream(stream)) {
    return CudaCall::End(cudaErrorInvalidResourceHandle);
  }
  *status = cudaStreamCaptureStatusNone;
  if (call.model().IsCaptured(stream)) {
    *status = call.model().IsCaptureBroken(stream) ? cudaStreamCaptureStatusInvalidated
                                                   : cudaStreamCaptureStatusActive;
  }
  return cudaSuccess;
}

cudaError_t EventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  CudaCall call("cudaEventCreateWithFlags");
  if (call.failed()) {
    return call.error();
  }
  *event = call.model().CreateEvent();
  return cudaSuccess;
}

cudaError_t EventDestroy(cudaEvent_t event) {
  CudaCall call("cudaEventDestroy");
  if (call.failed()) {
    return call.error();
  }
  if (!call.model().IsEvent(event)) {
    return CudaCall::End(cudaErrorInvalidResourceHandle);
  }
  call.model().DestroyEvent(event);
  return cudaSuccess;
}

cudaError_t EventRecord(cudaEvent_t event, cudaStream_t stream) {
  CudaCall call("cudaEventRecord");
  if (call.failed()) {
    return call.error();
  }
  CudaModel& model = call.model();
  if (!model.IsEvent(event) || !model.IsStream(stream)) {
    return CudaCall::End(cudaErrorInvalidResourceHandle);
  }
  if (model.IsCaptured(stream)) {
    return cudaSuccess;  // A node of the graph; the event stands for nothing outside of it.
  }
  event->latest = model.NewMark();
  StreamOperation operation;
  operation.name = "event record";
  operation.signal = event->latest;
  model.Enqueue(*stream, std::move(operation));
  return CudaCall::End(model.sticky);
}

cudaError_t StreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  CudaCall call("cudaStreamWaitEvent");
  if (call.failed()) {
    return call.error();
  }
  CudaModel& model = call.model();
  if (!model.IsEvent(event) || !model.IsStream(stream)) {
    return CudaCall::End(cudaErrorInvalidResourceHandle);
  }
  // One that was never recorded does not hold anything up.
  if (event->latest != nullptr) {
    StreamOperation operation;
    operation.name = "event wait";
    operation.wait = event->latest;
    model.Enqueue(*stream, std::move(operation));
  }
  return CudaCall::End(model.sticky);
}

cudaError_t EventQuery(cudaEvent_t event) {
  CudaCall call("cudaEventQuery", CudaCall::Capture::kUnsafe);
  if (call.failed()) {
    return call.error();
  }
  if (!call.model().IsEvent(event)) {
    return CudaCall::End(cudaErrorInvalidResourceHandle);
  }
  EventMark* const mark = event->latest;
  if (mark == nullptr) {
    return cudaSuccess;
  }
  if (!mark->is_done) {
    call.model().Nudge(*mark->stream, mark->index);
  }
  if (!mark->is_done) {
    return CudaCall::End(cudaErrorNotReady);
  }
  const Speak speak;
  Acquire(&mark->clock);
  return CudaCall::End(call.model().sticky);
}

cudaError_t EventSynchronize(cudaEvent_t event) {
  CudaCall call("cudaEventSynchronize", CudaCall::Capture::kUnsafe);
  if (call.failed()) {
    return call.error();
  }
  if (!call.model().IsEvent(event)) {
    return CudaCall::End(cudaErrorInvalidResourceHandle);
  }
  EventMark* const mark = event->latest;
  if (mark == nullptr) {
    return cudaSuccess;
  }
  if (!mark->is_done) {
    call.model().WaitFor(call.lock(), *mark->stream, mark->index);
  }
  const Speak speak;
  Acquire(&mark->clock);
  return CudaCall::End(call.model().sticky);
}

cudaError_t EventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  CudaCall call("cudaEventElapsedTime");
  if (call.failed()) {
    return call.error();
  }
  if (!call.model().IsEvent(start) || !call.model().IsEvent(end) || start->latest == nullptr ||
      end->latest == nullptr) {
    return CudaCall::End(cudaErrorInvalidResourceHandle);
  }
  if (!start->latest->is_done || !end->latest->is_done) {
    return CudaCall::End(cudaErrorNotReady);
  }
  const std::chrono::duration<float, std::milli> elapsed =
      end->latest->done_at - start->latest->done_at;
  *milliseconds = elapsed.count();
  return cudaSuccess;
}

}  // namespace kvferry::sim::entry
