// The steps of moves between device and host memory: asking events, starting parts.
#include <algorithm>
#include <cstring>
#include <tuple>

#include "base/assert.h"
#include "tiers/hbm/hbm_moves.h"

namespace kvferry::tiers {
namespace {

constexpr std::size_t kOffloadLane = 0;
constexpr std::size_t kDemandLane = 1;
constexpr std::size_t kPrefetchLane = 2;

}  // namespace

void HbmMoves::Step(Instant now) {
  for (std::size_t lane = 0; lane < kLaneCount; ++lane) {
    Poll(lane);
  }
  ExpireMoves(now);
  LoseAllIfLost();
  Start(kDemandLane);
  // What is a guess waits as long as something is wanted now.
  if (Next(kDemandLane) == kNone) {
    Start(kPrefetchLane);
  }
  Start(kOffloadLane);
  LoseAllIfLost();
}

std::size_t HbmMoves::LaneOf(const Move& move) {
  if (move.arrow == HbmArrow::kOffload) {
    return kOffloadLane;
  }
  return move.urgency == HbmUrgency::kDemand ? kDemandLane : kPrefetchLane;
}

void HbmMoves::Poll(std::size_t lane) {
  std::vector<std::uint32_t>& parts = lane_parts_[lane];
  std::size_t done = 0;
  // Events of one stream are done in its order.
  for (; done < parts.size(); ++done) {
    if (!parts_[parts[done]].is_recorded && !Record(lane, parts[done])) {
      break;
    }
    const Result<bool> is_done = events_[parts[done]].is_done();
    // A query that fails for a passing reason is repeated: the copies may still run.
    if (!is_done.ok() || !*is_done) {
      break;
    }
    FinishPart(parts[done]);
  }
  parts.erase(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(done));
}

void HbmMoves::FinishPart(std::uint32_t index) {
  const Part& part = parts_[index];
  Move& move = moves_[part.move];
  if (part.staging != kNone) {
    if (move.arrow == HbmArrow::kOffload && move.failure.ok()) {
      CopyStaged(index, HbmArrow::kOffload);
    }
    counts_.staged_bytes += part.bytes;
    staging_free_.push_back(part.staging);
  }
  if (part.ends_slice && part.is_recorded) {
    const MutexLock lock(mutex_);
    slices_[std::size_t{part.move} * options_.slices_max + part.slice].state = SliceState::kDone;
  }
  in_flight_bytes_[static_cast<std::size_t>(move.arrow)] -= part.bytes;
  counts_.bytes[static_cast<std::size_t>(move.arrow)] += part.bytes;
  parts_free_.push_back(index);
  --move.parts_in_flight;
  EndIfDone(part.move);
}

// False if the event could not be recorded: to be tried again, or the device is lost.
bool HbmMoves::Record(std::size_t lane, std::uint32_t index) {
  Part& part = parts_[index];
  if (!lanes_[lane].stream().Record(events_[index]).ok()) {
    return false;
  }
  part.is_recorded = true;
  if (part.ends_slice) {
    // Whoever sees this may wait for the event, which is recorded.
    const MutexLock lock(mutex_);
    slices_[std::size_t{part.move} * options_.slices_max + part.slice] = {SliceState::kQueued,
                                                                          index};
  }
  return true;
}

void HbmMoves::ExpireMoves(Instant now) {
  for (std::size_t i = 0; i < queue_.size();) {
    const std::uint32_t move = queue_[i];
    if (moves_[move].has_begun || moves_[move].deadline >= now) {
      ++i;
      continue;
    }
    Fail(move, Status::Error(StatusCode::kDeadlineExceeded, "the move had not begun in time"));
    EndIfDone(move);
  }
}

void HbmMoves::Start(std::size_t lane) {
  while (!parts_free_.empty() && device_.health().ok()) {
    const std::uint32_t move = Next(lane);
    if (move == kNone || !StartPart(lane, move)) {
      return;
    }
  }
}

std::uint32_t HbmMoves::Next(std::size_t lane) const {
  std::uint32_t best = kNone;
  for (const std::uint32_t index : queue_) {
    const Move& move = moves_[index];
    if (LaneOf(move) != lane) {
      continue;
    }
    if (best != kNone) {
      const Move& other = moves_[best];
      if (std::tuple(other.urgency, other.deadline, other.order) <=
          std::tuple(move.urgency, move.deadline, move.order)) {
        continue;
      }
    }
    best = index;
  }
  return best;
}

// False if it has to wait for something in flight.
bool HbmMoves::StartPart(std::size_t lane, std::uint32_t index) {
  Move& move = moves_[index];
  Part part;
  if (!Prepare(index, part)) {
    return false;
  }
  const std::uint32_t place = parts_free_.back();
  parts_free_.pop_back();
  parts_[place] = part;
  if (part.staging != kNone && move.arrow == HbmArrow::kOnboard) {
    CopyStaged(place, HbmArrow::kOnboard);
  }
  move.has_begun = true;
  in_flight_bytes_[static_cast<std::size_t>(move.arrow)] += part.bytes;
  ++move.parts_in_flight;
  lane_parts_[lane].push_back(place);
  const Status status = Queue(lane, place);
  if (!status.ok()) {
    // Some of it may be queued, so the part is in flight all the same. It ends no slice.
    parts_[place].ends_slice = false;
    Fail(index, status);
    Record(lane, place);
    return true;
  }
  move.block_next += part.blocks;
  if (part.ends_slice) {
    move.block_next = 0;
    ++move.slice_next;
  }
  if (move.slice_next == move.slices) {
    std::erase(queue_, index);
  }
  Record(lane, place);
  return true;
}

// What the next part of a move is; false if bytes in flight or staging do not allow it now.
bool HbmMoves::Prepare(std::uint32_t index, Part& part) {
  const Move& move = moves_[index];
  const std::uint64_t slice_bytes = SliceBytes(move, move.slice_next);
  const auto fitting = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(options_.part_bytes / slice_bytes, options_.blocks_max));
  part.move = index;
  part.slice = move.slice_next;
  part.block_first = move.block_next;
  part.blocks = std::min(move.blocks - move.block_next, fitting);
  part.bytes = slice_bytes * part.blocks;
  part.ends_slice = part.block_first + part.blocks == move.blocks;
  const std::uint64_t in_flight = in_flight_bytes_[static_cast<std::size_t>(move.arrow)];
  if (in_flight > 0 && in_flight + part.bytes > options_.in_flight_bytes_max) {
    return false;
  }
  if (NeedsStaging(move, index, part)) {
    if (staging_free_.empty()) {
      return false;
    }
    part.staging = staging_free_.back();
    staging_free_.pop_back();
  }
  return true;
}

