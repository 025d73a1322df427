// HbmArrows: offload and onboard between a server's tensors on a GPU and host memory.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/device_arrows.h"
#include "engine/hbm_callers.h"
#include "engine/request_table.h"
#include "engine/transfer_scheduler.h"
#include "gpu/cuda_library.h"
#include "gpu/device.h"
#include "tiers/hbm/hbm_moves.h"
#include "tiers/hbm/host_registrar.h"

namespace kvferry::engine {

// Copies of one request go together as moves of HbmMoves, in the order of the scheduler, once what
// the caller's stream had been given is done: so a stream that stands still holds up its own
// request, which its deadline ends, and no other. Toward the device a move goes layer by layer.
//
// Loses the device as a whole with its first sticky error: says so once, ends everything, and takes
// nothing any more until the process starts anew.
class HbmArrows final : public DeviceArrows {
  struct Token {};  // Only Open can name it.

 public:
  struct Options {
    const gpu::CudaApi* cuda = nullptr;  // Null: a libcudart is looked for, and loaded.
    const void* kernels = nullptr;       // As tiers::HbmMovesOptions has it.
    std::string runtime_path;
    int device = 0;
    std::uint32_t requests_max = 0;
    std::uint32_t operations_max = 0;
    std::uint64_t part_bytes = std::uint64_t{8} << 20;
  };

  // On the mover thread, which has entered the device from then on. Begins to pin `host_memory` in
  // the background; it stays mapped until End(). kUnavailable, saying what was tried, without a
  // runtime or a GPU; kInvalidArgument for a GPU that is not there; kResourceExhausted.
  static Result<std::unique_ptr<HbmArrows>> Open(const Options& options,
                                                 std::span<std::byte> host_memory);
  HbmArrows(Token token, const Options& options);
  HbmArrows(const HbmArrows&) = delete;
  HbmArrows& operator=(const HbmArrows&) = delete;
  ~HbmArrows() override;

  Result<TensorsHandle> Register(const DeviceTensors& tensors) override;
  Status Unregister(TensorsHandle tensors) override;
  Result<Admitted> Admit(const Wish& wish) override;
  void Release(const Admitted& admitted) override;
  void Begin(Ticket ticket, std::uint32_t blocks, const Admitted& admitted) override;
  Status WaitLayer(Ticket ticket, std::uint32_t layer, NativeStream stream) override;

  void Add(const DeviceCopy& copy) override;
  void Cancel(std::uint32_t request) override;
  void NoteMissing(std::uint32_t request) override { callers_->NoteMissing(request); }
  void EndRequest(std::uint32_t request, const Admitted& admitted, bool is_complete) override;
  std::size_t Step(Instant now, DeviceSink& sink) override;
  void Start(Instant now) override;
  Instant next_deadline() const override;
  void AddTo(EngineStats& stats) const override;
  void End() override;

 private:
  enum class Stage : std::uint8_t {
    kFree,
    kWaiting,  // For the caller's event.
    kQueued,   // In the scheduler.
    kMoving,
    kEnding,  // Its end is to be told.
  };
  // A move, from its first block to its end.
  struct Transfer {
    Stage stage = Stage::kFree;
    bool is_cancelled = false;
    DeviceEnd end = DeviceEnd::kDone;
    DeviceCopy first;  // What all of its copies have in common.
    tiers::PagedTensors* tensors = nullptr;
    std::uint32_t first_block = kNone;  // A list through operations.
    std::uint32_t last_block = kNone;
    std::uint32_t blocks = 0;
    std::uint32_t pages = 0;
    std::uint64_t bytes = 0;
    tiers::HbmMoveId id;
  };
  struct Block {
    std::byte* host = nullptr;
    DeviceBlock place;
    std::uint32_t next = kNone;
  };

  Status OpenDevice();
  Status OpenMoves(std::span<std::byte> host_memory);

  // Whether the copy can join the request's open transfer.
  bool Joins(const Transfer& open, const DeviceCopy& copy) const;
  std::uint32_t TakeTransfer(const DeviceCopy& copy);
  void AskEvents();
  // False: not now.
  bool Submit(std::uint32_t transfer, Instant now);
  void Close(std::uint32_t transfer);  // Nothing joins it any more.
  void EndWith(std::uint32_t transfer, DeviceEnd end);
  void TakeEnds(Instant now);
  void LoseAllIfLost();
  void Tell(std::uint32_t transfer, DeviceSink& sink);
  ArrowStats& StatsOf(Arrow arrow) {
    return arrow == Arrow::kOffloadHbmToHost ? offload_stats_ : onboard_stats_;
  }

  Options options_;
  std::unique_ptr<gpu::CudaLibrary> library_;  // Null where the runtime was given.
  std::unique_ptr<gpu::Device> device_;
  std::unique_ptr<tiers::HostRegistrar> registrar_;
  std::unique_ptr<tiers::HbmMoves> moves_;
  std::unique_ptr<HbmCallers> callers_;

  TransferScheduler scheduler_;
  std::vector<Transfer> transfers_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> open_;     // By request: the transfer that copies may join, or kNone.
  std::vector<Block> blocks_;           // By operation.
  std::vector<std::uint32_t> waiting_;  // Transfers for their events.
  std::vector<std::uint32_t> ending_;   // Transfers whose end is to be told.
  std::vector<tiers::HbmBlock> scratch_;
  std::uint32_t moving_ = 0;
  bool is_lost_ = false;
  Instant now_;
  ArrowStats offload_stats_;
  ArrowStats onboard_stats_;
};

}  // namespace kvferry::engine
