// FaultyFileSystem: the machine's file system whose writes and syncs fail from a chosen one on.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <rocksdb/file_system.h>

namespace kvferry::testing {

enum class DriveFault : std::uint8_t { kIoError, kNoSpace };

// What the file system and its files share. Thread-safe.
class FaultPlan {
 public:
  // From now on the changes fail from number `first`, the next being 1, and `count` of them.
  void FailAt(std::int64_t first, std::int64_t count, DriveFault fault) {
    fault_ = fault;
    count_ = count;
    until_ = first;
  }
  void Heal() { count_ = 0; }
  std::int64_t change_count() const { return changes_; }
  std::int64_t failed_count() const { return failed_; }

  template <class Change>
  rocksdb::IOStatus Carry(Change change) {
    ++changes_;
    const std::int64_t left = --until_;
    if (left > 0 || left <= -count_) {
      return change();
    }
    ++failed_;
    return fault_ == DriveFault::kNoSpace ? rocksdb::IOStatus::NoSpace("injected")
                                          : rocksdb::IOStatus::IOError("injected");
  }

 private:
  std::atomic<DriveFault> fault_ = DriveFault::kIoError;
  std::atomic<std::int64_t> until_ = 0;
  std::atomic<std::int64_t> count_ = 0;
  std::atomic<std::int64_t> changes_ = 0;
  std::atomic<std::int64_t> failed_ = 0;
};

class FaultyFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  FaultyFile(std::unique_ptr<rocksdb::FSWritableFile> file, FaultPlan& plan)
      : FSWritableFileOwnerWrapper(std::move(file)), plan_(plan) {}

  rocksdb::IOStatus Append(const rocksdb::Slice& data,
                           const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* debug) override {
    return plan_.Carry([&] { return target()->Append(data, options, debug); });
  }
  using FSWritableFileOwnerWrapper::Append;
  rocksdb::IOStatus Sync(const rocksdb::IOOptions& options,
                         rocksdb::IODebugContext* debug) override {
    return plan_.Carry([&] { return target()->Sync(options, debug); });
  }
  rocksdb::IOStatus Fsync(const rocksdb::IOOptions& options,
                          rocksdb::IODebugContext* debug) override {
    return plan_.Carry([&] { return target()->Fsync(options, debug); });
  }
  rocksdb::IOStatus Close(const rocksdb::IOOptions& options,
                          rocksdb::IODebugContext* debug) override {
    return plan_.Carry([&] { return target()->Close(options, debug); });
  }

 private:
  FaultPlan& plan_;
};

class FaultyFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  // The plan is borrowed.
  explicit FaultyFileSystem(FaultPlan& plan)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), plan_(plan) {}

  const char* Name() const override { return "kvferry.FaultyFileSystem"; }
  rocksdb::IOStatus NewWritableFile(const std::string& name,
                                    const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* debug) override {
    rocksdb::IOStatus status =
        plan_.Carry([&] { return target()->NewWritableFile(name, options, file, debug); });
    if (status.ok()) {
      *file = std::make_unique<FaultyFile>(std::move(*file), plan_);
    }
    return status;
  }
  rocksdb::IOStatus RenameFile(const std::string& source,
                               const std::string& target_name,
                               const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override {
    return plan_.Carry([&] { return target()->RenameFile(source, target_name, options, debug); });
  }

 private:
  FaultPlan& plan_;
};

}  // namespace kvferry::testing
