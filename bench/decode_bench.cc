// Two runs of one plan, a check of what they have made, and the figures.
#include "bench/decode_bench.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/random.h"
#include "bench/bench_file.h"
#include "bench/decode_gpu.h"
#include "bench/decode_reference.h"
#include "bench/decode_run.h"
#include "bench/scratch_folder.h"
#include "bench/staged_blocks.h"
#include "tiers/nvme/store_layout.h"

namespace kvferry::bench {
namespace {

constexpr std::uint64_t kSpareBytes = 256 * kMiB;
constexpr std::uint32_t kDeadlineMs = 600'000;
constexpr std::uint32_t kRequestsMin = 64;
constexpr std::uint32_t kRequestsMax = 65'536;

// What the staged run has moved, beside its outputs.
struct Staged {
  EngineStats before;  // After every session was computed once.
  EngineStats after;
  double waited_seconds = 0;
  std::uint64_t blocks_recomputed = 0;
};

class DecodeBench {
 public:
  DecodeBench(const DecodeBenchOptions& options, const DecodePlan& plan, const DecodeShape& shape)
      : options_(options), plan_(plan), shape_(shape), values_(shape, options.seed) {}

  // The folder first: it is made while the process has one thread.
  Status MakeFolder(FunctionRef<void(std::string_view)> on_step) {
    if (options_.nvme_dir.empty()) {
      return Status::Ok();
    }
    const Result<std::uint64_t> free_bytes = FreeBytes(options_.nvme_dir);
    if (!free_bytes.ok()) {
      return Status::Error(StatusCode::kInvalidArgument,
                           "--nvme-dir '" + options_.nvme_dir + "': " +
                               std::generic_category().message(free_bytes.error().native_code()) +
                               "; give a folder on a drive");
    }
    const std::string room = FormatBytes(StoreBytes()) + " in " + options_.nvme_dir + ", where " +
                             FormatBytes(*free_bytes) + " are free";
    on_step("a store of " + room);
    if (StoreBytes() + kSpareBytes > *free_bytes) {
      return Status::Error(StatusCode::kResourceExhausted,
                           "there is no room for a store of " + room + ", of which " +
                               FormatBytes(kSpareBytes) +
                               " must stay so; lower --sessions or --context");
    }
    KVFERRY_ASSIGN_OR_RETURN(folder_, ScratchFolder::Make(options_.nvme_dir));
    return Status::Ok();
  }

  Result<DecodeReport> Run(FunctionRef<void(std::string_view)> on_step) {
    KVFERRY_RETURN_IF_ERROR(OpenGpu());
    on_step("everything resident: " + std::to_string(plan_.total_blocks()) + " blocks of " +
            FormatBytes(shape_.block_bytes()));
    KVFERRY_ASSIGN_OR_RETURN(const DecodeTrace resident, RunResident());
    on_step("staged: " + std::to_string(plan_.hbm_blocks) + " blocks of HBM");
    Staged staged;
    KVFERRY_ASSIGN_OR_RETURN(const DecodeTrace moved, RunStaged(staged, on_step));
    on_step("checking " + std::to_string(options_.check_rows) + " rows in double precision");
    return Report(resident, moved, staged);
  }

 private:
  std::uint64_t StoreBytes() const {
    // Headers, footers and the segment that is emptied take some of it.
    const std::uint64_t payload_bytes =
        plan_.total_blocks() * AlignUp(shape_.block_bytes(), tiers::kDiskPageBytes);
    return tiers::CapacityFor(payload_bytes + payload_bytes / 4 + 32 * kMiB);
  }

