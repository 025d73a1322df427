// Pieces planned along the rows of each drive, and checksums that follow them.
#include "tiers/nvme/payload_check.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/assert.h"
#include "tiers/nvme/store_layout.h"

namespace kvferry::tiers {
namespace {

constexpr std::uint32_t kPiecePages = PayloadCheck::kPieceBytes / kDiskPageBytes;
constexpr Duration kWait = std::chrono::milliseconds(100);

}  // namespace

PayloadCheck::PayloadCheck(const Parts& parts)
    : parts_(parts), buffers_(kPieces), pieces_(kPieces), lanes_(parts.reader.drive_count()) {
  for (std::size_t i = 0; i < kPieces; ++i) {
    free_.push_back(i);
  }
}

std::vector<BadPayload> PayloadCheck::Run(std::span<const PlacedRow> rows,
                                          std::atomic<std::uint64_t>& done_bytes) {
  rows_ = rows;
  done_bytes_ = &done_bytes;
  bad_.clear();
  Spread();
  RunAll();
  std::vector<BadPayload> found = std::move(bad_);
  std::atomic<std::uint64_t> counted_already{0};
  for (BadPayload& bad : found) {
    if (bad.is_unreadable && rows.size() > 1) {
      const std::vector<BadPayload> alone = Run(rows.subspan(bad.row, 1), counted_already);
      // The place of one that is whole after all is marked by an empty reason.
      bad = alone.empty() ? BadPayload{.row = bad.row, .is_unreadable = false, .how = {}}
                          : BadPayload{.row = bad.row,
                                       .is_unreadable = alone.front().is_unreadable,
                                       .how = alone.front().how};
    }
  }
  std::erase_if(found, [](const BadPayload& bad) { return bad.how.empty(); });
  std::sort(found.begin(), found.end(), [](const BadPayload& first, const BadPayload& second) {
    return first.row < second.row;
  });
  return found;
}

void PayloadCheck::Spread() {
  std::fill(lanes_.begin(), lanes_.end(), Lane());
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    KVFERRY_CHECK(rows_[i].row.codec == 0);
    lanes_[parts_.reader.DriveOf(rows_[i].life.segment)].rows.push_back(i);
  }
}

void PayloadCheck::RunAll() {
  while (true) {
    while (!free_.empty() && PlanNext(pieces_[free_.back()])) {
      queue_.push_back(free_.back());
      free_.pop_back();
      Submit(pieces_[queue_.back()]);
    }
    if (queue_.empty()) {
      return;
    }
    Piece& first = pieces_[queue_.front()];
    Await(first);
    CheckPiece(first);
    free_.push_back(queue_.front());
    queue_.pop_front();
  }
}

bool PayloadCheck::PlanNext(Piece& piece) {
  for (std::uint32_t tried = 0; tried < parts_.reader.drive_count(); ++tried) {
    const std::uint32_t lane = next_lane_;
    next_lane_ = (next_lane_ + 1) % parts_.reader.drive_count();
    if (Plan(lane, piece)) {
      return true;
    }
  }
  return false;
}

// Payloads that lie one behind the other share a piece; a long one has several.
bool PayloadCheck::Plan(std::uint32_t lane_index, Piece& piece) {
  Lane& lane = lanes_[lane_index];
  if (lane.next_row == lane.rows.size()) {
    return false;
  }
  const PlacedRow& first = rows_[lane.rows[lane.next_row]];
  const std::uint32_t segment = first.life.segment;
  const std::uint32_t first_page = first.row.page + lane.next_page;
  std::uint32_t pages = 0;
  while (lane.next_row < lane.rows.size() && pages < kPiecePages) {
    const PlacedRow& row = rows_[lane.rows[lane.next_row]];
    if (row.life.segment != segment || row.row.page + lane.next_page != first_page + pages) {
      break;
    }
    const std::uint32_t row_pages = PayloadPages(row.row.stored_bytes);
    const std::uint32_t taken = std::min(row_pages - lane.next_page, kPiecePages - pages);
    pages += taken;
    lane.next_page += taken;
    if (lane.next_page == row_pages) {
      lane.next_page = 0;
      ++lane.next_row;
    }
  }
  const auto index = static_cast<std::size_t>(&piece - pieces_.data());
  piece.kind = IoOp::Kind::kRead;
  piece.file_index = lane_index;
  piece.offset_bytes = parts_.reader.OffsetOf(segment, first_page);
  piece.buffer = std::span(buffers_[index].bytes).first(std::size_t{pages} * kDiskPageBytes);
  piece.sink = this;
  piece.lane = lane_index;
  piece.is_submitted = false;
  piece.is_done = false;
  return true;
}

void PayloadCheck::Submit(Piece& piece) {
  Status taken = parts_.ring.Submit(piece);
  piece.is_submitted = taken.ok();
  if (taken.ok() || taken.code() == StatusCode::kResourceExhausted) {
    return;  // Await tries again when another one has ended.
  }
  piece.status = std::move(taken);
  piece.is_done = true;
}

void PayloadCheck::Await(Piece& piece) {
  while (!piece.is_done) {
    if (!piece.is_submitted) {
      Submit(piece);
      KVFERRY_CHECK(piece.is_submitted || piece.is_done || parts_.ring.in_flight() > 0);
    }
    parts_.ring.Reap(parts_.clock.Now());
    if (!piece.is_done) {
      parts_.ring.WaitUntil(parts_.clock.Now() + kWait);
    }
  }
}

void PayloadCheck::CheckPiece(const Piece& piece) {
  Lane& lane = lanes_[piece.lane];
  std::span<const std::byte> bytes = piece.buffer;
  while (!bytes.empty()) {
    const BlockRow& row = rows_[lane.rows[lane.checked_row]].row;
    const std::uint32_t row_pages = PayloadPages(row.stored_bytes);
    const std::size_t length =
        std::min(std::size_t{row_pages - lane.checked_pages} * kDiskPageBytes, bytes.size());
    if (!lane.stream) {
      lane.stream.emplace(row.key);
    }
    if (!piece.status.ok()) {
      lane.failure = piece.status.ToString();
    } else {
      const std::size_t at = std::size_t{lane.checked_pages} * kDiskPageBytes;
      lane.stream->Update(bytes.first(std::min(length, row.stored_bytes - at)));
    }
    bytes = bytes.subspan(length);
    lane.checked_pages += static_cast<std::uint32_t>(length / kDiskPageBytes);
    if (lane.checked_pages == row_pages) {
      EndRow(lane);
    }
  }
}

void PayloadCheck::EndRow(Lane& lane) {
  const std::size_t number = lane.rows[lane.checked_row];
  const BlockRow& row = rows_[number].row;
  if (!lane.failure.empty()) {
    bad_.push_back(
        {.row = number, .is_unreadable = true, .how = "cannot be read: " + lane.failure});
  } else if (lane.stream->Finish() != row.checksum) {
    bad_.push_back({.row = number,
                    .is_unreadable = false,
                    .how = "its bytes are not those that were written (checksum)"});
  }
  done_bytes_->fetch_add(row.stored_bytes, std::memory_order_relaxed);
  ++lane.checked_row;
  lane.checked_pages = 0;
  lane.stream.reset();
  lane.failure.clear();
}

void PayloadCheck::OnIoDone(IoOp& op) noexcept {
  static_cast<Piece&>(op).is_done = true;
}

}  // namespace kvferry::tiers
