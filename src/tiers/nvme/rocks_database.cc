// Options, the batch's translation, and iterators; every answer passes the latch.
#include "tiers/nvme/rocks_database.h"

#include <algorithm>
#include <cerrno>
#include <exception>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include "base/assert.h"
#include "tiers/nvme/manifest_keys.h"
#include "tiers/nvme/private_folder.h"
#include "tiers/nvme/rocks_file_system.h"
#include "tiers/nvme/rocks_logger.h"
#include "tiers/nvme/rocks_status.h"

namespace kvferry::tiers {

// In the order of construction; the database goes before what it works with.
struct RocksDatabase::Parts {
  FreezeLatch latch;
  bool is_read_only = false;
  std::unique_ptr<rocksdb::FileSystem> file_system;
  std::unique_ptr<rocksdb::Env> env;
  std::unique_ptr<rocksdb::DB> database;
  std::unique_ptr<rocksdb::Iterator> scan;
  rocksdb::WriteBatch batch;  // Kept for its memory.

  bool has_failed() const { return !is_read_only && latch.is_frozen(); }
};

namespace {

constexpr std::string_view kVersion = "1";
constexpr std::uint64_t kWriteBufferBytesMin = 1 * kMiB;
constexpr std::uint64_t kWriteBufferBytesMax = 32 * kMiB;
constexpr std::uint64_t kStoreToWriteBuffer = 4096;
constexpr std::size_t kTableListBytesMax = 4 * kMiB;  // RocksDB's own MANIFEST file.
constexpr std::size_t kTableListPreallocation = 64 * kKiB;
constexpr int kReadOnlyAttempts = 20;
constexpr std::size_t kTableCacheBytes = 1 * kMiB;  // Rows are read once, at open.

template <class Bytes>
rocksdb::Slice AsSlice(const Bytes& bytes) {
  const auto chars = std::span<const char>(reinterpret_cast<const char*>(bytes.data()),
                                           bytes.size() * sizeof(*bytes.data()));
  return {chars.data(), chars.size()};
}

std::string_view AsView(const rocksdb::Slice& slice) {
  return {slice.data(), slice.size()};
}

// A fixed number of bytes, or nothing where the value has another size.
template <std::size_t kSize>
std::optional<std::span<const std::byte, kSize>> AsRow(const rocksdb::Slice& value) {
  if (value.size() != kSize) {
    return std::nullopt;
  }
  return std::as_bytes(std::span<const char, kSize>(value.data(), kSize));
}

// The form in which exceptions of the library leave.
template <class Call>
auto Caught(Call call) -> decltype(call()) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return Status::Error(StatusCode::kResourceExhausted, "no memory for the manifest");
  } catch (const std::exception& error) {
    return Status::Error(StatusCode::kInternal, std::string("the manifest: ") + error.what());
  }
}

rocksdb::Options MakeOptions(const RocksDatabaseOptions& options, rocksdb::Env& env) {
  rocksdb::Options made;
  made.create_if_missing = !options.must_exist;
  made.env = &env;
  made.info_log = MakeRocksLogger();
  made.info_log_level = rocksdb::InfoLogLevel::WARN_LEVEL;
  made.write_buffer_size = options.write_buffer_bytes;
  made.target_file_size_base = options.write_buffer_bytes;
  made.manifest_preallocation_size = kTableListPreallocation;
  made.max_manifest_file_size = kTableListBytesMax;
  // What a log still held is written anew, so that pages whose sync failed are not relied upon.
  made.avoid_flush_during_recovery = false;
  // After a power cut an unbroken run of what was not synced.
  made.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  made.compression = rocksdb::kNoCompression;  // Digests and places; there is nothing to gain.
  made.stats_dump_period_sec = 0;
  made.stats_persist_period_sec = 0;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(kTableCacheBytes);
  made.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return made;
}