  Status OpenGpu() {
    if (options_.device == DecodeBenchOptions::Device::kCuda) {
      Result<std::unique_ptr<DecodeGpu>> opened = DecodeGpu::OpenCuda(options_.gpu);
      if (!opened.ok()) {
        return opened.error().WithContext("--device cuda");
      }
      gpu_ = std::move(*opened);
    } else {
      // What attention takes beside the tensors is small: an allowance for each session and layer.
      const std::uint64_t beside =
          4 * kMiB + shape_.output_bytes() * plan_.batch_sessions * (shape_.layers + 64) * 4;
      KVFERRY_ASSIGN_OR_RETURN(
          gpu_, DecodeGpu::OpenSim(ScheduleOf(options_.schedule), options_.seed,
                                   plan_.total_blocks() * shape_.block_bytes() + beside));
    }
    KVFERRY_ASSIGN_OR_RETURN(gpu::Stream stream,
                             gpu::Stream::Create(gpu_->device(), gpu::StreamPriority::kLowest));
    stream_.emplace(std::move(stream));
    KVFERRY_ASSIGN_OR_RETURN(BlockFeeder feeder, BlockFeeder::Create(gpu_->device(), values_));
    feeder_.emplace(std::move(feeder));
    return Status::Ok();
  }

  static sim::CudaSchedule ScheduleOf(std::string_view name) {
    for (const auto schedule :
         {sim::CudaSchedule::kEager, sim::CudaSchedule::kRandom, sim::CudaSchedule::kThreads}) {
      if (sim::ToString(schedule) == name) {
        return schedule;
      }
    }
    return sim::CudaSchedule::kLazy;
  }

  Result<DecodeMemory> MemoryOf(std::uint64_t blocks, std::string_view remedy) const {
    Result<DecodeMemory> memory =
        DecodeMemory::Create(gpu_->device(), shape_, Narrow<std::uint32_t>(blocks));
    if (!memory.ok()) {
      return Status::Error(memory.error().code(),
                           std::string(memory.error().message()) + "; " + std::string(remedy),
                           memory.error().native_code());
    }
    return memory;
  }

  Result<DecodeTrace> RunResident() {
    KVFERRY_ASSIGN_OR_RETURN(DecodeMemory memory,
                             MemoryOf(plan_.total_blocks(),
                                      "all sessions must fit once: lower --sessions or --context"));
    KVFERRY_ASSIGN_OR_RETURN(const auto blocks,
                             ResidentBlocks::Create(plan_, *feeder_, *stream_, memory));
    return RunDecode({*gpu_, plan_, values_, *stream_, memory, *blocks});
  }

  EngineOptions EngineOptionsOf() const {
    EngineOptions engine;
    engine.block_bytes = shape_.block_bytes();
    engine.host.bytes = options_.HostBytes(shape_, plan_);
    engine.hbm.mode = HbmMode::kAttached;
    engine.hbm.device = options_.gpu;
    engine.deadline_ms = kDeadlineMs;
    engine.seed = options_.seed;
    // A batch leaves, one comes, and those of the turns ahead are named.
    engine.requests_max =
        std::clamp(plan_.batch_sessions * (3 + plan_.hint_turns), kRequestsMin, kRequestsMax);
    if (folder_ != nullptr) {
      engine.nvme.paths = {folder_->path()};
      engine.nvme.capacity_bytes = StoreBytes();
    }
    return engine;
  }

  Result<DecodeTrace> RunStaged(Staged& staged, FunctionRef<void(std::string_view)> on_step) {
    const EngineOptions engine = EngineOptionsOf();
    KVFERRY_RETURN_IF_ERROR(engine.Validate());
    KVFERRY_ASSIGN_OR_RETURN(DecodeMemory memory, MemoryOf(plan_.hbm_blocks, "lower --hbm-blocks"));
    KVFERRY_ASSIGN_OR_RETURN(
        const auto blocks,
        StagedBlocks::Open({*gpu_, plan_, values_, *feeder_, *stream_, memory}, engine));
    on_step("computing every session once, and putting it");
    KVFERRY_RETURN_IF_ERROR(blocks->Prefill());
    staged.before = blocks->Stats();
    on_step("decoding");
    Result<DecodeTrace> trace = RunDecode({*gpu_, plan_, values_, *stream_, memory, *blocks});
    staged.after = blocks->Stats();
    staged.waited_seconds = blocks->waited_seconds();
    staged.blocks_recomputed = blocks->blocks_recomputed();
    return trace;
  }

