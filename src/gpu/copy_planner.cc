// Planning copies.
#include "gpu/copy_planner.h"

#include <algorithm>
#include <functional>

#include "base/assert.h"

namespace kvferry::gpu {

std::size_t MergeRuns(std::span<CopyRun> runs) {
  if (runs.empty()) {
    return 0;
  }
  std::sort(runs.begin(), runs.end(), [](const CopyRun& one, const CopyRun& other) {
    return std::less<>()(one.target, other.target);
  });
  std::size_t last = 0;
  for (std::size_t i = 1; i < runs.size(); ++i) {
    CopyRun& before = runs[last];
    if (before.target + before.size_bytes == runs[i].target &&
        before.source + before.size_bytes == runs[i].source) {
      before.size_bytes += runs[i].size_bytes;
    } else {
      runs[++last] = runs[i];
    }
  }
  return last + 1;
}

std::string_view ToString(CopyMethod method) noexcept {
  switch (method) {
    case CopyMethod::kSingle:
      return "single";
    case CopyMethod::kBatch:
      return "batch";
    case CopyMethod::kKernel:
      return "kernel";
  }
  return "unknown";
}

CopyMethod ChooseCopyMethod(const CopyThresholds& thresholds,
                            CopyDirection direction,
                            std::size_t count,
                            std::size_t total_bytes) {
  KVFERRY_CHECK(count > 0);
  const std::size_t mean_bytes = total_bytes / count;
  if (count <= thresholds.single_count_max || mean_bytes >= thresholds.single_bytes_min) {
    return CopyMethod::kSingle;
  }
  if (direction == CopyDirection::kDeviceToHost || mean_bytes >= thresholds.batch_bytes_min) {
    return CopyMethod::kBatch;
  }
  return CopyMethod::kKernel;
}

Status SubmitRuns(Stream& stream,
                  CopyBatch& batch,
                  std::span<const CopyRun> runs,
                  CopyMethod method) {
  KVFERRY_CHECK(method != CopyMethod::kKernel);
  KVFERRY_CHECK(batch.size() == 0 && batch.capacity() > 0);
  for (const CopyRun& run : runs) {
    if (method == CopyMethod::kSingle) {
      KVFERRY_RETURN_IF_ERROR(stream.Copy(run.target, run.source, run.size_bytes));
      continue;
    }
    batch.Add(run.target, run.source, run.size_bytes);
    if (batch.is_full()) {
      KVFERRY_RETURN_IF_ERROR(batch.Submit(stream));
    }
  }
  return batch.Submit(stream);
}

}  // namespace kvferry::gpu
