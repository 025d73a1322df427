// Wrappers of files, folders and the file system, each of which asks the latch first.
#include "tiers/nvme/rocks_file_system.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <rocksdb/file_system.h>

#include "tiers/nvme/rocks_status.h"

namespace kvferry::tiers {

Status FreezeLatch::why() const {
  const MutexLock lock(mutex_);
  return why_;
}

void FreezeLatch::Freeze(const Status& why) {
  const MutexLock lock(mutex_);
  if (!is_frozen_) {
    why_ = why;
    is_frozen_ = true;
  }
}

namespace {

using rocksdb::DataVerificationInfo;
using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

// Carries out `change` and freezes if it fails; once frozen, does nothing. Ok but where the file
// system has no such operation.
template <class Change>
IOStatus Guarded(FreezeLatch& latch, const char* what, Change change) {
  if (latch.is_frozen()) {
    return IOStatus::OK();
  }
  IOStatus status = change();
  if (status.ok() || status.IsNotSupported()) {
    return status;
  }
  latch.Freeze(FromRocks(status, what));
  return IOStatus::OK();
}

// A file that is opened for writing while all is frozen, or could not be: it takes everything and
// keeps its length.
class NoFile final : public rocksdb::FSWritableFile {
 public:
  IOStatus Append(const Slice& data, const IOOptions& /*o*/, IODebugContext* /*d*/) override {
    size_bytes_ += data.size();
    return IOStatus::OK();
  }
  IOStatus Close(const IOOptions& /*o*/, IODebugContext* /*d*/) override { return IOStatus::OK(); }
  IOStatus Flush(const IOOptions& /*o*/, IODebugContext* /*d*/) override { return IOStatus::OK(); }
  IOStatus Sync(const IOOptions& /*o*/, IODebugContext* /*d*/) override { return IOStatus::OK(); }
  bool IsSyncThreadSafe() const override { return true; }
  std::uint64_t GetFileSize(const IOOptions& /*o*/, IODebugContext* /*d*/) override {
    return size_bytes_;
  }

 private:
  std::uint64_t size_bytes_ = 0;
};

class FreezingFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  FreezingFile(std::unique_ptr<rocksdb::FSWritableFile> file, FreezeLatch& latch)
      : FSWritableFileOwnerWrapper(std::move(file)), latch_(latch) {}

  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* debug) override {
    return Guarded(latch_, "writing a file of the manifest",
                   [&] { return target()->Append(data, options, debug); });
  }
  IOStatus Append(const Slice& data,
                  const IOOptions& options,
                  const DataVerificationInfo& /*info*/,
                  IODebugContext* debug) override {
    return Append(data, options, debug);
  }
  // Only direct I/O, which is off, would need them.
  IOStatus PositionedAppend(const Slice& /*data*/,
                            std::uint64_t /*offset*/,
                            const IOOptions& /*options*/,
                            IODebugContext* /*debug*/) override {
    return IOStatus::NotSupported("PositionedAppend");
  }
  IOStatus PositionedAppend(const Slice& /*data*/,
                            std::uint64_t /*offset*/,
                            const IOOptions& /*options*/,
                            const DataVerificationInfo& /*info*/,
                            IODebugContext* /*debug*/) override {
    return IOStatus::NotSupported("PositionedAppend");
  }
  IOStatus Truncate(std::uint64_t size, const IOOptions& options, IODebugContext* debug) override {
    return Guarded(latch_, "cutting a file of the manifest",
                   [&] { return target()->Truncate(size, options, debug); });
  }
  // Of a frozen file the destructor closes the descriptor.
  IOStatus Close(const IOOptions& options, IODebugContext* debug) override {
    return Guarded(latch_, "closing a file of the manifest",
                   [&] { return target()->Close(options, debug); });
  }
  IOStatus Flush(const IOOptions& options, IODebugContext* debug) override {
    return Guarded(latch_, "writing a file of the manifest",
                   [&] { return target()->Flush(options, debug); });
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    return Guarded(latch_, "syncing a file of the manifest",
                   [&] { return target()->Sync(options, debug); });
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return Guarded(latch_, "syncing a file of the manifest",
                   [&] { return target()->Fsync(options, debug); });
  }
  IOStatus RangeSync(std::uint64_t offset,
                     std::uint64_t size,
                     const IOOptions& options,
                     IODebugContext* debug) override {
    return Guarded(latch_, "syncing a file of the manifest",
                   [&] { return target()->RangeSync(offset, size, options, debug); });
  }
  void PrepareWrite(std::size_t offset,
                    std::size_t size,
                    const IOOptions& options,
                    IODebugContext* debug) override {
    if (!latch_.is_frozen()) {
      target()->PrepareWrite(offset, size, options, debug);
    }
  }
  // Room ahead of the writes is only a wish, so its errors freeze nothing.
  IOStatus Allocate(std::uint64_t offset,
                    std::uint64_t size,
                    const IOOptions& options,
                    IODebugContext* debug) override {
    return latch_.is_frozen() ? IOStatus::OK() : target()->Allocate(offset, size, options, debug);
  }

 private:
  FreezeLatch& latch_;
};

class FreezingFolder final : public rocksdb::FSDirectory {
 public:
  FreezingFolder(std::unique_ptr<rocksdb::FSDirectory> folder, FreezeLatch& latch)
      : folder_(std::move(folder)), latch_(latch) {}

  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return Guarded(latch_, "syncing the manifest's folder",
                   [&] { return folder_->Fsync(options, debug); });
  }
  IOStatus FsyncWithDirOptions(const IOOptions& options,
                               IODebugContext* debug,
                               const rocksdb::DirFsyncOptions& folder_options) override {
    return Guarded(latch_, "syncing the manifest's folder",
                   [&] { return folder_->FsyncWithDirOptions(options, debug, folder_options); });
  }
  IOStatus Close(const IOOptions& options, IODebugContext* debug) override {
    return folder_->Close(options, debug);
  }
  std::size_t GetUniqueId(char* id, std::size_t size_max) const override {
    return folder_->GetUniqueId(id, size_max);
  }

 private:
  std::unique_ptr<rocksdb::FSDirectory> folder_;
  FreezeLatch& latch_;
};

