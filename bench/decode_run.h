// RunDecode: the loop of the synthetic decoder, over blocks that are where they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kvferry/status.h"

#include "bench/decode_blocks.h"
#include "bench/decode_gpu.h"
#include "bench/decode_memory.h"
#include "bench/decode_plan.h"
#include "bench/decode_values.h"
#include "gpu/memory.h"
#include "gpu/stream.h"

namespace kvferry::bench {

// The outputs of all steps and the time that each took. Equal plans give equal places, whatever the
// times. Move-only.
class DecodeTrace {
 public:
  static Result<DecodeTrace> Create(gpu::Device& device,
                                    const DecodePlan& plan,
                                    const DecodeShape& shape);

  std::byte* OutputsOf(std::uint32_t step) { return outputs_.bytes().data() + offsets_[step]; }
  struct Row {
    std::uint32_t step = 0;
    std::uint32_t layer = 0;
    std::uint32_t line = 0;  // Of the step's sessions.
    std::uint32_t lines = 0;
    std::uint32_t query_head = 0;
  };
  std::span<const BFloat16> RowAt(const Row& row) const;
  // SHA-256 over all outputs in order: steps, layers, sessions, heads.
  std::string Digest() const;

  std::vector<double> step_seconds;  // From the end of the step before to its own.

 private:
  DecodeTrace(const DecodeShape& shape, std::vector<std::size_t> offsets, gpu::PinnedBuffer outputs)
      : shape_(shape), offsets_(std::move(offsets)), outputs_(std::move(outputs)) {}

  DecodeShape shape_;
  std::vector<std::size_t> offsets_;
  gpu::PinnedBuffer outputs_;
};

struct DecodeRunParts {
  const DecodeGpu& gpu;
  const DecodePlan& plan;
  const DecodeValues& values;
  gpu::Stream& stream;
  DecodeMemory& memory;
  DecodeBlocks& blocks;
};

// Every step: the new tokens' keys and values go to their pages, attention reads the pages of all
// tokens, layer by layer, each layer once its blocks are there; then the host waits for the end, as
// one that samples the next token does. At a session's return the tokens of its last block, where
// that is not full, are written again, as a server would compute them again.
Result<DecodeTrace> RunDecode(const DecodeRunParts& parts);

// Bytes of keys and values that attention reads from step `first_step` on.
std::uint64_t AttendedBytes(const DecodePlan& plan,
                            const DecodeShape& shape,
                            std::uint32_t first_step);

}  // namespace kvferry::bench
