// HostEngine: an engine with a host tier, driven by one caller that keeps two requests in flight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kvferry/engine.h"
#include "kvferry/function_ref.h"

namespace kvferry::bench {

// A key that looks like a digest; equal numbers give equal keys.
BlockKey KeyOf(std::uint64_t number);
std::vector<BlockKey> KeysOf(std::uint64_t first, std::size_t count);
// The one namespace of benchmarks.
Namespace BenchNamespace();

// One namespace of blocks of one size. Move-only. Thread-compatible.
class HostEngine {
 public:
  struct Options {
    std::uint64_t host_bytes = 0;
    std::uint32_t block_bytes = 0;
    std::uint32_t copy_threads = 1;
    std::uint32_t batch_blocks = 64;  // Of one request.
  };
  // Errors as Engine::Open and AddNamespace.
  static Result<HostEngine> Open(const Options& options);

  // Stores blocks in requests of batch_blocks, two of them in flight. kInternal unless each was
  // stored by this call.
  Status Put(std::span<const BlockKey> keys, std::span<const std::byte* const> sources);
  // The other way. kInternal unless each was there.
  Status Get(std::span<const BlockKey> keys, std::span<std::byte* const> targets);
  // Leading blocks that are in host memory.
  std::uint32_t Match(std::span<const BlockKey> keys) const;

  EngineStats Stats() const { return engine_->Stats(); }
  const Options& options() const noexcept { return options_; }

 private:
  // Submits the blocks from `begin` on.
  using Submit = FunctionRef<Result<Ticket>(std::size_t begin, std::size_t count)>;

  // Adds up what the completions of `blocks` blocks say, through `count_of`.
  Status Pump(std::size_t blocks,
              Submit submit,
              FunctionRef<std::uint32_t(const Completion&)> count_of);

  Options options_;
  std::unique_ptr<Engine> engine_;  // Goes after its queue.
  std::unique_ptr<CompletionQueue> queue_;
  NamespaceHandle space_;
};

}  // namespace kvferry::bench
