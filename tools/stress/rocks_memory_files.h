// RocksMemoryFiles: MemoryFiles as RocksDB wants its files.
#pragma once

#include <memory>

#include "stress/memory_files.h"

namespace rocksdb {
class FileSystem;
}  // namespace rocksdb

namespace kvferry::stress {

// One folder, whatever it is called; only the last part of a path counts.
//
// Thread-safe.
class RocksMemoryFiles {
  struct Parts;

 public:
  // Borrowed.
  explicit RocksMemoryFiles(MemoryFiles& files);
  RocksMemoryFiles(const RocksMemoryFiles&) = delete;
  RocksMemoryFiles& operator=(const RocksMemoryFiles&) = delete;
  ~RocksMemoryFiles();

  rocksdb::FileSystem& file_system() noexcept;

 private:
  std::unique_ptr<Parts> parts_;
};

}  // namespace kvferry::stress
