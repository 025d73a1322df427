// The process that fills the store is forked before this one has threads.
#include "bench/reopen_bench.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <memory>
#include <new>
#include <thread>
#include <utility>

#include "kvferry/engine.h"

#include "base/clock.h"
#include "base/random.h"
#include "bench/bench_file.h"
#include "bench/caller_memory.h"
#include "bench/host_engine.h"
#include "bench/nvme_engine.h"
#include "bench/scratch_folder.h"
#include "tiers/nvme/store_layout.h"

namespace kvferry::bench {
namespace {

constexpr std::uint64_t kBlocksMin = 1'000;
constexpr std::uint64_t kBlocksMax = 1'000'000'000;
constexpr std::uint64_t kSpareBytes = 256 * kMiB;
constexpr Duration kPause = std::chrono::milliseconds(10);
constexpr Duration kQuiet = std::chrono::seconds(1);
constexpr Duration kPatience = std::chrono::seconds(60);

// What the process that is killed has told by then.
struct Told {
  std::atomic<bool> is_filled = false;
  std::uint64_t resident = 0;
  std::uint64_t stored = 0;  // The latest of these are resident.
  std::array<char, 400> error{};
};

class SharedTold {
 public:
  SharedTold()
      : memory_(::mmap(
            nullptr, sizeof(Told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (memory_ != MAP_FAILED) {
      told_ = ::new (memory_) Told;
    }
  }
  SharedTold(const SharedTold&) = delete;
  SharedTold& operator=(const SharedTold&) = delete;
  ~SharedTold() {
    if (memory_ != MAP_FAILED) {
      ::munmap(memory_, sizeof(Told));
    }
  }
  Told* get() const { return told_; }

 private:
  void* memory_;
  Told* told_ = nullptr;
};

NvmeEngine::Options EngineOf(const ReopenBenchOptions& options, const std::string& folder) {
  return {.folder = folder,
          .store_bytes = options.StoreBytes(),
          .host_bytes = options.host_bytes,
          .block_bytes = options.block_bytes,
          .copy_threads = 1};
}

// Written blocks become durable in groups, a fraction of a second later.
void AwaitCommits(const NvmeEngine& engine) {
  std::uint64_t commits = engine.Stats().nvme_store.commits;
  for (Instant since = Clock::now(); Clock::now() - since < kQuiet;) {
    std::this_thread::sleep_for(kPause);
    const std::uint64_t now = engine.Stats().nvme_store.commits;
    since = now == std::exchange(commits, now) ? since : Clock::now();
  }
}

Status FillHere(const ReopenBenchOptions& options, const std::string& folder, Told& told) {
  KVFERRY_ASSIGN_OR_RETURN(CallerMemory memory, CallerMemory::Make(options.host_bytes));
  KVFERRY_ASSIGN_OR_RETURN(const auto engine, NvmeEngine::Open(EngineOf(options, folder), memory));
  KVFERRY_RETURN_IF_ERROR(engine->PutBlocks(options.blocks));
  AwaitCommits(*engine);
  told.resident = engine->Stats().nvme.blocks_resident;
  told.stored = engine->stored();
  told.is_filled = true;
  ::raise(SIGKILL);
  return Status::Ok();
}

Status FillAndDie(const ReopenBenchOptions& options, const std::string& folder, Told& told) {
  const pid_t child = ::fork();
  if (child < 0) {
    return Status::Error(StatusCode::kResourceExhausted, "start a process that is killed", errno);
  }
  if (child == 0) {
    const std::string text = FillHere(options, folder, told).ToString();
    std::copy_n(text.begin(), std::min(text.size(), told.error.size() - 1), told.error.begin());
    ::_exit(1);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!told.is_filled) {
    return Status::Error(StatusCode::kInternal,
                         "the store was not filled: " + std::string(told.error.data()));
  }
  return Status::Ok();
}

double MillisecondsSince(Instant start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// By this process, from drives; 0 where the system does not tell.
std::uint64_t BytesReadSoFar() {
  std::ifstream file("/proc/self/io");
  std::string name;
  std::uint64_t value = 0;
  while (file >> name >> value) {
    if (name == "read_bytes:") {
      return value;
    }
  }
  return 0;
}

// The engine that comes after, asked for one block after the other.
class Reopened {
 public:
  Reopened(const ReopenBenchOptions& options, const Told& told)
      : options_(options), told_(told), random_(1), bytes_(options.block_bytes) {}

  Result<std::vector<BenchResult>> Measure(const std::string& folder) {
    const std::uint64_t read_before = BytesReadSoFar();
    const Instant start = Clock::now();
    KVFERRY_ASSIGN_OR_RETURN(engine_,
                             Engine::Open(NvmeEngine::EngineOptionsOf(EngineOf(options_, folder))));
    const double open_ms = MillisecondsSince(start);
    KVFERRY_ASSIGN_OR_RETURN(queue_, engine_->CreateCompletionQueue(1));
    KVFERRY_ASSIGN_OR_RETURN(
        space_, engine_->AddNamespace(BenchNamespace(), {.block_bytes = options_.block_bytes}));
    double answer_ms = 0;
    double hit_ms = 0;
    while (hit_ms == 0 || !engine_->Stats().nvme_store.is_scanned) {
      KVFERRY_ASSIGN_OR_RETURN(const bool is_hit, GetOne());
      answer_ms = answer_ms == 0 ? MillisecondsSince(start) : answer_ms;
      hit_ms = hit_ms == 0 && is_hit ? MillisecondsSince(start) : hit_ms;
      if (Clock::now() - start > kPatience) {
        return Status::Error(StatusCode::kUnavailable, "the restart scan has not ended in 60 s");
      }
    }
    const double scan_ms = MillisecondsSince(start);
    const EngineStats stats = engine_->Stats();
    const auto found = static_cast<double>(stats.nvme_store.blocks_found);
    const double payload_bytes = static_cast<double>(told_.resident) * options_.block_bytes;
    const auto read = static_cast<double>(BytesReadSoFar() - read_before);
    return std::vector<BenchResult>{
        {.name = "open", .value = open_ms, .unit = "ms", .bound = {}},
        {.name = "first_answer", .value = answer_ms, .unit = "ms", .bound = {}},
        {.name = "first_hit", .value = hit_ms, .unit = "ms", .bound = {}},
        {.name = "scan", .value = scan_ms, .unit = "ms", .bound = {}},
        {.name = "found",
         .value = found,
         .unit = "blocks",
         .bound = "those that were there",
         .bound_value = static_cast<double>(told_.resident)},
        {.name = "read",
         .value = read,
         .unit = "bytes",
         .bound = "the payloads",
         .bound_value = payload_bytes},
        {.name = "index",
         .value = static_cast<double>(stats.index_bytes) / std::max(1.0, found),
         .unit = "bytes a block",
         .bound = {}}};
  }

 private:
  // Of those that are on the drive for certain: whether it is a hit.
  Result<bool> GetOne() {
    const std::uint64_t number =
        told_.stored - 1 - random_.Below(std::max<std::uint64_t>(1, told_.resident / 2));
    const BlockKey key = KeyOf(number);
    const std::array<std::byte*, 1> targets{bytes_.data()};
    KVFERRY_RETURN_IF_ERROR(
        engine_->Get({.in = space_, .keys = std::span(&key, 1), .targets = targets}, *queue_)
            .status());
    KVFERRY_RETURN_IF_ERROR(queue_->Wait(Clock::now() + kPatience));
    std::array<Completion, 1> done;
    KVFERRY_CHECK(queue_->Poll(done) == 1);
    KVFERRY_RETURN_IF_ERROR(done[0].status);
    if (done[0].blocks_ready == 1 && StampOf(bytes_.data()) != number) {
      return Status::Error(StatusCode::kInternal, "a read gave the bytes of another block");
    }
    return done[0].blocks_ready == 1;
  }

  const ReopenBenchOptions& options_;
  const Told& told_;
  Random random_;
  std::vector<std::byte> bytes_;
  std::unique_ptr<Engine> engine_;  // Goes after its queue.
  std::unique_ptr<CompletionQueue> queue_;
  NamespaceHandle space_;
};

}  // namespace

Status ReopenBenchOptions::Validate() const {
  if (blocks < kBlocksMin || blocks > kBlocksMax) {
    return Status::Error(StatusCode::kInvalidArgument,
                         "--blocks " + std::to_string(blocks) + ": give 1,000 to 1,000,000,000");
  }
  return NvmeEngine::EngineOptionsOf(EngineOf(*this, "dir")).Validate();
}

std::uint64_t ReopenBenchOptions::StoreBytes() const {
  // Headers, footers and the segment that is emptied take some of it.
  constexpr std::uint64_t kOverheadOf = 16;
  const std::uint64_t payload_bytes = blocks * AlignUp(block_bytes, tiers::kDiskPageBytes);
  return tiers::CapacityFor(payload_bytes + payload_bytes / kOverheadOf + 8 * kMiB);
}

Result<std::vector<BenchResult>> RunReopenBench(const ReopenBenchOptions& options,
                                                FunctionRef<void(std::string_view)> on_step) {
  KVFERRY_RETURN_IF_ERROR(options.Validate());
  KVFERRY_ASSIGN_OR_RETURN(const std::uint64_t free_bytes, FreeBytes(options.dir));
  const std::string room = FormatBytes(options.StoreBytes()) + " in " + options.dir + ", where " +
                           FormatBytes(free_bytes) + " are free";
  on_step("a store of " + room);
  if (options.StoreBytes() + kSpareBytes > free_bytes) {
    return Status::Error(StatusCode::kResourceExhausted,
                         "there is no room for a store of " + room + ", of which " +
                             FormatBytes(kSpareBytes) + " must stay so; lower --blocks");
  }
  KVFERRY_ASSIGN_OR_RETURN(const auto folder, ScratchFolder::Make(options.dir));
  const SharedTold told;
  if (told.get() == nullptr) {
    return Status::Error(StatusCode::kResourceExhausted, "no memory to share with a process");
  }
  on_step("filling it, in a process that is killed then");
  KVFERRY_RETURN_IF_ERROR(FillAndDie(options, folder->path(), *told.get()));
  on_step("opening it, with " + std::to_string(told.get()->resident) + " blocks");
  return Reopened(options, *told.get()).Measure(folder->path());
}

}  // namespace kvferry::bench
