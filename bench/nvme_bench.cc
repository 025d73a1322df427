// The measurement as a whole: its options, the room it needs, its files, the order of its cases.
#include "bench/nvme_bench.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "base/random.h"
#include "bench/bench_file.h"
#include "bench/caller_memory.h"
#include "bench/hash_pass.h"
#include "bench/nvme_cases.h"
#include "bench/scratch_folder.h"
#include "tiers/nvme/drive_file.h"
#include "tiers/nvme/io_ring.h"

namespace kvferry::bench {
namespace {

constexpr std::uint64_t kBlockBytesMin = 4 * kKiB;
constexpr std::uint64_t kBlockBytesMax = 64 * kMiB;
// The pool has room for several requests of the largest blocks.
constexpr std::uint64_t kBlocksMin = 32;
// Three quarters of the tier, but for the pool's own blocks, are read in a circle, which must be
// larger than the pool.
constexpr std::uint64_t kStoreOfPool = 4;
// Beside the files, for what else goes on in the file system.
constexpr std::uint64_t kSpareBytes = 256 * kMiB;
constexpr double kHashSeconds = 0.2;

Status Refuse(std::string text) {
  return Status::Error(StatusCode::kInvalidArgument, std::move(text));
}

NvmeEngine::Options EngineOf(const NvmeBenchOptions& options,
                             const std::string& folder,
                             std::uint64_t block_bytes) {
  return {.folder = folder,
          .store_bytes = options.store_bytes,
          .host_bytes = options.host_bytes,
          .block_bytes = Narrow<std::uint32_t>(block_bytes),
          .copy_threads = options.copy_threads};
}

bool NeedsWrites(const NvmeBenchOptions& options) {
  return options.Has("offload") || options.Has("mixed_unlimited");
}

std::size_t Cells(const NvmeBenchOptions& options) {
  const auto cases = std::count_if(kNvmeBenchCases.begin(), kNvmeBenchCases.end(),
                                   [&](std::string_view name) { return options.Has(name); });
  return static_cast<std::size_t>(cases) * options.block_bytes.size();
}

Status CheckRoom(const NvmeBenchOptions& options, FunctionRef<void(std::string_view)> on_step) {
  KVFERRY_ASSIGN_OR_RETURN(const std::uint64_t free_bytes, FreeBytes(options.dir));
  const std::string room = "files of " + FormatBytes(options.DiskBytes()) + " in " + options.dir +
                           ", where " + FormatBytes(free_bytes) + " are free";
  on_step(room);
  if (options.DiskBytes() + kSpareBytes > free_bytes) {
    return Status::Error(StatusCode::kResourceExhausted, "there is no room for " + room + " and " +
                                                             FormatBytes(kSpareBytes) +
                                                             " must stay so; lower --store-bytes");
  }
  return Status::Ok();
}

// What a drive or a file system could make smaller says nothing about one that does not.
void FillAtRandom(std::span<std::byte> memory) {
  SplitMix64 generator(1);
  for (std::size_t at = 0; at + sizeof(std::uint64_t) <= memory.size();
       at += sizeof(std::uint64_t)) {
    const std::uint64_t word = generator.Next();
    std::memcpy(memory.data() + at, &word, sizeof(word));
  }
}

// What all sizes of blocks share.
struct Bench {
  const NvmeBenchOptions& options;
  FunctionRef<void(std::string_view)> on_step;
  const ScratchFolder& folder;
  CallerMemory& memory;
  FileDescriptor writes;  // Not open where no case writes.
};

Result<std::unique_ptr<PlainLoop>> LoopOver(const PlainLoop::Options& options,
                                            NvmeBenchReport& report) {
  KVFERRY_ASSIGN_OR_RETURN(auto loop, PlainLoop::Open(options));
  report.io = loop->backend() == tiers::IoBackend::kUring ? "io_uring" : "threads";
  return loop;
}

Status MeasureSize(Bench& bench, std::uint64_t block_bytes, NvmeBenchReport& report) {
  const std::string size = FormatBytes(block_bytes);
  const std::string store = bench.folder.path() + "/" + std::to_string(block_bytes);
  std::error_code error;
  std::filesystem::create_directory(store, bench.folder.path(), error);
  if (error) {
    return Status::Error(StatusCode::kIoError, "make '" + store + "'", error.value());
  }
  const NvmeEngine::Options engine_options = EngineOf(bench.options, store, block_bytes);
  KVFERRY_ASSIGN_OR_RETURN(auto engine, NvmeEngine::Open(engine_options, bench.memory));
  report.request_bytes = std::max(report.request_bytes, engine->batch_blocks() * block_bytes);
  bench.on_step("filling " + FormatBytes(bench.options.store_bytes) + " with blocks of " + size);
  KVFERRY_RETURN_IF_ERROR(engine->Fill());

  KVFERRY_ASSIGN_OR_RETURN(
      const FileDescriptor file,
      OpenDirect(store + "/" + std::string(tiers::kBlocksFileName), FileUse::kRead));
  KVFERRY_ASSIGN_OR_RETURN(const tiers::StoreLayout layout, LayoutOf(file, bench.memory.bytes()));
  PlainLoop::Options loop_options;
  loop_options.file = file.fd();
  loop_options.memory = bench.memory.bytes();
  loop_options.offsets = PlacesOf(layout, engine_options.block_bytes);
  loop_options.block_bytes = engine_options.block_bytes;
  KVFERRY_ASSIGN_OR_RETURN(const auto reads, LoopOver(loop_options, report));
  loop_options.file = bench.writes.fd();
  std::unique_ptr<PlainLoop> writes;
  if (bench.writes.is_open()) {
    KVFERRY_ASSIGN_OR_RETURN(writes, LoopOver(loop_options, report));
  }
  bench.on_step("checksums of blocks of " + size);
  NvmeCase shared{.engine = *engine,
                  .reads = *reads,
                  .writes = writes.get(),
                  .places = loop_options.offsets,
                  .free_writes = loop_options,
                  .block_bytes = engine_options.block_bytes,
                  .seconds = bench.options.seconds / static_cast<double>(Cells(bench.options))};
  shared.hash_us_per_mib =
      MeasureHash(bench.memory.bytes(), engine_options.block_bytes, kHashSeconds).cpu_us_per_mib;
  for (const std::string_view name : kNvmeBenchCases) {
    if (!bench.options.Has(name)) {
      continue;
    }
    bench.on_step(std::string(name) + ", " + size);
    KVFERRY_ASSIGN_OR_RETURN(NvmeBenchResult result, MeasureNvmeCase(shared, name));
    report.cases.push_back(std::move(result));
  }
  engine.reset();
  std::filesystem::remove_all(store, error);  // Gone with its parent otherwise.
  return Status::Ok();
}

}  // namespace

bool NvmeBenchOptions::Has(std::string_view name) const {
  return cases.empty() || std::find(cases.begin(), cases.end(), name) != cases.end();
}

std::uint64_t NvmeBenchOptions::DiskBytes() const {
  return NeedsWrites(*this) ? 2 * store_bytes : store_bytes;
}

Status NvmeBenchOptions::Validate() const {
  for (const std::string& name : cases) {
    if (std::find(kNvmeBenchCases.begin(), kNvmeBenchCases.end(), name) == kNvmeBenchCases.end()) {
      std::string text = "--case '" + name + "' is none of the cases, which are";
      for (const std::string_view known : kNvmeBenchCases) {
        text.append(known == kNvmeBenchCases.front() ? " " : ", ").append(known);
      }
      return Refuse(text);
    }
  }
  if (block_bytes.empty()) {
    return Refuse("--block names no size; give one or more, as in 256KiB,1MiB");
  }
  if (!std::isfinite(seconds) || seconds <= 0) {
    return Refuse("--seconds must be above 0");
  }
  if (store_bytes / kStoreOfPool < host_bytes) {
    return Refuse("--store-bytes " + FormatBytes(store_bytes) + " is less than four times " +
                  FormatBytes(host_bytes) +
                  ", the --host-bytes: reads would find their blocks in host memory");
  }
  for (const std::uint64_t size : block_bytes) {
    if (size < kBlockBytesMin || size > kBlockBytesMax || size % tiers::kIoAlignment != 0) {
      return Refuse("--block " + FormatBytes(size) + ": a block has " +
                    FormatBytes(kBlockBytesMin) + " to " + FormatBytes(kBlockBytesMax) +
                    " here, in whole pages of 4 KiB");
    }
    if (size * kBlocksMin > host_bytes) {
      return Refuse("--host-bytes " + FormatBytes(host_bytes) + " is less than " +
                    std::to_string(kBlocksMin) + " blocks of " + FormatBytes(size) +
                    "; raise it, or leave out that --block");
    }
    KVFERRY_RETURN_IF_ERROR(NvmeEngine::EngineOptionsOf(EngineOf(*this, "dir", size)).Validate());
  }
  return Status::Ok();
}

Result<NvmeBenchReport> RunNvmeBench(const NvmeBenchOptions& options,
                                     FunctionRef<void(std::string_view)> on_step) {
  KVFERRY_RETURN_IF_ERROR(options.Validate());
  KVFERRY_RETURN_IF_ERROR(CheckRoom(options, on_step));
  KVFERRY_ASSIGN_OR_RETURN(const auto folder, ScratchFolder::Make(options.dir));
  KVFERRY_ASSIGN_OR_RETURN(CallerMemory memory, CallerMemory::Make(options.host_bytes));
  FillAtRandom(memory.bytes());
  Bench bench{.options = options,
              .on_step = on_step,
              .folder = *folder,
              .memory = memory,
              .writes = FileDescriptor()};
  if (NeedsWrites(options)) {
    on_step("writing a file of " + FormatBytes(options.store_bytes) + " for plain writes");
    KVFERRY_ASSIGN_OR_RETURN(
        bench.writes, MakeBenchFile(folder->path() + "/plain", AlignUp(options.store_bytes, kMiB),
                                    memory.bytes()));
  }
  NvmeBenchReport report;
  report.store_bytes = options.store_bytes;
  report.host_bytes = options.host_bytes;
  for (const std::uint64_t block_bytes : options.block_bytes) {
    KVFERRY_RETURN_IF_ERROR(MeasureSize(bench, block_bytes, report));
  }
  return report;
}

}  // namespace kvferry::bench
