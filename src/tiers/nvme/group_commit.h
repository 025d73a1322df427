// GroupCommit: makes what was written durable, many payloads at a time: the data, then their rows.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "kvferry/types.h"

#include "base/bytes.h"
#include "tiers/nvme/io_ring.h"
#include "tiers/nvme/manifest.h"
#include "tiers/nvme/segment_table.h"

namespace kvferry::tiers {

// Says what is to be recorded, and is told what became of it.
class CommitSink {
 public:
  virtual ~CommitSink() = default;
  // The row of the payload that `owner` has at `page` of the tier, its page left out. False: nobody
  // wants it any more. Asked when the row is about to be recorded, which may be long after Add.
  virtual bool FillRow(std::uint32_t owner, std::uint32_t page, BlockRow& row) = 0;

  enum class End : std::uint8_t {
    kDurable,
    kLost,      // A sync or a batch failed: the payload is not to be trusted after a restart.
    kUnwanted,  // FillRow said so.
  };
  // Once for each Add and Rewrite. `flags` are those of the row, for kDurable.
  virtual void OnEntryEnd(std::uint32_t owner,
                          std::uint32_t page,
                          bool is_rewrite,
                          End end,
                          std::uint8_t flags) noexcept = 0;
};

// Payloads whose writes have ended are collected. A group closes when it is large or old enough, or
// somebody is in a hurry; then the drives that it touches are synced, while the next group is
// collected already, and its rows are recorded in one synced batch. Batches are recorded in the
// order of their groups. Deletions of rows, rows of segments and values travel along, and go by
// themselves when there is nothing else.
//
// A sync that failed is never repeated into success: every payload that was not synced by then is
// lost, on all drives. A batch that failed may be found after a restart, so its rows are deleted as
// soon as the manifest works again.
//
// Thread-confined to the mover thread.
class GroupCommit final : private IoSink, private ManifestSink {
 public:
  struct Options {
    std::uint32_t drive_count = 1;
    std::uint64_t commit_bytes = 32 * kMiB;
    Duration commit_time = std::chrono::milliseconds(100);
    std::uint32_t entries_max = 4'096;        // Of one group.
    std::uint32_t deletions_max = 64 * 1024;  // That wait before those who ask for more have to.
  };
  // Everything must outlive it; ring and manifest must have nothing of it in flight when it goes.
  struct Parts {
    IoRing& ring;
    Manifest& manifest;
    SegmentTable& table;
    CommitSink& sink;
  };
  GroupCommit(const Options& options, const Parts& parts);

  // Whether one more payload or rewrite can be taken.
  bool CanAdd() const noexcept;
  // Room for a payload that is about to be written; CanAdd must hold. Ends with Add or GiveBack.
  void Reserve();
  void GiveBack();
  // The payload was written whole.
  void Add(std::uint32_t owner, std::uint32_t page, std::uint64_t size_bytes);
  // The row of a durable payload has to be recorded again: its flags have changed. CanAdd must
  // hold.
  void Rewrite(std::uint32_t owner, std::uint32_t page);

  // Whether one who can wait may delete. Who cannot need not ask: what was read in vain, moved or
  // given up, at most one row a block, each of which had to be written before.
  bool CanDelete() const noexcept { return deletions_.size() < options_.deletions_max; }
  // The row at `page` of the tier is to go, if it is or comes there. Its number among deletions.
  std::uint64_t Delete(std::uint32_t page);
  // A number as for a deletion, of nothing: what was queued before it is durable with it.
  void DeleteNothing() { Queue(BlockPlace()); }
  // Deletions with higher numbers wait until a later call says otherwise.
  void HoldDeletionsAfter(std::uint64_t number);
  // Deletions with numbers up to this one are durable.
  std::uint64_t durable_deletions() const noexcept { return deletions_done_; }
  std::uint64_t queued_deletions() const noexcept { return deletions_done_ + deletions_.size(); }

