// Requests in flight through the public interface, and what has come of them.
#include "bench/nvme_engine.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/bytes.h"
#include "bench/bench_report.h"
#include "bench/host_engine.h"

namespace kvferry::bench {
namespace {

// A request is long beside what it costs to make one, and the pool has room for many.
constexpr std::uint64_t kRequestBytes = 8 * kMiB;
constexpr std::uint64_t kRequestsOfPool = 32;
// What has been put and not written down may take that part of the pool: the rest has been, so a
// put always finds room.
constexpr std::uint64_t kWaitingOfPool = 4;
constexpr Duration kPause = std::chrono::microseconds(100);
constexpr Duration kStart = std::chrono::seconds(2);
constexpr Duration kPatience = std::chrono::seconds(30);
// What is put while a slice reads takes the places of that part of the blocks at most.
constexpr std::uint64_t kOldestOf = 4;
// One block in so many may have been in host memory still.
constexpr std::uint64_t kStrayOf = 100;

double SecondsSince(Instant start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Status Broken(std::string text) {
  return Status::Error(StatusCode::kInternal, std::move(text));
}

}  // namespace

EngineOptions NvmeEngine::EngineOptionsOf(const Options& options) {
  EngineOptions engine;
  engine.host.bytes = options.host_bytes;
  engine.nvme.paths = {options.folder};
  engine.nvme.capacity_bytes = options.store_bytes;
  engine.block_bytes = options.block_bytes;
  engine.copy_threads = options.copy_threads;
  return engine;
}

Result<std::unique_ptr<NvmeEngine>> NvmeEngine::Open(const Options& options,
                                                     CallerMemory& sources) {
  auto opened = std::make_unique<NvmeEngine>(Token(), options, sources);
  opened->batch_blocks_ = Narrow<std::uint32_t>(std::max<std::uint64_t>(
      1, std::min(kRequestBytes, options.host_bytes / kRequestsOfPool) / options.block_bytes));
  KVFERRY_ASSIGN_OR_RETURN(opened->engine_, Engine::Open(EngineOptionsOf(options)));
  // Numbers come with the mover's first steps.
  const Instant start = Clock::now();
  while (opened->Stats().nvme.bytes_total == 0) {
    if (Clock::now() - start > kStart) {
      return Status::Error(StatusCode::kUnavailable, "the engine has opened without its NVMe tier");
    }
    std::this_thread::sleep_for(kPause);
  }
  for (Caller* caller : {&opened->reader_, &opened->writer_}) {
    KVFERRY_ASSIGN_OR_RETURN(caller->queue,
                             opened->engine_->CreateCompletionQueue(kRequestsInFlight));
  }
  KVFERRY_ASSIGN_OR_RETURN(
      opened->space_,
      opened->engine_->AddNamespace(BenchNamespace(), {.block_bytes = options.block_bytes}));
  return opened;
}

Status NvmeEngine::PutBlocks(std::uint64_t count) {
  const std::uint64_t end = stored_ + count;
  KVFERRY_RETURN_IF_ERROR(PutUntil([&] { return stored_ >= end; }, nullptr));
  KVFERRY_RETURN_IF_ERROR(AwaitBlocksWaiting(0));
  resident_ = Stats().nvme.blocks_resident;
  return Status::Ok();
}

Status NvmeEngine::Fill() {
  KVFERRY_RETURN_IF_ERROR(PutBlocks(Stats().nvme.bytes_total / options_.block_bytes));
  if ((circle().end - circle().begin) * options_.block_bytes < options_.host_bytes) {
    return Broken("the tier holds " + std::to_string(resident_) +
                  " blocks, too few for reads that miss host memory");
  }
  return Status::Ok();
}

Result<Slice> NvmeEngine::Onboard(Duration time) {
  circle_ = circle();
  const EngineStats before = Stats();
  Slice slice;
  const double cpu_start = ProcessSeconds();
  const Instant start = Clock::now();
  KVFERRY_RETURN_IF_ERROR(PinUntil([&] { return Clock::now() - start >= time; }, slice.bytes));
  slice.seconds = SecondsSince(start);
  slice.cpu_seconds = ProcessSeconds() - cpu_start;
  KVFERRY_RETURN_IF_ERROR(CheckSource(before));
  return slice;
}

Result<Slice> NvmeEngine::Offload(Duration time) {
  const std::uint64_t stored_before = stored_;
  const std::uint64_t skipped_before = Stats().offloads_skipped;
  const double cpu_start = ProcessSeconds();
  const Instant start = Clock::now();
  KVFERRY_RETURN_IF_ERROR(PutUntil([&] { return Clock::now() - start >= time; }, &latencies_));
  KVFERRY_RETURN_IF_ERROR(AwaitBlocksWaiting(0));
  Slice slice;
  slice.seconds = SecondsSince(start);
  slice.cpu_seconds = ProcessSeconds() - cpu_start;
  slice.bytes = (stored_ - stored_before) * options_.block_bytes;
  if (const std::uint64_t skipped = Stats().offloads_skipped - skipped_before; skipped > 0) {
    return Broken(std::to_string(skipped) + " blocks were not written down");
  }
  return slice;
}

Result<Slice> NvmeEngine::Mixed(Duration time) {
  circle_ = circle();
  const EngineStats before = Stats();
  Slice slice;
  const double cpu_start = ProcessSeconds();
  const Instant start = Clock::now();
  std::atomic<bool> is_over = false;
  Status written;
  std::thread writer([&] { written = PutUntil([&] { return is_over.load(); }, nullptr); });
  is_mixed_ = true;
  const Status read = PinUntil([&] { return Clock::now() - start >= time; }, slice.bytes);
  is_mixed_ = false;
  slice.seconds = SecondsSince(start);
  const double cpu_seconds = ProcessSeconds() - cpu_start;
  const auto wrote =
      static_cast<double>(Stats().offload_host_to_nvme.bytes - before.offload_host_to_nvme.bytes);
  is_over.store(true);
  writer.join();
  KVFERRY_RETURN_IF_ERROR(read);
  KVFERRY_RETURN_IF_ERROR(written);
  KVFERRY_RETURN_IF_ERROR(CheckSource(before));
  KVFERRY_RETURN_IF_ERROR(AwaitBlocksWaiting(0));
  const auto bytes = static_cast<double>(slice.bytes);
  slice.cpu_seconds = cpu_seconds * bytes / (bytes + wrote);
  beside_.bytes += wrote;
  beside_.seconds += slice.seconds;
  beside_.blocks_skipped += Stats().offloads_skipped - before.offloads_skipped;
  return slice;
}

Status NvmeEngine::Pump(Caller& caller, FunctionRef<bool()> is_over, Begin begin, End end) {
  std::vector<Request*> free;
  for (Request& request : caller.requests) {
    free.push_back(&request);
  }
  Status status;
  while (true) {
    while (status.ok() && !free.empty() && !is_over()) {
      Request& request = *free.back();
      request.start = Clock::now();
      const Result<Ticket> ticket = begin(request);
      status = ticket.status();
      if (ticket.ok()) {
        request.ticket = *ticket;
        free.pop_back();
      }
    }
    if (free.size() == kRequestsInFlight) {
      return status;
    }
    // Requests end by their own deadline, long before this one.
    KVFERRY_RETURN_IF_ERROR(caller.queue->Wait(Clock::now() + std::chrono::minutes(10)));
    std::array<Completion, kRequestsInFlight> done;
    const std::size_t ended = caller.queue->Poll(done);
    for (const Completion& completion : std::span(done).first(ended)) {
      auto* const request =
          std::find_if(caller.requests.begin(), caller.requests.end(),
                       [&](const Request& each) { return each.ticket == completion.ticket; });
      KVFERRY_CHECK(request != caller.requests.end());
      const Status seen = end(*request, completion);
      status = status.ok() ? seen : status;
      free.push_back(request);
    }
  }
}

Result<Ticket> NvmeEngine::BeginPut(Request& request) {
  request.first = stored_;
  request.keys = KeysOf(stored_, batch_blocks_);
  const std::vector<std::byte*> taken = sources_.Take(batch_blocks_, options_.block_bytes);
  for (std::size_t i = 0; i < taken.size(); ++i) {
    Stamp(taken[i], stored_ + i);
  }
  request.sources.assign(taken.begin(), taken.end());
  stored_ += batch_blocks_;
  return engine_->Put({.in = space_, .keys = request.keys, .sources = request.sources},
                      *writer_.queue);
}

Status NvmeEngine::PutUntil(FunctionRef<bool()> is_over, Histogram* latencies) {
  const std::uint64_t waiting_max = std::max<std::uint64_t>(
      batch_blocks_, options_.host_bytes / kWaitingOfPool / options_.block_bytes);
  const auto begin = [&](Request& request) -> Result<Ticket> {
    KVFERRY_RETURN_IF_ERROR(AwaitBlocksWaiting(waiting_max));
    return BeginPut(request);
  };
  const auto end = [&](const Request& request, const Completion& completion) -> Status {
    KVFERRY_RETURN_IF_ERROR(completion.status);
    if (completion.blocks_stored != request.keys.size()) {
      return Broken("a put has stored " + std::to_string(completion.blocks_stored) + " of " +
                    std::to_string(request.keys.size()) + " blocks");
    }
    if (latencies != nullptr) {
      latencies->Record(static_cast<std::uint64_t>((Clock::now() - request.start).count()));
    }
    return Status::Ok();
  };
  return Pump(writer_, is_over, begin, end);
}

Status NvmeEngine::PinUntil(FunctionRef<bool()> is_over, std::uint64_t& bytes) {
  const auto begin = [&](Request& request) {
    if (next_read_ < circle_.begin || next_read_ + batch_blocks_ > circle_.end) {
      next_read_ = circle_.begin;
    }
    request.first = next_read_;
    request.keys = KeysOf(next_read_, batch_blocks_);
    next_read_ += batch_blocks_;
    return engine_->Pin({.in = space_, .keys = request.keys}, *reader_.queue);
  };
  const auto end = [&](const Request& request, const Completion& completion) {
    bytes += std::uint64_t{completion.blocks_ready} * options_.block_bytes;
    return EndPin(request, completion);
  };
  return Pump(reader_, is_over, begin, end);
}

Status NvmeEngine::EndPin(const Request& request, const Completion& completion) {
  KVFERRY_RETURN_IF_ERROR(completion.status);
  latencies_.Record(static_cast<std::uint64_t>((Clock::now() - request.start).count()));
  if (completion.blocks_ready != request.keys.size() && !is_mixed_) {
    engine_->Discard(completion.ticket);
    return Broken("block " + std::to_string(request.first + completion.blocks_ready) +
                  " is not on the drive: " + std::string(ToString(completion.next_missing)));
  }
  std::vector<BlockHandle> handles(completion.blocks_ready);
  KVFERRY_RETURN_IF_ERROR(engine_->Collect(completion.ticket, handles));
  for (std::size_t i = 0; i < handles.size(); ++i) {
    if (StampOf(handles[i].bytes().data()) != request.first + i) {
      return Status::Error(StatusCode::kDataLoss, "a read gave the bytes of another block");
    }
  }
  return Status::Ok();
}

Result<std::uint64_t> NvmeEngine::BlocksWaiting() const {
  const EngineStats stats = Stats();
  if (stats.offload_host_to_nvme.failures > 0) {
    return Broken(std::to_string(stats.offload_host_to_nvme.failures) + " writes have failed");
  }
  // Blocks that the tier has moved were written twice; they count once they are durable.
  const std::uint64_t seen_to =
      stats.offload_host_to_nvme.blocks + stats.offloads_skipped - stats.nvme_store.blocks_moved;
  return stored_ - std::min(stored_, seen_to);
}

Status NvmeEngine::AwaitBlocksWaiting(std::uint64_t count) const {
  const Instant start = Clock::now();
  while (true) {
    KVFERRY_ASSIGN_OR_RETURN(const std::uint64_t waiting, BlocksWaiting());
    if (waiting <= count) {
      return Status::Ok();
    }
    if (Clock::now() - start > kPatience) {
      return Status::Error(StatusCode::kUnavailable,
                           "the drive has not taken " + std::to_string(waiting) + " blocks in " +
                               std::to_string(kPatience / std::chrono::seconds(1)) + " s");
    }
    std::this_thread::sleep_for(kPause);
  }
}

// A figure of the drive that host memory has helped with is none.
Status NvmeEngine::CheckSource(const EngineStats& before) const {
  const EngineStats after = Stats();
  const std::uint64_t from_host = after.hits_host - before.hits_host;
  const std::uint64_t from_nvme = after.hits_nvme - before.hits_nvme;
  if (from_host * kStrayOf > from_host + from_nvme) {
    return Broken(std::to_string(from_host) + " of " + std::to_string(from_host + from_nvme) +
                  " blocks were in host memory; raise --store-bytes, or lower --host-bytes");
  }
  return Status::Ok();
}

NvmeEngine::Circle NvmeEngine::circle() const {
  const std::uint64_t in_host = options_.host_bytes / options_.block_bytes;
  Circle circle;
  circle.begin = stored_ - std::min(stored_, resident_ - resident_ / kOldestOf);
  circle.end = std::max(circle.begin, stored_ - std::min(stored_, in_host));
  return circle;
}

}  // namespace kvferry::bench
