// The bare loop: begin what there is room for, wait for an end, count it.
#include "bench/nvme_plain_loop.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "bench/bench_report.h"
#include "bench/threads_kernel.h"
#include "tiers/nvme/thread_ring.h"
#include "tiers/nvme/uring_kernel.h"

namespace kvferry::bench {
namespace {

constexpr std::size_t kEndsAtOnce = 64;
constexpr Duration kWait = std::chrono::seconds(1);
constexpr std::uint32_t kThreads = 8;  // As the tier's ring has them by default.
// Passing refusals (EAGAIN) and short transfers of one operation before it counts as failed.
constexpr std::uint32_t kRefusalsMax = 100;
constexpr std::size_t kRegisteredMax = std::size_t{1} << 30;  // What the kernel takes at once.

Status Refuse(std::string text) {
  return Status::Error(StatusCode::kInvalidArgument, std::move(text));
}

Status CheckOffsets(const std::vector<std::uint64_t>& offsets) {
  if (offsets.empty()) {
    return Refuse("a plain loop needs a place in the file");
  }
  for (const std::uint64_t offset : offsets) {
    if (offset % tiers::kIoAlignment != 0) {
      return Refuse("a plain loop's blocks begin with pages, not at " + std::to_string(offset));
    }
  }
  return Status::Ok();
}

Status Check(const PlainLoop::Options& options) {
  if (options.block_bytes == 0 || options.block_bytes % tiers::kIoAlignment != 0) {
    return Refuse("a plain loop moves blocks of whole pages, not of " +
                  std::to_string(options.block_bytes) + " bytes");
  }
  if (options.memory.size() < options.block_bytes) {
    return Refuse("a plain loop needs a slot");
  }
  if (options.in_flight_max == 0 || options.in_flight_max > tiers::IoRingOptions::kInFlightMax) {
    return Refuse("a plain loop has 1 to " + std::to_string(tiers::IoRingOptions::kInFlightMax) +
                  " blocks in flight, not " + std::to_string(options.in_flight_max));
  }
  return CheckOffsets(options.offsets);
}

}  // namespace

Result<std::unique_ptr<PlainLoop>> PlainLoop::Open(const Options& options) {
  KVFERRY_RETURN_IF_ERROR(Check(options));
  auto loop = std::make_unique<PlainLoop>(Token(), options);
  const std::span<const int> files(&loop->options_.file, 1);
  if (options.backend != tiers::IoBackend::kThreads) {
    auto kernel = tiers::OpenUringKernel(files, options.in_flight_max);
    if (kernel.ok()) {
      loop->kernel_ = std::move(*kernel);
      loop->backend_ = tiers::IoBackend::kUring;
    } else if (options.backend == tiers::IoBackend::kUring) {
      return kernel.error();
    }
  }
  if (loop->kernel_ == nullptr) {
    KVFERRY_ASSIGN_OR_RETURN(auto ring,
                             tiers::ThreadRing::Open(files, options.in_flight_max, kThreads));
    loop->kernel_ = std::make_unique<ThreadsKernel>(std::move(ring));
    loop->backend_ = tiers::IoBackend::kThreads;
  }
  for (std::size_t at = 0; at < options.memory.size(); at += kRegisteredMax) {
    const std::size_t size = std::min(kRegisteredMax, options.memory.size() - at);
    // Only a matter of speed, refused to the tier in the same way.
    loop->kernel_->RegisterBuffer(options.memory.subspan(at, size)).IgnoreError();
  }
  return loop;
}

PlainLoop::PlainLoop(Token /*token*/, const Options& options)
    : options_(options),
      ops_(std::min<std::size_t>(options.in_flight_max,
                                 options.memory.size() / options.block_bytes)) {
  free_.reserve(ops_.size());
  for (Op& op : ops_) {
    free_.push_back(&op);
  }
}

// Threads that play the kernel's part work for the loop.
double PlainLoop::CpuSeconds() const {
  return backend_ == tiers::IoBackend::kUring ? ThreadSeconds() : ProcessSeconds();
}

Status PlainLoop::SetOffsets(std::vector<std::uint64_t> offsets) {
  KVFERRY_RETURN_IF_ERROR(CheckOffsets(offsets));
  options_.offsets = std::move(offsets);
  next_offset_ = 0;
  return Status::Ok();
}

Result<Slice> PlainLoop::Run(tiers::IoOp::Kind kind, const Until& until) {
  engine::ArrowMeter& meter = kind == tiers::IoOp::Kind::kRead ? read_meter_ : write_meter_;
  const Instant start = Clock::now();
  const double cpu_start = CpuSeconds();
  Instant now = start;
  std::uint64_t begun = 0;
  ended_bytes_ = 0;
  failure_ = Status::Ok();
  std::array<tiers::KernelEnd, kEndsAtOnce> ends;
  while (true) {
    while (failure_.ok() && now - start < until.time && begun < until.blocks_max &&
           !free_.empty() && meter.HasRoom(options_.block_bytes)) {
      Begin(kind, now);
      meter.Start(now, options_.block_bytes);
      ++begun;
    }
    if (free_.size() == ops_.size()) {
      break;
    }
    const std::size_t count = kernel_->TakeEnds(ends);
    if (count == 0) {
      kernel_->EnterAndWait(kWait);
    }
    now = Clock::now();
    const std::size_t free_before = free_.size();
    for (const tiers::KernelEnd& end : std::span(ends).first(count)) {
      End(end, now);
    }
    for (std::size_t ended = free_.size() - free_before; ended > 0; --ended) {
      meter.End(now, options_.block_bytes);
    }
  }
  KVFERRY_RETURN_IF_ERROR(failure_);
  return Slice{.bytes = ended_bytes_,
               .seconds = std::chrono::duration<double>(now - start).count(),
               .cpu_seconds = CpuSeconds() - cpu_start};
}

void PlainLoop::Begin(tiers::IoOp::Kind kind, Instant now) {
  Op& op = *free_.back();
  free_.pop_back();
  op.kind = kind;
  op.offset_bytes = options_.offsets[next_offset_];
  op.buffer = options_.memory.subspan(next_slot_ * options_.block_bytes, options_.block_bytes);
  op.start = now;
  op.refusals = 0;
  next_offset_ = (next_offset_ + 1) % options_.offsets.size();
  next_slot_ = (next_slot_ + 1) % (options_.memory.size() / options_.block_bytes);
  Prepare(op);
}

void PlainLoop::Prepare(Op& op) {
  // The queue has room for all operations; it is full only of what was not handed over yet.
  while (!kernel_->Prepare({&op, op.buffer, op.offset_bytes})) {
    kernel_->Enter();
  }
}

void PlainLoop::End(const tiers::KernelEnd& end, Instant now) {
  Op& op = *static_cast<Op*>(end.op);
  const bool is_whole = end.result == static_cast<int>(options_.block_bytes);
  const bool is_passing = end.result > 0 || end.result == -EAGAIN || end.result == -EINTR;
  if (!is_whole && is_passing && ++op.refusals <= kRefusalsMax) {
    Prepare(op);
    return;
  }
  if (is_whole) {
    ended_bytes_ += options_.block_bytes;
    latencies_.Record(static_cast<std::uint64_t>((now - op.start).count()));
  } else if (failure_.ok()) {
    failure_ = Status::Error(
        StatusCode::kIoError,
        "plain " + Describe(op) +
            (end.result < 0 ? ": failed" : ": only " + std::to_string(end.result) + " bytes"),
        end.result < 0 ? -end.result : 0);
  }
  free_.push_back(&op);
}

}  // namespace kvferry::bench
