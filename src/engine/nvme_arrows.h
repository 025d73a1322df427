// NvmeArrows: the two arrows between host memory and NVMe, over a log of segments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kvferry/requests.h"
#include "kvferry/stats.h"
#include "kvferry/types.h"

#include "engine/copy_desk.h"
#include "engine/host_cache.h"
#include "engine/request_table.h"
#include "engine/transfer_scheduler.h"
#include "tiers/nvme/io_ring.h"
#include "tiers/nvme/segment_log.h"

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
};

// One file on `ring`, one copy of a block there at most. A copy is published after its write has
// ended, or (going up) after its bytes were read and found right. What goes wrong costs the copy
// concerned, never more.
//
// For the mover thread.
class NvmeArrows final : public tiers::IoSink {
 public:
  struct Options {
    std::uint32_t transfers_max = 256;
    tiers::SegmentLog::Options log;
  };

  // Everything must outlive it; the ring must be gone, or have nothing in flight, first.
  struct Parts {
    tiers::IoRing& ring;
    BlockBook& book;
    HostCache& host;
    const NamespaceTable& namespaces;
    CopyDesk& desk;
    OnboardSink& sink;
  };
  NvmeArrows(const Options& options, const Parts& parts);

  // onboard_nvme_to_host -----------------------------------------------------------------------
  bool CanOnboard() const noexcept { return !free_.empty(); }
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
  // Starts writing down what waits, as far as there is room.
  void StartOffloads(Instant now);

  // The record's copy is withdrawn: no longer a hit, its pages dead.
  void Withdraw(RecordIndex record);

  // Starts reads in order of urgency, then writes.
  void StartTransfers(Instant now);
  // Tells it the time of the step, for meters.
  void SetNow(Instant now) { now_ = now; }
  void OnIoDone(tiers::IoOp& op) noexcept override;

  bool is_idle() const noexcept { return free_.size() == transfers_.size(); }
  const TierStats& stats() const noexcept { return stats_; }
  const ArrowStats& offload_stats() const noexcept { return offload_stats_; }
  const ArrowStats& onboard_stats() const noexcept { return onboard_stats_; }
  std::uint64_t failed_checks() const noexcept { return failed_checks_; }
  void CheckInvariants() const;

 private:
  enum class Stage : std::uint8_t { kFree, kQueued, kReading, kChecking, kWriting };

  struct Transfer : tiers::IoOp {
    Stage stage = Stage::kFree;
    TransferClass transfer_class = TransferClass::kDemand;
    RecordIndex record = kNoRecord;
    std::uint32_t segment = 0;
    std::uint32_t waiter = kNone;
    std::uint32_t size_bytes = 0;  // In whole pages.
    Instant deadline;
  };

  std::uint32_t NumberOf(const Transfer& transfer) const {
    return static_cast<std::uint32_t>(&transfer - transfers_.data());
  }
  Transfer& Take(RecordIndex record);
  void Free(Transfer& transfer);
  bool StartRead(Transfer& transfer);
  void EndOnboard(Transfer& transfer, MissReason reason);
  void OnReadDone(Transfer& transfer);
  void OnWriteDone(Transfer& transfer);
  bool StartOffload(RecordIndex record);
  // Makes the next segment the open one; false while somebody uses its pages.
  bool OpenNextSegment();
  std::uint32_t TenantOf(RecordIndex record) const;
  void SetState(RecordIndex record, CopyState state);

  BlockBook& book_;
  HostCache& host_;
  const NamespaceTable& namespaces_;
  CopyDesk& desk_;
  OnboardSink& sink_;
  tiers::IoRing& ring_;
  tiers::SegmentLog log_;
  TransferScheduler scheduler_;
  std::vector<Transfer> transfers_;
  std::vector<std::uint32_t> free_;
  std::uint32_t writes_in_flight_ = 0;
  Instant now_;
  TierStats stats_;
  ArrowStats offload_stats_;
  ArrowStats onboard_stats_;
  std::uint64_t failed_checks_ = 0;
  std::vector<std::uint64_t> tenant_bytes_;
};

}  // namespace kvferry::engine
