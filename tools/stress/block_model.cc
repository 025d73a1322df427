// Versions of each key, and the bytes that follow from them.
#include "stress/block_model.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "base/random.h"

namespace kvferry::stress {
namespace {

std::uint64_t SeedOf(std::uint32_t key, std::uint32_t version) {
  return std::uint64_t{key} << 32 | version;
}

template <class Word>
bool EachWord(std::uint32_t key, std::uint32_t version, std::size_t size, Word&& word) {
  SplitMix64 generator(SeedOf(key, version));
  for (std::size_t i = 0; i < size; i += sizeof(std::uint64_t)) {
    if (!word(i, std::min(sizeof(std::uint64_t), size - i), generator.Next())) {
      return false;
    }
  }
  return true;
}

}  // namespace

BlockModel::BlockModel(std::uint32_t namespaces, std::uint32_t keys_per_namespace)
    : keys_per_namespace_(keys_per_namespace),
      states_(std::size_t{namespaces} * keys_per_namespace),
      block_keys_(states_.size()) {
  for (std::uint32_t key = 0; key < keys(); ++key) {
    FillBytes(key, 0xffffffff, block_keys_[key].bytes);
  }
}

void BlockModel::FillBytes(std::uint32_t key,
                           std::uint32_t version,
                           std::span<std::byte> bytes) const {
  EachWord(key, version, bytes.size(), [&](std::size_t at, std::size_t size, std::uint64_t word) {
    std::memcpy(bytes.data() + at, &word, size);
    return true;
  });
}

bool BlockModel::IsOneOf(std::uint32_t key,
                         std::uint32_t oldest,
                         std::uint32_t newest,
                         std::span<const std::byte> bytes) const {
  for (std::uint32_t version = newest + 1; version-- > oldest;) {
    if (EachWord(key, version, bytes.size(),
                 [&](std::size_t at, std::size_t size, std::uint64_t word) {
                   return std::memcmp(bytes.data() + at, &word, size) == 0;
                 })) {
      return true;
    }
  }
  return false;
}

void BlockModel::BeginPut(std::uint32_t key) {
  ++states_[key].puts;
  states_[key].is_overlapped = states_[key].erases > 0;
}

void BlockModel::EndPut(std::uint32_t key) {
  KVFERRY_CHECK(states_[key].puts > 0);
  --states_[key].puts;
}

void BlockModel::BeginErase(std::uint32_t key) {
  State& state = states_[key];
  state.is_overlapped = state.is_overlapped || state.puts > 0;
  ++state.erases;
  Disturb(key);
}

void BlockModel::EndErase(std::uint32_t key) {
  State& state = states_[key];
  KVFERRY_CHECK(state.erases > 0);
  --state.erases;
  if (state.erases == 0) {
    // What a put brought in meanwhile may have come after the erasure.
    if (!state.is_overlapped && state.puts == 0) {
      ++state.version;
      state.oldest = state.version;
      state.oldest_durable = state.version;
    }
    state.is_overlapped = false;
  }
}

void BlockModel::GiveUpErase(std::uint32_t key) {
  states_[key].is_overlapped = true;
  EndErase(key);
}

void BlockModel::EraseNamespace(std::uint32_t space) {
  for (std::uint32_t key = space * keys_per_namespace_; key < (space + 1) * keys_per_namespace_;
       ++key) {
    State& state = states_[key];
    ++state.version;
    state.oldest = state.version;
    Disturb(key);
  }
}

void BlockModel::Disturb(std::uint32_t key) {
  ++states_[key].disturbances;
  states_[key].is_persisted = false;
}

void BlockModel::EndPersist(std::uint32_t key, std::uint32_t disturbances_before) {
  State& state = states_[key];
  state.is_persisted = state.disturbances == disturbances_before && state.erases == 0;
  if (state.is_persisted) {
    // With it the erasures of its namespace before it are durable.
    state.oldest_durable = state.oldest;
  }
}

void BlockModel::Crash() {
  for (State& state : states_) {
    state.puts = 0;
    state.erases = 0;
    state.is_overlapped = false;
    state.oldest = state.oldest_durable;
  }
}

void BlockModel::LoseManifest(bool are_drives_honest) {
  for (State& state : states_) {
    state.is_persisted = false;
    if (!are_drives_honest) {
      state.oldest = 0;
      state.oldest_durable = 0;
    }
  }
}

}  // namespace kvferry::stress
