// The schedules: which of the queued operations runs when.
#include "sim/cuda/cuda_model.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/assert.h"

namespace kvferry::sim {
namespace {

CudaModel*& CurrentModel() {
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): CUDA is global, too.
  static CudaModel* model = nullptr;
  return model;
}

// One query in so many that say "not yet" makes an operation run.
constexpr std::uint64_t kNudgeEvery = 4;
// Speeds are drawn anew about every so many steps.
constexpr std::uint64_t kRedrawEvery = 12;

}  // namespace

CudaThreadState& ThisCudaThread() {
  static thread_local CudaThreadState state;
  return state;
}

CudaModel* CudaModel::Current() {
  return CurrentModel();
}

CudaModel::CudaModel(const SimCudaOptions& wanted)
    : options(wanted),
      arena(wanted.device_bytes,
            wanted.is_memory_guarded && wanted.schedule != CudaSchedule::kThreads),
      random(wanted.seed) {
  KVFERRY_CHECK(CurrentModel() == nullptr);
  CurrentModel() = this;
  ThisCudaThread() = {};
}

CudaModel::~CudaModel() {
  {
    const std::unique_lock<std::mutex> lock(mutex);
    for (CUstream_st* stream : stream_order_) {
      stream->is_stopping = true;
    }
    changed_.notify_all();
  }
  for (CUstream_st* stream : stream_order_) {
    if (stream->thread.joinable()) {
      stream->thread.join();
    }
    DestroyTsanFiber(stream->tsan_fiber);
  }
  CurrentModel() = nullptr;
}

CUstream_st* CudaModel::CreateStream() {
  auto owned = std::make_unique<CUstream_st>();
  CUstream_st* const stream = owned.get();
  stream->speed = random.Next();
  if (is_threaded()) {
    stream->thread = std::thread([this, stream] { RunThread(*stream); });
  } else {
    stream->tsan_fiber = CreateTsanFiber();
  }
  streams_.emplace(stream, std::move(owned));
  stream_order_.push_back(stream);
  return stream;
}

// The stream is idle. Its thread needs the lock to end, so the caller gives it up meanwhile: the
// entry function does that.
void CudaModel::DestroyStream(CUstream_st* stream) {
  std::erase(stream_order_, stream);
  captures_.erase(stream);
  if (stream->thread.joinable()) {
    stream->is_stopping = true;
    changed_.notify_all();
    mutex.unlock();
    stream->thread.join();
    mutex.lock();
  }
  DestroyTsanFiber(stream->tsan_fiber);
  // Marks outlive their stream: all of them are done.
  streams_.erase(stream);
}

CUevent_st* CudaModel::CreateEvent() {
  auto owned = std::make_unique<CUevent_st>();
  CUevent_st* const event = owned.get();
  events_.emplace(event, std::move(owned));
  return event;
}

EventMark* CudaModel::NewMark() {
  return &marks_.emplace_back();
}

void CudaModel::Enqueue(CUstream_st& stream, StreamOperation operation) {
  if (captures_.contains(&stream)) {
    return;  // It becomes a node of the graph, which nobody launches here.
  }
  {
    const Speak speak;
    Release(operation.clock.get());
  }
  ++stream.issued;
  if (operation.signal != nullptr) {
    operation.signal->stream = &stream;
    operation.signal->index = stream.issued;
  }
  stream.queue.push_back(std::move(operation));
  changed_.notify_all();
  Progress();
}

bool CudaModel::IsRunnable(const CUstream_st& stream) {
  return !stream.queue.empty() &&
         (stream.queue.front().wait == nullptr || stream.queue.front().wait->is_done);
}

void CudaModel::Step(CUstream_st& stream) {
  StreamOperation operation = std::move(stream.queue.front());
  stream.queue.pop_front();
  ++counts.operations;
  if (fail_operation_in > 0 && --fail_operation_in == 0) {
    sticky = fail_operation_error;
  }
  const bool is_lost = sticky != cudaSuccess;
  if (is_threaded()) {
    RunUnlocked(stream, operation, is_lost);
  } else {
    RunInPlace(stream, operation, is_lost);
  }
  if (operation.settle && !is_lost) {
    operation.settle();
  }
  ++stream.completed;
  if (operation.signal != nullptr) {
    operation.signal->is_done = true;
    operation.signal->done_at = Clock::now();
  }
  changed_.notify_all();
}

