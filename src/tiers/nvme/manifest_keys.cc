// Keys made and taken apart, byte by byte.
#include "tiers/nvme/manifest_keys.h"

#include <concepts>
#include <cstddef>
#include <limits>

namespace kvferry::tiers {
namespace {

constexpr std::size_t kBlockRowKeyBytes = 17;
constexpr std::size_t kSegmentAt = 1;
constexpr std::size_t kGenerationAt = 5;
constexpr std::size_t kPageAt = 13;

template <std::unsigned_integral T>
void AppendBigEndian(std::string& key, T value) {
  for (std::size_t i = sizeof(T); i > 0; --i) {
    key.push_back(static_cast<char>(static_cast<unsigned char>(value >> (8 * (i - 1)))));
  }
}

template <std::unsigned_integral T>
T TakeBigEndian(std::string_view source) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>((value << 8) | static_cast<unsigned char>(source[i]));
  }
  return value;
}

}  // namespace

std::string BlockRowKey(const BlockPlace& place) {
  std::string key(1, kBlockRowPrefix);
  AppendBigEndian(key, place.life.segment);
  AppendBigEndian(key, place.life.generation);
  AppendBigEndian(key, place.page);
  return key;
}

std::string MetaRowKey(std::string_view name) {
  std::string key(1, kMetaPrefix);
  key.append(name);
  return key;
}

std::string SegmentRowKey(std::uint32_t segment) {
  std::string key(1, kSegmentRowPrefix);
  AppendBigEndian(key, segment);
  return key;
}

KeyRange BlockRowKeysOf(const SegmentLife& life) {
  KeyRange range = {BlockRowKey({life, 0}),
                    BlockRowKey({life, std::numeric_limits<std::uint32_t>::max()})};
  range.end.push_back('\0');  // The first key behind that of the last page.
  return range;
}

std::optional<BlockPlace> ParseBlockRowKey(std::string_view key) {
  if (key.size() != kBlockRowKeyBytes || key.front() != kBlockRowPrefix) {
    return std::nullopt;
  }
  BlockPlace place;
  place.life.segment = TakeBigEndian<std::uint32_t>(key.substr(kSegmentAt));
  place.life.generation = TakeBigEndian<std::uint64_t>(key.substr(kGenerationAt));
  place.page = TakeBigEndian<std::uint32_t>(key.substr(kPageAt));
  return place;
}

}  // namespace kvferry::tiers
