// NvmeArrows: the two arrows between host memory and NVMe, over the store of segments.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kvferry/requests.h"
#include "kvferry/stats.h"
#include "kvferry/types.h"

#include "engine/copy_desk.h"
#include "engine/durable_namespaces.h"
#include "engine/host_cache.h"
#include "engine/nvme_report.h"
#include "engine/request_table.h"
#include "engine/segment_moves.h"
#include "engine/transfer_scheduler.h"
#include "engine/write_budget.h"
#include "tiers/nvme/drive_health.h"
#include "tiers/nvme/io_ring.h"
#include "tiers/nvme/segment_store.h"

namespace kvferry::engine {

// Is told the end of reads.
class OnboardSink {
 public:
  virtual ~OnboardSink() = default;
  // The record's host copy is resident (`reason` is kNone), or there is none and why; the record
  // itself may be gone then. `waiter` is what was set last by SetWaiter.
  virtual void OnOnboardEnd(RecordIndex record,
                            std::uint32_t waiter,
                            MissReason reason) noexcept = 0;
  // A block that was found after a restart takes the record's key: the record is to be withdrawn.
  virtual void OnSuperseded(RecordIndex record) noexcept = 0;
};

// One copy of a block in the tier at most. A copy is published after its write has ended, or (going
// up) after its bytes were read and found right; it is durable after its group was committed. What
// goes wrong costs the copy concerned, never more.
//
// For the mover thread.
class NvmeArrows final : public tiers::IoSink, private tiers::StoreSink {
  struct Token {};  // Only Create can name it.

 public:
  struct Options {
    std::uint32_t transfers_max = 256;
    tiers::SegmentStore::Options store;
    std::uint64_t write_bytes_per_day = 0;  // 0: no budget.
    std::uint32_t persisted_percent = 50;   // What persisted blocks may take of the tier.
  };

  // Everything must outlive it. Ring and manifest must be gone, or `is_quiet`, when it goes.
  struct Parts {
    tiers::IoRing& ring;
    tiers::Manifest& manifest;
    BlockBook& book;
    HostCache& host;
    NamespaceTable& namespaces;
    DurableNamespaces& durable_namespaces;
    CopyDesk& desk;
    OnboardSink& sink;
  };
  // The manifest's error.
  static Result<std::unique_ptr<NvmeArrows>> Create(const Options& options, const Parts& parts);
  NvmeArrows(Token token, const Options& options, const Parts& parts);
  NvmeArrows(const NvmeArrows&) = delete;
  NvmeArrows& operator=(const NvmeArrows&) = delete;
  ~NvmeArrows() override = default;

  // onboard_nvme_to_host -----------------------------------------------------------------------
  bool CanOnboard() const noexcept { return !free_.empty() && !is_stopping_; }
  // Begins to bring up a record whose host copy is kFilling; its filler becomes the transfer, whose
  // number is returned. CanOnboard must hold.
  std::uint32_t Onboard(RecordIndex record, TransferClass of, Instant deadline);
  // Somebody more urgent waits for it now.
  void Raise(std::uint32_t transfer, TransferClass of, Instant deadline);
  std::uint32_t waiter(std::uint32_t transfer) const { return transfers_[transfer].waiter; }
  void SetWaiter(std::uint32_t transfer, std::uint32_t waiter) {
    transfers_[transfer].waiter = waiter;
  }
  // Nobody waits any more: one that has not started is given up, without a call of the sink.
  void GiveUpIfQueued(std::uint32_t transfer);
  // The piece of kVerify with this operation is done.
  void OnVerified(const CopyPiece& piece) noexcept;

  // offload_host_to_nvme -----------------------------------------------------------------------
  // Starts writing down what waits, as far as there is room. True: it has not looked everywhere for
  // what waits, and is to be called again soon.
  bool StartOffloads();

  // What survives a restart ----------------------------------------------------------------------
  // The record's copy is withdrawn: no longer a hit, its pages dead. With `deletes_row`, before
  // which requests wait for CanErase, a restart will not find it either, once durable_erasures()
  // has reached what queued_erasures() is then.
  void Withdraw(RecordIndex record, bool deletes_row);
  bool CanErase() const { return store_->is_scanned() && store_->commit().CanDelete(); }
  std::uint64_t queued_erasures() const { return store_->commit().queued_deletions(); }
  std::uint64_t durable_erasures() const { return store_->commit().durable_deletions(); }
  // Rows of blocks that were evicted go with their segment's life, which has a number.
  std::uint64_t newest_victim() const { return store_->newest_victim(); }
  bool AreRowsGone(std::uint64_t victim) const { return store_->AreRowsGone(victim); }

  tiers::GroupCommit& commit() { return store_->commit(); }

  // The record is to count as another tenant's.
  void ChangeTenant(RecordIndex record, std::uint32_t tenant);
  // The row of the record's copy, if there is one, says what is not so any more.
  void RecordAgain(RecordIndex record);