void CudaModel::RunInPlace(CUstream_st& stream, StreamOperation& operation, bool is_lost) {
  arena.SetOpen(true);
  // To the thread sanitizer the operation is the stream's, not the host thread's that lends its
  // time; the stream's identity has no Hush of its own.
  void* const self = CurrentTsanFiber();
  SwitchTsanFiber(stream.tsan_fiber);
  Acquire(operation.clock.get());
  if (operation.wait != nullptr) {
    Acquire(&operation.wait->clock);
  }
  cudaError_t error = cudaSuccess;
  if (operation.run && !is_lost) {
    error = operation.run();
  }
  if (operation.signal != nullptr) {
    Release(&operation.signal->clock);
  }
  Release(stream.clock.get());
  SwitchTsanFiber(self);
  arena.SetOpen(false);
  if (error != cudaSuccess) {
    sticky = error;
  }
}

void CudaModel::RunUnlocked(CUstream_st& stream, StreamOperation& operation, bool is_lost) {
  const std::uint64_t delay_us =
      random.Chance(0.5) ? random.Below(std::uint64_t{options.delay_us_max} + 1) : 0;
  cudaError_t error = cudaSuccess;
  mutex.unlock();
  if (delay_us > 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
  }
  {
    const Speak speak;
    Acquire(operation.clock.get());
    if (operation.wait != nullptr) {
      Acquire(&operation.wait->clock);
    }
    if (operation.run && !is_lost) {
      error = operation.run();
    }
    if (operation.signal != nullptr) {
      Release(&operation.signal->clock);
    }
    Release(stream.clock.get());
  }
  mutex.lock();
  if (error != cudaSuccess) {
    sticky = error;
  }
}

bool CudaModel::StepFastest(std::uint64_t speed_min) {
  CUstream_st* fastest = nullptr;
  for (CUstream_st* stream : stream_order_) {
    if (IsRunnable(*stream) && stream->speed >= speed_min &&
        (fastest == nullptr || stream->speed > fastest->speed)) {
      fastest = stream;
    }
  }
  if (fastest != nullptr) {
    Step(*fastest);
  }
  return fastest != nullptr;
}

void CudaModel::RedrawSpeeds() {
  if (options.schedule != CudaSchedule::kRandom || random.Below(kRedrawEvery) != 0) {
    return;
  }
  for (CUstream_st* stream : stream_order_) {
    stream->speed = random.Next();
  }
  host_speed_ = random.Next();
}

void CudaModel::Progress() {
  if (options.schedule == CudaSchedule::kEager) {
    while (StepFastest(0)) {
    }
  }
  // A stream faster than the host runs dry at each call; a slower one stands still until somebody
  // waits for it.
  if (options.schedule == CudaSchedule::kRandom) {
    RedrawSpeeds();
    while (StepFastest(host_speed_)) {
      RedrawSpeeds();
    }
  }
}

void CudaModel::ReportDeadlock() const {
  std::fprintf(stderr, "sim cuda: the host waits for what never runs\n");
  for (const CUstream_st* stream : stream_order_) {
    std::fprintf(stderr, "sim cuda:   a stream has %zu queued, next %s%s\n", stream->queue.size(),
                 stream->queue.empty() ? "nothing" : stream->queue.front().name,
                 stream->queue.empty() || IsRunnable(*stream) ? "" : " (blocked)");
  }
  std::abort();
}

// The least that makes `count` operations of `stream` complete.
void CudaModel::Need(CUstream_st& stream, std::uint64_t count) {
  while (stream.completed < count) {
    if (stream.queue.empty()) {
      ReportDeadlock();
    }
    const EventMark* const wait = stream.queue.front().wait;
    if (wait != nullptr && !wait->is_done) {
      Need(*wait->stream, wait->index);
    }
    Step(stream);
  }
}

void CudaModel::WaitFor(std::unique_lock<std::mutex>& lock,
                        CUstream_st& stream,
                        std::uint64_t count) {
  if (is_threaded()) {
    changed_.wait(lock, [&] { return stream.completed >= count; });
    return;
  }
  if (options.schedule == CudaSchedule::kLazy) {
    Need(stream, count);
    return;
  }
  while (stream.completed < count) {
    RedrawSpeeds();
    if (!StepFastest(0)) {
      ReportDeadlock();
    }
  }
}

void CudaModel::WaitForStream(std::unique_lock<std::mutex>& lock, CUstream_st& stream) {
  WaitFor(lock, stream, stream.issued);
  const Speak speak;
  Acquire(stream.clock.get());
}

