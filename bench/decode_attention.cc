// The layout of a step's input, and the launches over it.
#include "bench/decode_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "base/bytes.h"
#include "gpu/kernel_shapes.h"

namespace kvferry::bench {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr double kLog2E = 1.4426950408889634;
// Tokens of a split; at least two of them, so that partial results are always merged.
constexpr std::uint32_t kSplitTokens = 512;
constexpr std::uint32_t kSplitsMax = 32;

std::string KernelOf(const DecodeShape& shape) {
  return "kvferry_decode_" + (shape.is_latent ? "mla" : std::to_string(shape.key_width)) + "_bf16";
}

}  // namespace

DecodeInput::Layout::Layout(const DecodeShape& shape,
                            std::uint32_t session_count,
                            std::uint32_t blocks_of_session)
    : sessions(session_count),
      session_blocks(blocks_of_session),
      lengths(AlignUp(std::size_t{sessions} * session_blocks * sizeof(std::int32_t), kAlignment)),
      queries(AlignUp(lengths + sessions * sizeof(std::int32_t), kAlignment)),
      end(queries + std::size_t{sessions} * shape.query_heads * shape.row_bytes()) {}

Result<DecodeInput> DecodeInput::Create(gpu::Device& device,
                                        const DecodeValues& values,
                                        const Layout& layout) {
  KVFERRY_ASSIGN_OR_RETURN(gpu::PinnedBuffer head, gpu::PinnedBuffer::Create(device, layout.end));
  KVFERRY_ASSIGN_OR_RETURN(
      gpu::PinnedBuffer rows,
      gpu::PinnedBuffer::Create(device, layout.sessions * values.shape().block_bytes()));
  return DecodeInput(values, layout, std::move(head), std::move(rows));
}

DecodeInput::DecodeInput(const DecodeValues& values,
                         const Layout& layout,
                         gpu::PinnedBuffer head,
                         gpu::PinnedBuffer rows)
    : values_(&values),
      layout_(layout),
      head_(std::move(head)),
      rows_(std::move(rows)),
      copies_(std::size_t{layout.sessions} * values.shape().planes_per_layer()) {}

std::byte* DecodeInput::RowsOf(std::size_t line, std::uint32_t plane) const {
  const DecodeShape& shape = values_->shape();
  return rows_.bytes().data() + line * shape.block_bytes() + plane * shape.page_bytes();
}

void DecodeInput::Prepare(std::span<const DecodeLine> lines) {
  KVFERRY_CHECK(lines.size() <= layout_.sessions);
  const DecodeShape& shape = values_->shape();
  lines_.assign(lines.begin(), lines.end());
  std::byte* const head = head_.bytes().data();
  const std::size_t query_elements = std::size_t{shape.query_heads} * shape.key_width;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const DecodeLine& line = lines[i];
    const auto length = static_cast<std::int32_t>(line.tokens);
    std::memcpy(head + layout_.lengths + i * sizeof(length), &length, sizeof(length));
    auto* const queries = reinterpret_cast<BFloat16*>(head + layout_.queries);
    values_->WriteQuery(line.session, line.tokens - 1,
                        {queries + i * query_elements, query_elements});
    for (std::uint32_t plane = 0; plane < shape.planes(); ++plane) {
      values_->WriteTokens({.session = line.session,
                            .layer = plane / shape.planes_per_layer(),
                            .plane = plane % shape.planes_per_layer(),
                            .token = line.tokens - line.tail},
                           {reinterpret_cast<BFloat16*>(RowsOf(i, plane)),
                            line.tail * shape.token_bytes() / sizeof(BFloat16)});
    }
  }
}

void DecodeInput::SetPages(std::size_t line, std::span<const std::int32_t> pages) {
  KVFERRY_CHECK(pages.size() == layout_.session_blocks);
  std::memcpy(head_.bytes().data() + line * pages.size_bytes(), pages.data(), pages.size_bytes());
}

Status DecodeInput::AppendLayer(gpu::Stream& stream,
                                const DecodeMemory& memory,
                                std::uint32_t layer) {
  const DecodeShape& shape = values_->shape();
  const auto* const tables = reinterpret_cast<const std::int32_t*>(head_.bytes().data());
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    // All of them lie in one page.
    const std::uint32_t token = lines_[i].tokens - lines_[i].tail;
    const std::int32_t page = tables[i * layout_.session_blocks + token / shape.block_tokens];
    const std::uint64_t offset = token % shape.block_tokens * shape.token_bytes();
    for (std::uint32_t side = 0; side < shape.planes_per_layer(); ++side) {
      const std::uint32_t plane = layer * shape.planes_per_layer() + side;
      copies_.Add(memory.PageAt(plane, page) + offset, RowsOf(i, plane),
                  lines_[i].tail * shape.token_bytes());
    }
  }
  return copies_.Submit(stream);
}

