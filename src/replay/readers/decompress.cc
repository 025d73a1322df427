// zlib's and zstd's streaming interfaces behind ByteStream.
#include "replay/readers/decompress.h"

#include <zlib.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <zstd.h>
#include <zstd_errors.h>

namespace kvferry::replay {
namespace {

constexpr std::string_view kGzipMagic("\x1f\x8b", 2);
constexpr std::string_view kZstdMagic("\x28\xb5\x2f\xfd", 4);
// Frames of any content that a decoder passes over; pzstd and seekable files begin with one.
constexpr std::string_view kSkippableMagicEnd("\x2a\x4d\x18", 3);
constexpr int kWindowLogMax = 27;  // 128 MiB, zstd's own default limit.
constexpr int kNestingMax = 3;
constexpr std::size_t kInputBytes = std::size_t{128} << 10;
constexpr int kGzipOnly = 16 + MAX_WBITS;  // zlib: expect a gzip header, checks its CRC.

bool IsZstd(std::string_view start) {
  return start.starts_with(kZstdMagic) ||
         (start.size() >= 4 && (static_cast<unsigned char>(start[0]) & 0xf0U) == 0x50 &&
          start.substr(1, 3) == kSkippableMagicEnd);
}

// Compressed bytes with a count of those used up.
class CompressedInput {
 public:
  explicit CompressedInput(std::unique_ptr<ByteStream> source)
      : source_(std::move(source)), buffer_(kInputBytes) {}

  // What is at hand; empty only at the end of the source.
  Result<std::span<const char>> Window() {
    if (begin_ == end_) {
      KVFERRY_ASSIGN_OR_RETURN(end_, source_->Read(buffer_));
      begin_ = 0;
    }
    return std::span<const char>(buffer_.data() + begin_, end_ - begin_);
  }
  void Use(std::size_t count) {
    begin_ += count;
    offset_ += count;
  }
  std::uint64_t offset() const { return offset_; }

 private:
  std::unique_ptr<ByteStream> source_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::uint64_t offset_ = 0;
};

Status Damaged(std::string_view kind, std::uint64_t offset, std::string_view reason) {
  return Status::Error(StatusCode::kDataLoss, std::string(kind) + " data is damaged at byte " +
                                                  std::to_string(offset) + ": " +
                                                  std::string(reason) +
                                                  "; nothing of it is used: get the file anew");
}

Status Truncated(std::string_view kind, std::uint64_t offset) {
  return Status::Error(StatusCode::kDataLoss, std::string(kind) + " data is cut off at byte " +
                                                  std::to_string(offset) +
                                                  "; nothing of it is used: get the whole file");
}

class GzipStream final : public ByteStream {
 public:
  explicit GzipStream(std::unique_ptr<ByteStream> source) : input_(std::move(source)) {}
  ~GzipStream() override {
    if (is_open_) {
      inflateEnd(&inflate_);
    }
  }
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  Result<std::size_t> Read(std::span<char> target) override {
    if (!is_open_) {
      if (inflateInit2(&inflate_, kGzipOnly) != Z_OK) {
        return Status::Error(StatusCode::kResourceExhausted, "no memory to decompress gzip data");
      }
      is_open_ = true;
    }
    inflate_.next_out = reinterpret_cast<Bytef*>(target.data());
    inflate_.avail_out = static_cast<uInt>(std::min<std::size_t>(target.size(), 1U << 30U));
    const uInt wanted = inflate_.avail_out;
    while (inflate_.avail_out == wanted && wanted > 0) {
      KVFERRY_ASSIGN_OR_RETURN(const std::span<const char> window, input_.Window());
      if (is_between_members_) {
        KVFERRY_ASSIGN_OR_RETURN(const bool is_at_end, IsAtEnd(window));
        if (is_at_end) {
          return std::size_t{0};
        }
        if (is_between_members_) {
          continue;  // Zero padding was passed over.
        }
      }
      if (window.empty()) {
        return Truncated("gzip", input_.offset());
      }
      KVFERRY_RETURN_IF_ERROR(Inflate(window));
    }
    return static_cast<std::size_t>(wanted - inflate_.avail_out);
  }

