// Blocks, barriers and warps on fibers.
#include "sim/cuda/block_runner.h"

#include <bit>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/assert.h"
#include "sim/cuda/sanitizer_hooks.h"

namespace kvferry::sim {
namespace {

using gpu::on_host::SourcePlace;

BlockRunner*& CurrentRunner() noexcept {
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): set by Run, as a thread's.
  static thread_local BlockRunner* runner = nullptr;
  return runner;
}

std::string Text(SourcePlace where) {
  return std::string(where.file) + ":" + std::to_string(where.line);
}

std::string Text(const uint3& place) {
  return "(" + std::to_string(place.x) + "," + std::to_string(place.y) + "," +
         std::to_string(place.z) + ")";
}

}  // namespace

BlockRunner* BlockRunner::Current() noexcept {
  return CurrentRunner();
}

bool BlockRunner::Run(const gpu::HostKernel& kernel,
                      const void* argument,
                      const GridShape& shape,
                      std::uint64_t seed) {
  const std::uint64_t blocks = std::uint64_t{shape.grid.x} * shape.grid.y * shape.grid.z;
  clocks_ = std::make_unique<std::array<char, 2>>();
  Release(&(*clocks_)[0]);
  {
    const Quiet quiet;
    CurrentRunner() = this;
    kernel_ = &kernel;
    argument_ = argument;
    dynamic_bytes_ = shape.shared_bytes;
    failure_.clear();
    is_shuffled_ = seed != 0;
    random_ = Random(seed);
    main_.AdoptThread();
    std::vector<std::uint64_t> order(blocks);
    std::iota(order.begin(), order.end(), std::uint64_t{0});
    for (std::uint64_t i = blocks; is_shuffled_ && i > 1; --i) {
      std::swap(order[i - 1], order[random_.Below(i)]);
    }
    for (const std::uint64_t number : order) {
      const std::uint64_t row = number / shape.grid.x;
      RunBlock(shape, uint3{static_cast<unsigned>(number % shape.grid.x),
                            static_cast<unsigned>(row % shape.grid.y),
                            static_cast<unsigned>(row / shape.grid.y)});
      if (!failure_.empty()) {
        break;
      }
    }
    CurrentRunner() = nullptr;
    if (!failure_.empty()) {
      AbandonThreads();
    }
  }
  Acquire(&(*clocks_)[1]);
  return failure_.empty();
}

// Threads that were left in the middle cannot go on.
void BlockRunner::AbandonThreads() {
  for (auto& set : sets_) {
    for (const auto& thread : set) {
      thread->fiber.Abandon();
    }
    set.clear();
  }
}

void BlockRunner::PrepareThreads(const GridShape& shape, uint3 block) {
  auto& threads = sets_[IsThreadSanitized() ? block_count_ % kSanitizedSets : 0];
  ++block_count_;
  while (threads.size() < thread_count_) {
    threads.push_back(std::make_unique<CudaThread>());
  }
  ready_.clear();
  for (std::uint32_t i = 0; i < thread_count_; ++i) {
    CudaThread& thread = *threads[i];
    thread.fiber.Prepare(&ThreadMain);
    thread.has_fenced = false;
    thread.atomics_seen.clear();
    thread.place = {
        {i % shape.block.x, i / shape.block.x % shape.block.y, i / (shape.block.x * shape.block.y)},
        block,
        shape.block,
        shape.grid,
        i % kLanes,
        i / kLanes};
    ready_.push_back(&thread);
  }
}

void BlockRunner::RunBlock(const GridShape& shape, uint3 block) {
  thread_count_ = shape.block.x * shape.block.y * shape.block.z;
  alive_count_ = thread_count_;
  for (std::uint32_t i = 0; i < thread_count_; i += kLanes) {
    warps_.push_back(std::make_unique<Warp>());
  }
  barrier_ = std::make_unique<Barrier>();
  if (dynamic_bytes_ > 0) {
    AddShared(nullptr, dynamic_bytes_);
  }
  PrepareThreads(shape, block);
  running_ = TakeReady();
  Fiber::Switch(main_, running_->fiber);
  running_ = nullptr;
  // All of it anew for the next block, also for the sake of the clocks' addresses.
  warps_.clear();
  barrier_.reset();
  for (SharedMemory& shared : shared_) {
    Unpoison(shared.words.get(), (shared.size_bytes + 15) / 16 * 16);
  }
  shared_.clear();
}

void BlockRunner::ThreadMain() {
  Fiber::Begin();
  CurrentRunner()->RunThread();
  std::abort();  // Never comes back.
}

