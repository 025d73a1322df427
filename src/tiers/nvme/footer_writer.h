// FooterWriter: writes the footers of segments, and again where one tells of what is to be gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kvferry/types.h"

#include "base/huge_array.h"
#include "tiers/nvme/disk_page.h"
#include "tiers/nvme/group_commit.h"
#include "tiers/nvme/io_ring.h"
#include "tiers/nvme/segment_table.h"

namespace kvferry::tiers {

// Says what a footer is to tell, and is told when it is there.
class FooterSink {
 public:
  virtual ~FooterSink() = default;
  // The row of what `owner` has in the segment, its page counting from the tier's start; false:
  // nothing.
  virtual bool FillFooterRow(std::uint32_t owner, std::uint32_t segment, BlockRow& row) = 0;
  virtual void OnSealed(std::uint32_t segment) noexcept = 0;
};

// A full segment is sealed: its footer written, once all its payloads are durable or lost. A footer
// that turns stale is written anew and synced, and until then deletions of rows wait: so whenever
// the power goes, no footer that counts tells of a block whose row has been deleted, and a rebuild
// from footers brings back nothing that was erased. A footer that cannot be written goes with its
// segment's header. Open segments have a footer where one was asked for, which goes on counting
// until they are full.
//
// Thread-confined to the mover thread.
class FooterWriter final : private IoSink {
 public:
  static constexpr std::size_t kSealingMax = 4;

  struct Options {
    StoreUuid store;
    StoreLayout layout;  // Of every drive.
    std::uint32_t drive_count = 1;
    std::uint32_t owners_per_segment_max = 1;
  };
  // Everything must outlive it; the ring must have nothing of it in flight when it goes.
  struct Parts {
    IoRing& ring;
    SegmentTable& table;
    GroupCommit& commit;
    FooterSink& sink;
  };
  FooterWriter(const Options& options, const Parts& parts);

  // Whether one more can be sealed.
  bool CanSeal() const noexcept { return sealing_.size() < kSealingMax; }
  void Seal(std::uint32_t segment);
  // The segment is not to be sealed after all.
  void GiveUpSealing(std::uint32_t segment);
  // The segment's footer, if it has one, tells what is not so any more. Whether that is news:
  // deletions that are queued from here on wait for the footer.
  bool MarkStale(std::uint32_t segment);
  // An open segment is to have a footer of what is in it by now.
  void Want(std::uint32_t segment);

  // Starts what can be started. `may_rewrite`: what the sink tells of segments is all there is.
  void Step(Instant now, bool may_rewrite);
  // When a step is needed at the latest if nothing else happens.
  Instant next_deadline() const noexcept { return retry_at_ > now_ ? retry_at_ : Instant::max(); }
  // One for the segment whose footer is being written anew.
  std::uint32_t users(std::uint32_t segment) const noexcept {
    return work_ == Work::kRewriting && current_ == segment ? 1 : 0;
  }
  // Nothing of it is in the ring.
  bool is_quiet() const noexcept { return work_ == Work::kNone && syncs_in_flight_ == 0; }
  // Nothing is to be sealed or written anew.
  bool is_idle() const noexcept {
    return is_quiet() && sealing_.empty() && stale_.empty() && round_.empty();
  }

 private:
  enum class Work : std::uint8_t { kNone, kSealing, kRewriting };
  struct Stale {
    std::uint32_t segment = 0;
    std::uint64_t generation = 0;
    std::uint32_t failures = 0;
    bool is_written = false;
  };
  struct Sync : IoOp {
    bool is_wanted = false;
  };

  bool IsFooterGone(const Stale& stale) const;
  void BeginRound();
  void GoOn();
  void Rewrite(Stale& stale);
  void StartSyncs();
  void EndRound();
  void FailRound();
  void Compose(std::uint32_t segment);
  void ComposeBlankHeader(std::uint32_t segment);
  void OnFooterDone();
  void OnRewriteDone();
  void OnIoDone(IoOp& op) noexcept override;

  Options options_;
  IoRing& ring_;
  SegmentTable& table_;
  GroupCommit& commit_;
  FooterSink& sink_;
  IoOp op_;
  Work work_ = Work::kNone;  // Of op_, which is in flight.
  std::uint32_t current_ = 0;
  HugeArray<DiskPageMemory> pages_;
  std::vector<BlockRow> rows_;
  std::vector<std::uint32_t> sealing_;  // Oldest first; the first one's footer is under way.
  std::vector<Stale> stale_;            // Wait for the next round.
  std::vector<Stale> round_;            // Are being written anew.
  std::vector<Sync> syncs_;             // By drive.
  std::uint32_t syncs_in_flight_ = 0;
  std::uint64_t hold_after_next_ = 0;  // Deletions with higher numbers wait for the next round.
  bool is_syncing_ = false;
  bool has_sync_failed_ = false;
  std::uint32_t sync_failures_ = 0;  // When the round began.
  Instant retry_at_;
  Instant now_;
};

}  // namespace kvferry::tiers