  // The segment's row is to be recorded as the table has it then.
  void MarkSegment(std::uint32_t segment);
  // Something other than a payload was written to the segment's drive, and is to be synced too.
  void MarkDrive(std::uint32_t segment);
  void PutMeta(const std::string& name, const std::string& value);
  // Counts as a deletion too: what was queued before a number is durable with it.
  void DeleteMeta(const std::string& name);

  // What has been collected is to be made durable without waiting for more.
  void Hurry() noexcept { is_hurried_ = HasPending(); }
  // Starts what can be started at `now`.
  void Step(Instant now);
  // When a step is needed at the latest if nothing else happens.
  Instant next_deadline() const noexcept;

  // A sync elsewhere has failed: what is not synced is lost.
  void FailUnsynced();
  std::uint32_t sync_failures() const noexcept { return sync_failures_; }
  // Groups that became durable, and that did not.
  std::uint64_t commits() const noexcept { return commits_; }
  std::uint64_t failures() const noexcept { return failures_; }
  // Why the manifest takes no batches for now; ok: it does.
  const Status& failure() const noexcept { return failure_; }
  // Nothing is collected, waits or is in flight.
  bool is_idle() const noexcept;
  // Nothing of it is in the ring or the manifest.
  bool is_quiet() const noexcept;

 private:
  static constexpr std::size_t kGroups = 4;

  struct Entry {
    std::uint32_t owner = 0;
    std::uint32_t page = 0;
    bool is_rewrite = false;
  };
  enum class Phase : std::uint8_t { kFree, kCollecting, kSyncing, kSynced, kRecording };
  struct Sync : IoOp {
    enum class State : std::uint8_t { kNone, kWanted, kInFlight };
    State state = State::kNone;
    std::uint32_t group = 0;
  };
  struct Group : ManifestBatch {
    Phase phase = Phase::kFree;
    std::uint64_t size_bytes = 0;
    std::vector<Entry> entries;
    std::vector<Sync> syncs;  // By drive.
    std::vector<std::uint32_t> segments;
    std::uint32_t deletion_count = 0;
  };

  Group& Newest() { return groups_[(first_ + count_ - 1) % kGroups]; }
  const Group& Newest() const { return groups_[(first_ + count_ - 1) % kGroups]; }
  std::uint32_t DriveOf(std::uint32_t page) const {
    return table_.SegmentOf(page) % options_.drive_count;
  }
  bool HasPending() const noexcept;
  // Whether what is pending is not to wait for more.
  bool IsToClose() const noexcept;
  // How many of those that wait may go.
  std::size_t DeletionsToGo() const noexcept;
  void NoteFirst();
  void Queue(const BlockPlace& place);
  void TouchSegment(Group& group, std::uint32_t segment);
  void Close();
  void StartSyncs(Group& group);
  void Record(Group& group);
  void FillBatch(Group& group);
  void TakeDeletions(Group& group);
  void EndEntries(Group& group, CommitSink::End end);
  void OnIoDone(IoOp& op) noexcept override;
  void OnManifestDone(ManifestBatch& batch) noexcept override;
  BlockPlace PlaceOf(std::uint32_t page) const;

  Options options_;
  IoRing& ring_;
  Manifest& manifest_;
  SegmentTable& table_;
  CommitSink& sink_;
  std::vector<Group> groups_;  // A ring; the newest collects.
  std::size_t first_ = 0;
  std::size_t count_ = 1;
  std::deque<BlockPlace> deletions_;  // Those in flight, then those that wait.
  std::size_t deletions_in_flight_ = 0;
  std::uint64_t deletions_done_ = 0;
  std::uint64_t deletions_held_after_ = ~std::uint64_t{0};
  std::vector<MetaValue> meta_puts_;
  std::vector<std::string> meta_deletes_;
  std::uint32_t reserved_ = 0;
  bool is_hurried_ = false;
  bool has_first_ = false;  // Something waits since first_at_.
  Instant first_at_;
  Instant retry_at_;  // Not before then is the manifest asked again.
  Instant now_;
  std::uint32_t sync_failures_ = 0;
  std::uint64_t commits_ = 0;
  std::uint64_t failures_ = 0;
  Status failure_;  // The first since a batch was recorded.
};

}  // namespace kvferry::tiers
