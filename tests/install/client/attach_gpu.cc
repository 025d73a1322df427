// A server's side of attached mode: blocks from its tensors on a GPU, and back to them.
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

#include "kvferry/block_key.h"
#include "kvferry/engine.h"

namespace {

constexpr std::uint32_t kBlockTokens = 16;
constexpr std::uint32_t kLayers = 2;
constexpr std::uint32_t kHeads = 4;
constexpr std::uint32_t kRowBytes = 128;
constexpr std::uint32_t kBlockBytes = kLayers * 2 * kBlockTokens * kHeads * kRowBytes;

kvferry::Namespace Description() {
  kvferry::Namespace space;
  space.tenant = kvferry::Tenant::Shared();
  space.model_id = "example/model";
  space.model_revision = "0123abcd";
  space.layer_group = {
      .layer_count = kLayers, .kv_head_count = kHeads, .key_width = 64, .value_width = 64};
  space.rectangle = {.layer_end = kLayers, .kv_head_end = kHeads};
  space.layout = "LBHNC";
  space.block_tokens = kBlockTokens;
  return space;
}

// [tensors]
// A server's tensors: K and V of each layer, [page][token][head][width], a page a block.
kvferry::DeviceTensors Describe(std::span<std::byte* const> planes, std::uint32_t pages) {
  kvferry::DeviceTensors tensors;
  tensors.planes = planes;  // K of layer 0, V of layer 0, K of layer 1, ...
  tensors.layers = kLayers;
  tensors.pages = pages;
  tensors.page_tokens = kBlockTokens;
  tensors.heads = kHeads;
  tensors.row_bytes = kRowBytes;
  tensors.head_step_bytes = kRowBytes;
  tensors.token_step_bytes = std::uint64_t{kHeads} * kRowBytes;
  tensors.page_step_bytes = kBlockTokens * tensors.token_step_bytes;
  tensors.block_tokens = kBlockTokens;
  return tensors;
}
// [/tensors]

kvferry::Result<kvferry::Completion> Await(kvferry::CompletionQueue& queue) {
  KVFERRY_RETURN_IF_ERROR(queue.Wait(kvferry::Clock::now() + std::chrono::minutes(1)));
  std::array<kvferry::Completion, 1> ended;
  queue.Poll(ended);
  KVFERRY_RETURN_IF_ERROR(ended[0].status);
  return ended[0];
}

struct Attached {
  kvferry::Engine& engine;
  kvferry::CompletionQueue& queue;
  kvferry::NamespaceHandle space;
  kvferry::TensorsHandle tensors;
};

// [put]
// Prefill has been queued in `stream`: its blocks lie in `pages` once that is done.
kvferry::Status Store(const Attached& to,
                      std::span<const kvferry::BlockKey> keys,
                      std::span<const std::int32_t> pages,
                      kvferry::NativeStream stream) {
  std::vector<kvferry::DeviceBlock> blocks;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    blocks.push_back({.pages = pages.subspan(i, 1)});
  }
  const auto put = to.engine.PutFromDevice(
      {.in = to.space, .keys = keys, .tensors = to.tensors, .blocks = blocks, .producer = stream},
      to.queue);
  KVFERRY_RETURN_IF_ERROR(put.status());
  // Until the completion the pages are not written, nor given to another request.
  KVFERRY_ASSIGN_OR_RETURN(const kvferry::Completion stored, Await(to.queue));
  std::printf("%u blocks are stored\n", static_cast<unsigned>(stored.blocks_ready));
  return kvferry::Status::Ok();
}
// [/put]

// [get]
// Before attention reads the pages. `attend` queues one layer's kernels in `stream`.
template <class Attend>
kvferry::Status Load(const Attached& from,
                     std::span<const kvferry::BlockKey> keys,
                     std::span<const kvferry::DeviceBlock> blocks,
                     kvferry::NativeStream stream,
                     Attend attend) {
  const auto get = from.engine.GetToDevice({.in = from.space,
                                            .keys = keys,
                                            .tensors = from.tensors,
                                            .blocks = blocks,
                                            .last_user = stream},
                                           from.queue);
  KVFERRY_RETURN_IF_ERROR(get.status());
  for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
    kvferry::Status ready = from.engine.WaitLayer(*get, layer, stream);
    while (ready.code() == kvferry::StatusCode::kUnavailable) {
      ready = from.engine.WaitLayer(*get, layer, stream);  // Its copies are not queued yet.
    }
    KVFERRY_RETURN_IF_ERROR(ready);
    attend(layer);
  }
  return Await(from.queue).status();
}
// [/get]

kvferry::Status Run() {
  // [open]
  kvferry::EngineOptions options;
  options.host.bytes = 64 << 20;
  options.block_bytes = kBlockBytes;
  options.hbm.mode = kvferry::HbmMode::kAttached;
  options.hbm.device = 0;
  options.hbm.is_required = false;  // One warning says why a GPU is not used.
  KVFERRY_ASSIGN_OR_RETURN(auto engine, kvferry::Engine::Open(options));
  // [/open]
  KVFERRY_ASSIGN_OR_RETURN(auto queue, engine->CreateCompletionQueue(16));
  KVFERRY_ASSIGN_OR_RETURN(const kvferry::NamespaceHandle space,
                           engine->AddNamespace(Description(), {.block_bytes = kBlockBytes}));
  // A server has tensors and a stream; this program, which links no CUDA, has none.
  const std::array<std::byte*, std::size_t{2} * kLayers> planes{};
  const kvferry::NativeStream stream = nullptr;
  const auto tensors = engine->RegisterTensors(Describe(planes, 64));
  if (!tensors.ok()) {
    std::printf("no tensors: %s\n", tensors.status().ToString().c_str());
    queue.reset();
    return engine->Close();
  }
  const Attached attached{*engine, *queue, space, *tensors};
  const std::array<kvferry::BlockKey, 1> keys{};
  const std::array<std::int32_t, 1> pages{3};
  KVFERRY_RETURN_IF_ERROR(Store(attached, keys, pages, stream));
  const std::array blocks{kvferry::DeviceBlock{.pages = pages}};
  return Load(attached, keys, blocks, stream, [](std::uint32_t) {});
}

}  // namespace

int main() {
  const kvferry::Status status = Run();
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 1;
  }
  return 0;
}
