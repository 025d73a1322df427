// Measuring copies.
#include "tiers/hbm/copy_calibration.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "gpu/memory.h"
#include "tiers/hbm/hbm_lane.h"

namespace kvferry::tiers {
namespace {

constexpr std::array<std::uint64_t, 6> kRunBytes = {1 << 10,  4 << 10,   16 << 10,
                                                    64 << 10, 256 << 10, 1 << 20};

// Thresholds that leave the planner one choice.
gpu::CopyThresholds Only(gpu::CopyMethod method) {
  constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();
  switch (method) {
    case gpu::CopyMethod::kSingle:
      return {kNever, 0, 0};
    case gpu::CopyMethod::kBatch:
      return {0, kNever, 0};
    default:
      return {0, kNever, kNever};
  }
}

// Everything that is copied to and from, and a lane for each method.
class Bench {
 public:
  static Result<std::unique_ptr<Bench>> Create(gpu::Device& device,
                                               const CalibrationOptions& options) {
    KVFERRY_ASSIGN_OR_RETURN(gpu::DeviceBuffer tensors,
                             gpu::DeviceBuffer::Create(device, 2 * options.block_bytes));
    KVFERRY_ASSIGN_OR_RETURN(gpu::PinnedBuffer block,
                             gpu::PinnedBuffer::Create(device, options.block_bytes));
    KVFERRY_ASSIGN_OR_RETURN(gpu::PinnedBuffer pinned,
                             gpu::PinnedBuffer::Create(device, HbmLane::NotesBytes(1)));
    KVFERRY_ASSIGN_OR_RETURN(gpu::DeviceBuffer notes,
                             gpu::DeviceBuffer::Create(device, HbmLane::NotesBytes(1)));
    auto bench = std::make_unique<Bench>(device, options, std::move(tensors), std::move(block));
    bench->notes_memory_.emplace(std::move(pinned), std::move(notes));
    if (options.kernels != nullptr) {
      KVFERRY_ASSIGN_OR_RETURN(bench->kernels_, gpu::KernelLibrary::Load(device, options.kernels));
    }
    for (const gpu::CopyMethod method :
         {gpu::CopyMethod::kSingle, gpu::CopyMethod::kBatch, gpu::CopyMethod::kKernel}) {
      KVFERRY_RETURN_IF_ERROR(bench->AddLane(method));
    }
    return bench;
  }

  Bench(gpu::Device& device,
        const CalibrationOptions& options,
        gpu::DeviceBuffer tensors,
        gpu::PinnedBuffer block)
      : device_(device),
        options_(options),
        tensor_memory_(std::move(tensors)),
        block_(std::move(block)),
        pages_(HbmLane::kPagesMax) {
    std::iota(pages_.begin(), pages_.end(), 0);
  }

  // One onboard of the block in runs of that size, from the call to the end of the copies.
  Result<Duration> Measure(gpu::CopyMethod method,
                           std::uint64_t run_bytes,
                           const ClockSource& clock) {
    KVFERRY_ASSIGN_OR_RETURN(const std::unique_ptr<PagedTensors> tensors, TensorsOf(run_bytes));
    HbmPair pair;
    pair.host = block_.bytes().data();
    pair.paged.pages =
        std::span<const std::int32_t>(pages_).first(options_.block_bytes / run_bytes);
    HbmPart part;
    part.arrow = HbmArrow::kOnboard;
    part.tensors = tensors.get();
    part.layers = {0, 1};
    part.bytes_a_block = options_.block_bytes;
    part.pairs = {&pair, 1};
    HbmLane& lane = lanes_[static_cast<std::size_t>(method)];
    const Instant start = clock.Now();
    KVFERRY_RETURN_IF_ERROR(
        lane.Queue(part, {notes_memory_->first.bytes().data(), notes_memory_->second.data()}));
    KVFERRY_RETURN_IF_ERROR(lane.stream().Synchronize());
    return clock.Now() - start;
  }

 private:
  Status AddLane(gpu::CopyMethod method) {
    HbmLaneOptions options;
    options.part_bytes = options_.block_bytes;
    options.blocks_a_part = 1;
    options.thresholds = Only(method);
    if (method == gpu::CopyMethod::kKernel && kernels_ != nullptr) {
      KVFERRY_ASSIGN_OR_RETURN(options.gather,
                               kernels_->Find<gpu::BlockCopy>("kvferry_gather_blocks"));
      KVFERRY_ASSIGN_OR_RETURN(options.scatter,
                               kernels_->Find<gpu::BlockCopy>("kvferry_scatter_blocks"));
    }
    KVFERRY_ASSIGN_OR_RETURN(HbmLane lane,
                             HbmLane::Create(device_, gpu::StreamPriority::kLowest, options));
    lanes_.push_back(std::move(lane));
    return Status::Ok();
  }
  // Runs with a gap behind each, so that they do not merge.
  Result<std::unique_ptr<PagedTensors>> TensorsOf(std::uint64_t run_bytes) {
    const std::array<std::byte*, 1> planes{tensor_memory_.data()};
    DeviceTensors options;
    options.planes = planes;
    options.layers = 1;
    options.pages = static_cast<std::uint32_t>(options_.block_bytes / run_bytes);
    options.page_tokens = 1;
    options.heads = 1;
    options.row_bytes = static_cast<std::uint32_t>(run_bytes);
    options.head_step_bytes = run_bytes;
    options.token_step_bytes = run_bytes;
    options.page_step_bytes = 2 * run_bytes;
    options.block_tokens = options.pages;
    return PagedTensors::Register(device_, options);
  }

