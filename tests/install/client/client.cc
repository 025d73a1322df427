// A user's program: the key of one block of tokens, and who leaves a tier of two blocks first.
#include <array>
#include <cstdint>
#include <cstdio>

#include "kvferry/block_key.h"
#include "kvferry/policy.h"
#include "kvferry/version.h"

int main() {
  kvferry::Namespace space;
  space.tenant = kvferry::Tenant::Shared();
  space.model_id = "example/model";
  space.model_revision = "0123abcd";
  space.layout = "LBHNC";
  space.layer_group = {.layer_count = 2, .kv_head_count = 4, .key_width = 64, .value_width = 64};
  space.rectangle = {.layer_end = 2, .kv_head_end = 4};
  space.block_tokens = 4;
  auto hasher = kvferry::BlockKeyHasher::Create(space);
  auto policy = kvferry::CreateEvictionPolicy("leaf-lru", {.entries_max = 8, .residents_max = 2});
  if (!hasher.has_value() || !policy.has_value()) {
    std::fprintf(stderr, "%s %s\n", hasher.status().ToString().c_str(),
                 policy.status().ToString().c_str());
    return 1;
  }

  const std::array<std::uint32_t, 4> tokens{1, 2, 3, 4};
  std::array<kvferry::BlockKey, 1> keys;
  if (!hasher->KeysOf(tokens, nullptr, keys).ok() || keys[0] == kvferry::BlockKey{}) {
    return 1;
  }

  (*policy)->OnInsert(kvferry::EntryIndex{3}, kvferry::kNoEntry);
  const auto victim = (*policy)->TakeVictim([](kvferry::EntryIndex) { return false; });
  std::printf("kvferry %s: entry %u goes first\n", kvferry::kVersion,
              static_cast<unsigned>(victim));
  return 0;
}