void BlockRunner::RunThread() {
  Acquire(&(*clocks_)[0]);
  kernel_->run(argument_);
  Release(&(*clocks_)[1]);
  CudaThread* next = nullptr;
  CudaThread& self = *running_;
  {
    const Quiet quiet;
    Warp& warp = *warps_[self.place.warp];
    warp.exited |= 1U << self.place.lane;
    for (const Collective& collective : warp.collectives) {
      if (collective.arrived != 0 && (collective.mask >> self.place.lane & 1U) != 0) {
        Stop("a thread exits while its warp waits for it", collective.waiting[0]->where);
      }
    }
    --alive_count_;
    FinishBarrierIfComplete();
    next = TakeReady();
    if (next == nullptr && alive_count_ > 0) {
      StopInDeadlock(barrier_->where);
    }
    running_ = next;
  }
  Fiber::SwitchForGood(self.fiber, next == nullptr ? main_ : next->fiber);
}

BlockRunner::CudaThread* BlockRunner::TakeReady() {
  if (ready_.empty()) {
    return nullptr;
  }
  if (is_shuffled_) {
    std::swap(ready_.front(), ready_[static_cast<std::size_t>(random_.Below(ready_.size()))]);
  }
  CudaThread* const thread = ready_.front();
  ready_.pop_front();
  return thread;
}

void BlockRunner::WaitForOthers() {
  CudaThread& self = *running_;
  CudaThread* const next = TakeReady();
  if (next == nullptr) {
    StopInDeadlock(self.where);
  }
  running_ = next;
  if (next != &self) {
    Fiber::Switch(self.fiber, next->fiber);
  }
}

std::string BlockRunner::DeadlockText() const {
  std::string text = "deadlock: " + std::to_string(barrier_->arrived) + " of " +
                     std::to_string(alive_count_) + " threads at a barrier";
  for (const auto& warp : warps_) {
    for (const Collective& collective : warp->collectives) {
      if (collective.arrived != 0) {
        text += ", lanes wait at " + Text(collective.waiting[0]->where);
      }
    }
  }
  return text;
}

void BlockRunner::Stop(const char* reason, SourcePlace where) {
  failure_ = std::string(reason) + " at " + Text(where) + ", block " + Text(running_->place.block) +
             " thread " + Text(running_->place.thread);
  LeaveKernel();
}

void BlockRunner::StopInDeadlock(SourcePlace where) {
  {
    // Nothing that owns memory may be left on this stack, which never unwinds.
    const std::string text = DeadlockText();
    failure_ = text + " at " + Text(where) + ", block " + Text(running_->place.block);
  }
  LeaveKernel();
}

void BlockRunner::LeaveKernel() {
  Fiber::SwitchForGood(running_->fiber, main_);
  std::abort();
}

void BlockRunner::FinishBarrierIfComplete() {
  if (alive_count_ == 0 || barrier_->arrived != alive_count_) {
    return;
  }
  barrier_->arrived = 0;
  ++barrier_->round;
  ready_.insert(ready_.end(), barrier_->waiting.begin(), barrier_->waiting.end());
  barrier_->waiting.clear();
}

void BlockRunner::SyncThreads(SourcePlace where) {
  const Quiet quiet;
  Barrier& barrier = *barrier_;
  const std::uint64_t round = barrier.round;
  running_->where = where;
  if (barrier.arrived == 0) {
    barrier.where = where;
  } else if (barrier.where.line != where.line || std::strcmp(barrier.where.file, where.file) != 0) {
    Stop("threads of one block wait at different barriers", where);
  }
  Release(&barrier.clocks[round % 2]);
  ++barrier.arrived;
  if (barrier.arrived == alive_count_) {
    FinishBarrierIfComplete();
  } else {
    barrier.waiting.push_back(running_);
    WaitForOthers();
  }
  Acquire(&barrier.clocks[round % 2]);
}

// Lanes that do not exist never arrive.
std::uint32_t BlockRunner::PresentLanes(std::uint32_t mask) const {
  const std::uint32_t lanes = thread_count_ - running_->place.warp * kLanes;
  return lanes < kLanes ? mask & ((1U << lanes) - 1U) : mask;
}

