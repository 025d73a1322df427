// Launch shapes.
#include "gpu/kernel_shapes.h"

#include <algorithm>
#include <cstdint>
#include <string>

namespace kvferry::gpu {
namespace {

constexpr std::int64_t kCopyThreads = 256;
constexpr std::int64_t kCopyChunksMax = 8;
constexpr std::int64_t kPlainThreads = 128;
constexpr std::int64_t kPlainBlocksMax = 1024;
constexpr std::uint32_t kDecodeThreads = 128;  // kDecodeWarps and kSelectWarps of the kernels.

// So many blocks that each thread has work, up to a limit: kernels stride over the rest.
std::uint32_t BlocksFor(std::int64_t items, std::int64_t threads, std::int64_t blocks_max) {
  const std::int64_t blocks = (items + threads - 1) / threads;
  return static_cast<std::uint32_t>(std::clamp(blocks, std::int64_t{1}, blocks_max));
}

Status Refuse(const std::string& reason) {
  return Status::Error(StatusCode::kInvalidArgument, "a copy kernel cannot copy this: " + reason);
}

}  // namespace

Status CheckBlockCopy(const BlockCopy& copy) {
  const PagedLayout& layout = copy.layout;
  if (layout.page_tokens < 1 || layout.heads < 1 || layout.row_vectors < 1 ||
      copy.plane_count < 1 || copy.block_tokens < 1) {
    return Refuse("a size is below one");
  }
  if (layout.page_step < 0 || layout.token_step < 0 || layout.head_step < 0) {
    return Refuse("a step is negative");
  }
  if (reinterpret_cast<std::uintptr_t>(copy.blocks) % kVectorBytes != 0) {
    return Refuse("blocks do not begin at a multiple of 16 bytes");
  }
  return Status::Ok();
}

LaunchShape ShapeOf(const BlockCopy& copy, std::uint32_t blocks) {
  LaunchShape shape;
  shape.block.x = static_cast<std::uint32_t>(
      std::clamp((BlockVectors(copy) + 31) / 32 * 32, std::int64_t{32}, kCopyThreads));
  shape.grid.x = BlocksFor(BlockVectors(copy), kCopyThreads, kCopyChunksMax);
  shape.grid.y = blocks;
  return shape;
}

LaunchShape ShapeOf(const RowCodes& rows) {
  LaunchShape shape;
  shape.block.x = static_cast<std::uint32_t>(kPlainThreads);
  shape.grid.x = BlocksFor(rows.groups, kPlainThreads / 32, kPlainBlocksMax);
  return shape;
}

LaunchShape ShapeOf(const ChannelCodes& codes) {
  LaunchShape shape;
  shape.block.x = static_cast<std::uint32_t>(kPlainThreads);
  shape.grid.x = BlocksFor(codes.channels, kPlainThreads, INT32_MAX);
  shape.grid.y = static_cast<std::uint32_t>(codes.planes);
  return shape;
}

LaunchShape ShapeOf(const KeyRotation& rotation, std::uint32_t blocks) {
  LaunchShape shape;
  shape.block.x = static_cast<std::uint32_t>(kPlainThreads);
  const std::int64_t pairs = std::int64_t{rotation.rows} * rotation.rotary_size / 2;
  shape.grid.x = BlocksFor(pairs, kPlainThreads, kPlainBlocksMax);
  shape.grid.y = static_cast<std::uint32_t>(
      (rotation.plane_count - rotation.plane_first + rotation.plane_step - 1) /
      rotation.plane_step);
  shape.grid.z = blocks;
  return shape;
}

LaunchShape ShapeOf(const PagedDecode& decode, std::uint32_t sequences, std::uint32_t splits) {
  LaunchShape shape;
  shape.block.x = kDecodeThreads;
  shape.grid = {static_cast<std::uint32_t>(decode.heads), sequences, splits};
  return shape;
}

LaunchShape ShapeOf(const PartialMerge& merge, std::uint32_t sequences) {
  LaunchShape shape;
  shape.block.x = static_cast<std::uint32_t>(kPlainThreads);
  shape.grid.x = static_cast<std::uint32_t>(merge.heads) * sequences;
  return shape;
}

LaunchShape ShapeOf(const PageSummaries& work, std::uint32_t pages) {
  LaunchShape shape;
  shape.block.x = static_cast<std::uint32_t>(
      std::clamp((std::int64_t{work.head_size} + 31) / 32 * 32, std::int64_t{32}, kPlainThreads));
  shape.grid = {pages, static_cast<std::uint32_t>(work.kv_heads), 1};
  return shape;
}

LaunchShape ShapeOf(const PageSelection& work, std::uint32_t sequences) {
  LaunchShape shape;
  shape.block.x = kDecodeThreads;
  shape.grid = {static_cast<std::uint32_t>(work.kv_heads), sequences, 1};
  return shape;
}

}  // namespace kvferry::gpu
