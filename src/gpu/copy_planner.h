// The copy planner: merges runs, and chooses how they are copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kvferry/status.h"

#include "gpu/copy_batch.h"
#include "gpu/stream.h"

namespace kvferry::gpu {

// Bytes that are contiguous on both sides.
struct CopyRun {
  std::byte* target = nullptr;
  const std::byte* source = nullptr;
  std::size_t size_bytes = 0;
  bool operator==(const CopyRun&) const = default;
};

// Puts the runs into the order of their targets and merges those that continue each other on both
// sides. Returns how many are left, at the front of `runs`; the rest is unspecified. Allocates
// nothing. Targets must not overlap.
std::size_t MergeRuns(std::span<CopyRun> runs);

enum class CopyDirection : std::uint8_t { kHostToDevice, kDeviceToHost, kDeviceToDevice };

enum class CopyMethod : std::uint8_t {
  kSingle,  // A copy a run: a call costs microseconds, and the copy engines do the rest.
  kBatch,   // One call for many runs.
  kKernel,  // Gather or scatter: small runs, which the copy engines take one by one.
};
std::string_view ToString(CopyMethod method) noexcept;

// Where one method becomes better than another. The values here are guesses from what others have
// measured; a calibration on the device is to replace them.
struct CopyThresholds {
  std::size_t single_count_max = 4;
  std::size_t single_bytes_min = std::size_t{512} << 10;  // Of a run, on average.
  std::size_t batch_bytes_min = std::size_t{32} << 10;
};

// For `count` merged runs, at least one, of so many bytes in all. From the device to the host never
// a kernel: stores over the bus are slower than the copy engines.
CopyMethod ChooseCopyMethod(const CopyThresholds& thresholds,
                            CopyDirection direction,
                            std::size_t count,
                            std::size_t total_bytes);

// Queues the runs as single copies or in batches; `method` must not be kKernel, whose launch needs
// the layout. `batch` must be empty, and is again, and needs room for one copy at least. An error
// may have queued some.
Status SubmitRuns(Stream& stream,
                  CopyBatch& batch,
                  std::span<const CopyRun> runs,
                  CopyMethod method);

}  // namespace kvferry::gpu
