// DecodeAttention: one decode step of a batch on the device, layer by layer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kvferry/status.h"

#include "bench/decode_memory.h"
#include "bench/decode_values.h"
#include "gpu/copy_batch.h"
#include "gpu/kernel_library.h"
#include "gpu/memory.h"
#include "gpu/stream.h"

namespace kvferry::bench {

// One session of a step.
struct DecodeLine {
  std::uint32_t session = 0;
  std::uint32_t tokens = 0;  // With the new one, whose query is asked.
  std::uint32_t tail = 0;    // How many of the last ones are written first: the new one at least.
};

// What a step of a batch needs that is made on the host: queries, and keys and values of tokens
// that are not in their pages yet. Prepared while the device is busy with the step before.
//
// Move-only. Thread-compatible.
class DecodeInput {
 public:
  // The bytes of a batch's tables, lengths and queries, where each begins.
  struct Layout {
    Layout(const DecodeShape& shape, std::uint32_t sessions, std::uint32_t session_blocks);
    std::uint32_t sessions;
    std::uint32_t session_blocks;
    std::size_t lengths;  // Tables come first.
    std::size_t queries;
    std::size_t end;
  };
  static Result<DecodeInput> Create(gpu::Device& device,
                                    const DecodeValues& values,
                                    const Layout& layout);

  // The device must be done with what was prepared before.
  void Prepare(std::span<const DecodeLine> lines);
  void SetPages(std::size_t line, std::span<const std::int32_t> pages);
  // Queues the copies of this layer's new tokens to their pages.
  Status AppendLayer(gpu::Stream& stream, const DecodeMemory& memory, std::uint32_t layer);

  std::span<const DecodeLine> lines() const { return lines_; }
  std::span<const std::byte> head() const { return head_.bytes(); }

 private:
  DecodeInput(const DecodeValues& values,
              const Layout& layout,
              gpu::PinnedBuffer head,
              gpu::PinnedBuffer rows);
  std::byte* RowsOf(std::size_t line, std::uint32_t plane) const;

  const DecodeValues* values_;
  Layout layout_;
  gpu::PinnedBuffer head_;
  gpu::PinnedBuffer rows_;  // [line][plane][token].
  gpu::CopyBatch copies_;
  std::vector<DecodeLine> lines_;
};

// The kernels with their buffers on the device. Thread-compatible.
class DecodeAttention {
  struct Token {};  // Only Create can name it.

 public:
  static Result<std::unique_ptr<DecodeAttention>> Create(gpu::Device& device,
                                                         const void* kernels,
                                                         const DecodeShape& shape,
                                                         const DecodeInput::Layout& layout);
  DecodeAttention(Token token,
                  const DecodeShape& shape,
                  const DecodeInput::Layout& layout,
                  std::unique_ptr<gpu::KernelLibrary> library);
  DecodeAttention(const DecodeAttention&) = delete;
  DecodeAttention& operator=(const DecodeAttention&) = delete;
  ~DecodeAttention() = default;

  // Queues a step's parts in `stream`, in this order: Begin, then each layer, then End, which
  // copies the outputs of all layers to pinned memory, [layer][line][head][value width].
  Status Begin(gpu::Stream& stream, const DecodeInput& input);
  Status AttendLayer(gpu::Stream& stream, const DecodeMemory& memory, std::uint32_t layer);
  Status End(gpu::Stream& stream, std::byte* target);

 private:
  Status Allocate(gpu::Device& device);

  DecodeShape shape_;
  DecodeInput::Layout layout_;
  std::uint32_t splits_;
  std::uint32_t lines_ = 0;  // Of the step at hand.
  std::unique_ptr<gpu::KernelLibrary> library_;
  std::optional<gpu::Kernel<gpu::PagedDecode>> decode_;
  std::optional<gpu::Kernel<gpu::PartialMerge>> merge_;
  std::optional<gpu::DeviceBuffer> input_;
  std::optional<gpu::DeviceBuffer> partial_outputs_;
  std::optional<gpu::DeviceBuffer> partial_stats_;
  std::optional<gpu::DeviceBuffer> outputs_;
};

}  // namespace kvferry::bench
