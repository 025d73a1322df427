// The file system under RocksDB that freezes the files at the first failed write or sync.
#pragma once

#include <atomic>
#include <memory>

#include "kvferry/status.h"

#include "base/mutex.h"

namespace rocksdb {
class FileSystem;
}  // namespace rocksdb

namespace kvferry::tiers {

// Whether the files are frozen, and why: the first reason stands, for good.
//
// Thread-safe.
class FreezeLatch {
 public:
  bool is_frozen() const noexcept { return is_frozen_; }
  // Ok while nothing is frozen.
  Status why() const;
  void Freeze(const Status& why);

 private:
  mutable Mutex mutex_;
  std::atomic<bool> is_frozen_ = false;
  Status why_ KVFERRY_GUARDED_BY(mutex_);
};

// Reads and writes through `inner`; both are borrowed until it is gone. At the first error of a
// write, a sync or a rename the latch closes: RocksDB is told that all is well, then and from then
// on, and nothing that it writes later reaches the files. They are as after a crash at that moment,
// so whoever was told of a success asks the latch before passing it on.
//
// RocksDB could go on after such an error only at the price of its assertions, which end the
// process; therefore the database is closed and opened again.
//
// Thread-safe.
std::unique_ptr<rocksdb::FileSystem> MakeFreezingFileSystem(rocksdb::FileSystem& inner,
                                                            FreezeLatch& latch);

}  // namespace kvferry::tiers
