// HbmMoves: the two arrows between device and host memory, offload and onboard.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kvferry/status.h"
#include "kvferry/types.h"

#include "base/mutex.h"
#include "gpu/caller_events.h"
#include "gpu/copy_planner.h"
#include "gpu/device.h"
#include "gpu/kernel_library.h"
#include "gpu/memory.h"
#include "tiers/hbm/hbm_lane.h"
#include "tiers/hbm/hbm_pool.h"
#include "tiers/hbm/paged_tensors.h"

namespace kvferry::tiers {

// What waits longest comes last. Onboards on demand have a stream of the highest priority to
// themselves; all else runs at the lowest.
enum class HbmUrgency : std::uint8_t { kDemand, kPrefetch, kWriteBack };

struct HbmBlock {
  std::byte* host = nullptr;  // The block's host form, of the move's `block_bytes`.
  HbmSlot slot;               // Where the move names no tensors.
  DeviceBlock paged;          // Where it does.
};

// A batch of blocks in one direction. What `blocks` points to is copied in the call.
struct HbmMove {
  HbmArrow arrow = HbmArrow::kOffload;
  HbmUrgency urgency = HbmUrgency::kDemand;
  Instant deadline = Instant::max();  // To have begun by.
  PagedTensors* tensors = nullptr;    // Null: slots of the pool.
  std::span<const HbmBlock> blocks;
  std::uint64_t block_bytes = 0;  // Of slots; tensors know theirs.
  std::uint32_t layers = 1;       // The same.
  // Slices: all blocks' layers of one slice are copied before the next slice begins. 0: one slice.
  std::uint32_t layers_a_slice = 0;
  // What the producer (offload) or the last user of the place (onboard) had queued; copies begin
  // after it.
  std::optional<gpu::CallerEvent> after;
  std::uint64_t tag = 0;  // The caller's own.
};

struct HbmMoveId {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;
  bool operator==(const HbmMoveId&) const = default;
};

struct HbmMoveEnd {
  HbmMoveId id;
  std::uint64_t tag = 0;
  Status status;
  // The device was lost while copies ran: it may still read or write the host's side, which must
  // not be used again as long as the process lives.
  bool is_host_in_doubt = false;
};

struct HbmMovesOptions {
  std::uint32_t moves_max = 256;
  std::uint32_t blocks_max = 64;   // Of a move,
  std::uint32_t pages_max = 1024;  // its pages, all blocks together,
  std::uint32_t slices_max = 128;  // and its slices.
  std::uint32_t parts_max = 32;    // Queued on the device at once.
  // What is queued with one call; no block's slice may have more. With kernels each of the three
  // streams takes as much device memory.
  std::uint64_t part_bytes = std::uint64_t{8} << 20;
  std::uint64_t in_flight_bytes_max = std::uint64_t{64} << 20;  // Of an arrow.
  gpu::CopyThresholds thresholds;
  // What KernelLibrary::Load takes; null: paged blocks are copied run by run.
  const void* kernels = nullptr;
  // Whether a copy may go to or from this memory directly. Empty: always. Else what is not pinned
  // goes by way of `staging_parts` pinned buffers of `part_bytes`.
  std::function<bool(std::span<const std::byte>)> is_pinned;
  std::uint32_t staging_parts = 4;
};

struct HbmMovesCounts {
  std::array<std::uint64_t, kHbmArrowCount> bytes{};  // Of parts that are done.
  std::uint64_t staged_bytes = 0;                     // By way of pinned buffers.
  HbmMethodBytes method_bytes{};                      // When queued.
};

// Non-blocking: copies are queued in streams of its own, and Step() asks their events. A move is
// cut into slices (layers) and these into parts (blocks); parts start in the order of urgency,
// deadline and submission, as long as the arrow's bytes in flight allow. Every move that was
// submitted ends exactly once, whatever happens; until then its places belong to it, and slots of
// the pool stay held. The host's bytes of an offload may be read after its end, not before.
//
// An error of a call ends its move, after what was queued of it is done. A sticky error loses the
// device: all moves end with it, and nothing is taken any more. Allocates nothing after Create, but
// the texts of errors.
//
// For the mover thread, which has entered the device, but for WaitLayer(): that is for any thread.
// Nothing may be unfinished when it is destroyed.
class HbmMoves {
  struct Token {};  // Only Create can name it.

