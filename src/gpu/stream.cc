// Streams and events over the table.
#include "gpu/stream.h"

#include <utility>

namespace kvferry::gpu {

Result<Event> Event::Create(Device& device) {
  KVFERRY_RETURN_IF_ERROR(device.health());
  cudaEvent_t event = nullptr;
  KVFERRY_RETURN_IF_ERROR(
      device.Check(device.api().cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
                   "cudaEventCreateWithFlags"));
  return Event(device, event);
}

Event::Event(Event&& other) noexcept
    : device_(std::exchange(other.device_, nullptr)),
      event_(std::exchange(other.event_, nullptr)) {}

Event& Event::operator=(Event&& other) noexcept {
  if (this != &other) {
    Destroy();
    device_ = std::exchange(other.device_, nullptr);
    event_ = std::exchange(other.event_, nullptr);
  }
  return *this;
}

Event::~Event() {
  Destroy();
}

void Event::Destroy() noexcept {
  // A lost device takes its objects with it; there is nobody to tell of another failure.
  if (device_ != nullptr && device_->health().ok()) {
    device_->Check(device_->api().cudaEventDestroy(event_), "cudaEventDestroy").IgnoreError();
  }
}

Result<bool> Event::is_done() const {
  KVFERRY_RETURN_IF_ERROR(device_->health());
  return device_->CheckReady(device_->api().cudaEventQuery(event_), "cudaEventQuery");
}

Status Event::Synchronize() const {
  KVFERRY_RETURN_IF_ERROR(device_->health());
  return device_->Check(device_->api().cudaEventSynchronize(event_), "cudaEventSynchronize");
}

Result<Stream> Stream::Create(Device& device, StreamPriority priority) {
  KVFERRY_RETURN_IF_ERROR(device.health());
  const int number =
      priority == StreamPriority::kLowest ? device.priority_lowest() : device.priority_highest();
  cudaStream_t stream = nullptr;
  KVFERRY_RETURN_IF_ERROR(device.Check(
      device.api().cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, number),
      "cudaStreamCreateWithPriority"));
  return Stream(device, stream);
}

Stream::Stream(Stream&& other) noexcept
    : device_(std::exchange(other.device_, nullptr)),
      stream_(std::exchange(other.stream_, nullptr)) {}

Stream& Stream::operator=(Stream&& other) noexcept {
  if (this != &other) {
    Destroy();
    device_ = std::exchange(other.device_, nullptr);
    stream_ = std::exchange(other.stream_, nullptr);
  }
  return *this;
}

Stream::~Stream() {
  Destroy();
}

void Stream::Destroy() noexcept {
  if (device_ == nullptr || !device_->health().ok()) {
    return;
  }
  // cudaStreamDestroy returns before the work is done, and our owners free the memory it uses.
  Synchronize().IgnoreError();
  device_->Check(device_->api().cudaStreamDestroy(stream_), "cudaStreamDestroy").IgnoreError();
}

Status Stream::Copy(void* target, const void* source, std::size_t size_bytes) {
  KVFERRY_RETURN_IF_ERROR(device_->health());
  return device_->Check(
      device_->api().cudaMemcpyAsync(target, source, size_bytes, cudaMemcpyDefault, stream_),
      "cudaMemcpyAsync");
}

Status Stream::CopyRows(const Rows& rows) {
  KVFERRY_RETURN_IF_ERROR(device_->health());
  return device_->Check(
      device_->api().cudaMemcpy2DAsync(rows.target, rows.target_step_bytes, rows.source,
                                       rows.source_step_bytes, rows.row_bytes, rows.rows,
                                       cudaMemcpyDefault, stream_),
      "cudaMemcpy2DAsync");
}

Status Stream::Fill(void* target, unsigned char value, std::size_t size_bytes) {
  KVFERRY_RETURN_IF_ERROR(device_->health());
  return device_->Check(device_->api().cudaMemsetAsync(target, value, size_bytes, stream_),
                        "cudaMemsetAsync");
}

Status Stream::Record(Event& event) {
  KVFERRY_RETURN_IF_ERROR(device_->health());
  return device_->Check(device_->api().cudaEventRecord(event.native(), stream_), "cudaEventRecord");
}

Status Stream::WaitFor(const Event& event) {
  KVFERRY_RETURN_IF_ERROR(device_->health());
  return device_->Check(
      device_->api().cudaStreamWaitEvent(stream_, event.native(), cudaEventWaitDefault),
      "cudaStreamWaitEvent");
}

Result<bool> Stream::is_idle() const {
  KVFERRY_RETURN_IF_ERROR(device_->health());
  return device_->CheckReady(device_->api().cudaStreamQuery(stream_), "cudaStreamQuery");
}

Status Stream::Synchronize() const {
  KVFERRY_RETURN_IF_ERROR(device_->health());
  return device_->Check(device_->api().cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

}  // namespace kvferry::gpu
