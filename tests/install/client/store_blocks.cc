// A user's program: stores two blocks, gets them back, and reads one where it lies.
#include <algorithm>
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

// [namespace]
constexpr std::uint32_t kBlockTokens = 16;
constexpr std::uint32_t kBlockBytes = 2 * 2 * 4 * 64 * 2 * kBlockTokens;  // K and V, layers, heads.

kvferry::Namespace Description() {
  kvferry::Namespace space;
  space.tenant = kvferry::Tenant::Shared();
  space.model_id = "example/model";
  space.model_revision = "0123abcd";
  space.layer_group = {.layer_count = 2, .kv_head_count = 4, .key_width = 64, .value_width = 64};
  space.rectangle = {.layer_end = 2, .kv_head_end = 4};
  space.layout = "LBHNC";
  space.block_tokens = kBlockTokens;
  return space;
}
// [/namespace]

// [await]
// The next request that ends. Requests have deadlines, so this one ends, too.
kvferry::Result<kvferry::Completion> Await(kvferry::CompletionQueue& queue) {
  KVFERRY_RETURN_IF_ERROR(queue.Wait(kvferry::Clock::now() + std::chrono::minutes(1)));
  std::array<kvferry::Completion, 1> ended;
  queue.Poll(ended);
  KVFERRY_RETURN_IF_ERROR(ended[0].status);
  return ended[0];
}
// [/await]

kvferry::Status Wrong(const char* what) {
  return kvferry::Status::Error(kvferry::StatusCode::kInternal, what);
}

// [pin]
kvferry::Status ReadInPlace(kvferry::Engine& engine,
                            kvferry::CompletionQueue& queue,
                            kvferry::NamespaceHandle space,
                            std::span<const kvferry::BlockKey> keys) {
  const auto pin = engine.Pin({.in = space, .keys = keys}, queue);
  KVFERRY_RETURN_IF_ERROR(pin.status());
  KVFERRY_ASSIGN_OR_RETURN(const kvferry::Completion pinned, Await(queue));
  std::vector<kvferry::BlockHandle> handles(pinned.blocks_ready);
  KVFERRY_RETURN_IF_ERROR(engine.Collect(*pin, handles));
  if (handles.empty()) {
    return Wrong("the first block is not there");
  }
  const std::span<const std::byte> bytes = handles.front().bytes();
  return bytes.front() == std::byte{1} ? kvferry::Status::Ok() : Wrong("other bytes");
}
// [/pin]

kvferry::Status StoreAlone(const kvferry::EngineOptions& options,
                           std::span<const kvferry::BlockKey> keys,
                           std::span<const std::byte* const> sources) {
  const kvferry::Instant deadline = kvferry::Clock::now() + std::chrono::minutes(1);
  const kvferry::Namespace description = Description();
  const kvferry::NamespaceOptions blocks{.block_bytes = kBlockBytes};
  // [five]
  KVFERRY_ASSIGN_OR_RETURN(auto engine, kvferry::Engine::Open(options));
  KVFERRY_ASSIGN_OR_RETURN(auto queue, engine->CreateCompletionQueue(64));
  KVFERRY_ASSIGN_OR_RETURN(auto space, engine->AddNamespace(description, blocks));
  KVFERRY_ASSIGN_OR_RETURN(auto ticket, engine->Put({space, keys, sources}, *queue));
  KVFERRY_RETURN_IF_ERROR(queue->Wait(deadline));  // For a completion; Get is the same in reverse.
  // [/five]
  std::array<kvferry::Completion, 1> ended;
  queue->Poll(ended);
  return ended[0].ticket == ticket ? ended[0].status : Wrong("another request's completion");
}

kvferry::Status Run() {
  // [open]
  kvferry::EngineOptions options;
  options.host.bytes = 64 << 20;
  options.block_bytes = kBlockBytes;
  KVFERRY_ASSIGN_OR_RETURN(auto engine, kvferry::Engine::Open(options));
  KVFERRY_ASSIGN_OR_RETURN(auto queue, engine->CreateCompletionQueue(64));
  KVFERRY_ASSIGN_OR_RETURN(const kvferry::NamespaceHandle space,
                           engine->AddNamespace(Description(), {.block_bytes = kBlockBytes}));
  // [/open]

  // [put]
  // The keys of the first two full blocks of a prompt.
  std::array<std::uint32_t, 2 * kBlockTokens> tokens{};
  std::fill(tokens.begin(), tokens.end(), 42);
  KVFERRY_ASSIGN_OR_RETURN(auto hasher, kvferry::BlockKeyHasher::Create(Description()));
  std::array<kvferry::BlockKey, 2> keys;
  KVFERRY_RETURN_IF_ERROR(hasher.KeysOf(tokens, nullptr, keys));

  // What is pointed to stays untouched until the completion.
  const std::vector<std::byte> first(kBlockBytes, std::byte{1});
  const std::vector<std::byte> second(kBlockBytes, std::byte{2});
  const std::array<const std::byte*, 2> sources{first.data(), second.data()};
  const auto put = engine->Put({.in = space, .keys = keys, .sources = sources}, *queue);
  KVFERRY_RETURN_IF_ERROR(put.status());
  KVFERRY_ASSIGN_OR_RETURN(const kvferry::Completion stored, Await(*queue));
  // [/put]
  if (stored.ticket != *put || stored.blocks_stored != 2) {
    return Wrong("a block was not stored");
  }

  // [get]
  // A prefix of three blocks, of which two are there.
  std::array<kvferry::BlockKey, 3> wanted{keys[0], keys[1]};
  std::vector<std::byte> memory(3 * kBlockBytes);
  const std::array<std::byte*, 3> targets{memory.data(), memory.data() + kBlockBytes,
                                          memory.data() + 2 * kBlockBytes};
  const auto get = engine->Get({.in = space, .keys = wanted, .targets = targets}, *queue);
  KVFERRY_RETURN_IF_ERROR(get.status());
  KVFERRY_ASSIGN_OR_RETURN(const kvferry::Completion got, Await(*queue));
  std::printf("%u of 3 blocks; the next one: %s\n", static_cast<unsigned>(got.blocks_ready),
              kvferry::ToString(got.next_missing).data());
  // [/get]
  if (got.blocks_ready != 2 || got.next_missing != kvferry::MissReason::kNeverStored) {
    return Wrong("another prefix than the one that was stored");
  }
  if (!std::equal(first.begin(), first.end(), memory.begin()) ||
      !std::equal(second.begin(), second.end(), memory.begin() + kBlockBytes)) {
    return Wrong("other bytes came back");
  }

  KVFERRY_RETURN_IF_ERROR(ReadInPlace(*engine, *queue, space, keys));
  KVFERRY_RETURN_IF_ERROR(StoreAlone(options, keys, sources));
  // [close]
  return engine->Close();
  // [/close]
}

}  // namespace

int main() {
  const kvferry::Status done = Run();
  if (!done.ok()) {
    std::fprintf(stderr, "%s\n", done.ToString().c_str());
    return 1;
  }
  return 0;
}