  // Whether blocks of so many bytes more may be persisted.
  bool MayPersist(std::uint64_t size_bytes) const;
  // The largest block that is ever written.
  std::uint64_t block_bytes_max() const {
    return std::uint64_t{store_->table().payload_pages_max()} * tiers::kIoAlignment;
  }
  // Why a request that names so many blocks, of so many bytes more, may not.
  Status WhyNotPersisted(std::size_t blocks, std::uint64_t size_bytes) const;
  // Whether the quota of the namespace's tenant has room for so many bytes more in the tier.
  bool MayWrite(NamespaceHandle in, std::uint64_t size_bytes) const;
  // Why a Persist of so many blocks may not have so many bytes more written.
  Status WhyNotWritten(NamespaceHandle in, std::size_t blocks, std::uint64_t size_bytes) const;
  // The record is to have a durable copy that does not leave, or need not any more.
  void SetPersisted(RecordIndex record, bool is_persisted);
  enum class Persistence : std::uint8_t { kDone, kUnderWay, kGone, kOverQuota };
  // What has come of it; starts what is to be done next. kGone: the record has no copy to write
  // down.
  Persistence GoOnPersisting(RecordIndex record);
  // Nobody waits for it any more.
  void CancelPersisting(RecordIndex record);

  // Starts reads in order of urgency, then writes. True as of StartOffloads.
  bool StartTransfers();
  // Tells it the time of the step.
  void SetNow(Instant now) { now_ = now; }
  // The store's part of a step; whether anything was found from before a restart.
  bool StepStore();
  Instant next_deadline() const noexcept {
    if (is_stopping_) {
      return Instant::max();  // It waits for ends, and begins nothing.
    }
    if (!rewrites_.empty() && store_->commit().CanAdd()) {
      return now_;  // The next step records them.
    }
    const Instant moves = moves_read_at_ > now_ ? moves_read_at_ : Instant::max();
    return std::min({store_->next_deadline(), report_.next_deadline(), moves, writes_at()});
  }
  void OnIoDone(tiers::IoOp& op) noexcept override;

  // The tier is to go off ------------------------------------------------------------------------
  // Why it has to, or Ok.
  const Status& failure() const noexcept {
    return store_->scan_status().ok() ? health_.failure() : store_->scan_status();
  }
  // The manifest cannot be read: it is to be rebuilt.
  bool is_manifest_damaged() const noexcept {
    return store_->scan_status().code() == StatusCode::kDataLoss;
  }
  // Starts nothing any more, and gives up what has not started.
  void Stop();
  bool is_stopping() const noexcept { return is_stopping_; }
  // Nothing of it is in the ring, in the manifest or with the workers.
  bool is_quiet() const noexcept { return free_.size() == transfers_.size() && store_->is_quiet(); }
  // Withdraws every copy; they are found again when the tier is back. is_quiet must hold.
  void ForgetCopies();

  // Writes what has begun, and begins nothing: the engine closes.
  void StopOffloads();
  // Nothing is left to do; what was written is durable. Blocks that are to move stay where they are
  // once no segment takes them.
  bool is_idle() const noexcept {
    return free_.size() == transfers_.size() && store_->is_idle() &&
           (moves_.empty() || !takes_offloads_ || do_moves_rest_);
  }
  // What was written is to be made durable without waiting for more.
  void Hurry();
  const tiers::SegmentStore& store() const { return *store_; }
  // Adds what it counts, and gives what it holds.
  void AddTo(EngineStats& stats) const;
  // Adds one for each write in flight that reads the record's host copy.
  void CountReaders(std::span<std::uint32_t> by_record) const;
  void CheckInvariants() const;

 private:
  static constexpr std::size_t kSuspectsMax = 64;
  enum class Stage : std::uint8_t { kFree, kQueued, kReading, kChecking, kWriting };

  struct Transfer : tiers::IoOp {
    Stage stage = Stage::kFree;
    TransferClass transfer_class = TransferClass::kDemand;
    bool is_move = false;
    RecordIndex record = kNoRecord;
    std::uint32_t page = 0;  // Of the tier, where it reads or writes.
    std::uint32_t waiter = kNone;
    std::uint32_t size_bytes = 0;  // In whole pages.
    Instant started_at;
    Instant deadline;
  };

  std::uint32_t NumberOf(const Transfer& transfer) const {
    return static_cast<std::uint32_t>(&transfer - transfers_.data());
  }
  Transfer& Take(RecordIndex record, std::uint32_t page);
  void Free(Transfer& transfer);
  bool StartRead(Transfer& transfer);
  void EndOnboard(Transfer& transfer, MissReason reason);
  void OnReadDone(Transfer& transfer);
  void OnWriteDone(Transfer& transfer);
  // False: not now.
  bool StartOffload(RecordIndex record, bool is_move);
  bool IsOverQuota(RecordIndex record) const;
  bool SubmitWrite(RecordIndex record, std::uint32_t page, bool is_move);
  // Whether it counts against the place.
  bool NoteIoFailure(const Transfer& transfer);
  void OnUnreadable(const Transfer& transfer);
  void OnMoveUnreadable(SegmentMoves::Move& move, bool counts);
  void OnWrongBytes(const Transfer& transfer);

