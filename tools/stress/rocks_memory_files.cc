// RocksDB's file classes, each over the id of a file.
#include "stress/rocks_memory_files.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <rocksdb/file_system.h>

namespace kvferry::stress {
namespace {

using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

std::string NameIn(const std::string& path) {
  return path.substr(path.find_last_of('/') + 1);
}

IOStatus NotThere(const std::string& path) {
  return IOStatus::PathNotFound(path);
}

class SequentialFile final : public rocksdb::FSSequentialFile {
 public:
  SequentialFile(const MemoryFiles& files, MemoryFiles::FileId file) : files_(files), file_(file) {}

  IOStatus Read(std::size_t size,
                const IOOptions& /*options*/,
                Slice* result,
                char* scratch,
                IODebugContext* /*debug*/) override {
    const std::string read = files_.Read(file_, at_, size);
    std::copy(read.begin(), read.end(), scratch);
    at_ += read.size();
    *result = Slice(scratch, read.size());
    return IOStatus::OK();
  }
  IOStatus Skip(std::uint64_t size) override {
    at_ = std::min(at_ + size, files_.SizeOf(file_));
    return IOStatus::OK();
  }

 private:
  const MemoryFiles& files_;
  MemoryFiles::FileId file_;
  std::uint64_t at_ = 0;
};

class RandomAccessFile final : public rocksdb::FSRandomAccessFile {
 public:
  RandomAccessFile(const MemoryFiles& files, MemoryFiles::FileId file)
      : files_(files), file_(file) {}

  // RocksDB's interface.
  // NOLINTNEXTLINE(readability-function-size)
  IOStatus Read(std::uint64_t offset,
                std::size_t size,
                const IOOptions& /*options*/,
                Slice* result,
                char* scratch,
                IODebugContext* /*debug*/) const override {
    const std::string read = files_.Read(file_, offset, size);
    std::copy(read.begin(), read.end(), scratch);
    *result = Slice(scratch, read.size());
    return IOStatus::OK();
  }

 private:
  const MemoryFiles& files_;
  MemoryFiles::FileId file_;
};

class WritableFile final : public rocksdb::FSWritableFile {
 public:
  WritableFile(MemoryFiles& files, MemoryFiles::FileId file) : files_(files), file_(file) {}

  IOStatus Append(const Slice& data,
                  const IOOptions& /*options*/,
                  IODebugContext* /*debug*/) override {
    files_.Append(file_, {data.data(), data.size()});
    return IOStatus::OK();
  }
  using FSWritableFile::Append;
  IOStatus Close(const IOOptions& /*options*/, IODebugContext* /*debug*/) override {
    return IOStatus::OK();
  }
  IOStatus Flush(const IOOptions& /*options*/, IODebugContext* /*debug*/) override {
    return IOStatus::OK();
  }
  IOStatus Sync(const IOOptions& /*options*/, IODebugContext* /*debug*/) override {
    files_.Sync(file_);
    return IOStatus::OK();
  }
  bool IsSyncThreadSafe() const override { return true; }
  std::uint64_t GetFileSize(const IOOptions& /*options*/, IODebugContext* /*debug*/) override {
    return files_.SizeOf(file_);
  }

 private:
  MemoryFiles& files_;
  MemoryFiles::FileId file_;
};

class Folder final : public rocksdb::FSDirectory {
 public:
  explicit Folder(MemoryFiles& files) : files_(files) {}
  IOStatus Fsync(const IOOptions& /*options*/, IODebugContext* /*debug*/) override {
    files_.SyncNames();
    return IOStatus::OK();
  }
  IOStatus Close(const IOOptions& /*options*/, IODebugContext* /*debug*/) override {
    return IOStatus::OK();
  }

 private:
  MemoryFiles& files_;
};

class NoLock final : public rocksdb::FileLock {};

// The analyzer takes the text that an IOStatus owns for a leak wherever one is returned.
// NOLINTBEGIN(clang-analyzer-cplusplus.NewDeleteLeaks)
class MemoryFileSystem final : public rocksdb::FileSystem {
 public:
  explicit MemoryFileSystem(MemoryFiles& files) : files_(files) {}

  const char* Name() const override { return "kvferry.MemoryFileSystem"; }

