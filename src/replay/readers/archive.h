// Archive: the files of a tar stream or of a folder, one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvferry/status.h"

#include "replay/readers/byte_stream.h"
#include "replay/readers/file_source.h"

struct archive;

namespace kvferry::replay {

// Thread-compatible.
class Archive {
 public:
  Archive() = default;
  virtual ~Archive() = default;
  Archive(const Archive&) = delete;
  Archive& operator=(const Archive&) = delete;

  // Goes on to the next regular file; false behind the last one. What the file before had left is
  // passed over, and its stream is gone.
  virtual Result<bool> Next() = 0;
  virtual const std::string& member_name() const = 0;
  // The file's decompressed bytes; valid until Next.
  virtual PeekableStream& member() = 0;
};

// A tar archive read from a stream, which must outlive it. kDataLoss where it is cut off or
// damaged.
//
// Thread-compatible.
class TarArchive final : public Archive {
 public:
  explicit TarArchive(ByteStream& stream);
  ~TarArchive() override;
  TarArchive(const TarArchive&) = delete;
  TarArchive& operator=(const TarArchive&) = delete;

  Result<bool> Next() override;
  const std::string& member_name() const override { return name_; }
  PeekableStream& member() override { return *member_; }

 private:
  class Input;
  class MemberStream;
  struct Free {
    void operator()(::archive* tar) const noexcept;
  };
  Status Error() const;

  std::unique_ptr<Input> input_;
  std::unique_ptr<::archive, Free> tar_;
  std::string name_;
  std::unique_ptr<PeekableStream> member_;
};

// The regular files right in a folder, by name; the ones in folders below are left out.
//
// Thread-compatible; the meter must outlive it.
class FolderArchive final : public Archive {
 public:
  static Result<std::unique_ptr<FolderArchive>> Open(const std::string& path, ReadMeter& meter);

  Result<bool> Next() override;
  const std::string& member_name() const override { return names_[next_ - 1]; }
  PeekableStream& member() override { return *member_; }
  // Of the lines "SHA-256 of a file, two spaces, its name" in order, once Next has said false: what
  // `sha256sum * | sha256sum` prints in the folder (names in byte order).
  std::string TakeSha256();

 private:
  FolderArchive(std::string path, std::vector<std::string> names, ReadMeter& meter)
      : path_(std::move(path)), names_(std::move(names)), meter_(meter) {}
  Status FinishMember();

  std::string path_;
  std::vector<std::string> names_;
  ReadMeter& meter_;
  std::size_t next_ = 0;
  std::unique_ptr<FileSource> file_;
  std::unique_ptr<PeekableStream> member_;
  Sha256 sha256_;
};

}  // namespace kvferry::replay
