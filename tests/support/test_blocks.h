// Keys, bytes and namespaces for tests of the engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "kvferry/namespace.h"
#include "kvferry/types.h"

#include "base/random.h"

namespace kvferry::testing {

// A key that looks like a digest; equal seeds give equal keys.
inline BlockKey KeyOf(std::uint64_t seed) {
  BlockKey key;
  SplitMix64 generator(seed * 2 + 1);
  for (std::size_t i = 0; i < key.bytes.size(); i += sizeof(std::uint64_t)) {
    const std::uint64_t word = generator.Next();
    std::memcpy(key.bytes.data() + i, &word, sizeof word);
  }
  return key;
}

inline std::vector<BlockKey> KeysOf(std::uint64_t first, std::size_t count) {
  std::vector<BlockKey> keys;
  for (std::size_t i = 0; i < count; ++i) {
    keys.push_back(KeyOf(first + i));
  }
  return keys;
}

// Bytes that tell the block and the place in it.
inline std::vector<std::byte> BytesOf(std::uint64_t seed, std::size_t size) {
  std::vector<std::byte> bytes(size);
  SplitMix64 generator(~seed);
  for (std::size_t i = 0; i < size; i += sizeof(std::uint64_t)) {
    const std::uint64_t word = generator.Next();
    std::memcpy(bytes.data() + i, &word, std::min(sizeof word, size - i));
  }
  return bytes;
}

inline Namespace NamespaceOf(const std::string& model) {
  Namespace description;
  description.tenant = Tenant::Shared();
  description.model_id = model;
  description.model_revision = "1";
  description.layer_group.layer_count = 4;
  description.layer_group.kv_head_count = 2;
  description.layer_group.key_width = 64;
  description.layer_group.value_width = 64;
  description.layout = "LBHNC";
  description.block_tokens = 16;
  description.rectangle.layer_end = 4;
  description.rectangle.kv_head_end = 2;
  return description;
}

}  // namespace kvferry::testing