  IOStatus NewSequentialFile(const std::string& path,
                             const FileOptions& /*options*/,
                             std::unique_ptr<rocksdb::FSSequentialFile>* result,
                             IODebugContext* /*debug*/) override {
    const auto file = files_.Find(NameIn(path));
    if (!file) {
      return NotThere(path);
    }
    *result = std::make_unique<SequentialFile>(files_, *file);
    return IOStatus::OK();
  }
  IOStatus NewRandomAccessFile(const std::string& path,
                               const FileOptions& /*options*/,
                               std::unique_ptr<rocksdb::FSRandomAccessFile>* result,
                               IODebugContext* /*debug*/) override {
    const auto file = files_.Find(NameIn(path));
    if (!file) {
      return NotThere(path);
    }
    *result = std::make_unique<RandomAccessFile>(files_, *file);
    return IOStatus::OK();
  }
  IOStatus NewWritableFile(const std::string& path,
                           const FileOptions& /*options*/,
                           std::unique_ptr<rocksdb::FSWritableFile>* result,
                           IODebugContext* /*debug*/) override {
    *result = std::make_unique<WritableFile>(files_, files_.Create(NameIn(path)));
    return IOStatus::OK();
  }
  IOStatus ReopenWritableFile(const std::string& path,
                              const FileOptions& /*options*/,
                              std::unique_ptr<rocksdb::FSWritableFile>* result,
                              IODebugContext* /*debug*/) override {
    const auto file = files_.Find(NameIn(path));
    if (!file) {
      return NotThere(path);
    }
    *result = std::make_unique<WritableFile>(files_, *file);
    return IOStatus::OK();
  }
  IOStatus NewDirectory(const std::string& /*path*/,
                        const IOOptions& /*options*/,
                        std::unique_ptr<rocksdb::FSDirectory>* result,
                        IODebugContext* /*debug*/) override {
    *result = std::make_unique<Folder>(files_);
    return IOStatus::OK();
  }
  IOStatus FileExists(const std::string& path,
                      const IOOptions& /*options*/,
                      IODebugContext* /*debug*/) override {
    return files_.Find(NameIn(path)) ? IOStatus::OK() : IOStatus::NotFound();
  }
  IOStatus GetChildren(const std::string& /*path*/,
                       const IOOptions& /*options*/,
                       std::vector<std::string>* result,
                       IODebugContext* /*debug*/) override {
    *result = files_.Names();
    return IOStatus::OK();
  }
  IOStatus DeleteFile(const std::string& path,
                      const IOOptions& /*options*/,
                      IODebugContext* /*debug*/) override {
    return files_.Delete(NameIn(path)) ? IOStatus::OK() : NotThere(path);
  }
  IOStatus CreateDir(const std::string& /*path*/,
                     const IOOptions& /*options*/,
                     IODebugContext* /*debug*/) override {
    return IOStatus::OK();
  }
  IOStatus CreateDirIfMissing(const std::string& /*path*/,
                              const IOOptions& /*options*/,
                              IODebugContext* /*debug*/) override {
    return IOStatus::OK();
  }
  IOStatus DeleteDir(const std::string& /*path*/,
                     const IOOptions& /*options*/,
                     IODebugContext* /*debug*/) override {
    return IOStatus::OK();
  }
  IOStatus GetFileSize(const std::string& path,
                       const IOOptions& /*options*/,
                       std::uint64_t* size,
                       IODebugContext* /*debug*/) override {
    const auto file = files_.Find(NameIn(path));
    *size = file ? files_.SizeOf(*file) : 0;
    return file ? IOStatus::OK() : NotThere(path);
  }
  IOStatus GetFileModificationTime(const std::string& path,
                                   const IOOptions& /*options*/,
                                   std::uint64_t* time,
                                   IODebugContext* /*debug*/) override {
    *time = 0;
    return files_.Find(NameIn(path)) ? IOStatus::OK() : NotThere(path);
  }
  IOStatus RenameFile(const std::string& from,
                      const std::string& to,
                      const IOOptions& /*options*/,
                      IODebugContext* /*debug*/) override {
    return files_.Rename(NameIn(from), NameIn(to)) ? IOStatus::OK() : NotThere(from);
  }
  IOStatus LockFile(const std::string& /*path*/,
                    const IOOptions& /*options*/,
                    rocksdb::FileLock** lock,
                    IODebugContext* /*debug*/) override {
    *lock = &lock_;
    return IOStatus::OK();
  }
  IOStatus UnlockFile(rocksdb::FileLock* /*lock*/,
                      const IOOptions& /*options*/,
                      IODebugContext* /*debug*/) override {
    return IOStatus::OK();
  }
  IOStatus GetTestDirectory(const IOOptions& /*options*/,
                            std::string* /*path*/,
                            IODebugContext* /*debug*/) override {
    return IOStatus::NotSupported("GetTestDirectory");
  }
  IOStatus GetAbsolutePath(const std::string& path,
                           const IOOptions& /*options*/,
                           std::string* result,
                           IODebugContext* /*debug*/) override {
    *result = path;
    return IOStatus::OK();
  }
  IOStatus IsDirectory(const std::string& path,
                       const IOOptions& /*options*/,
                       bool* result,
                       IODebugContext* /*debug*/) override {
    *result = !files_.Find(NameIn(path)).has_value();
    return IOStatus::OK();
  }

 private:
  MemoryFiles& files_;
  NoLock lock_;
};
// NOLINTEND(clang-analyzer-cplusplus.NewDeleteLeaks)

}  // namespace

struct RocksMemoryFiles::Parts {
  explicit Parts(MemoryFiles& files) : file_system(files) {}
  MemoryFileSystem file_system;
};

RocksMemoryFiles::RocksMemoryFiles(MemoryFiles& files) : parts_(std::make_unique<Parts>(files)) {}

RocksMemoryFiles::~RocksMemoryFiles() = default;

rocksdb::FileSystem& RocksMemoryFiles::file_system() noexcept {
  return parts_->file_system;
}

}  // namespace kvferry::stress
