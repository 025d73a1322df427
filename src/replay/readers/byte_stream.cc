// Look-ahead and whole reads over any stream.
#include "replay/readers/byte_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/bytes.h"

namespace kvferry::replay {

Result<std::string_view> PeekableStream::Peek(std::size_t bytes) {
  peeked_.erase(0, taken_);
  taken_ = 0;
  // Most texts are shorter than what is asked for, so room is made as it is needed.
  constexpr std::size_t kStep = std::size_t{32} << 10;
  while (peeked_.size() < bytes) {
    const std::size_t held = peeked_.size();
    const std::size_t step = std::min(bytes - held, std::max(held, kStep));
    peeked_.resize(held + step);
    Result<std::size_t> read = source_->Read({peeked_.data() + held, step});
    if (!read.has_value()) {
      return read.error();
    }
    peeked_.resize(held + *read);
    if (*read == 0) {
      break;
    }
  }
  return std::string_view(peeked_).substr(0, bytes);
}

Result<std::size_t> PeekableStream::Read(std::span<char> target) {
  if (taken_ == peeked_.size()) {
    return source_->Read(target);
  }
  const std::size_t count = std::min(target.size(), peeked_.size() - taken_);
  std::memcpy(target.data(), peeked_.data() + taken_, count);
  taken_ += count;
  if (taken_ == peeked_.size()) {
    peeked_ = {};
    taken_ = 0;
  }
  return count;
}

Result<std::size_t> TextStream::Read(std::span<char> target) {
  const std::size_t count = std::min(target.size(), text_.size());
  std::copy_n(text_.data(), count, target.data());
  text_.remove_prefix(count);
  return count;
}

Result<PaddedText> ReadWhole(ByteStream& stream, std::size_t bytes_max, std::size_t padding) {
  constexpr std::size_t kStepMin = std::size_t{64} << 10;
  PaddedText text;
  while (true) {
    if (text.bytes.size() - text.size < kStepMin) {
      text.bytes.resize(text.size + std::max(text.size / 2, kStepMin));
    }
    const std::span<char> free(text.bytes.data() + text.size, text.bytes.size() - text.size);
    KVFERRY_ASSIGN_OR_RETURN(const std::size_t read, stream.Read(free));
    if (read == 0) {
      break;
    }
    text.size += read;
    if (text.size > bytes_max) {
      return Status::Error(StatusCode::kResourceExhausted,
                           "larger than " + FormatBytes(bytes_max) + " in one piece");
    }
  }
  text.bytes.resize(text.size);
  text.bytes.resize(text.size + padding, '\0');
  return text;
}

}  // namespace kvferry::replay