void CudaModel::WaitForAll(std::unique_lock<std::mutex>& lock) {
  const std::vector<CUstream_st*> streams = stream_order_;
  for (CUstream_st* stream : streams) {
    WaitForStream(lock, *stream);
  }
}

void CudaModel::Nudge(CUstream_st& stream, std::uint64_t count) {
  if (!is_threaded() && stream.completed < count && random.Below(kNudgeEvery) == 0) {
    Need(stream, stream.completed + 1);
  }
}

void CudaModel::RunThread(CUstream_st& stream) {
  const Hush hush;
  std::unique_lock<std::mutex> lock(mutex);
  for (;;) {
    changed_.wait(lock, [&] { return stream.is_stopping || IsRunnable(stream); });
    if (IsRunnable(stream)) {
      Step(stream);
    } else {
      return;
    }
  }
}

bool CudaModel::IsValidRange(const void* memory, std::size_t size_bytes) const {
  return !arena.Contains(memory) || arena.BytesFrom(memory) >= size_bytes;
}

bool CudaModel::IsPinned(const void* memory, std::size_t size_bytes) const {
  const auto* const byte = static_cast<const std::byte*>(memory);
  auto after = host_ranges.upper_bound(byte);
  if (after == host_ranges.begin()) {
    return false;
  }
  --after;
  return byte + size_bytes <= after->first + after->second;
}

// driver_api: "cuThreadExchangeStreamCaptureMode" has the rule for each mode of the thread.
cudaError_t CudaModel::MeetCaptures() {
  const cudaStreamCaptureMode mode = ThisCudaThread().capture_mode;
  if (mode == cudaStreamCaptureModeRelaxed) {
    return cudaSuccess;
  }
  for (auto& [stream, capture] : captures_) {
    const bool is_own = capture.thread == std::this_thread::get_id();
    const bool is_own_kept = is_own && capture.mode != cudaStreamCaptureModeRelaxed;
    const bool is_global = capture.mode == cudaStreamCaptureModeGlobal;
    if (is_own_kept || (mode == cudaStreamCaptureModeGlobal && is_global)) {
      capture.is_broken = true;
      return cudaErrorStreamCaptureUnsupported;
    }
  }
  return cudaSuccess;
}

bool CudaModel::IsCaptureBroken(cudaStream_t stream) const {
  const auto found = captures_.find(stream);
  return found != captures_.end() && found->second.is_broken;
}

bool CudaModel::BeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return captures_.emplace(stream, Capture{mode, std::this_thread::get_id()}).second;
}

bool CudaModel::EndCapture(cudaStream_t stream) {
  const auto found = captures_.find(stream);
  if (found == captures_.end()) {
    return false;
  }
  const bool is_broken = found->second.is_broken;
  captures_.erase(found);
  return !is_broken;
}

cudaError_t CudaModel::TakeInjected(std::string_view name) {
  const auto found = injected.find(std::string(name));
  if (found == injected.end() || --found->second.first != 0) {
    return cudaSuccess;
  }
  const cudaError_t error = found->second.second;
  injected.erase(found);
  return error;
}

SimCudaLive CudaModel::live() const {
  return {streams_.size(), events_.size(), arena.allocation_count(), host_ranges.size(),
          libraries.size()};
}

void CudaModel::SetKernelFailure(std::string text) {
  const std::unique_lock<std::mutex> lock(failure_mutex_);
  kernel_failure_ = std::move(text);
}

std::string CudaModel::kernel_failure() const {
  const std::unique_lock<std::mutex> lock(failure_mutex_);
  return kernel_failure_;
}

CudaCall::CudaCall(std::string_view name, Capture capture) : model_(CudaModel::Current()) {
  KVFERRY_CHECK(model_ != nullptr);
  lock_ = std::unique_lock<std::mutex>(model_->mutex);
  error_ = model_->TakeInjected(name);
  if (error_ == cudaSuccess) {
    model_->Progress();
    error_ = model_->sticky;
  }
  if (error_ == cudaSuccess && capture == Capture::kUnsafe) {
    error_ = model_->MeetCaptures();
  }
  End(error_);
}

cudaError_t CudaCall::End(cudaError_t error) {
  if (error != cudaSuccess) {
    ThisCudaThread().last_error = error;
  }
  return error;
}

}  // namespace kvferry::sim
