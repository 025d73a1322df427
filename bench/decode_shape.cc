// From a config to the layers that the kernels can decode.
#include "bench/decode_shape.h"

#include <string>
#include <string_view>
#include <utility>

#include "model/kv_shape.h"

namespace kvferry::bench {
namespace {

// The sizes that decode kernels are built for.
bool HasKernel(const model::AttentionHeads& heads) {
  if (heads.is_latent) {
    return heads.key_width == 576 && heads.value_width == 512;
  }
  return heads.key_width == heads.value_width &&
         (heads.key_width == 64 || heads.key_width == 128 || heads.key_width == 256);
}

// A model's reader names a way out that is the replay's.
Status Reworded(const Status& status) {
  constexpr std::string_view kReplaysRemedy = "give --bytes-per-token instead of --model";
  std::string text(status.message());
  if (const std::size_t at = text.rfind(kReplaysRemedy); at != std::string::npos) {
    text.replace(at, kReplaysRemedy.size(), "choose another model, or leave it out for a toy");
  }
  return Status::Error(status.code(), std::move(text), status.native_code());
}

}  // namespace

Result<DecodeShape> ReadDecodeShape(const std::string& path, std::uint32_t layers_max) {
  const Result<model::KvShape> read = model::ReadKvShape(path);
  if (!read.ok()) {
    return Reworded(read.error());
  }
  const Result<model::AttentionHeads> read_heads = model::ReadAttentionHeads(path);
  if (!read_heads.ok()) {
    return Reworded(read_heads.error());
  }
  const model::KvShape& kept = *read;
  const model::AttentionHeads& heads = *read_heads;
  if (!HasKernel(heads)) {
    return Status::Error(StatusCode::kInvalidArgument,
                         path + ": keys of " + std::to_string(heads.key_width) + " and values of " +
                             std::to_string(heads.value_width) +
                             " elements a head: decode kernels are for 64, 128 and 256, and for "
                             "MLA's 576 and 512; choose a model with these");
  }
  DecodeShape shape;
  shape.name = path;
  shape.query_heads = heads.query_heads;
  shape.kv_heads = heads.kv_heads;
  shape.key_width = heads.key_width;
  shape.value_width = heads.value_width;
  shape.is_latent = heads.is_latent;
  shape.layers = kept.groups[0].layer_count;
  shape.notes = kept.notes;
  if (shape.layers < kept.layer_count) {
    shape.notes.push_back(std::to_string(kept.layer_count - shape.layers) + " of " +
                          std::to_string(kept.layer_count) +
                          " layers do not keep every token, and are left out");
  }
  if (layers_max > 0 && layers_max < shape.layers) {
    shape.notes.push_back("--layers leaves " + std::to_string(layers_max) + " of " +
                          std::to_string(shape.layers) + " layers");
    shape.layers = layers_max;
  }
  return shape;
}

}  // namespace kvferry::bench
