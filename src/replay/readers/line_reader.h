// LineReader: a stream's lines, one at a time, in a window that never holds the whole text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "kvferry/status.h"

#include "replay/readers/byte_stream.h"

namespace kvferry::replay {

// A longer line is passed over without being held.
inline constexpr std::size_t kLineBytesMax = std::size_t{16} << 20;
// Behind each line so many bytes may be read (simdjson and the number scanner read ahead), and the
// first of them is no digit.
inline constexpr std::size_t kLinePadding = 64;

struct TextLine {
  std::string_view text;     // Without line end; valid until the next call. Empty if too long.
  std::uint64_t number = 0;  // From 1; blank lines count.
  bool is_too_long = false;
};

// Lines end with LF or CR LF, the last one with the text. Lines of white space are passed over, and
// so is a UTF-8 byte order mark before the first one.
//
// Thread-compatible; the stream must outlive it.
class LineReader {
 public:
  explicit LineReader(ByteStream& stream);

  // The next line, or false at the end. The stream's errors pass through.
  Result<bool> Next(TextLine& line);

 private:
  // False when nothing more comes.
  Result<bool> Fill();
  Result<bool> PassOverLongLine();

  ByteStream& stream_;
  std::unique_ptr<char[]> buffer_;
  std::size_t capacity_;
  std::size_t begin_ = 0;    // Of what is not handed out yet.
  std::size_t scanned_ = 0;  // No line end before it.
  std::size_t end_ = 0;
  std::uint64_t lines_ = 0;
  bool is_at_end_ = false;
};

}  // namespace kvferry::replay
