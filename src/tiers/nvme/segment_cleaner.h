// SegmentCleaner: keeps a few segments ready to be written: empties old ones and begins new lives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kvferry/types.h"

#include "base/huge_array.h"
#include "tiers/nvme/disk_page.h"
#include "tiers/nvme/group_commit.h"
#include "tiers/nvme/io_ring.h"
#include "tiers/nvme/manifest.h"
#include "tiers/nvme/segment_table.h"

namespace kvferry::tiers {

// Is told whose turn it is.
class VictimSink {
 public:
  virtual ~VictimSink() = default;
  // Every payload of the segment is to go: withdrawn at once, or moved while the segment is kept
  // by a user for each. Once for each life.
  virtual void OnVictim(std::uint32_t segment) noexcept = 0;
};

// What stands between a segment's old life and the first write of the new one, in this order: its
// blocks are withdrawn and nobody uses its pages; the old header is blanked, so that no rebuild
// takes the footer; the new generation is recorded, and the rows of the old one deleted, in a
// synced batch; the header with that generation is synced. So no row can ever point at pages that
// were written in another life, and no footer that counts tells of more than the manifest does.
//
// Thread-confined to the mover thread.
class SegmentCleaner final : private IoSink, private ManifestSink {
 public:
  static constexpr std::size_t kSlots = 4;

  struct Options {
    StoreUuid store;
    StoreLayout layout;  // Of every drive.
    std::uint32_t drive_count = 1;
    std::uint32_t clean_wanted = 2;  // Segments that are kept ready; at most kSlots.
    std::uint64_t next_generation = 1;
    std::int64_t unix_ms_minus_now = 0;  // Wall clock at an Instant, less its milliseconds.
  };
  // Everything must outlive it; ring and manifest must have nothing of it in flight when it goes.
  struct Parts {
    IoRing& ring;
    Manifest& manifest;
    SegmentTable& table;
    GroupCommit& commit;
    VictimSink& sink;
  };
  SegmentCleaner(const Options& options, const Parts& parts);

  // A segment that is ready, for the caller to open; the longest ready first.
  std::optional<std::uint32_t> TakeClean();
  std::size_t clean_count() const noexcept { return clean_.size(); }
  // Something has changed that may make a segment a victim.
  void Look() noexcept { has_looked_ = false; }

  // Starts what can be started. Only where `may_empty` are segments emptied that hold blocks.
  void Step(Instant now, bool may_empty);
  // When a step is needed at the latest if nothing else happens.
  Instant next_deadline() const noexcept;
  std::uint64_t reuses() const noexcept { return reuses_; }
  // Victims are numbered. The rows of one are there until its next life is recorded; whether that
  // is so for all up to this one.
  std::uint64_t newest_victim() const noexcept { return reuses_; }
  bool AreRowsGone(std::uint64_t up_to_victim) const noexcept;
  // Nothing of it is in the ring or the manifest.
  bool is_quiet() const noexcept;

 private:
  enum class Stage : std::uint8_t {
    kFree,
    kEmptying,
    kBlanking,
    kBlanked,
    kForgetting,  // The blank header is being synced.
    kForgotten,
    kDrained,
    kRecording,
    kRecorded,
    kHeading,
    kHeaded,
    kSyncing,
  };
  struct HeaderOp : IoOp {
    std::size_t slot = 0;
  };
  struct LifeBatch : ManifestBatch {
    std::size_t slot = 0;
  };
  struct Slot {
    HeaderOp op;
    LifeBatch batch;
    Stage stage = Stage::kFree;
    std::uint32_t segment = 0;
    std::uint64_t old_generation = 0;
    std::uint64_t victim = 0;         // Its number; 0: it held nothing.
    std::uint32_t sync_failures = 0;  // When the header was written.
    Instant retry_at;
  };

  void BeginNext(bool may_empty);
  void Advance(Slot& slot);
  void BeginLife(Slot& slot);
  void BlankHeader(Slot& slot);
  void Sync(Slot& slot, Stage stage);
  void Record(Slot& slot);
  void WriteHeader(Slot& slot);
  void Retry(Slot& slot, Stage stage);
  void OnWritten(Slot& slot);
  void OnSynced(Slot& slot);
  void OnIoDone(IoOp& op) noexcept override;
  void OnManifestDone(ManifestBatch& batch) noexcept override;

  Options options_;
  IoRing& ring_;
  Manifest& manifest_;
  SegmentTable& table_;
  GroupCommit& commit_;
  VictimSink& sink_;
  HugeArray<DiskPageMemory> headers_;  // By slot.
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> clean_;
  std::uint64_t next_generation_;
  bool has_looked_ = false;  // In vain.
  Instant now_;
  std::uint64_t reuses_ = 0;
};

}  // namespace kvferry::tiers