  // segment_moves: what leaves a segment that is being emptied and stays in the tier.
  // When writes that wait out a pause may begin.
  Instant writes_at() const noexcept {
    Instant next = Instant::max();
    if (!takes_offloads_ || (moves_.empty() && host_.offloads_wanted() == 0)) {
      return next;
    }
    for (const Instant at : {writes_resume_at_, offloads_look_at_}) {
      next = at > now_ ? std::min(next, at) : next;
    }
    return next;
  }
  // Null where the record does not move.
  SegmentMoves::Move* MoveOf(RecordIndex record) {
    return book_.index()[record].is_moving != 0 ? moves_.Find(record) : nullptr;
  }
  enum class MoveStart : std::uint8_t {
    kUnderWay,
    kRests,   // No segment takes it, or it cannot be read for now; others may go on.
    kNotNow,  // Nothing can be started.
  };
  void StartMoves();
  MoveStart StartMove(SegmentMoves::Move& move);
  MoveStart BringUp(RecordIndex record);
  bool AreAllUnreadable(std::uint32_t segment) const;
  bool IsPressing(const SegmentMoves::Move& move) const;
  tiers::SegmentStream StreamOf(RecordIndex record, bool is_move) const;
  void BeginMove(RecordIndex record);
  void EndMove(RecordIndex record);
  bool IsInQuarantine(std::uint32_t segment) const;
  void LeaveRow(std::uint32_t page);
  void EvictForReuse(RecordIndex record);
  void Evict(RecordIndex record, MissReason reason);
  void GiveUpSegment(std::uint32_t segment);
  void Rewrite(RecordIndex record);
  void RewriteRows();

  bool FillRow(std::uint32_t owner, std::uint32_t page, tiers::BlockRow& row) override;
  bool FillRowIn(std::uint32_t owner, std::uint32_t segment, tiers::BlockRow& row) override;
  void OnEntryEnd(std::uint32_t owner,
                  std::uint32_t page,
                  bool is_rewrite,
                  tiers::CommitSink::End end,
                  std::uint8_t flags) noexcept override;
  void OnDurable(RecordIndex record, std::uint32_t page, bool is_rewrite, std::uint8_t flags);
  void OnLost(RecordIndex record, std::uint32_t page, bool is_rewrite);
  void OnVictim(std::uint32_t segment) noexcept override;
  std::uint32_t OnFound(const tiers::BlockRow& row,
                        std::uint32_t page,
                        std::uint64_t generation) override;
  bool IsSameBlock(RecordIndex record,
                   const tiers::BlockRow& row,
                   DurableNamespaces::Meaning meaning) const;

  bool IsAt(RecordIndex record, std::uint32_t page) const;
  tiers::BlockRow RowOf(RecordIndex record, std::uint16_t number) const;
  std::uint64_t SizeOf(RecordIndex record) const;
  std::uint32_t TenantOf(RecordIndex record) const;
  void SetState(RecordIndex record, CopyState state);
  std::uint64_t persisted_bytes_max() const;

  BlockBook& book_;
  HostCache& host_;
  NamespaceTable& namespaces_;
  DurableNamespaces& durable_namespaces_;
  CopyDesk& desk_;
  OnboardSink& sink_;
  tiers::IoRing& ring_;
  Options options_;
  std::unique_ptr<tiers::SegmentStore> store_;
  TransferScheduler scheduler_;
  tiers::DriveHealth health_;
  WriteBudget budget_;
  NvmeReport report_;
  SegmentMoves moves_;
  std::vector<Transfer> transfers_;
  std::vector<std::uint32_t> free_;
  std::size_t next_move_ = 0;          // Of moves_, to be looked at.
  std::vector<RecordIndex> rewrites_;  // Whose rows say other flags than they should.
  std::vector<RecordIndex> suspects_;  // Persisted ones that came up wrong once.
  std::uint32_t writes_in_flight_ = 0;
  bool do_moves_rest_ = false;              // All of them.
  Instant moves_read_at_ = Instant::max();  // The next of those that could not be read.
  bool is_stopping_ = false;
  bool takes_offloads_ = true;
  Instant now_;
  Instant writes_resume_at_;  // The drive takes none before, it seems.
  Instant offloads_look_at_;  // Others than those tried last are tried then.
  std::uint64_t persisted_bytes_ = 0;
  TierStats stats_;
  NvmeStats nvme_stats_;
  ArrowStats offload_stats_;
  ArrowStats onboard_stats_;
  std::uint64_t failed_checks_ = 0;
  std::vector<std::uint64_t> tenant_bytes_;
};

}  // namespace kvferry::engine
