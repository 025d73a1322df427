// SegmentStore: the log of segments on the drives of the NVMe tier: where payloads go, what makes
// them durable, which segment is given up next, and what is found again after a restart.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kvferry/status.h"
#include "kvferry/types.h"

#include "tiers/nvme/footer_writer.h"
#include "tiers/nvme/group_commit.h"
#include "tiers/nvme/io_ring.h"
#include "tiers/nvme/manifest.h"
#include "tiers/nvme/segment_cleaner.h"
#include "tiers/nvme/segment_table.h"

namespace kvferry::tiers {

inline constexpr std::uint32_t kNoOwner = 0xffffffff;
// Stores with fewer segments keep none back for moves.
inline constexpr std::uint32_t kSegmentsToProtect = 4;
// And with fewer than these, protected payloads share the open segment of the others.
inline constexpr std::uint32_t kSegmentsForStreams = 8;
// Segments that stay in use whatever fails: enough to move blocks between them where that is done.
constexpr std::uint32_t UsableMin(std::uint32_t segment_count) {
  return std::clamp(segment_count / 2, 1U, kSegmentsToProtect);
}

// Is told what happens to payloads, by their owners' numbers and pages of the tier.
class StoreSink {
 public:
  virtual ~StoreSink() = default;
  // The row of what `owner` has at `page`, its page left out; false: it is not wanted any more.
  virtual bool FillRow(std::uint32_t owner, std::uint32_t page, BlockRow& row) = 0;
  // The row of what `owner` has in the segment, its page counting from the tier's start; false:
  // nothing. For footers.
  virtual bool FillRowIn(std::uint32_t owner, std::uint32_t segment, BlockRow& row) = 0;
  virtual void OnEntryEnd(std::uint32_t owner,
                          std::uint32_t page,
                          bool is_rewrite,
                          CommitSink::End end,
                          std::uint8_t flags) noexcept = 0;
  virtual void OnVictim(std::uint32_t segment) noexcept = 0;
  // A durable payload that lies at `page` from before a restart. Its owner, or kNoOwner: not
  // wanted; its row is deleted then.
  virtual std::uint32_t OnFound(const BlockRow& row,
                                std::uint32_t page,
                                std::uint64_t generation) = 0;
};

// Payloads are appended to the open segment of their stream, and the caller writes them; written
// ones are committed in groups. Full segments are sealed with a footer, old ones emptied, and new
// ones opened, all by the store itself, one step at a time.
//
// Thread-confined to the mover thread.
class SegmentStore final : private CommitSink,
                           private VictimSink,
                           private FooterSink,
                           private ManifestSink {
  struct Token {};  // Only Create can name it.

 public:
  struct Options {
    StoreUuid store;
    StoreLayout layout;  // Of every drive.
    std::uint32_t drive_count = 1;
    std::uint32_t owners_per_segment_max = 1;
    std::uint64_t commit_bytes = 32 * kMiB;
    Duration commit_time = std::chrono::milliseconds(100);
    std::uint32_t commit_entries_max = 4'096;
    std::int64_t unix_ms_minus_now = 0;
    std::uint64_t first_generation = 1;  // New lives get this one at least.
  };
  // Everything must outlive it; ring and manifest must be gone, or quiet, when it goes.
  struct Parts {
    IoRing& ring;  // File i is drive i.
    Manifest& manifest;
    StoreSink& sink;
  };
  // Reads the rows of the segments. The manifest's error, or kDataLoss for rows that cannot be.
  static Result<std::unique_ptr<SegmentStore>> Create(const Options& options, const Parts& parts);
  SegmentStore(Token token, const Options& options, const Parts& parts);
  SegmentStore(const SegmentStore&) = delete;
  SegmentStore& operator=(const SegmentStore&) = delete;
  ~SegmentStore() override = default;

  const SegmentTable& table() const noexcept { return table_; }
  GroupCommit& commit() { return *commit_; }
  const GroupCommit& commit() const { return *commit_; }
  std::uint64_t reuses() const noexcept { return cleaner_->reuses(); }

  // A place for a payload, listed for `owner` and waited for until Written or NotWritten. Nothing
  // while there is none. `is_move`: it leaves a segment that is being emptied, for which one clean
  // segment is kept back, and where that is open already, whatever the stream.
  std::optional<std::uint32_t> Append(SegmentStream stream,
                                      std::uint32_t pages,
                                      std::uint32_t owner,
                                      bool is_move);
  // Whether a segment has room for that, which is opened where it is needed.
  bool MakeRoom(SegmentStream stream, std::uint32_t pages, bool is_move) {
    return StreamFor(stream, pages, is_move) != nullptr;
  }
  void Written(std::uint32_t owner, std::uint32_t page, std::uint64_t size_bytes);
  void NotWritten(std::uint32_t page);

  // The row at `page` of the tier is to go, as GroupCommit.Delete; no footer tells of it by then.
  void Delete(std::uint32_t page) {
    footers_->MarkStale(table_.SegmentOf(page));
    commit_->Delete(page);
  }
  // What lies at `page` is erased, though its row stays; or the row says something else than the
  // footer by now. Counts as a deletion where the footer is to be written anew.
  void Forget(std::uint32_t page) {
    if (footers_->MarkStale(table_.SegmentOf(page))) {
      commit_->DeleteNothing();
    }
  }
  // As FooterWriter.
  std::uint32_t footer_users(std::uint32_t segment) const { return footers_->users(segment); }

  // Whether there is a segment for moves once the open ones are full.
  bool HasClean() const noexcept { return cleaner_->clean_count() > 0; }
  // Blocks can only stay where one segment is kept back to move them to.
  bool CanProtect() const noexcept { return table_.segment_count() >= kSegmentsToProtect; }

  std::uint32_t quarantined() const noexcept { return quarantined_; }

  // As SegmentCleaner.
  std::uint64_t newest_victim() const noexcept { return cleaner_->newest_victim(); }
  bool AreRowsGone(std::uint64_t up_to_victim) const noexcept {
    return cleaner_->AreRowsGone(up_to_victim);
  }

  // Where a page lies.
  std::uint32_t DriveOf(std::uint32_t page) const {
    return table_.SegmentOf(page) % options_.drive_count;
  }
  std::uint64_t OffsetOf(std::uint32_t page) const;

  // Somebody uses the segment's pages, or does no longer.
  void AddUser(std::uint32_t segment) { ++table_[segment].users; }
  void RemoveUser(std::uint32_t segment);
  // Payloads that can be hit, for the order in which segments are given up.
  void AddLive(std::uint32_t page, std::uint64_t size_bytes);
  void RemoveLive(std::uint32_t page, std::uint64_t size_bytes);
  // A payload could not be read, or was not what was written. Counted against its segment, which is
  // not used any more after the third time; true then, and once: its payloads are to be given up.
  // Where only UsableMin segments are left none is given up: then it is not the segments that fail.
  bool NoteFailure(std::uint32_t page);

  // What is left in a segment that is being emptied cannot leave it for now: others are emptied.
  void HoldUp(std::uint32_t segment) {
    table_[segment].is_held_up = true;
    cleaner_->Look();
  }

  // The engine closes: once all is durable, open segments get a footer, so that a rebuild finds
  // what is in them, and the manifest a mark. What is appended then has all that done again.
  void BeginClose();

  // Starts what can be started, and hands over what was found from before; whether that was
  // anything.
  bool Step(Instant now);
  Instant next_deadline() const noexcept;
  // Everything from before the restart has been handed over.
  bool is_scanned() const noexcept { return is_scanned_; }
  // Ok, or why the scan cannot go on. The store is to be closed then.
  const Status& scan_status() const noexcept { return scan_status_; }
  // Nothing of it is in the ring or the manifest.
  bool is_quiet() const noexcept;
  // Nothing is left to do: all that was written is durable, and full segments are sealed.
  bool is_idle() const noexcept;
  void CheckInvariants() const;

 private:
  struct Stream {
    std::optional<std::uint32_t> open;
    std::optional<std::uint32_t> found;  // Open from before the restart; goes on after the scan.
  };
  static constexpr std::size_t kStreams = 2;

  enum class Closing : std::uint8_t { kNo, kWanted, kFooters, kMarked };

  Status Restore();
  void GoOnClosing();
  std::uint32_t KeptBack() const;
  Stream* StreamFor(SegmentStream of, std::uint32_t pages, bool is_move);
  bool OpenNext(SegmentStream of, bool is_move);
  bool Scan();
  void EndScan();
  bool FillRow(std::uint32_t owner, std::uint32_t page, BlockRow& row) override {
    return sink_.FillRow(owner, page, row);
  }
  void OnEntryEnd(std::uint32_t owner,
                  std::uint32_t page,
                  bool is_rewrite,
                  End end,
                  std::uint8_t flags) noexcept override;
  void OnVictim(std::uint32_t segment) noexcept override { sink_.OnVictim(segment); }
  bool FillFooterRow(std::uint32_t owner, std::uint32_t segment, BlockRow& row) override {
    return sink_.FillRowIn(owner, segment, row);
  }
  void OnSealed(std::uint32_t /*segment*/) noexcept override { cleaner_->Look(); }
  void OnManifestDone(ManifestBatch& batch) noexcept override;

  Options options_;
  IoRing& ring_;
  Manifest& manifest_;
  StoreSink& sink_;
  SegmentTable table_;
  std::unique_ptr<GroupCommit> commit_;
  std::unique_ptr<FooterWriter> footers_;
  std::unique_ptr<SegmentCleaner> cleaner_;
  std::array<Stream, kStreams> streams_;
  std::uint32_t quarantined_ = 0;  // Segments.
  std::vector<PlacedRow> found_;   // Scratch of the scan.
  bool is_scanned_ = false;
  bool wants_step_ = false;  // A call has left something for the next step to do.
  Status scan_status_;
  // Lives of segments that the store no longer has, since it was made smaller.
  ManifestBatch dropped_;
  enum class Dropping : std::uint8_t { kNothing, kWanted, kInFlight };
  Dropping dropping_ = Dropping::kNothing;
  Closing closing_ = Closing::kNo;
  Instant now_;
};

}  // namespace kvferry::tiers
