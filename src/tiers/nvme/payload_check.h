// PayloadCheck: reads the payloads of rows from the drives and compares their checksums.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kvferry/status.h"

#include "base/checksum.h"
#include "base/clock.h"
#include "tiers/nvme/io_ring.h"
#include "tiers/nvme/page_io.h"
#include "tiers/nvme/store_reader.h"

namespace kvferry::tiers {

struct BadPayload {
  std::size_t row = 0;  // Its place among the rows of the call.
  bool is_unreadable = false;
  std::string how;
};

// Reads in the order of places on each drive, all drives at once, some pieces ahead of the
// checksums.
//
// Thread-compatible; its calls block, and are the ring's only ones meanwhile.
class PayloadCheck final : private IoSink {
 public:
  static constexpr std::size_t kPieces = 8;
  static constexpr std::size_t kPieceBytes = std::size_t{2} << 20;

  // The ring's files are the store's drives. All is borrowed until it is gone.
  struct Parts {
    const StoreReader& reader;
    IoRing& ring;
    const ClockSource& clock;
  };
  explicit PayloadCheck(const Parts& parts);
  PayloadCheck(const PayloadCheck&) = delete;
  PayloadCheck& operator=(const PayloadCheck&) = delete;
  ~PayloadCheck() override = default;

  // The rows are in the order of their places, lie within their segments and have codec 0. Adds the
  // bytes of each payload to `done_bytes` when it has been looked at. What is found comes in the
  // order of the rows. A drive's errors are findings: where several payloads lie in what could not
  // be read, each is read again by itself.
  std::vector<BadPayload> Run(std::span<const PlacedRow> rows,
                              std::atomic<std::uint64_t>& done_bytes);

 private:
  // The rows of one drive: those before next_row are asked for, those before checked_row checked.
  struct Lane {
    std::vector<std::size_t> rows;
    std::size_t next_row = 0;
    std::uint32_t next_page = 0;  // Of that row's pages.
    std::size_t checked_row = 0;
    std::uint32_t checked_pages = 0;
    std::optional<ChecksumStream> stream;
    std::string failure;  // Of the row that is being checked.
  };
  struct Piece : IoOp {
    std::uint32_t lane = 0;
    bool is_submitted = false;
    bool is_done = false;
  };
  using Buffer = AlignedBytes<kPieceBytes>;

  void Spread();
  bool Plan(std::uint32_t lane_index, Piece& piece);
  bool PlanNext(Piece& piece);
  void Submit(Piece& piece);
  void Await(Piece& piece);
  void CheckPiece(const Piece& piece);
  void EndRow(Lane& lane);
  void RunAll();
  void OnIoDone(IoOp& op) noexcept override;

  Parts parts_;
  std::vector<Buffer> buffers_;
  std::vector<Piece> pieces_;
  std::deque<std::size_t> queue_;  // Pieces in the order of their planning.
  std::vector<std::size_t> free_;
  std::vector<Lane> lanes_;
  std::uint32_t next_lane_ = 0;
  std::span<const PlacedRow> rows_;
  std::atomic<std::uint64_t>* done_bytes_ = nullptr;
  std::vector<BadPayload> bad_;
};

}  // namespace kvferry::tiers