 public:
  // `pool` may be null, with tensors only; it outlives this. kResourceExhausted, saying what for,
  // if there is no memory.
  static Result<std::unique_ptr<HbmMoves>> Create(gpu::Device& device,
                                                  HbmPool* pool,
                                                  const HbmMovesOptions& options);

  HbmMoves(Token token, gpu::Device& device, HbmPool* pool, const HbmMovesOptions& options);
  HbmMoves(const HbmMoves&) = delete;
  HbmMoves& operator=(const HbmMoves&) = delete;
  ~HbmMoves();

  // An error has changed nothing: kInvalidArgument for a move that cannot be, kResourceExhausted
  // if all places for moves are taken, the device's first sticky error once it is lost.
  Result<HbmMoveId> Submit(HbmMove move);
  // Does what can be done at `now`: asks events, ends moves, starts parts. Never blocks, but for
  // copies of memory that is not pinned, which it makes itself.
  void Step(Instant now);
  // The next move that has ended; nothing if none has.
  std::optional<HbmMoveEnd> TakeEnd();
  // The move ends with kCancelled once what was queued of it is done; at once if nothing was.
  void Cancel(HbmMoveId id);
  // Gives the place of a move back whose end was taken; WaitLayer() knows it no more.
  void Forget(HbmMoveId id);
  // Moves that have not ended.
  std::uint32_t unfinished() const noexcept { return unfinished_; }

  // On the thread that works with `stream`: what is queued there from now on finds this layer of
  // all the move's blocks in place. Never blocks. kUnavailable as long as the layer's copies are
  // not queued themselves; the move's error once it has failed; kInvalidArgument for a move or a
  // layer that is not there, and for streams that MakeCallerStreamWait refuses.
  Status WaitLayer(HbmMoveId id, std::uint32_t layer, cudaStream_t stream) KVFERRY_EXCLUDES(mutex_);

  HbmMovesCounts counts() const;
  std::uint64_t bytes_in_flight(HbmArrow arrow) const {
    return in_flight_bytes_[static_cast<std::size_t>(arrow)];
  }

 private:
  static constexpr std::size_t kLaneCount = 3;
  static constexpr std::uint32_t kNone = 0xffffffff;

  struct Move {
    HbmArrow arrow = HbmArrow::kOffload;
    HbmUrgency urgency = HbmUrgency::kDemand;
    Instant deadline;
    std::uint64_t order = 0;
    PagedTensors* tensors = nullptr;
    std::uint64_t block_bytes = 0;
    std::uint32_t layers = 1;
    std::uint32_t layers_a_slice = 1;
    std::uint32_t slices = 1;
    std::uint32_t blocks = 0;
    std::uint32_t slice_next = 0;
    std::uint32_t block_next = 0;
    std::uint32_t parts_in_flight = 0;
    bool has_begun = false;
    bool is_unfinished = false;
    bool is_end_taken = false;
    std::optional<gpu::CallerEvent> after;
    Status failure;
    std::uint64_t tag = 0;
  };
  struct Part {
    std::uint32_t move = 0;
    std::uint32_t slice = 0;
    std::uint32_t block_first = 0;
    std::uint32_t blocks = 0;
    std::uint64_t bytes = 0;
    std::uint32_t staging = kNone;
    bool ends_slice = false;
    bool is_recorded = false;
  };
  // What WaitLayer() sees of a move.
  enum class SliceState : std::uint8_t { kWaiting, kQueued, kDone };
  struct Slice {
    SliceState state = SliceState::kWaiting;
    std::uint32_t part = 0;  // Whose event stands for it.
  };
  struct Shown {
    std::uint32_t generation = 0;
    bool is_used = false;
    std::uint32_t layers = 0;
    std::uint32_t layers_a_slice = 1;
    Status failure;
  };

