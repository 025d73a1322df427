// Makers for tests of rings: aligned buffers, patterns, and a sink that counts ends.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/assert.h"
#include "tiers/nvme/io_ring.h"

namespace kvferry::testing {

// Bytes that O_DIRECT takes.
class AlignedBytes {
 public:
  explicit AlignedBytes(std::size_t size_bytes) : storage_(size_bytes + tiers::kIoAlignment) {
    void* start = storage_.data();
    std::size_t space = storage_.size();
    start = std::align(tiers::kIoAlignment, size_bytes, start, space);
    KVFERRY_CHECK(start != nullptr);
    bytes_ = std::span(storage_).subspan(storage_.size() - space, size_bytes);
  }
  AlignedBytes(const AlignedBytes&) = delete;
  AlignedBytes& operator=(const AlignedBytes&) = delete;

  std::span<std::byte> all() { return bytes_; }
  // The page of this number.
  std::span<std::byte> page(std::size_t number) {
    return bytes_.subspan(number * tiers::kIoAlignment, tiers::kIoAlignment);
  }

 private:
  std::vector<std::byte> storage_;
  std::span<std::byte> bytes_;
};

// Bytes that are different for each seed and, within 251 bytes, for each place.
inline void FillPattern(std::span<std::byte> target, std::uint64_t seed) {
  std::uint64_t value = (seed * 31) + 7;
  for (std::byte& byte : target) {
    byte = static_cast<std::byte>(value % 251);
    ++value;
  }
}

inline bool HasPattern(std::span<const std::byte> bytes, std::uint64_t seed) {
  std::vector<std::byte> expected(bytes.size());
  FillPattern(expected, seed);
  return std::equal(bytes.begin(), bytes.end(), expected.begin());
}

// Remembers how often each operation ended, and in which order.
class CountingSink final : public tiers::IoSink {
 public:
  void OnIoDone(tiers::IoOp& op) noexcept override {
    ended_.push_back(&op);
    ++counts_[&op];
  }
  std::size_t ended_count() const { return ended_.size(); }
  const std::vector<const tiers::IoOp*>& ended() const { return ended_; }
  int CountOf(const tiers::IoOp& op) const {
    const auto found = counts_.find(&op);
    return found == counts_.end() ? 0 : found->second;
  }

 private:
  std::vector<const tiers::IoOp*> ended_;
  std::map<const tiers::IoOp*, int> counts_;
};

inline tiers::IoOp MakeOp(tiers::IoOp::Kind kind,
                          std::uint64_t offset_bytes,
                          std::span<std::byte> buffer,
                          tiers::IoSink& sink) {
  tiers::IoOp op;
  op.kind = kind;
  op.offset_bytes = offset_bytes;
  op.buffer = buffer;
  op.sink = &sink;
  return op;
}

}  // namespace kvferry::testing
