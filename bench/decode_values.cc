// A hash of the place starts a generator, each of whose bytes is an element.
#include "bench/decode_values.h"

#include "base/assert.h"
#include "base/random.h"

namespace kvferry::bench {
namespace {

constexpr std::uint32_t kQueryPlane = 2;

std::uint64_t Mixed(std::uint64_t state, std::uint64_t value) {
  return SplitMix64(state ^ (value + 1) * 0x9e3779b97f4a7c15ULL).Next();
}

}  // namespace

DecodeValues::DecodeValues(const DecodeShape& shape, std::uint64_t seed)
    : shape_(shape), seed_(SplitMix64(seed).Next()) {
  for (std::size_t code = 0; code < codes_.size(); ++code) {
    const float value = (static_cast<float>(code) - 128.0F) / 64.0F;
    codes_[code] = static_cast<BFloat16>(std::bit_cast<std::uint32_t>(value) >> 16);
  }
}

void DecodeValues::Write(std::uint64_t start, std::span<BFloat16> target) const {
  SplitMix64 generator(start);
  std::size_t at = 0;
  while (at < target.size()) {
    std::uint64_t bytes = generator.Next();
    for (int i = 0; i < 8 && at < target.size(); ++i) {
      target[at++] = codes_[bytes & 0xff];
      bytes >>= 8;
    }
  }
}

void DecodeValues::WriteToken(const Place& place, std::span<BFloat16> target) const {
  std::uint64_t start = Mixed(seed_, place.session);
  start = Mixed(start, std::uint64_t{place.layer} << 32 | place.plane);
  Write(Mixed(start, place.token), target);
}

void DecodeValues::WriteTokens(const Place& place, std::span<BFloat16> target) const {
  const std::size_t token_elements = shape_.token_bytes() / sizeof(BFloat16);
  KVFERRY_CHECK(target.size() % token_elements == 0);
  Place next = place;
  for (std::size_t at = 0; at < target.size(); at += token_elements) {
    WriteToken(next, target.subspan(at, token_elements));
    ++next.token;
  }
}

void DecodeValues::WriteQuery(std::uint32_t session,
                              std::uint32_t token,
                              std::span<BFloat16> target) const {
  WriteToken({.session = session, .layer = 0, .plane = kQueryPlane, .token = token}, target);
}

}  // namespace kvferry::bench
