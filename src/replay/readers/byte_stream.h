// ByteStream: bytes that are read once from front to back; PeekableStream: with a look ahead.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "kvferry/status.h"

namespace kvferry::replay {

// Thread-compatible.
class ByteStream {
 public:
  ByteStream() = default;
  virtual ~ByteStream() = default;
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  // Fills the front of `target` and says how many bytes; 0 only at the end or for an empty target.
  // After an error nothing may be read any more.
  virtual Result<std::size_t> Read(std::span<char> target) = 0;
};

// A stream whose first bytes can be seen before they are read.
//
// Thread-compatible.
class PeekableStream final : public ByteStream {
 public:
  explicit PeekableStream(std::unique_ptr<ByteStream> source) : source_(std::move(source)) {}

  // The next `bytes`, or fewer when the stream ends before; valid until the next call.
  Result<std::string_view> Peek(std::size_t bytes);
  Result<std::size_t> Read(std::span<char> target) override;

 private:
  std::unique_ptr<ByteStream> source_;
  std::string peeked_;
  std::size_t taken_ = 0;  // Of peeked_.
};

// A stream over bytes that live until it is destroyed.
//
// Thread-compatible.
class TextStream final : public ByteStream {
 public:
  explicit TextStream(std::string_view text) : text_(text) {}
  Result<std::size_t> Read(std::span<char> target) override;

 private:
  std::string_view text_;
};

// Everything that is left, with `padding` zero bytes behind it that do not count.
// kResourceExhausted above `bytes_max`.
struct PaddedText {
  std::string bytes;
  std::size_t size = 0;
};
Result<PaddedText> ReadWhole(ByteStream& stream, std::size_t bytes_max, std::size_t padding);

}  // namespace kvferry::replay