// RocksDB starts afresh where CURRENT is missing, and deletes the other files: refused here.
Status CheckNothingIsOrphaned(const std::string& folder) {
  std::error_code error;
  if (std::filesystem::exists(std::filesystem::path(folder) / "CURRENT", error)) {
    return Status::Ok();
  }
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string extension = entry->path().extension().string();
    if (extension == ".log" || extension == ".sst") {
      return Status::Error(
          StatusCode::kDataLoss,
          folder + " has " + entry->path().filename().string() + " but no CURRENT");
    }
  }
  return Status::Ok();
}

rocksdb::WriteOptions Synced(bool is_synced) {
  rocksdb::WriteOptions options;
  options.sync = is_synced;
  return options;
}

// Writes the version into a new database and compares it in an old one.
Status SettleVersion(rocksdb::DB& database, bool is_read_only) {
  std::string found;
  const rocksdb::Status status =
      database.Get(rocksdb::ReadOptions(), AsSlice(kVersionRowKey), &found);
  if (status.ok()) {
    return found == kVersion ? Status::Ok()
                             : Status::Error(StatusCode::kInvalidArgument,
                                             "the manifest's format is of another version");
  }
  if (!status.IsNotFound()) {
    return FromRocks(status, "reading the manifest's version");
  }
  const std::unique_ptr<rocksdb::Iterator> rows(database.NewIterator(rocksdb::ReadOptions()));
  rows->SeekToFirst();
  if (rows->Valid() || !rows->status().ok()) {
    return Status::Error(StatusCode::kDataLoss, "the manifest has rows but no version");
  }
  if (is_read_only) {
    return Status::Ok();  // Its owner is about to write it.
  }
  return FromRocks(database.Put(Synced(true), AsSlice(kVersionRowKey), AsSlice(kVersion)),
                   "writing the manifest's version");
}

// RocksDB's answers do not matter here: an error in memory is one at the write.
void Translate(const ManifestBatch& source, rocksdb::WriteBatch& target) {
  target.Clear();
  for (const SegmentLife& life : source.life_deletes) {
    const KeyRange range = BlockRowKeysOf(life);
    target.DeleteRange(AsSlice(range.begin), AsSlice(range.end)).PermitUncheckedError();
  }
  for (const BlockPlace& place : source.block_deletes) {
    target.Delete(AsSlice(BlockRowKey(place))).PermitUncheckedError();
  }
  for (const std::string& name : source.meta_deletes) {
    target.Delete(AsSlice(MetaRowKey(name))).PermitUncheckedError();
  }
  for (const SegmentRow& row : source.segment_puts) {
    target.Put(AsSlice(SegmentRowKey(row.life.segment)), AsSlice(Encode(row)))
        .PermitUncheckedError();
  }
  for (const PlacedRow& placed : source.block_puts) {
    target.Put(AsSlice(BlockRowKey(placed.place())), AsSlice(Encode(placed.row)))
        .PermitUncheckedError();
  }
  for (const MetaValue& meta : source.meta_puts) {
    target.Put(AsSlice(MetaRowKey(meta.name)), AsSlice(meta.value)).PermitUncheckedError();
  }
}

// The row under the iterator; nothing where it cannot be understood.
std::optional<PlacedRow> RowUnder(const rocksdb::Iterator& rows) {
  const std::optional<BlockPlace> place = ParseBlockRowKey(AsView(rows.key()));
  const auto bytes = AsRow<kBlockRowBytes>(rows.value());
  if (!place || !bytes) {
    return std::nullopt;
  }
  const Result<BlockRow> row = DecodeBlockRow(*bytes);
  if (!row.ok() || row->page != place->page) {
    return std::nullopt;
  }
  return PlacedRow{place->life, *row};
}

bool IsUnder(const rocksdb::Iterator& rows, std::string_view prefix) {
  return rows.Valid() && AsView(rows.key()).starts_with(prefix);
}

}  // namespace

std::uint64_t WriteBufferBytesFor(std::uint64_t store_bytes) {
  return std::clamp(store_bytes / kStoreToWriteBuffer, kWriteBufferBytesMin, kWriteBufferBytesMax);
}

