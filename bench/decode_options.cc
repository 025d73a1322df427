// What `bench decode` refuses, with the reason and what to do instead.
#include <algorithm>
#include <string>

#include "base/bytes.h"
#include "bench/decode_bench.h"
#include "engine/namespace_table.h"
#include "tiers/host/slot_classes.h"

namespace kvferry::bench {
namespace {

// Twice what an engine asks for: one batch is put while another is fetched.
constexpr std::uint64_t kHostBlocksMin = 16;
constexpr std::uint64_t kHostBytesMin = 2 * kMiB;
constexpr std::uint64_t kBlockBytesMin = engine::NamespaceTable::kBlockBytesMin;
constexpr std::uint64_t kBlockBytesMax = engine::NamespaceTable::kBlockBytesMax;
constexpr std::uint64_t kOutputBytesMax = 4 * kGiB;
constexpr std::uint64_t kBlocksMax = std::uint64_t{1} << 24;

std::uint64_t HostBlocksMin(const DecodeShape& shape) {
  return std::max(kHostBlocksMin, (kHostBytesMin + shape.block_bytes() - 1) / shape.block_bytes());
}

Status Refuse(std::string reason) {
  return Status::Error(StatusCode::kInvalidArgument, std::move(reason));
}

}  // namespace

Result<DecodeShape> DecodeBenchOptions::Shape() const {
  DecodeShape shape;
  if (!model.empty()) {
    Result<DecodeShape> read = ReadDecodeShape(model, layers);
    if (!read.ok()) {
      return read.error().WithContext("--model");
    }
    shape = std::move(*read);
  } else if (layers > 0) {
    shape.layers = layers;
  }
  shape.block_tokens = block_tokens;
  if (shape.block_bytes() < kBlockBytesMin || shape.block_bytes() > kBlockBytesMax) {
    return Refuse("--block-tokens " + std::to_string(block_tokens) +
                  ": a block of this model has " + FormatBytes(shape.block_bytes()) +
                  "; give a number that makes " + FormatBytes(kBlockBytesMin) + " to " +
                  FormatBytes(kBlockBytesMax));
  }
  return shape;
}

Result<DecodePlan> DecodeBenchOptions::Plan(const DecodeShape& shape) const {
  DecodePlan wanted;
  wanted.sessions = sessions;
  wanted.context_tokens = context_tokens;
  wanted.block_tokens = block_tokens;
  wanted.hbm_blocks = hbm_blocks;
  wanted.steps = steps;
  wanted.turn_steps = turn_steps;
  wanted.hint_turns = hint_turns;
  KVFERRY_ASSIGN_OR_RETURN(const DecodePlan plan, DecodePlan::Make(wanted));
  if (plan.total_blocks() > kBlocksMax) {
    return Refuse("--sessions " + std::to_string(sessions) + ": they have " +
                  std::to_string(plan.total_blocks()) + " blocks, more than " +
                  std::to_string(kBlocksMax) + "; lower it, or --context");
  }
  if (host_blocks > 0 && host_blocks < HostBlocksMin(shape)) {
    return Refuse("--host-blocks " + std::to_string(host_blocks) +
                  ": an engine's host memory has " + FormatBytes(kHostBytesMin) + " and " +
                  std::to_string(kHostBlocksMin) + " blocks at least; give " +
                  std::to_string(HostBlocksMin(shape)) +
                  " or more, or 0 for room for all sessions and a quarter more");
  }
  if (host_blocks > 0 && host_blocks < plan.total_blocks() && nvme_dir.empty()) {
    return Refuse("--host-blocks " + std::to_string(host_blocks) + ": the sessions have " +
                  std::to_string(plan.total_blocks()) +
                  " blocks, and without --nvme-dir there is no other place for them; give that "
                  "many, or a folder on a drive");
  }
  // They stay in pinned memory until the end, so that nothing but decoding is timed.
  const std::uint64_t output_bytes =
      shape.layers * shape.output_bytes() * plan.batch_sessions * plan.steps;
  if (output_bytes > kOutputBytesMax) {
    return Refuse("--steps " + std::to_string(steps) + ": their outputs take " +
                  FormatBytes(output_bytes) + ", more than " + FormatBytes(kOutputBytesMax) +
                  "; give less, or fewer --hbm-blocks, which makes batches smaller");
  }
  return plan;
}

std::uint64_t DecodeBenchOptions::HostBlocks(const DecodeShape& shape,
                                             const DecodePlan& plan) const {
  return host_blocks > 0
             ? host_blocks
             : std::max(HostBlocksMin(shape), plan.total_blocks() + plan.total_blocks() / 4);
}

std::uint64_t DecodeBenchOptions::HostBytes(const DecodeShape& shape,
                                            const DecodePlan& plan) const {
  const auto& slots =
      tiers::kSlotClasses[tiers::SlotClassOf(Narrow<std::uint32_t>(shape.block_bytes()))];
  const std::uint64_t slab_bytes = std::uint64_t{slots.slab_chunks} * tiers::kChunkBytes;
  const std::uint64_t slab_blocks =
      slab_bytes / (std::uint64_t{slots.slot_pages} * tiers::kHostPageBytes);
  return (HostBlocks(shape, plan) + slab_blocks - 1) / slab_blocks * slab_bytes;
}

}  // namespace kvferry::bench
