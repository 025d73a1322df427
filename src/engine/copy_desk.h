// CopyDesk: gathers blocks to copy or check into jobs for the workers, and takes the jobs back.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kvferry/types.h"

#include "engine/copy_work.h"

namespace kvferry::engine {

// Is told the end of pieces.
class CopySink {
 public:
  virtual ~CopySink() = default;
  // The piece's work is done. May add further pieces.
  virtual void OnPieceDone(CopyJob::Kind kind, const CopyPiece& piece) noexcept = 0;
};

// Jobs for requests and jobs that check what was read are bounded apart, so that a read that has
// ended always finds a worker.
//
// For the mover thread.
class CopyDesk {
 public:
  // Request jobs in flight. One whose requests have ended early is waited for until a worker has
  // seen that, so their bytes are bounded as well: past this many no further job is begun.
  static constexpr std::uint32_t kRequestJobsMax = 32;
  static constexpr std::uint64_t kRequestBytesMax = std::uint64_t{128} << 20;

  // At most `checks_max` pieces of kind kVerify are added before they are done.
  CopyDesk(CopyWorkers& workers, std::uint32_t checks_max);

  // Whether Add takes a piece of a request's copy now; one of kVerify is always taken.
  bool HasRoom(CopyJob::Kind kind) const;
  // The piece joins the open job of its kind; a full one is handed to the workers at once.
  void Add(CopyJob::Kind kind, const CopyPiece& piece);
  // Hands over what is gathered.
  void Flush();
  // Takes back what is done; how many pieces.
  std::size_t Reap(Instant now, CopySink& sink);

  // Pieces added and not yet reaped.
  std::size_t pieces_in_flight() const noexcept { return pieces_in_flight_; }

  static std::uint32_t JobsMax(std::uint32_t checks_max) {
    return kRequestJobsMax + 4 + checks_max;
  }

 private:
  static constexpr std::size_t kKinds = 5;
  static constexpr std::uint32_t kNoJob = 0xffffffff;

  static std::size_t IndexOf(CopyJob::Kind kind) { return static_cast<std::size_t>(kind); }
  void Send(std::uint32_t& open);

  CopyWorkers& workers_;
  std::vector<CopyJob> jobs_;
  std::vector<std::uint32_t> free_;
  std::array<std::uint32_t, kKinds> open_{kNoJob, kNoJob, kNoJob, kNoJob, kNoJob};
  std::uint32_t request_jobs_ = 0;
  std::uint64_t request_bytes_ = 0;
  std::size_t pieces_in_flight_ = 0;
  std::array<CopyJob*, 16> done_{};
};

}  // namespace kvferry::engine