  gpu::Device& device_;
  CalibrationOptions options_;
  gpu::DeviceBuffer tensor_memory_;
  gpu::PinnedBuffer block_;
  std::optional<std::pair<gpu::PinnedBuffer, gpu::DeviceBuffer>> notes_memory_;
  std::vector<std::int32_t> pages_;
  std::unique_ptr<gpu::KernelLibrary> kernels_;
  std::vector<HbmLane> lanes_;  // By method; last, so that they are done first.
};

// The least size from which on `quicker` is not slower than `other` in any pair of samples.
std::optional<std::uint64_t> LeastSize(std::span<const CopySample> samples,
                                       gpu::CopyMethod quicker,
                                       gpu::CopyMethod other) {
  std::map<std::uint64_t, std::array<std::optional<Duration>, 2>> by_size;
  for (const CopySample& sample : samples) {
    if (sample.method == quicker || sample.method == other) {
      by_size[sample.run_bytes][sample.method == quicker ? 0 : 1] = sample.took;
    }
  }
  std::optional<std::uint64_t> least;
  bool is_compared = false;
  for (auto size = by_size.rbegin(); size != by_size.rend(); ++size) {
    const auto& [one, two] = size->second;
    if (!one.has_value() || !two.has_value()) {
      continue;
    }
    is_compared = true;
    if (*one > *two) {
      // Better only above the sizes that were measured, if it never was.
      return least.has_value() ? least : std::optional(2 * size->first);
    }
    least = size->first;
  }
  return is_compared ? least : std::nullopt;
}

// What there is to measure, in the order in which it is.
std::vector<CopySample> AllOf(const CalibrationOptions& options) {
  std::vector<CopySample> samples;
  for (const std::uint64_t run_bytes : kRunBytes) {
    if (options.block_bytes % run_bytes != 0) {
      continue;
    }
    samples.push_back({gpu::CopyMethod::kSingle, run_bytes, {}});
    samples.push_back({gpu::CopyMethod::kBatch, run_bytes, {}});
    if (options.kernels != nullptr) {
      samples.push_back({gpu::CopyMethod::kKernel, run_bytes, {}});
    }
  }
  return samples;
}

}  // namespace

Result<std::vector<CopySample>> MeasureCopies(gpu::Device& device,
                                              const ClockSource& clock,
                                              const CalibrationOptions& options) {
  if (options.block_bytes < kRunBytes.front() ||
      options.block_bytes > HbmLane::kPagesMax * kRunBytes.front()) {
    return Status::Error(StatusCode::kInvalidArgument,
                         "copies are measured with blocks of 1 KiB to 1 MiB");
  }
  KVFERRY_ASSIGN_OR_RETURN(const std::unique_ptr<Bench> bench, Bench::Create(device, options));
  std::vector<CopySample> samples = AllOf(options);
  const Instant end = clock.Now() + options.budget;
  std::size_t measured = 0;
  // The first round warms up, and counts only where there is no second one.
  for (int round = 0; clock.Now() < end; ++round) {
    for (std::size_t i = 0; i < samples.size() && clock.Now() < end; ++i) {
      CopySample& sample = samples[i];
      KVFERRY_ASSIGN_OR_RETURN(const Duration took,
                               bench->Measure(sample.method, sample.run_bytes, clock));
      sample.took = round <= 1 ? took : std::min(sample.took, took);
      measured = std::max(measured, i + 1);
    }
  }
  samples.resize(measured);
  return samples;
}

gpu::CopyThresholds ThresholdsFrom(std::span<const CopySample> samples,
                                   const gpu::CopyThresholds& defaults) {
  gpu::CopyThresholds thresholds = defaults;
  if (const auto least = LeastSize(samples, gpu::CopyMethod::kSingle, gpu::CopyMethod::kBatch)) {
    thresholds.single_bytes_min = *least;
  }
  if (const auto least = LeastSize(samples, gpu::CopyMethod::kBatch, gpu::CopyMethod::kKernel)) {
    thresholds.batch_bytes_min = *least;
  }
  return thresholds;
}

}  // namespace kvferry::tiers
