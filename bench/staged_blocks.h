// StagedBlocks: sessions whose blocks leave the device for an engine's tiers and come back in time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kvferry/engine.h"

#include "bench/decode_blocks.h"
#include "bench/decode_gpu.h"
#include "engine/engine_front.h"

namespace kvferry::bench {

// Does what a server would. When a turn ends, its sessions' full blocks are put, and their pages
// are free once that is done. A session is named to the engine (Prefetch) so many turns ahead as
// the plan says, and its blocks are fetched into free pages while the turn before is decoded;
// without hints not before its own turn. Blocks that the engine has not any more are computed
// again.
//
// Thread-compatible: for the decoder's thread.
class StagedBlocks final : public DecodeBlocks {
  struct Token {};  // Only Open can name it.

 public:
  // All are borrowed. `memory` has plan.hbm_blocks pages.
  struct Parts {
    const DecodeGpu& gpu;
    const DecodePlan& plan;
    const DecodeValues& values;
    BlockFeeder& feeder;
    gpu::Stream& stream;
    DecodeMemory& memory;
  };
  // Opens an engine with these options, attached to the tensors. Errors as EngineFront::Open.
  static Result<std::unique_ptr<StagedBlocks>> Open(const Parts& parts,
                                                    const EngineOptions& options);
  StagedBlocks(Token token, const Parts& parts, const EngineOptions& options);
  StagedBlocks(const StagedBlocks&) = delete;
  StagedBlocks& operator=(const StagedBlocks&) = delete;
  ~StagedBlocks() override;

  // Computes each session once and puts it; then the device holds none of them.
  Status Prefill();

  Status BeginTurn(std::uint32_t turn) override;
  Status Poll() override;
  Status AwaitLayer(std::uint32_t session, std::uint32_t layer) override;
  Status EndTurn(std::uint32_t turn) override;
  std::span<const std::int32_t> PagesOf(std::uint32_t session) const override {
    return sessions_[session].pages;
  }

  EngineStats Stats() const { return engine_->Stats(); }
  // Since Prefill: in which this thread could do nothing but wait for blocks or for pages.
  double waited_seconds() const noexcept { return waited_seconds_; }
  std::uint64_t blocks_recomputed() const noexcept { return blocks_recomputed_; }

 private:
  enum class Place : std::uint8_t { kOut, kComing, kTorn, kIn, kLeaving };
  struct Session {
    Place place = Place::kOut;
    std::vector<std::int32_t> pages;
    Ticket get;
    std::uint32_t blocks = 0;  // Full ones: those of the latest get.
    std::uint32_t ready = 0;   // Those that it has brought.
  };
  enum class Kind : std::uint8_t { kPut, kGet, kPrefetch };
  // What a request borrows.
  struct Request {
    Kind kind = Kind::kPut;
    std::uint32_t session = 0;
    Ticket ticket;
    std::vector<BlockKey> keys;
    std::vector<DeviceBlock> blocks;
  };

  std::unique_ptr<Request> RequestOf(Kind kind, std::uint32_t session, std::uint32_t blocks) const;
  Status Keep(std::unique_ptr<Request> request, const Result<Ticket>& ticket);
  Status BeginPut(std::uint32_t session, std::uint32_t blocks);
  Status BeginGet(std::uint32_t session, std::uint32_t tokens);
  Status HintTurn(std::uint32_t turn);
  // What has ended by now.
  Status TakeEnds();
  Status TakeEnd(const Completion& completion);
  // Waits for one end at least.
  Status AwaitEnds();
  Status AwaitPlace(std::uint32_t session, Place place);
  Status Recompute(std::uint32_t session);
  // Until the drive has not much left to write: blocks must not leave host memory unwritten.
  Status AwaitOffloads() const;

  Parts parts_;
  EngineOptions options_;
  std::uint32_t turn_ = 0;
  std::vector<Session> sessions_;
  std::vector<std::unique_ptr<Request>> requests_;
  std::shared_ptr<engine::EngineFront> engine_;  // Goes after its queue.
  std::unique_ptr<CompletionQueue> queue_;
  NamespaceHandle space_;
  TensorsHandle tensors_;
  double waited_seconds_ = 0;
  std::uint64_t blocks_recomputed_ = 0;
};

}  // namespace kvferry::bench
