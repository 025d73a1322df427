// FileSource: the bytes of a file or of standard input, counted and digested as they pass.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/file.h"
#include "base/sha256.h"
#include "replay/read_trace.h"
#include "replay/readers/byte_stream.h"

namespace kvferry::replay {

// Counts bytes and requests of one ReadTrace and reports them now and then.
//
// Thread-compatible; the callable must outlive it.
class ReadMeter {
 public:
  ReadMeter(std::uint64_t bytes_total, FunctionRef<void(const ReadProgress&)> report)
      : report_(report) {
    progress_.bytes_total = bytes_total;
  }

  const ReadProgress& progress() const noexcept { return progress_; }
  void AddBytes(std::uint64_t bytes) {
    progress_.bytes_read += bytes;
    report_(progress_);
  }
  void AddRequest() { ++progress_.requests; }
  void Finish() { report_(progress_); }

 private:
  ReadProgress progress_;
  FunctionRef<void(const ReadProgress&)> report_;
};

// Where the digest of what was read goes; borrowed until the stream is destroyed.
//
// Thread-compatible.
class FileSource final : public ByteStream {
 public:
  // "-" is standard input, which is not closed. kIoError with errno.
  static Result<std::unique_ptr<FileSource>> Open(const std::string& path, ReadMeter& meter);

  Result<std::size_t> Read(std::span<char> target) override;
  // Reads what is left, for the digest alone.
  Status Drain();
  // Of everything read so far, hex; once.
  std::string TakeSha256();

 private:
  FileSource(std::string path, FileDescriptor file, int fd, ReadMeter& meter)
      : path_(std::move(path)), file_(std::move(file)), fd_(fd), meter_(meter) {}

  std::string path_;
  FileDescriptor file_;  // Empty for standard input.
  int fd_;
  ReadMeter& meter_;
  Sha256 sha256_;
};

// Lends a stream to an owner of streams; the lender must outlive it. Thread-compatible.
class BorrowedStream final : public ByteStream {
 public:
  explicit BorrowedStream(ByteStream& stream) : stream_(stream) {}
  Result<std::size_t> Read(std::span<char> target) override { return stream_.Read(target); }

 private:
  ByteStream& stream_;
};

}  // namespace kvferry::replay
