// TaggedDigest: SHA-256 over tagged, length-prefixed, little-endian fields.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/bytes.h"
#include "base/sha256.h"

namespace kvferry {

// Each field is its tag (u16), its length in bytes (u32) and its bytes, so no two different lists
// of fields feed the same bytes to the hash. Numbers are little-endian on every machine.
//
// Thread-compatible.
class TaggedDigest {
 public:
  void AddBytes(std::uint16_t tag, std::span<const std::byte> bytes) {
    AddHead(tag, bytes.size());
    sha_.Update(bytes);
  }
  void AddText(std::uint16_t tag, std::string_view text) {
    AddBytes(tag, std::as_bytes(std::span(text.data(), text.size())));
  }
  template <class Number>
  void AddNumber(std::uint16_t tag, Number value) {
    AddNumbers(tag, std::span<const Number>(&value, 1));
  }
  void AddReal(std::uint16_t tag, double value) {  // Its IEEE 754 bits.
    AddNumber(tag, std::bit_cast<std::uint64_t>(value));
  }
  template <class Number>
  void AddNumbers(std::uint16_t tag, std::span<const Number> values) {
    AddHead(tag, values.size_bytes());
    if constexpr (std::endian::native == std::endian::little) {
      sha_.Update(std::as_bytes(values));
    } else {
      for (const Number value : values) {
        sha_.Update(LittleEndian(value));
      }
    }
  }

  Sha256Digest Finish() { return sha_.Finish(); }  // Starts over.

 private:
  template <class Number>
  static std::array<std::byte, sizeof(Number)> LittleEndian(Number value) {
    std::array<std::byte, sizeof(Number)> bytes{};
    for (std::size_t i = 0; i < sizeof(Number); ++i) {
      bytes[i] = static_cast<std::byte>(std::uint64_t{value} >> (8 * i) & 0xff);
    }
    return bytes;
  }
  void AddHead(std::uint16_t tag, std::size_t size) {
    std::array<std::byte, 6> head{};
    const auto tag_bytes = LittleEndian(tag);
    const auto size_bytes = LittleEndian(Narrow<std::uint32_t>(size));
    std::copy(tag_bytes.begin(), tag_bytes.end(), head.begin());
    std::copy(size_bytes.begin(), size_bytes.end(), head.begin() + 2);
    sha_.Update(head);
  }

  Sha256 sha_;
};

}  // namespace kvferry