RocksDatabase::RocksDatabase(std::unique_ptr<Parts> parts) noexcept : parts_(std::move(parts)) {}

RocksDatabase::~RocksDatabase() {
  parts_->scan.reset();
  parts_->database.reset();
}

namespace {

Status HoldsNone(const std::string& folder) {
  return Status::Error(StatusCode::kDataLoss, folder + " holds no manifest", ENOENT);
}

Status CheckThereIsOne(const std::string& folder) {
  std::error_code error;
  return std::filesystem::exists(std::filesystem::path(folder) / "CURRENT", error)
             ? Status::Ok()
             : HoldsNone(folder);
}

// Which tables the database has, as far as a reader can tell: the file that lists them, and how
// long that is. It grows with every change of the tables.
struct TableList {
  std::string name;
  std::uintmax_t size_bytes = 0;
  bool operator==(const TableList&) const = default;
};

TableList TableListOf(const std::string& folder) {
  TableList list;
  std::ifstream current(std::filesystem::path(folder) / "CURRENT");
  std::getline(current, list.name);
  std::error_code error;
  list.size_bytes = std::filesystem::file_size(std::filesystem::path(folder) / list.name, error);
  return list;
}

// A process that has the database open may turn a log into a table and remove it, between the list
// of tables and the logs as they are read here: rows would be missing, or a file. So what is opened
// counts only if the tables stayed the same meanwhile.
Status OpenReadOnly(const rocksdb::Options& options,
                    const std::string& folder,
                    std::unique_ptr<rocksdb::DB>& database) {
  for (int attempt = 0; attempt < kReadOnlyAttempts; ++attempt) {
    database.reset();
    const TableList before = TableListOf(folder);
    rocksdb::DB* found = nullptr;
    const rocksdb::Status opened = rocksdb::DB::OpenForReadOnly(options, folder, &found);
    database.reset(found);
    if (TableListOf(folder) == before) {
      return FromRocks(opened, "opening the manifest");
    }
  }
  return Status::Error(StatusCode::kUnavailable,
                       folder + " changes too fast to be read; try again when less is written");
}

}  // namespace

Result<std::unique_ptr<RocksDatabase>> RocksDatabase::Open(const RocksDatabaseOptions& options) {
  return Caught([&]() -> Result<std::unique_ptr<RocksDatabase>> {
    auto parts = std::make_unique<Parts>();
    parts->is_read_only = options.is_read_only;
    rocksdb::FileSystem& inner =
        options.file_system == nullptr ? *rocksdb::FileSystem::Default() : *options.file_system;
    if (options.must_exist &&
        inner.FileExists(options.folder + "/CURRENT", rocksdb::IOOptions(), nullptr).IsNotFound()) {
      return HoldsNone(options.folder);  // Not even its folder is to be made.
    }
    if (options.is_read_only) {
      KVFERRY_RETURN_IF_ERROR(CheckThereIsOne(options.folder));
      // Whatever RocksDB may want to write, nothing reaches the files.
      parts->latch.Freeze(Status::Error(StatusCode::kInternal, "the manifest is open read-only"));
    } else {
      KVFERRY_RETURN_IF_ERROR(EnsurePrivateFolder(options.folder));
      KVFERRY_RETURN_IF_ERROR(CheckNothingIsOrphaned(options.folder));
    }
    parts->file_system = MakeFreezingFileSystem(inner, parts->latch);
    parts->env = rocksdb::NewCompositeEnv({std::shared_ptr<void>(), parts->file_system.get()});
    const rocksdb::Options rocks_options = MakeOptions(options, *parts->env);
    if (options.is_read_only) {
      KVFERRY_RETURN_IF_ERROR(OpenReadOnly(rocks_options, options.folder, parts->database));
    } else {
      rocksdb::DB* database = nullptr;
      const rocksdb::Status opened = rocksdb::DB::Open(rocks_options, options.folder, &database);
      parts->database.reset(database);
      if (parts->has_failed()) {
        return parts->latch.why();
      }
      KVFERRY_RETURN_IF_ERROR(FromRocks(opened, "opening the manifest"));
    }
    KVFERRY_RETURN_IF_ERROR(SettleVersion(*parts->database, options.is_read_only));
    if (parts->has_failed()) {
      return parts->latch.why();
    }
    return std::make_unique<RocksDatabase>(std::move(parts));
  });
}

