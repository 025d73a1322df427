// NvmeEngine: an engine with an NVMe tier, whose two arrows callers keep busy for slices of time.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kvferry/engine.h"
#include "kvferry/function_ref.h"

#include "base/histogram.h"
#include "bench/caller_memory.h"
#include "bench/slice_pairs.h"

namespace kvferry::bench {

// Reads ask for blocks in the order in which they were put, in a circle over the middle of what the
// tier holds: the latest ones are in host memory still, and the oldest make room for what is put
// meanwhile. The circle is larger than the pool, so each block is gone from host memory before its
// turn comes again. Through the public interface only.
//
// Thread-compatible.
class NvmeEngine {
  struct Token {};  // Only Open can name it.

 public:
  struct Options {
    std::string folder;  // Of the tier's files.
    std::uint64_t store_bytes = 0;
    std::uint64_t host_bytes = 0;
    std::uint32_t block_bytes = 0;
    std::uint32_t copy_threads = 1;
  };
  // What Open gives to the engine; for asking beforehand what is wrong with it.
  static EngineOptions EngineOptionsOf(const Options& options);

  // `sources` are the caller's blocks, borrowed; at least half as large as the pool. Errors as
  // Engine::Open and AddNamespace; kUnavailable where the engine has opened without its tier.
  static Result<std::unique_ptr<NvmeEngine>> Open(const Options& options, CallerMemory& sources);

  NvmeEngine(Token /*token*/, const Options& options, CallerMemory& sources)
      : options_(options), sources_(sources) {}
  NvmeEngine(const NvmeEngine&) = delete;
  NvmeEngine& operator=(const NvmeEngine&) = delete;
  ~NvmeEngine() = default;

  // Puts so many blocks, rounded up to whole requests, and waits until the drive has them.
  Status PutBlocks(std::uint64_t count);
  // Puts as many as the tier has room for. To be called once, before the slices: kInternal where
  // there are too few for reads that miss host memory.
  Status Fill();

  // Blocks of the drive are pinned and let go again. kInternal for one that was not there, or came
  // from host memory; kDataLoss for one with another one's bytes.
  Result<Slice> Onboard(Duration time);
  // Blocks are put, each pushing an old one out, until the drive has them all. kInternal for one
  // that was not written down.
  Result<Slice> Offload(Duration time);
  // Onboard with another thread that puts as fast as it can; the slice is of what was read, with
  // its part of the processor time. Writes wait for reads, so that some blocks leave host memory
  // before they are written down, and are not there when their turn to be read comes. What was put
  // and is still there has been written down when this returns.
  Result<Slice> Mixed(Duration time);

  // Blocks that the next slice reads, by their numbers in the order in which they were put.
  struct Circle {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  Circle circle() const;

  // Of requests in nanoseconds, those of Onboard and Mixed, and those of Offload, since cleared.
  Histogram& latencies() noexcept { return latencies_; }
  // What went on beside the reads of Mixed, since the last call.
  struct Beside {
    double bytes = 0;  // Written.
    double seconds = 0;
    std::uint64_t blocks_skipped = 0;  // Not written down.
  };
  Beside TakeBeside() { return std::exchange(beside_, {}); }
  EngineStats Stats() const { return engine_->Stats(); }
  // Blocks put so far; their keys are of the numbers below it.
  std::uint64_t stored() const noexcept { return stored_; }
  std::uint32_t batch_blocks() const noexcept { return batch_blocks_; }

 private:
  static constexpr std::size_t kRequestsInFlight = 4;

  // What a request borrows.
  struct Request {
    Ticket ticket;
    Instant start;
    std::uint64_t first = 0;
    std::vector<BlockKey> keys;
    std::vector<const std::byte*> sources;
  };
  // One caller: its queue and its requests.
  struct Caller {
    std::unique_ptr<CompletionQueue> queue;
    std::array<Request, kRequestsInFlight> requests;
  };
  using Begin = FunctionRef<Result<Ticket>(Request&)>;
  using End = FunctionRef<Status(const Request&, const Completion&)>;

  // Keeps requests in flight until `is_over`, which is asked before each, then lets them end.
  static Status Pump(Caller& caller, FunctionRef<bool()> is_over, Begin begin, End end);
  Status PutUntil(FunctionRef<bool()> is_over, Histogram* latencies);
  Status PinUntil(FunctionRef<bool()> is_over, std::uint64_t& bytes);
  Result<Ticket> BeginPut(Request& request);
  Status EndPin(const Request& request, const Completion& completion);
  // Blocks that have been put, are not on the drive yet, and have not been skipped. kInternal once
  // a write has failed.
  Result<std::uint64_t> BlocksWaiting() const;
  Status AwaitBlocksWaiting(std::uint64_t count) const;
  Status CheckSource(const EngineStats& before) const;

  Options options_;
  CallerMemory& sources_;
  std::uint32_t batch_blocks_ = 1;
  std::unique_ptr<Engine> engine_;  // Goes after the queues.
  Caller reader_;
  Caller writer_;
  NamespaceHandle space_;
  std::uint64_t stored_ = 0;
  std::uint64_t resident_ = 0;  // Blocks that the tier holds when it is full.
  Circle circle_;               // Of the slice at hand.
  std::uint64_t next_read_ = 0;
  Histogram latencies_;
  Beside beside_;
  bool is_mixed_ = false;  // In the slice at hand.
};

}  // namespace kvferry::bench
