// RocksDatabase: the rows and values of the manifest in RocksDB's files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kvferry/status.h"

#include "base/bytes.h"
#include "tiers/nvme/manifest.h"

namespace rocksdb {
class FileSystem;
}  // namespace rocksdb

namespace kvferry::tiers {

struct RocksDatabaseOptions {
  std::string folder;  // Made with mode 0700 where it is missing; its parent is there.
  // RocksDB keeps up to twice as much in memory and as large a log, which it preallocates.
  std::uint64_t write_buffer_bytes = 8 * kMiB;
  // It was open before: another one is not to be made in its place.
  bool must_exist = false;
  // Reads what is there, also beside a process that has it open, as it is at that moment; makes
  // and changes nothing, and takes no lock. Write may not be called then.
  bool is_read_only = false;
  // The machine's where null; borrowed until the database is gone.
  rocksdb::FileSystem* file_system = nullptr;
};

// A write buffer that suits a store of this size.
std::uint64_t WriteBufferBytesFor(std::uint64_t store_bytes);

// One open database. After a call has failed, whatever the reason, the rows are what a crash would
// have left, and the database is to be closed and opened again. No exception leaves it.
//
// Thread-compatible; its calls block.
class RocksDatabase {
  struct Parts;

 public:
  // kInvalidArgument: the folder is not private, or its files are of another version. kDataLoss:
  // its files are not as they were written; nothing is changed then. Read-only also kDataLoss with
  // ENOENT: there is no database; kUnavailable: its writer changes it too fast.
  static Result<std::unique_ptr<RocksDatabase>> Open(const RocksDatabaseOptions& options);

  explicit RocksDatabase(std::unique_ptr<Parts> parts) noexcept;
  RocksDatabase(const RocksDatabase&) = delete;
  RocksDatabase& operator=(const RocksDatabase&) = delete;
  ~RocksDatabase();

  // Carries the batch out; Ok means as durable as it asks for. Leaves status and sink alone.
  Status Write(const ManifestBatch& batch);
  // kDataLoss where a row cannot be understood: without a segment's row its blocks are not safe.
  Result<std::vector<SegmentRow>> ReadSegments();
  Result<std::vector<MetaValue>> ReadMeta(std::string_view prefix);

  // Starts the scan of the block rows as they are now, behind `after` where that is not null.
  Status StartScan(const BlockPlace* after);
  struct ScanPiece {
    std::vector<PlacedRow> rows;
    std::uint64_t refused_count = 0;  // Rows that cannot be understood, left out.
    bool is_last = false;
  };
  // The next rows, up to row_count_max. The scan's view of the rows is given up with the last ones.
  Result<ScanPiece> ScanNext(std::size_t row_count_max);

 private:
  std::unique_ptr<Parts> parts_;
};

}  // namespace kvferry::tiers