  // The steps whose times count: the first turn warms up.
  std::uint32_t first_counted() const { return plan_.turns() > 1 ? plan_.turn_steps : 0; }

  double LargestError(const DecodeTrace& trace) const {
    Random random(options_.seed);
    double largest = 0;
    for (std::uint32_t i = 0; i < options_.check_rows; ++i) {
      DecodeTrace::Row row;
      row.step = static_cast<std::uint32_t>(random.Below(plan_.steps));
      const DecodePlan::Turn turn = plan_.TurnAt(row.step / plan_.turn_steps);
      row.lines = turn.sessions;
      row.line = static_cast<std::uint32_t>(random.Below(row.lines));
      row.layer = static_cast<std::uint32_t>(random.Below(shape_.layers));
      row.query_head = static_cast<std::uint32_t>(random.Below(shape_.query_heads));
      const std::vector<double> expected =
          AttendInDouble(values_, {.session = turn.first_session + row.line,
                                   .layer = row.layer,
                                   .query_head = row.query_head,
                                   .tokens = turn.tokens + row.step % plan_.turn_steps + 1});
      largest = std::max(largest, RelativeError(expected, trace.RowAt(row)));
    }
    return largest;
  }

  DecodeReport Report(const DecodeTrace& resident, const DecodeTrace& moved, const Staged& staged);

