// DecodeValues: the keys, values and queries of every token of `bench decode`, out of a seed.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>

#include "bench/decode_shape.h"

namespace kvferry::bench {

// bf16 as its bits.
using BFloat16 = std::uint16_t;
inline float ToFloat(BFloat16 bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

// Multiples of 1/64 from -2 to below 2, which bf16 has exactly. Any part can be made at any time,
// and is the same each time. Immutable, hence thread-safe.
class DecodeValues {
 public:
  struct Place {
    std::uint32_t session = 0;
    std::uint32_t layer = 0;
    std::uint32_t plane = 0;  // Of the layer: 0 keys, or the latent; 1 values.
    std::uint32_t token = 0;
  };

  DecodeValues(const DecodeShape& shape, std::uint64_t seed);

  // All KV heads of one token: shape.token_bytes() of it.
  void WriteToken(const Place& place, std::span<BFloat16> target) const;
  // Tokens place.token and so on, one after the other, as many as `target` has room for.
  void WriteTokens(const Place& place, std::span<BFloat16> target) const;
  // All query heads of one token, [head][key width]; the same in every layer.
  void WriteQuery(std::uint32_t session, std::uint32_t token, std::span<BFloat16> target) const;

  const DecodeShape& shape() const noexcept { return shape_; }

 private:
  void Write(std::uint64_t start, std::span<BFloat16> target) const;

  DecodeShape shape_;
  std::uint64_t seed_;
  std::array<BFloat16, 256> codes_{};
};

}  // namespace kvferry::bench