// The borrowed file system, under the ownership that the wrapper's base wants.
std::shared_ptr<rocksdb::FileSystem> Borrowed(rocksdb::FileSystem& inner) {
  return {std::shared_ptr<void>(), &inner};
}

class FreezingFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  FreezingFileSystem(rocksdb::FileSystem& inner, FreezeLatch& latch)
      : FileSystemWrapper(Borrowed(inner)), latch_(latch) {}

  const char* Name() const override { return "kvferry.FreezingFileSystem"; }

  IOStatus NewWritableFile(const std::string& name,
                           const FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* file,
                           IODebugContext* debug) override {
    return Open(file, [&] { return target()->NewWritableFile(name, options, file, debug); });
  }
  IOStatus ReopenWritableFile(const std::string& name,
                              const FileOptions& options,
                              std::unique_ptr<rocksdb::FSWritableFile>* file,
                              IODebugContext* debug) override {
    return Open(file, [&] { return target()->ReopenWritableFile(name, options, file, debug); });
  }
  // Our options ask for none of the following.
  IOStatus ReuseWritableFile(const std::string& /*name*/,
                             const std::string& /*old_name*/,
                             const FileOptions& /*options*/,
                             std::unique_ptr<rocksdb::FSWritableFile>* /*file*/,
                             IODebugContext* /*debug*/) override {
    return IOStatus::NotSupported("ReuseWritableFile");
  }
  IOStatus NewRandomRWFile(const std::string& /*name*/,
                           const FileOptions& /*options*/,
                           std::unique_ptr<rocksdb::FSRandomRWFile>* /*file*/,
                           IODebugContext* /*debug*/) override {
    return IOStatus::NotSupported("NewRandomRWFile");
  }
  IOStatus NewMemoryMappedFileBuffer(
      const std::string& /*name*/,
      std::unique_ptr<rocksdb::MemoryMappedFileBuffer>* /*buffer*/) override {
    return IOStatus::NotSupported("NewMemoryMappedFileBuffer");
  }
  IOStatus NewLogger(const std::string& /*name*/,
                     const IOOptions& /*options*/,
                     std::shared_ptr<rocksdb::Logger>* /*logger*/,
                     IODebugContext* /*debug*/) override {
    return IOStatus::NotSupported("NewLogger");
  }
  IOStatus LinkFile(const std::string& /*source*/,
                    const std::string& /*target*/,
                    const IOOptions& /*options*/,
                    IODebugContext* /*debug*/) override {
    return IOStatus::NotSupported("LinkFile");
  }
  IOStatus NewDirectory(const std::string& name,
                        const IOOptions& options,
                        std::unique_ptr<rocksdb::FSDirectory>* folder,
                        IODebugContext* debug) override {
    IOStatus status = target()->NewDirectory(name, options, folder, debug);
    if (status.ok()) {
      *folder = std::make_unique<FreezingFolder>(std::move(*folder), latch_);
    }
    return status;
  }
  // What is left over costs room and is deleted at the next open; a failure freezes nothing.
  IOStatus DeleteFile(const std::string& name,
                      const IOOptions& options,
                      IODebugContext* debug) override {
    return latch_.is_frozen() ? IOStatus::OK() : target()->DeleteFile(name, options, debug);
  }
  IOStatus DeleteDir(const std::string& name,
                     const IOOptions& options,
                     IODebugContext* debug) override {
    return latch_.is_frozen() ? IOStatus::OK() : target()->DeleteDir(name, options, debug);
  }
  IOStatus CreateDir(const std::string& name,
                     const IOOptions& options,
                     IODebugContext* debug) override {
    return latch_.is_frozen() ? IOStatus::OK() : target()->CreateDir(name, options, debug);
  }
  IOStatus CreateDirIfMissing(const std::string& name,
                              const IOOptions& options,
                              IODebugContext* debug) override {
    return latch_.is_frozen() ? IOStatus::OK() : target()->CreateDirIfMissing(name, options, debug);
  }
  IOStatus Truncate(const std::string& name,
                    std::size_t size,
                    const IOOptions& options,
                    IODebugContext* debug) override {
    return Guarded(latch_, "cutting a file of the manifest",
                   [&] { return target()->Truncate(name, size, options, debug); });
  }
  IOStatus RenameFile(const std::string& source,
                      const std::string& target_name,
                      const IOOptions& options,
                      IODebugContext* debug) override {
    return Guarded(latch_, "renaming a file of the manifest",
                   [&] { return target()->RenameFile(source, target_name, options, debug); });
  }

 private:
  template <class OpenInner>
  IOStatus Open(std::unique_ptr<rocksdb::FSWritableFile>* file, OpenInner open) {
    file->reset();
    IOStatus status = Guarded(latch_, "opening a file of the manifest for writing", open);
    if (status.ok()) {
      if (*file != nullptr) {
        *file = std::make_unique<FreezingFile>(std::move(*file), latch_);
      } else {
        *file = std::make_unique<NoFile>();
      }
    }
    return status;
  }

  FreezeLatch& latch_;
};

}  // namespace

std::unique_ptr<rocksdb::FileSystem> MakeFreezingFileSystem(rocksdb::FileSystem& inner,
                                                            FreezeLatch& latch) {
  return std::make_unique<FreezingFileSystem>(inner, latch);
}

}  // namespace kvferry::tiers