Result<std::unique_ptr<DecodeAttention>> DecodeAttention::Create(
    gpu::Device& device,
    const void* kernels,
    const DecodeShape& shape,
    const DecodeInput::Layout& layout) {
  KVFERRY_ASSIGN_OR_RETURN(auto library, gpu::KernelLibrary::Load(device, kernels));
  auto created = std::make_unique<DecodeAttention>(Token(), shape, layout, std::move(library));
  KVFERRY_RETURN_IF_ERROR(created->Allocate(device));
  return created;
}

DecodeAttention::DecodeAttention(Token /*token*/,
                                 const DecodeShape& shape,
                                 const DecodeInput::Layout& layout,
                                 std::unique_ptr<gpu::KernelLibrary> library)
    : shape_(shape),
      layout_(layout),
      splits_(std::clamp(
          layout.session_blocks * shape.block_tokens / kSplitTokens, std::uint32_t{2}, kSplitsMax)),
      library_(std::move(library)) {}

Status DecodeAttention::Allocate(gpu::Device& device) {
  KVFERRY_ASSIGN_OR_RETURN(decode_, library_->Find<gpu::PagedDecode>(KernelOf(shape_).c_str()));
  KVFERRY_ASSIGN_OR_RETURN(merge_,
                           library_->Find<gpu::PartialMerge>("kvferry_merge_partials_bf16"));
  const std::size_t partials = std::size_t{layout_.sessions} * shape_.query_heads * splits_;
  KVFERRY_ASSIGN_OR_RETURN(input_, gpu::DeviceBuffer::Create(device, layout_.end));
  KVFERRY_ASSIGN_OR_RETURN(
      partial_outputs_,
      gpu::DeviceBuffer::Create(device, partials * shape_.value_width * sizeof(float)));
  KVFERRY_ASSIGN_OR_RETURN(partial_stats_,
                           gpu::DeviceBuffer::Create(device, partials * 2 * sizeof(float)));
  KVFERRY_ASSIGN_OR_RETURN(
      outputs_, gpu::DeviceBuffer::Create(
                    device, std::size_t{shape_.layers} * layout_.sessions * shape_.output_bytes()));
  return Status::Ok();
}

Status DecodeAttention::Begin(gpu::Stream& stream, const DecodeInput& input) {
  lines_ = static_cast<std::uint32_t>(input.lines().size());
  return stream.Copy(input_->data(), input.head().data(), input.head().size());
}

Status DecodeAttention::AttendLayer(gpu::Stream& stream,
                                    const DecodeMemory& memory,
                                    std::uint32_t layer) {
  const std::uint32_t plane = layer * shape_.planes_per_layer();
  gpu::PagedDecode decode;
  decode.queries = input_->data() + layout_.queries;
  decode.keys = memory.SideOf(plane);
  decode.values = shape_.is_latent ? decode.keys : memory.SideOf(plane + 1);
  decode.tables = reinterpret_cast<const std::int32_t*>(input_->data());
  decode.lengths = reinterpret_cast<const std::int32_t*>(input_->data() + layout_.lengths);
  decode.partial_outputs = reinterpret_cast<float*>(partial_outputs_->data());
  decode.partial_stats = reinterpret_cast<float*>(partial_stats_->data());
  decode.table_step = layout_.session_blocks;
  decode.heads = static_cast<std::int32_t>(shape_.query_heads);
  decode.kv_heads = static_cast<std::int32_t>(shape_.kv_heads);
  decode.page_tokens = static_cast<std::int32_t>(shape_.block_tokens);
  decode.scale_log2 = static_cast<float>(kLog2E / std::sqrt(static_cast<double>(shape_.key_width)));
  KVFERRY_RETURN_IF_ERROR(decode_->Launch(stream, gpu::ShapeOf(decode, lines_, splits_), decode));

  gpu::PartialMerge merge;
  merge.partial_outputs = decode.partial_outputs;
  merge.partial_stats = decode.partial_stats;
  merge.outputs = outputs_->data() + std::size_t{layer} * lines_ * shape_.output_bytes();
  merge.heads = decode.heads;
  merge.splits = static_cast<std::int32_t>(splits_);
  merge.value_size = static_cast<std::int32_t>(shape_.value_width);
  return merge_->Launch(stream, gpu::ShapeOf(merge, lines_), merge);
}

Status DecodeAttention::End(gpu::Stream& stream, std::byte* target) {
  return stream.Copy(target, outputs_->data(),
                     std::size_t{shape_.layers} * lines_ * shape_.output_bytes());
}

}  // namespace kvferry::bench
