// FieldWriter and FieldReader: little-endian numbers and bytes in a row, never outside their span.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <span>

#include "base/assert.h"

namespace kvferry::tiers {

// Writes fields one after another. `target` is borrowed; writing past its end stops the process.
// Thread-compatible.
class FieldWriter {
 public:
  explicit FieldWriter(std::span<std::byte> target) : target_(target) {}

  template <std::unsigned_integral T>
  void Put(T value) {
    const std::span<std::byte> field = Next(sizeof(T));
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      field[i] = static_cast<std::byte>(value >> (8 * i));
    }
  }
  void PutBytes(std::span<const std::byte> bytes) {
    std::copy(bytes.begin(), bytes.end(), Next(bytes.size()).begin());
  }
  void PutZeros(std::size_t count) {
    const std::span<std::byte> field = Next(count);
    std::fill(field.begin(), field.end(), std::byte{0});
  }
  std::size_t left() const noexcept { return target_.size(); }

 private:
  std::span<std::byte> Next(std::size_t count) {
    KVFERRY_CHECK(count <= target_.size());
    const std::span<std::byte> field = target_.first(count);
    target_ = target_.subspan(count);
    return field;
  }

  std::span<std::byte> target_;
};

// Reads fields one after another. `source` is borrowed and may hold anything: a field that does not
// fit reads as zero, as do all after it, and is_short() tells. Thread-compatible.
class FieldReader {
 public:
  explicit FieldReader(std::span<const std::byte> source) : source_(source) {}

  template <std::unsigned_integral T>
  T Take() {
    const std::span<const std::byte> field = Next(sizeof(T));
    T value = 0;
    for (std::size_t i = 0; i < field.size(); ++i) {
      value = static_cast<T>(value | (std::to_integer<T>(field[i]) << (8 * i)));
    }
    return value;
  }
  void TakeBytes(std::span<std::byte> target) {
    const std::span<const std::byte> field = Next(target.size());
    if (field.empty()) {
      std::fill(target.begin(), target.end(), std::byte{0});
    }
    std::copy(field.begin(), field.end(), target.begin());
  }
  // Whether all that is left is zero.
  bool TakeZeros() { return TakeZeros(source_.size()); }
  // Whether the next `count` bytes are there and zero.
  bool TakeZeros(std::size_t count) {
    const std::span<const std::byte> field = Next(count);
    return field.size() == count && std::all_of(field.begin(), field.end(), [](std::byte byte) {
             return byte == std::byte{0};
           });
  }
  std::size_t left() const noexcept { return source_.size(); }
  bool is_short() const noexcept { return is_short_; }

 private:
  // Empty when fewer are left.
  std::span<const std::byte> Next(std::size_t count) {
    is_short_ = is_short_ || count > source_.size();
    if (is_short_) {
      source_ = {};
      return {};
    }
    const std::span<const std::byte> field = source_.first(count);
    source_ = source_.subspan(count);
    return field;
  }

  std::span<const std::byte> source_;
  bool is_short_ = false;
};

}  // namespace kvferry::tiers
