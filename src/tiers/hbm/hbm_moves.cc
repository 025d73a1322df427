// Moves between device and host memory: taken, shown to callers, ended. hbm_steps.cc makes them.
#include "tiers/hbm/hbm_moves.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/assert.h"
#include "gpu/caller_stream.h"

namespace kvferry::tiers {
namespace {

Status Refuse(const std::string& reason) {
  return Status::Error(StatusCode::kInvalidArgument, "a move of device memory: " + reason);
}

std::uint64_t BlockBytesOf(const HbmMove& move) {
  return move.tensors != nullptr ? move.tensors->block_bytes() : move.block_bytes;
}

std::uint32_t LayerCountOf(const HbmMove& move) {
  return move.tensors != nullptr ? move.tensors->layers() : move.layers;
}

std::uint32_t LayersASlice(const HbmMove& move) {
  const std::uint32_t layers = LayerCountOf(move);
  return move.layers_a_slice == 0 ? layers : std::min(move.layers_a_slice, layers);
}

}  // namespace

Result<std::unique_ptr<HbmMoves>> HbmMoves::Create(gpu::Device& device,
                                                   HbmPool* pool,
                                                   const HbmMovesOptions& options) {
  if (options.moves_max == 0 || options.blocks_max == 0 || options.slices_max == 0 ||
      options.parts_max == 0 || options.part_bytes == 0 || options.in_flight_bytes_max == 0 ||
      (options.is_pinned && options.staging_parts == 0)) {
    return Refuse("a limit is 0");
  }
  auto moves = std::make_unique<HbmMoves>(Token(), device, pool, options);
  KVFERRY_RETURN_IF_ERROR(moves->CreateParts().WithContext("buffers for device copies"));
  KVFERRY_RETURN_IF_ERROR(moves->CreateLanes().WithContext("streams for device copies"));
  return moves;
}

HbmMoves::HbmMoves(Token /*token*/,
                   gpu::Device& device,
                   HbmPool* pool,
                   const HbmMovesOptions& options)
    : device_(device),
      pool_(pool),
      options_(options),
      moves_(options.moves_max),
      blocks_(std::size_t{options.moves_max} * options.blocks_max),
      pages_(std::size_t{options.moves_max} * options.pages_max),
      ends_(options.moves_max),
      parts_(options.parts_max),
      shown_(options.moves_max),
      slices_(std::size_t{options.moves_max} * options.slices_max) {
  for (std::uint32_t i = options.moves_max; i > 0; --i) {
    moves_free_.push_back(i - 1);
  }
  for (std::uint32_t i = options.parts_max; i > 0; --i) {
    parts_free_.push_back(i - 1);
  }
  queue_.reserve(options.moves_max);
  pairs_.reserve(options.blocks_max);
  for (auto& parts : lane_parts_) {
    parts.reserve(options.parts_max);
  }
}

HbmMoves::~HbmMoves() {
  KVFERRY_CHECK(unfinished_ == 0);
}

Status HbmMoves::CreateParts() {
  const std::size_t notes_bytes = HbmLane::NotesBytes(options_.blocks_max) * options_.parts_max;
  if (options_.kernels != nullptr) {
    KVFERRY_ASSIGN_OR_RETURN(notes_pinned_, gpu::PinnedBuffer::Create(device_, notes_bytes));
    KVFERRY_ASSIGN_OR_RETURN(notes_device_, gpu::DeviceBuffer::Create(device_, notes_bytes));
  }
  events_.reserve(options_.parts_max);
  for (std::uint32_t i = 0; i < options_.parts_max; ++i) {
    KVFERRY_ASSIGN_OR_RETURN(gpu::Event event, gpu::Event::Create(device_));
    events_.push_back(std::move(event));
  }
  for (std::uint32_t i = 0; options_.is_pinned && i < options_.staging_parts; ++i) {
    KVFERRY_ASSIGN_OR_RETURN(gpu::PinnedBuffer buffer,
                             gpu::PinnedBuffer::Create(device_, options_.part_bytes));
    staging_.push_back(std::move(buffer));
    staging_free_.push_back(i);
  }
  return Status::Ok();
}

Status HbmMoves::CreateLanes() {
  HbmLaneOptions options;
  options.part_bytes = options_.part_bytes;
  options.blocks_a_part = options_.blocks_max;
  options.thresholds = options_.thresholds;
  if (options_.kernels != nullptr) {
    KVFERRY_ASSIGN_OR_RETURN(kernels_, gpu::KernelLibrary::Load(device_, options_.kernels));
    KVFERRY_ASSIGN_OR_RETURN(options.gather,
                             kernels_->Find<gpu::BlockCopy>("kvferry_gather_blocks"));
    KVFERRY_ASSIGN_OR_RETURN(options.scatter,
                             kernels_->Find<gpu::BlockCopy>("kvferry_scatter_blocks"));
  }
  // Offload, onboard on demand, other onboards.
  lanes_.reserve(kLaneCount);
  for (const gpu::StreamPriority priority :
       {gpu::StreamPriority::kLowest, gpu::StreamPriority::kHighest,
        gpu::StreamPriority::kLowest}) {
    KVFERRY_ASSIGN_OR_RETURN(HbmLane lane, HbmLane::Create(device_, priority, options));
    lanes_.push_back(std::move(lane));
  }
  return Status::Ok();
}

Status HbmMoves::CheckMove(const HbmMove& move) const {
  if (move.blocks.empty() || move.blocks.size() > options_.blocks_max) {
    return Refuse(std::to_string(move.blocks.size()) + " blocks");
  }
  const std::uint64_t block_bytes = BlockBytesOf(move);
  const std::uint32_t layers = LayerCountOf(move);
  if (block_bytes == 0 || layers == 0 || block_bytes % layers != 0) {
    return Refuse(std::to_string(block_bytes) + " bytes in " + std::to_string(layers) + " layers");
  }
  const std::uint32_t layers_a_slice = LayersASlice(move);
  if ((layers - 1) / layers_a_slice + 1 > options_.slices_max) {
    return Refuse("more slices than " + std::to_string(options_.slices_max));
  }
  if (block_bytes / layers * layers_a_slice > options_.part_bytes) {
    return Refuse("a block's slice of " + std::to_string(block_bytes / layers * layers_a_slice) +
                  " bytes, more than " + std::to_string(options_.part_bytes) + " queued at once");
  }
  return CheckBlocks(move);
}

Status HbmMoves::CheckBlocks(const HbmMove& move) const {
  std::size_t pages = 0;
  for (const HbmBlock& block : move.blocks) {
    if (block.host == nullptr) {
      return Refuse("a block without a place on the host");
    }
    if (move.tensors != nullptr) {
      KVFERRY_RETURN_IF_ERROR(move.tensors->Check(block.paged));
      pages += block.paged.pages.size();
    } else if (pool_ == nullptr || block.slot.class_index >= pool_->class_count() ||
               pool_->usage(block.slot.class_index).slot_bytes < move.block_bytes) {
      return Refuse("a slot that is not there, or too small");
    }
  }
  if (pages > options_.pages_max) {
    return Refuse(std::to_string(pages) + " pages");
  }
  return Status::Ok();
}

Result<HbmMoveId> HbmMoves::Submit(HbmMove move) {
  KVFERRY_RETURN_IF_ERROR(device_.health());
  KVFERRY_RETURN_IF_ERROR(CheckMove(move));
  if (moves_free_.empty()) {
    return Status::Error(StatusCode::kResourceExhausted, "all places for device moves are taken");
  }
  const std::uint32_t index = moves_free_.back();
  moves_free_.pop_back();
  Take(index, std::move(move));
  const MutexLock lock(mutex_);
  return HbmMoveId{index, shown_[index].generation};
}

void HbmMoves::Take(std::uint32_t index, HbmMove move) {
  Move& taken = moves_[index];
  taken = Move();
  taken.arrow = move.arrow;
  taken.urgency = move.urgency;
  taken.deadline = move.deadline;
  taken.order = order_++;
  taken.tensors = move.tensors;
  taken.block_bytes = BlockBytesOf(move);
  taken.layers = LayerCountOf(move);
  taken.layers_a_slice = LayersASlice(move);
  taken.slices = (taken.layers - 1) / taken.layers_a_slice + 1;
  taken.blocks = static_cast<std::uint32_t>(move.blocks.size());
  taken.is_unfinished = true;
  taken.after = std::move(move.after);
  taken.tag = move.tag;
  auto page = pages_.begin() + static_cast<std::ptrdiff_t>(std::size_t{index} * options_.pages_max);
  for (std::uint32_t i = 0; i < taken.blocks; ++i) {
    HbmBlock& block = BlockOf(index, i);
    block = move.blocks[i];
    if (taken.tensors == nullptr) {
      pool_->Hold(block.slot);
      continue;
    }
    const auto pages = block.paged.pages;
    block.paged.pages = std::span<const std::int32_t>(&*page, pages.size());
    page = std::copy(pages.begin(), pages.end(), page);
  }
  if (taken.tensors != nullptr) {
    taken.tensors->AddMove();
  }
  queue_.push_back(index);
  ++unfinished_;
  Show(index, taken);
}

void HbmMoves::Show(std::uint32_t index, const Move& move) {
  const MutexLock lock(mutex_);
  Shown& shown = shown_[index];
  shown.is_used = true;
  shown.layers = move.layers;
  shown.layers_a_slice = move.layers_a_slice;
  shown.failure = Status::Ok();
  for (std::uint32_t slice = 0; slice < move.slices; ++slice) {
    slices_[std::size_t{index} * options_.slices_max + slice] = Slice();
  }
}

std::optional<HbmMoveEnd> HbmMoves::TakeEnd() {
  if (ends_count_ == 0) {
    return std::nullopt;
  }
  HbmMoveEnd end = std::move(ends_[ends_first_]);
  ends_first_ = (ends_first_ + 1) % ends_.size();
  --ends_count_;
  moves_[end.id.index].is_end_taken = true;
  return end;
}

void HbmMoves::Cancel(HbmMoveId id) {
  {
    const MutexLock lock(mutex_);
    KVFERRY_CHECK(id.index < shown_.size() && shown_[id.index].generation == id.generation);
  }
  if (moves_[id.index].is_unfinished) {
    Fail(id.index, Status::Error(StatusCode::kCancelled, "the move was withdrawn"));
    EndIfDone(id.index);
  }
}

void HbmMoves::Forget(HbmMoveId id) {
  const MutexLock lock(mutex_);
  KVFERRY_CHECK(id.index < shown_.size());
  Shown& shown = shown_[id.index];
  KVFERRY_CHECK(shown.is_used && shown.generation == id.generation);
  KVFERRY_CHECK(!moves_[id.index].is_unfinished && moves_[id.index].is_end_taken);
  shown.is_used = false;
  ++shown.generation;
  moves_free_.push_back(id.index);
}

void HbmMoves::Fail(std::uint32_t move, const Status& status) {
  Move& failed = moves_[move];
  if (!failed.failure.ok()) {
    return;
  }
  failed.failure = status;
  std::erase(queue_, move);
  const MutexLock lock(mutex_);
  shown_[move].failure = status;
}

void HbmMoves::EndIfDone(std::uint32_t move) {
  const Move& asked = moves_[move];
  const bool is_all_queued = asked.slice_next == asked.slices;
  if (asked.is_unfinished && asked.parts_in_flight == 0 && (is_all_queued || !asked.failure.ok())) {
    End(move, asked.failure, false);
  }
}

void HbmMoves::End(std::uint32_t move, const Status& status, bool is_host_in_doubt) {
  Move& ended = moves_[move];
  KVFERRY_CHECK(ended.is_unfinished);
  if (!status.ok()) {
    Fail(move, status);
  }
  std::erase(queue_, move);
  ended.is_unfinished = false;
  ended.after.reset();
  for (std::uint32_t i = 0; i < ended.blocks && ended.tensors == nullptr; ++i) {
    pool_->Release(BlockOf(move, i).slot);
  }
  if (ended.tensors != nullptr) {
    ended.tensors->RemoveMove();
  }
  --unfinished_;
  HbmMoveEnd end;
  end.tag = ended.tag;
  end.status = ended.failure;
  end.is_host_in_doubt = is_host_in_doubt;
  end.id.index = move;
  {
    const MutexLock lock(mutex_);
    end.id.generation = shown_[move].generation;
  }
  KVFERRY_CHECK(ends_count_ < ends_.size());
  ends_[(ends_first_ + ends_count_) % ends_.size()] = std::move(end);
  ++ends_count_;
}

Status HbmMoves::WaitLayer(HbmMoveId id, std::uint32_t layer, cudaStream_t stream) {
  // Held over the call, which does not block: the event must not be recorded anew meanwhile.
  const MutexLock lock(mutex_);
  if (id.index >= shown_.size() || !shown_[id.index].is_used ||
      shown_[id.index].generation != id.generation) {
    return Refuse("this one is not known, or not any more");
  }
  const Shown& shown = shown_[id.index];
  if (layer >= shown.layers) {
    return Refuse("layer " + std::to_string(layer) + " of " + std::to_string(shown.layers));
  }
  KVFERRY_RETURN_IF_ERROR(shown.failure);
  const Slice& slice =
      slices_[std::size_t{id.index} * options_.slices_max + layer / shown.layers_a_slice];
  if (slice.state == SliceState::kWaiting) {
    return Status::Error(StatusCode::kUnavailable, "the copies of this layer are not queued yet");
  }
  if (slice.state == SliceState::kDone) {
    return Status::Ok();
  }
  return gpu::MakeCallerStreamWait(stream, events_[slice.part]);
}

HbmMovesCounts HbmMoves::counts() const {
  HbmMovesCounts counts = counts_;
  for (const HbmLane& lane : lanes_) {
    for (std::size_t i = 0; i < counts.method_bytes.size(); ++i) {
      counts.method_bytes[i] += lane.method_bytes()[i];
    }
  }
  return counts;
}

}  // namespace kvferry::tiers