  Status CreateLanes();
  Status CreateParts();
  Status CheckMove(const HbmMove& move) const;
  Status CheckBlocks(const HbmMove& move) const;
  void Show(std::uint32_t index, const Move& move) KVFERRY_EXCLUDES(mutex_);
  void Take(std::uint32_t index, HbmMove move);

  void Poll(std::size_t lane);
  void FinishPart(std::uint32_t part);
  bool Record(std::size_t lane, std::uint32_t part) KVFERRY_EXCLUDES(mutex_);
  void ExpireMoves(Instant now);
  void Start(std::size_t lane);
  std::uint32_t Next(std::size_t lane) const;
  bool StartPart(std::size_t lane, std::uint32_t move);
  bool Prepare(std::uint32_t move, Part& part);
  bool NeedsStaging(const Move& move, std::uint32_t index, const Part& part) const;
  Status Queue(std::size_t lane, std::uint32_t part);
  void CopyStaged(std::uint32_t part, HbmArrow arrow);
  void Fail(std::uint32_t move, const Status& status) KVFERRY_EXCLUDES(mutex_);
  void EndIfDone(std::uint32_t move);
  void End(std::uint32_t move, const Status& status, bool is_host_in_doubt);
  void LoseAllIfLost();

  static std::size_t LaneOf(const Move& move);
  std::uint64_t SliceBytes(const Move& move, std::uint32_t slice) const;
  LayerRange LayersOf(const Move& move, std::uint32_t slice) const;
  HbmBlock& BlockOf(std::uint32_t move, std::uint32_t block) {
    return blocks_[std::size_t{move} * options_.blocks_max + block];
  }
  const HbmBlock& BlockOf(std::uint32_t move, std::uint32_t block) const {
    return blocks_[std::size_t{move} * options_.blocks_max + block];
  }
  // Where a block's share of a part begins on the host.
  std::byte* HostOf(const Move& move,
                    std::uint32_t index,
                    std::uint32_t block,
                    std::uint32_t slice) const;

  gpu::Device& device_;
  HbmPool* pool_;
  HbmMovesOptions options_;
  std::vector<gpu::PinnedBuffer> staging_;
  std::optional<gpu::PinnedBuffer> notes_pinned_;
  std::optional<gpu::DeviceBuffer> notes_device_;
  std::unique_ptr<gpu::KernelLibrary> kernels_;
  std::vector<gpu::Event> events_;  // By part.
  std::vector<HbmLane> lanes_;      // Behind what they use: they go first, and wait.

  std::vector<Move> moves_;
  std::vector<HbmBlock> blocks_;
  std::vector<std::int32_t> pages_;
  std::vector<std::uint32_t> moves_free_;
  std::vector<std::uint32_t> queue_;  // Moves with parts to start.
  std::vector<HbmMoveEnd> ends_;      // A ring.
  std::size_t ends_first_ = 0;
  std::size_t ends_count_ = 0;
  std::vector<Part> parts_;
  std::vector<std::uint32_t> parts_free_;
  std::vector<std::uint32_t> staging_free_;
  std::array<std::vector<std::uint32_t>, kLaneCount> lane_parts_;  // In their stream's order.
  std::vector<HbmPair> pairs_;
  std::array<std::uint64_t, kHbmArrowCount> in_flight_bytes_{};
  HbmMovesCounts counts_;
  std::uint64_t order_ = 0;
  std::uint32_t unfinished_ = 0;

  Mutex mutex_;
  std::vector<Shown> shown_ KVFERRY_GUARDED_BY(mutex_);
  std::vector<Slice> slices_ KVFERRY_GUARDED_BY(mutex_);  // slices_max a move.
};

}  // namespace kvferry::tiers
