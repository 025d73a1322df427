// ManifestCommitter: the one thread that waits for RocksDB, so that the mover does not.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "kvferry/status.h"
#include "kvferry/types.h"

#include "base/mutex.h"
#include "tiers/nvme/manifest.h"
#include "tiers/nvme/rocks_database.h"

namespace kvferry::tiers {

// Wakes whoever reaps. Called on the committer's thread, which holds no lock then.
class ManifestBell {
 public:
  virtual ~ManifestBell() = default;
  virtual void Ring() noexcept = 0;
};

struct RocksManifestOptions {
  RocksDatabaseOptions database;
  std::uint32_t in_flight_max = 16;
  // Rung after the end of a batch, after a piece of the scan, and when the store is open again.
  // Borrowed until the manifest is gone; may be null.
  ManifestBell* bell = nullptr;
  // Before a store is opened again: nothing the first time, then twice as much each time, until a
  // synced batch has gone well.
  Duration reopen_pause_min = std::chrono::milliseconds(10);
  Duration reopen_pause_max = std::chrono::seconds(5);
};

// Carries out batches in the order of Push, one at a time. After one has failed, it fails all the
// others unseen until Resume(), and opens the database again meanwhile. The scan of the block rows
// runs where there is nothing else to do, two pieces ahead of its reader.
//
// The mover thread calls; the class's own thread works.
class ManifestCommitter {
  struct Token {};  // Only Start can name it.

 public:
  // Opens the database, on the calling thread. As RocksDatabase::Open; kResourceExhausted: no
  // thread can be started.
  static Result<std::unique_ptr<ManifestCommitter>> Start(const RocksManifestOptions& options);

  ManifestCommitter(Token token,
                    const RocksManifestOptions& options,
                    std::unique_ptr<RocksDatabase> database);
  ManifestCommitter(const ManifestCommitter&) = delete;
  ManifestCommitter& operator=(const ManifestCommitter&) = delete;
  ~ManifestCommitter();

  // The batch is the committer's until TakeEnded gives it back.
  void Push(ManifestBatch& batch);
  // Appends what has ended, in order, with its status.
  void TakeEnded(std::vector<ManifestBatch*>& ended);
  // Whether batches are carried out: true again once the database is open after a failure. Called
  // when every batch pushed so far was taken.
  bool Resume();

  // As of the batches pushed before; waits for them. kUnavailable while the database is closed.
  Result<std::vector<SegmentRow>> ReadSegments();
  Result<std::vector<MetaValue>> ReadMeta(std::string_view prefix);
  // Never waits. An error stays.
  Result<Manifest::ScanPiece> TakeScanned(std::span<PlacedRow> rows);
  std::uint64_t refused_row_count();

  // Ends all batches that were pushed, and the thread. Nothing is pushed afterwards.
  void Stop();

 private:
  enum class Task : std::uint8_t { kCommit, kRead, kReopen, kScan, kStop };
  // What the mover waits for.
  struct Read {
    std::optional<std::string_view> meta_prefix;  // Without one: segments.
    std::vector<SegmentRow> segments;
    std::vector<MetaValue> values;
    Status status;
  };

  void Work();
  Task NextTask();
  void Commit();
  void CarryRead();
  void Reopen();
  void Scan();
  void RingBell();
  Status WaitFor(Read& read);

  const RocksManifestOptions options_;
  // The committer's thread's, once it runs.
  std::unique_ptr<RocksDatabase> database_;
  std::optional<BlockPlace> last_scanned_;
  Duration pause_{0};

  Mutex mutex_;  // Guards what follows; no call is made with it held.
  ConditionVariable work_came_;
  ConditionVariable read_ended_;
  std::deque<ManifestBatch*> waiting_ KVFERRY_GUARDED_BY(mutex_);
  std::vector<ManifestBatch*> ended_ KVFERRY_GUARDED_BY(mutex_);
  Read* read_ KVFERRY_GUARDED_BY(mutex_) = nullptr;
  std::deque<std::vector<PlacedRow>> pieces_ KVFERRY_GUARDED_BY(mutex_);
  std::size_t first_piece_taken_ KVFERRY_GUARDED_BY(mutex_) = 0;  // Rows of pieces_.front().
  Status scan_status_ KVFERRY_GUARDED_BY(mutex_);
  std::uint64_t refused_row_count_ KVFERRY_GUARDED_BY(mutex_) = 0;
  Instant reopen_at_ KVFERRY_GUARDED_BY(mutex_);
  bool is_scanned_ KVFERRY_GUARDED_BY(mutex_) = false;
  bool is_open_ KVFERRY_GUARDED_BY(mutex_) = true;
  bool has_failed_ KVFERRY_GUARDED_BY(mutex_) = false;  // From a failed batch until Resume().
  bool is_stopping_ KVFERRY_GUARDED_BY(mutex_) = false;

  std::thread thread_;
};

}  // namespace kvferry::tiers
