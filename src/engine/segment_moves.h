// SegmentMoves: blocks that leave a segment of the NVMe tier which is being emptied, and stay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/block_record.h"

namespace kvferry::engine {

// From the day its segment's turn comes until it is durable elsewhere. A record moves once at a
// time.
//
// For the mover thread.
class SegmentMoves {
 public:
  enum class Stage : std::uint8_t {
    kWaiting,     // To be read into host memory, or to be written from there.
    kWriting,     // To `target`.
    kCommitting,  // There, and not durable yet.
  };
  struct Move {
    RecordIndex record = kNoRecord;
    std::uint32_t segment = 0;  // That it leaves.
    std::uint32_t target = 0;   // The page of the tier that it is written to.
    Stage stage = Stage::kWaiting;
    std::uint8_t failed_reads = 0;  // While the drive was known to work.
    Instant read_at = {};           // Not before then is it read again.
  };
  // A place that could not be read so often is not tried again.
  static constexpr std::uint8_t kFailedReadsMax = 3;

  bool empty() const noexcept { return moves_.empty(); }
  std::size_t size() const noexcept { return moves_.size(); }
  Move& operator[](std::size_t index) { return moves_[index]; }
  const Move& operator[](std::size_t index) const { return moves_[index]; }
  void Add(const Move& move) { moves_.push_back(move); }
  // Null where the record does not move.
  Move* Find(RecordIndex record) {
    for (Move& move : moves_) {
      if (move.record == record) {
        return &move;
      }
    }
    return nullptr;
  }
  const Move* Find(RecordIndex record) const {
    return const_cast<SegmentMoves*>(this)->Find(record);
  }
  // Leaves the others in no order.
  void Remove(Move& move) {
    move = moves_.back();
    moves_.pop_back();
  }
  void Clear() { moves_.clear(); }

 private:
  std::vector<Move> moves_;
};

}  // namespace kvferry::engine