Status RocksDatabase::Write(const ManifestBatch& batch) {
  KVFERRY_CHECK(!parts_->is_read_only);
  return Caught([&]() -> Status {
    Translate(batch, parts_->batch);
    const rocksdb::Status written =
        parts_->database->Write(Synced(batch.is_synced), &parts_->batch);
    if (parts_->latch.is_frozen()) {
      return parts_->latch.why();
    }
    return FromRocks(written, "a batch of the manifest");
  });
}

Result<std::vector<SegmentRow>> RocksDatabase::ReadSegments() {
  return Caught([&]() -> Result<std::vector<SegmentRow>> {
    const std::string prefix(1, kSegmentRowPrefix);
    std::vector<SegmentRow> segments;
    const std::unique_ptr<rocksdb::Iterator> rows(
        parts_->database->NewIterator(rocksdb::ReadOptions()));
    for (rows->Seek(prefix); IsUnder(*rows, prefix); rows->Next()) {
      const auto bytes = AsRow<kSegmentRowBytes>(rows->value());
      if (!bytes) {
        return Status::Error(StatusCode::kDataLoss, "a segment's row has another size");
      }
      KVFERRY_ASSIGN_OR_RETURN(const SegmentRow row, DecodeSegmentRow(*bytes));
      segments.push_back(row);
    }
    KVFERRY_RETURN_IF_ERROR(FromRocks(rows->status(), "reading the rows of segments"));
    return segments;
  });
}

Result<std::vector<MetaValue>> RocksDatabase::ReadMeta(std::string_view prefix) {
  return Caught([&]() -> Result<std::vector<MetaValue>> {
    const std::string key_prefix = MetaRowKey(prefix);
    std::vector<MetaValue> values;
    const std::unique_ptr<rocksdb::Iterator> rows(
        parts_->database->NewIterator(rocksdb::ReadOptions()));
    for (rows->Seek(key_prefix); IsUnder(*rows, key_prefix); rows->Next()) {
      values.push_back(
          {std::string(AsView(rows->key()).substr(1)), std::string(AsView(rows->value()))});
    }
    KVFERRY_RETURN_IF_ERROR(FromRocks(rows->status(), "reading values of the manifest"));
    return values;
  });
}

Status RocksDatabase::StartScan(const BlockPlace* after) {
  return Caught([&]() -> Status {
    rocksdb::ReadOptions options;
    options.fill_cache = false;
    parts_->scan.reset(parts_->database->NewIterator(options));
    if (after == nullptr) {
      parts_->scan->Seek(std::string(1, kBlockRowPrefix));
    } else {
      parts_->scan->Seek(BlockRowKey(*after) + '\0');
    }
    return Status::Ok();
  });
}

Result<RocksDatabase::ScanPiece> RocksDatabase::ScanNext(std::size_t row_count_max) {
  KVFERRY_CHECK(parts_->scan != nullptr);
  return Caught([&]() -> Result<ScanPiece> {
    const std::string prefix(1, kBlockRowPrefix);
    ScanPiece piece;
    rocksdb::Iterator& rows = *parts_->scan;
    for (; piece.rows.size() < row_count_max && IsUnder(rows, prefix); rows.Next()) {
      if (const std::optional<PlacedRow> row = RowUnder(rows)) {
        piece.rows.push_back(*row);
      } else {
        ++piece.refused_count;
      }
    }
    KVFERRY_RETURN_IF_ERROR(FromRocks(rows.status(), "scanning the rows of blocks"));
    piece.is_last = !IsUnder(rows, prefix);
    if (piece.is_last) {
      parts_->scan.reset();
    }
    return piece;
  });
}

}  // namespace kvferry::tiers