 private:
  // Behind a member: another one, zero bytes (tapes pad with them), or the end.
  Result<bool> IsAtEnd(std::span<const char> window) {
    if (window.empty()) {
      return true;
    }
    std::size_t zeros = 0;
    while (zeros < window.size() && window[zeros] == '\0') {
      ++zeros;
    }
    if (zeros > 0) {
      input_.Use(zeros);
      has_padding_ = true;
      return false;
    }
    if (has_padding_ || window[0] != kGzipMagic[0]) {
      return Damaged("gzip", input_.offset(), "what follows the last member is no gzip member");
    }
    inflateReset(&inflate_);
    is_between_members_ = false;
    return false;
  }

  Status Inflate(std::span<const char> window) {
    // zlib's interface predates const.
    inflate_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(window.data()));
    inflate_.avail_in = static_cast<uInt>(window.size());
    const int code = inflate(&inflate_, Z_NO_FLUSH);
    input_.Use(window.size() - inflate_.avail_in);
    if (code == Z_STREAM_END) {
      is_between_members_ = true;
      return Status::Ok();
    }
    if (code == Z_OK || code == Z_BUF_ERROR) {
      return Status::Ok();
    }
    return Damaged("gzip", input_.offset(), inflate_.msg != nullptr ? inflate_.msg : "bad data");
  }

  CompressedInput input_;
  z_stream inflate_{};
  bool is_open_ = false;
  bool is_between_members_ = false;
  bool has_padding_ = false;
};

class ZstdStream final : public ByteStream {
 public:
  explicit ZstdStream(std::unique_ptr<ByteStream> source) : input_(std::move(source)) {}

  Result<std::size_t> Read(std::span<char> target) override {
    if (context_ == nullptr) {
      context_.reset(ZSTD_createDCtx());
      if (context_ == nullptr || ZSTD_isError(ZSTD_DCtx_setParameter(
                                     context_.get(), ZSTD_d_windowLogMax, kWindowLogMax)) != 0) {
        return Status::Error(StatusCode::kResourceExhausted, "no memory to decompress zstd data");
      }
    }
    ZSTD_outBuffer out{target.data(), target.size(), 0};
    while (out.pos == 0 && out.size > 0) {
      KVFERRY_ASSIGN_OR_RETURN(const std::span<const char> window, input_.Window());
      if (window.empty() && is_frame_done_) {
        return std::size_t{0};
      }
      ZSTD_inBuffer in{window.data(), window.size(), 0};
      const std::size_t rest = ZSTD_decompressStream(context_.get(), &out, &in);
      input_.Use(in.pos);
      if (ZSTD_getErrorCode(rest) == ZSTD_error_frameParameter_windowTooLarge) {
        return Status::Error(StatusCode::kDataLoss,
                             "zstd data needs a window of more than 128 MiB to decompress, so it "
                             "is not read: unpack it first by zstd -d --long=31");
      }
      if (ZSTD_isError(rest) != 0) {
        return Damaged("zstd", input_.offset(), ZSTD_getErrorName(rest));
      }
      // Output may still be flushed after the last input byte was taken.
      if (window.empty() && out.pos == 0) {
        return Truncated("zstd", input_.offset());
      }
      is_frame_done_ = rest == 0;
    }
    return out.pos;
  }

 private:
  struct FreeContext {
    void operator()(ZSTD_DCtx* context) const noexcept { ZSTD_freeDCtx(context); }
  };

  CompressedInput input_;
  std::unique_ptr<ZSTD_DCtx, FreeContext> context_;
  bool is_frame_done_ = false;
};

}  // namespace

Result<std::unique_ptr<PeekableStream>> Decompress(std::unique_ptr<ByteStream> source) {
  auto stream = std::make_unique<PeekableStream>(std::move(source));
  for (int depth = 0; depth < kNestingMax; ++depth) {
    KVFERRY_ASSIGN_OR_RETURN(const std::string_view start, stream->Peek(kZstdMagic.size()));
    if (start.starts_with(kGzipMagic)) {
      stream = std::make_unique<PeekableStream>(std::make_unique<GzipStream>(std::move(stream)));
    } else if (IsZstd(start)) {
      stream = std::make_unique<PeekableStream>(std::make_unique<ZstdStream>(std::move(stream)));
    } else {
      break;
    }
  }
  return stream;
}

}  // namespace kvferry::replay
