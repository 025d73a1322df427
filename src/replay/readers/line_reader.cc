// The window: lines are handed out in place, and only a line cut by the window's end is moved.
#include "replay/readers/line_reader.h"

#include <algorithm>
#include <cstring>

namespace kvferry::replay {
namespace {

constexpr std::size_t kWindowBytes = std::size_t{64} << 10;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

bool IsBlank(std::string_view text) {
  return text.find_first_not_of(" \t\r\v\f") == std::string_view::npos;
}

}  // namespace

LineReader::LineReader(ByteStream& stream)
    : stream_(stream),
      buffer_(std::make_unique<char[]>(kWindowBytes + kLinePadding)),
      capacity_(kWindowBytes) {}

Result<bool> LineReader::Next(TextLine& line) {
  while (true) {
    const void* found = std::memchr(buffer_.get() + scanned_, '\n', end_ - scanned_);
    std::size_t line_end = end_;
    std::size_t next = end_;
    if (found != nullptr) {
      line_end = static_cast<std::size_t>(static_cast<const char*>(found) - buffer_.get());
      next = line_end + 1;
    } else if (end_ - begin_ > kLineBytesMax) {
      KVFERRY_RETURN_IF_ERROR(PassOverLongLine().status());
      line = {.text = {}, .number = ++lines_, .is_too_long = true};
      return true;
    } else {
      scanned_ = end_;
      KVFERRY_ASSIGN_OR_RETURN(const bool has_more, Fill());
      if (has_more) {
        continue;
      }
      if (begin_ == end_) {
        return false;
      }
      line_end = end_;
      next = end_;
      buffer_[line_end] = '\n';
    }
    std::string_view text(buffer_.get() + begin_, line_end - begin_);
    begin_ = next;
    scanned_ = next;
    ++lines_;
    if (lines_ == 1 && text.starts_with(kByteOrderMark)) {
      text.remove_prefix(kByteOrderMark.size());
    }
    if (text.ends_with('\r')) {
      text.remove_suffix(1);
    }
    if (IsBlank(text)) {
      continue;
    }
    line = {.text = text, .number = lines_, .is_too_long = text.size() > kLineBytesMax};
    if (line.is_too_long) {
      line.text = {};
    }
    return true;
  }
}

Result<bool> LineReader::Fill() {
  if (is_at_end_) {
    return false;
  }
  if (begin_ > 0) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    scanned_ -= begin_;
    begin_ = 0;
  }
  if (end_ == capacity_) {
    const std::size_t grown = std::min(capacity_ * 2, kLineBytesMax + kWindowBytes);
    auto buffer = std::make_unique<char[]>(grown + kLinePadding);
    std::memcpy(buffer.get(), buffer_.get(), end_);
    buffer_ = std::move(buffer);
    capacity_ = grown;
  }
  KVFERRY_ASSIGN_OR_RETURN(const std::size_t read,
                           stream_.Read({buffer_.get() + end_, capacity_ - end_}));
  end_ += read;
  is_at_end_ = read == 0;
  return read > 0;
}

Result<bool> LineReader::PassOverLongLine() {
  while (true) {
    begin_ = end_;
    scanned_ = end_;
    KVFERRY_ASSIGN_OR_RETURN(const bool has_more, Fill());
    if (!has_more) {
      return false;
    }
    const void* found = std::memchr(buffer_.get(), '\n', end_);
    if (found != nullptr) {
      begin_ = static_cast<std::size_t>(static_cast<const char*>(found) - buffer_.get()) + 1;
      scanned_ = begin_;
      return true;
    }
  }
}

}  // namespace kvferry::replay