  const DecodeBenchOptions& options_;
  DecodePlan plan_;
  DecodeShape shape_;
  DecodeValues values_;
  std::unique_ptr<ScratchFolder> folder_;
  std::unique_ptr<DecodeGpu> gpu_;
  std::optional<gpu::Stream> stream_;
  std::optional<BlockFeeder> feeder_;
};

BenchResult Plain(std::string name, double value, std::string unit) {
  BenchResult result;
  result.name = std::move(name);
  result.value = value;
  result.unit = std::move(unit);
  return result;
}

// Mean and 99th percentile of a run's counted steps, in milliseconds.
struct StepTimes {
  double seconds = 0;
  double mean_ms = 0;
  double p99_ms = 0;
};

StepTimes TimesOf(const DecodeTrace& trace, std::uint32_t first) {
  std::vector<double> counted(trace.step_seconds.begin() + first, trace.step_seconds.end());
  StepTimes times;
  times.seconds = std::accumulate(counted.begin(), counted.end(), 0.0);
  times.mean_ms = times.seconds * 1e3 / static_cast<double>(counted.size());
  std::sort(counted.begin(), counted.end());
  times.p99_ms = counted[(counted.size() * 99 + 99) / 100 - 1] * 1e3;
  return times;
}

// So that the figure stands for work that was done.
std::uint64_t ChecksumOf(const std::string& digest) {
  return std::strtoull(digest.substr(0, 12).c_str(), nullptr, 16);
}

std::vector<BenchResult> TrafficOf(const Staged& staged) {
  const auto bytes = [&](ArrowStats EngineStats::*arrow) {
    return static_cast<double>((staged.after.*arrow).bytes - (staged.before.*arrow).bytes);
  };
  const std::uint64_t wasted = staged.after.prefetches_wasted - staged.before.prefetches_wasted;
  const std::uint64_t used = staged.after.prefetches_used - staged.before.prefetches_used;
  return {
      Plain("bytes_h2d", bytes(&EngineStats::onboard_host_to_hbm), "bytes"),
      Plain("bytes_d2h", bytes(&EngineStats::offload_hbm_to_host), "bytes"),
      Plain("bytes_nvme_read", bytes(&EngineStats::onboard_nvme_to_host), "bytes"),
      Plain("bytes_nvme_written", bytes(&EngineStats::offload_host_to_nvme), "bytes"),
      Plain(
          "wasted_prefetch_share",
          wasted + used == 0 ? 0 : static_cast<double>(wasted) / static_cast<double>(wasted + used),
          "of what hints read from the drive"),
      Plain("blocks_recomputed", static_cast<double>(staged.blocks_recomputed), "blocks")};
}

DecodeReport DecodeBench::Report(const DecodeTrace& resident,
                                 const DecodeTrace& moved,
                                 const Staged& staged) {
  DecodeReport report;
  report.device = gpu_->description();
  report.model = shape_.name + ", " + std::to_string(shape_.layers) + " layers, " +
                 std::to_string(shape_.query_heads) + "/" + std::to_string(shape_.kv_heads) +
                 " heads of " + std::to_string(shape_.key_width);
  report.sizes = std::to_string(plan_.sessions) + " sessions of " +
                 std::to_string(plan_.context_tokens) + " tokens, " +
                 std::to_string(plan_.session_blocks()) + " blocks of " +
                 FormatBytes(shape_.block_bytes()) + " each; " + std::to_string(plan_.hbm_blocks) +
                 " blocks of HBM, " + std::to_string(options_.HostBlocks(shape_, plan_)) +
                 " of host memory; " + std::to_string(plan_.batch_sessions) + " sessions a step, " +
                 std::to_string(plan_.turns()) + " turns of " + std::to_string(plan_.turn_steps) +
                 " steps, hints " + std::to_string(plan_.hint_turns) + " turns ahead";
  report.notes = shape_.notes;
  if (options_.device == DecodeBenchOptions::Device::kSim) {
    report.notes.push_back("times are those of a simulation and say nothing about a GPU");
  }
  report.sha256_resident = resident.Digest();
  report.sha256_staged = moved.Digest();

  const StepTimes with_all = TimesOf(resident, first_counted());
  const StepTimes with_some = TimesOf(moved, first_counted());
  const auto attended = static_cast<double>(AttendedBytes(plan_, shape_, first_counted()));
  BenchResult step = Plain("step_resident", with_all.mean_ms, "ms");
  step.checksum = ChecksumOf(report.sha256_resident);
  report.results.push_back(step);
  step = Plain("step_staged", with_some.mean_ms, "ms");
  step.bound = "everything resident";
  step.bound_value = with_all.mean_ms;
  step.checksum = ChecksumOf(report.sha256_staged);
  report.results.push_back(step);
  report.results.push_back(Plain("step_resident_p99", with_all.p99_ms, "ms"));
  report.results.push_back(Plain("step_staged_p99", with_some.p99_ms, "ms"));
  report.results.push_back(Plain("stall_share",
                                 std::max(0.0, 1 - with_all.seconds / with_some.seconds),
                                 "of the staged steps"));
  report.results.push_back(Plain("waited", staged.waited_seconds * 1e3, "ms in all"));
  report.results.push_back(
      Plain("attention_resident", attended / with_all.seconds / 1e9, "GB/s of step time"));
  report.results.push_back(
      Plain("attention_staged", attended / with_some.seconds / 1e9, "GB/s of step time"));
  BenchResult error =
      Plain("max_relative_error", LargestError(moved), "of the largest output of a row");
  error.bound = "what is allowed";
  error.bound_value = kDecodeTolerance;
  report.results.push_back(error);
  for (BenchResult& result : TrafficOf(staged)) {
    report.results.push_back(std::move(result));
  }
  return report;
}

}  // namespace

Result<DecodeReport> RunDecodeBench(const DecodeBenchOptions& options,
                                    FunctionRef<void(std::string_view)> on_step) {
  KVFERRY_ASSIGN_OR_RETURN(const DecodeShape shape, options.Shape());
  KVFERRY_ASSIGN_OR_RETURN(const DecodePlan plan, options.Plan(shape));
  DecodeBench bench(options, plan, shape);
  KVFERRY_RETURN_IF_ERROR(bench.MakeFolder(on_step));
  return bench.Run(on_step);
}

}  // namespace kvferry::bench