bool HbmMoves::NeedsStaging(const Move& move, std::uint32_t index, const Part& part) const {
  const std::uint64_t slice_bytes = SliceBytes(move, part.slice);
  for (std::uint32_t i = 0; options_.is_pinned && i < part.blocks; ++i) {
    const std::byte* const host = HostOf(move, index, part.block_first + i, part.slice);
    if (!options_.is_pinned({host, slice_bytes})) {
      return true;
    }
  }
  return false;
}

Status HbmMoves::Queue(std::size_t lane, std::uint32_t place) {
  const Part& part = parts_[place];
  Move& move = moves_[part.move];
  if (move.after.has_value()) {
    KVFERRY_RETURN_IF_ERROR(lanes_[lane].stream().WaitFor(**move.after));
    move.after.reset();
  }
  HbmPart queued;
  queued.arrow = move.arrow;
  queued.tensors = move.tensors;
  queued.layers = LayersOf(move, part.slice);
  queued.bytes_a_block = SliceBytes(move, part.slice);
  pairs_.clear();
  for (std::uint32_t i = 0; i < part.blocks; ++i) {
    const HbmBlock& block = BlockOf(part.move, part.block_first + i);
    HbmPair pair;
    pair.host = part.staging == kNone
                    ? HostOf(move, part.move, part.block_first + i, part.slice)
                    : staging_[part.staging].bytes().data() + i * queued.bytes_a_block;
    if (move.tensors == nullptr) {
      pair.device =
          pool_->AddressOf(block.slot) + move.block_bytes / move.layers * queued.layers.first;
    } else {
      pair.paged = block.paged;
    }
    pairs_.push_back(pair);
  }
  queued.pairs = pairs_;
  HbmNotes notes;
  if (notes_pinned_.has_value()) {
    const std::size_t at = HbmLane::NotesBytes(options_.blocks_max) * place;
    notes = {notes_pinned_->bytes().data() + at, notes_device_->data() + at};
  }
  return lanes_[lane].Queue(queued, notes);
}

void HbmMoves::CopyStaged(std::uint32_t index, HbmArrow arrow) {
  const Part& part = parts_[index];
  const Move& move = moves_[part.move];
  const std::uint64_t slice_bytes = SliceBytes(move, part.slice);
  std::byte* staged = staging_[part.staging].bytes().data();
  for (std::uint32_t i = 0; i < part.blocks; ++i, staged += slice_bytes) {
    std::byte* const host = HostOf(move, part.move, part.block_first + i, part.slice);
    if (arrow == HbmArrow::kOffload) {
      std::memcpy(host, staged, slice_bytes);
    } else {
      std::memcpy(staged, host, slice_bytes);
    }
  }
}

void HbmMoves::LoseAllIfLost() {
  const Status health = device_.health();
  if (health.ok() || unfinished_ == 0) {
    return;
  }
  // Nobody will say when what is in flight ends. Its parts are given up with the device.
  for (auto& parts : lane_parts_) {
    parts.clear();
  }
  in_flight_bytes_ = {};
  for (std::uint32_t move = 0; move < moves_.size(); ++move) {
    if (moves_[move].is_unfinished) {
      moves_[move].failure = Status::Ok();  // What matters now is the device.
      End(move, health, moves_[move].parts_in_flight > 0);
    }
  }
}

std::uint64_t HbmMoves::SliceBytes(const Move& move, std::uint32_t slice) const {
  return move.block_bytes / move.layers * LayersOf(move, slice).count;
}

LayerRange HbmMoves::LayersOf(const Move& move, std::uint32_t slice) const {
  const std::uint32_t first = slice * move.layers_a_slice;
  return {first, std::min(move.layers_a_slice, move.layers - first)};
}

std::byte* HbmMoves::HostOf(const Move& move,
                            std::uint32_t index,
                            std::uint32_t block,
                            std::uint32_t slice) const {
  return BlockOf(index, block).host + move.block_bytes / move.layers * LayersOf(move, slice).first;
}

}  // namespace kvferry::tiers