const std::uint64_t* BlockRunner::ExchangeInWarp(std::uint32_t mask,
                                                 std::uint64_t value,
                                                 SourcePlace where) {
  const Quiet quiet;
  CudaThread& self = *running_;
  Warp& warp = *warps_[self.place.warp];
  mask = PresentLanes(mask);
  if ((mask >> self.place.lane & 1U) == 0) {
    Stop("the calling lane is not in its mask", where);
  }
  if ((mask & warp.exited) != 0) {
    Stop("a mask names a lane that has exited", where);
  }
  Collective& collective = warp.collectives[static_cast<std::size_t>(std::countr_zero(mask))];
  if (collective.arrived == 0) {
    collective.mask = mask;
  } else if (collective.mask != mask) {
    Stop("lanes disagree on their mask", where);
  } else if (collective.waiting[0]->where.line != where.line) {
    Stop("lanes of one mask are at different operations", where);
  }
  const std::size_t parity = collective.round % 2;
  collective.values[parity][self.place.lane] = value;
  collective.arrived |= 1U << self.place.lane;
  self.where = where;
  if (collective.arrived == mask) {
    collective.arrived = 0;
    ++collective.round;
    ready_.insert(ready_.end(), collective.waiting.begin(), collective.waiting.end());
    collective.waiting.clear();
  } else {
    collective.waiting.push_back(&self);
    WaitForOthers();
  }
  return collective.values[parity].data();
}

// A shuffle orders no memory; this does, among the lanes that take part.
void BlockRunner::SyncWarp(std::uint32_t mask, SourcePlace where) {
  Warp& warp = *warps_[running_->place.warp];
  const auto lowest = static_cast<std::size_t>(std::countr_zero(PresentLanes(mask)));
  Collective& collective = warp.collectives[lowest % kLanes];
  const std::size_t parity = collective.round % 2;
  Release(&collective.clocks[parity]);
  ExchangeInWarp(mask, 0, where);
  Acquire(&collective.clocks[parity]);
}

// In CUDA's memory model "fence, atomic ... atomic, fence" orders: an atomic publishes only if its
// thread has fenced before, and what it saw counts only after a later fence of the same thread.
void BlockRunner::Fence() {
  const Quiet quiet;
  CudaThread& self = *running_;
  for (void* word : self.atomics_seen) {
    Acquire(word);
  }
  self.atomics_seen.clear();
  self.has_fenced = true;
}

void BlockRunner::NoteAtomic(void* word) {
  if (!IsThreadSanitized()) {
    return;
  }
  const Quiet quiet;
  if (running_->has_fenced) {
    Release(word);
  }
  running_->atomics_seen.push_back(word);
}

void* BlockRunner::AddShared(const void* key, std::size_t size_bytes) {
  const std::size_t aligned_bytes = (size_bytes + 15) / 16 * 16;
  // Uninitialised shared memory must not look like zero.
  auto words = std::make_unique<std::uint64_t[]>(aligned_bytes / sizeof(std::uint64_t));
  std::memset(words.get(), 0xCB, aligned_bytes);
  Poison(reinterpret_cast<std::byte*>(words.get()) + size_bytes, aligned_bytes - size_bytes);
  void* const memory = words.get();
  shared_.push_back({key, std::move(words), size_bytes});
  return memory;
}

void* BlockRunner::SharedVariable(const void* key, std::size_t size_bytes) {
  const Quiet quiet;
  for (const SharedMemory& shared : shared_) {
    if (shared.key == key) {
      return shared.words.get();
    }
  }
  return AddShared(key, size_bytes);
}

void* BlockRunner::DynamicShared() noexcept {
  return dynamic_bytes_ == 0 ? nullptr : shared_[0].words.get();
}

}  // namespace kvferry::sim

// What the device language declares for a host compiler.
namespace kvferry::gpu::on_host {

const ThreadPlace& ThisThread() noexcept {
  return sim::BlockRunner::Current()->place();
}
void SyncThreads(SourcePlace where) {
  sim::BlockRunner::Current()->SyncThreads(where);
}
void SyncWarp(std::uint32_t mask, SourcePlace where) {
  sim::BlockRunner::Current()->SyncWarp(mask, where);
}
const std::uint64_t* ExchangeInWarp(std::uint32_t mask, std::uint64_t value, SourcePlace where) {
  return sim::BlockRunner::Current()->ExchangeInWarp(mask, value, where);
}
void Fence() {
  sim::BlockRunner::Current()->Fence();
}
void NoteAtomic(void* word) {
  sim::BlockRunner::Current()->NoteAtomic(word);
}
void* SharedVariable(const void* key, std::size_t size_bytes) {
  return sim::BlockRunner::Current()->SharedVariable(key, size_bytes);
}
void* DynamicShared() noexcept {
  return sim::BlockRunner::Current()->DynamicShared();
}
void StopKernel(const char* reason, SourcePlace where) {
  sim::BlockRunner::Current()->Stop(reason, where);
}

}  // namespace kvferry::gpu::on_host
