// The step, and what others may ask between steps.
#include "engine/engine_core.h"

#include <algorithm>
#include <array>

#include "base/assert.h"

namespace kvferry::engine {
namespace {

// Policies without a memory of departed blocks need no numbers for them.
bool RemembersDeparted(const std::string& policy) {
  static constexpr std::array<std::string_view, 6> kForgetful{"leaf-lru", "lru-head-first", "fifo",
                                                              "clock",    "sieve",          "lfu"};
  return std::find(kForgetful.begin(), kForgetful.end(), policy) == kForgetful.end();
}

std::uint32_t RememberedMax(const EngineCore::Options& options) {
  return RemembersDeparted(options.policy) ? options.history_max : 0;
}

std::string MessageOf(StatusCode code) {
  switch (code) {
    case StatusCode::kDeadlineExceeded:
      return "the request's deadline passed before all of its blocks were seen to";
    case StatusCode::kCancelled:
      return "the request was cancelled";
    case StatusCode::kResourceExhausted:
      return "more would be held or persisted than the tier allows (host.held_percent, "
             "nvme.protected_percent); let go of some";
    case StatusCode::kUnavailable:
      return "the NVMe tier is off, so nothing on it can be erased or persisted; try again when "
             "it is back";
    default:
      return "the request was ended";
  }
}

// Keys that one look-up is told of: many, because the first of them find no memory asked for.
constexpr std::size_t kKeysAtOnce = 512;
// After an operation that the ring did not take.
constexpr Duration kRefusedPause = std::chrono::milliseconds(10);

}  // namespace

Result<std::unique_ptr<EngineCore>> EngineCore::Create(const Options& options, const Seams& seams) {
  auto core = std::make_unique<EngineCore>(Token(), options, seams);
  KVFERRY_ASSIGN_OR_RETURN(core->host_,
                           HostCache::Create({.residents_max = options.residents_max,
                                              .remembered_max = RememberedMax(options),
                                              .path_max = options.blocks_per_request_max,
                                              .seed = options.seed,
                                              .policy = options.policy,
                                              .has_lower_tier = options.has_nvme,
                                              .offload_queue_max = options.offload_queue_max},
                                             {core->book_, seams.slabs, seams.namespaces}));
  return core;
}

Status EngineCore::AttachNvme(const NvmeSeams& seams) {
  KVFERRY_CHECK(nvme_ == nullptr && options_.has_nvme);
  OnboardSink& sink = *this;
  const NvmeArrows::Options options{.transfers_max = options_.transfers_max,
                                    .store = seams.store,
                                    .write_bytes_per_day = options_.write_bytes_per_day,
                                    .persisted_percent = options_.persisted_percent};
  KVFERRY_ASSIGN_OR_RETURN(
      nvme_, NvmeArrows::Create(options, {seams.ring, seams.manifest, book_, *host_, namespaces_,
                                          durable_namespaces_, desk_, sink}));
  ring_ = &seams.ring;
  manifest_ = &seams.manifest;
  if (!takes_offloads_) {
    nvme_->StopOffloads();
  }
  has_moved_ = true;
  return Status::Ok();
}

void EngineCore::StopNvme() {
  if (!nvme_->is_stopping()) {
    nvme_->Stop();
    has_moved_ = true;
  }
}

void EngineCore::LoseNvme(const Status& why) {
  is_nvme_lost_ = true;
  EndPersists(why);
  StopNvme();
}

void EngineCore::DetachNvme() {
  is_nvme_lost_ = false;
  ForgetErasures();
  nvme_->ForgetCopies();
  nvme_->AddTo(counts_);
  counts_.nvme_store.is_on = false;
  counts_.nvme_store.is_scanned = false;
  counts_.nvme_store.bytes_persisted = 0;
  counts_.nvme_store.commit_error.clear();
  ++counts_.nvme_store.times_off;
  nvme_.reset();
  ring_ = nullptr;
  manifest_ = nullptr;
  has_moved_ = true;
}

void EngineCore::StopOffloads() {
  takes_offloads_ = false;
  if (nvme_ != nullptr) {
    nvme_->StopOffloads();
    nvme_->Hurry();
  }
}

EngineCore::EngineCore(Token /*token*/, const Options& options, const Seams& seams)
    : options_(options),
      namespaces_(seams.namespaces),
      sink_(seams.sink),
      slabs_(seams.slabs),
      book_(
          {.records_max = options.residents_max + options.nvme_blocks_max,
           .entries_max = options.residents_max + RememberedMax(options) + HostCache::kEntriesSpare,
           .history_max = options.history_max}),
      desk_(seams.workers, options.transfers_max),
      durable_namespaces_(seams.namespaces),
      requests_(options.requests_max),
      handles_(options.handles_max),
      stops_(options.requests_max) {
  for (std::uint32_t handle = options.handles_max; handle > 0; --handle) {
    handles_[handle - 1].next = first_free_handle_;
    first_free_handle_ = handle - 1;
  }
  stalled_.reserve(options.requests_max);
  for (std::size_t code = 1; code < endings_.size(); ++code) {
    endings_[code] = Status::Error(StatusCode{static_cast<std::uint8_t>(code)},
                                   MessageOf(StatusCode{static_cast<std::uint8_t>(code)}));
  }
  path_.reserve(options.blocks_per_request_max);
}

EngineCore::~EngineCore() = default;

void EngineCore::Start(std::uint32_t number, const Call& call) {
  requests_.Begin(number, call);
  Request& request = requests_[number];
  request.access.session = call.session;
  request.access.tag = call.tag;
  request.departures = book_.departures();
  stops_[number].store(false, std::memory_order_relaxed);
  ++counts_.requests_started;
  next_deadline_ = std::min(next_deadline_, call.deadline);
  requests_.Queue(number);
}

void EngineCore::LetGo(std::uint32_t handle) {
  HeldBlock& held = handles_[handle];
  KVFERRY_CHECK(held.record != kNoRecord);
  const RecordIndex record = held.record;
  held = {};
  held.next = first_free_handle_;
  first_free_handle_ = handle;
  host_->LetGo(record);
  has_moved_ = true;
}

bool EngineCore::Step(Instant now) {
  KVFERRY_CHECK(now >= now_);
  now_ = now;
  bool has_done = desk_.Reap(now, *this) > 0;
  if (device_ != nullptr) {
    has_done = device_->Step(now, *this) > 0 || has_done;
  }
  if (nvme_ != nullptr) {
    nvme_->SetNow(now);
    has_done = ring_->Reap(now) > 0 || has_done;
    has_done = manifest_->Reap(now) > 0 || has_done;
  }
  const std::uint32_t in_flight = InFlight();
  if (nvme_ != nullptr) {
    has_done = nvme_->StepStore() || has_done;
  }
  ServeReady();
  StartSums();
  if (now >= next_deadline_) {
    EndExpired(now);
  }
  has_done = Sweep() || has_done;
  if (has_done || has_moved_) {
    has_moved_ = false;
    for (const std::uint32_t request : stalled_) {
      if (requests_[request].is_active) {
        requests_.Queue(request);
      }
    }
    stalled_.clear();
    GoOnDurable();
  }
  // Twice the table: a request that was queued again while it was seen to ends in the same step.
  for (std::uint32_t turns = 2 * requests_.requests_max(); turns > 0 && requests_.queued() > 0;
       --turns) {
    Advance(requests_.TakeQueued());
    has_done = true;
  }
  if (nvme_ != nullptr) {
    has_done = nvme_->StartTransfers() || has_done;
    submit_at_ = ring_->ForgetRefusals() ? now + kRefusedPause : Instant::max();
  }
  if (device_ != nullptr) {
    device_->Start(now);
  }
  desk_.Flush();
  // What was begun, or freed on the way, may let something else begin that was looked at before.
  return has_done || has_moved_ || InFlight() != in_flight;
}

std::uint32_t EngineCore::InFlight() const {
  return nvme_ == nullptr ? 0 : ring_->in_flight() + manifest_->in_flight();
}

bool EngineCore::is_idle() const {
  return requests_.active() == 0 && desk_.pieces_in_flight() == 0 && !sweeping_ &&
         (nvme_ == nullptr || nvme_->is_idle());
}

void EngineCore::OnPieceDone(CopyJob::Kind kind, const CopyPiece& piece) noexcept {
  switch (kind) {
    case CopyJob::Kind::kVerify:
      nvme_->OnVerified(piece);
      break;
    case CopyJob::Kind::kCopyAndSum:
      OnPutCopied(piece);
      break;
    case CopyJob::Kind::kSum:
      OnSummed(piece);
      break;
    case CopyJob::Kind::kCopy:
    case CopyJob::Kind::kCopyAndVerify:
      OnReadCopied(kind, piece);
      break;
  }
}

void EngineCore::OnSuperseded(RecordIndex record) noexcept {
  WithdrawAll(record, MissReason::kErased);
}

void EngineCore::OnOnboardEnd(RecordIndex /*record*/,
                              std::uint32_t waiter,
                              MissReason reason) noexcept {
  WakeWaiters(waiter, reason);
}

// Of one block as others see it, for callers of the namespace at `epoch`.
MissReason EngineCore::ReasonFor(const BlockView& view,
                                 NamespaceHandle in,
                                 std::uint8_t epoch,
                                 const BlockKey& key) const {
  if (!view.is_found) {
    return book_.history().ReasonOf(key);
  }
  const NamespaceHandle own{view.namespace_index};
  const bool is_lost =
      namespaces_.IsLost(own.index) && namespaces_.block_bytes(own) == namespaces_.block_bytes(in);
  if (own.index != in.index && !is_lost) {
    return MissReason::kOtherNamespace;
  }
  if (view.namespace_epoch != (is_lost ? namespaces_.epoch(own) : epoch)) {
    return MissReason::kErased;
  }
  return view.is_in_host || view.is_in_nvme ? MissReason::kNone : MissReason::kTooLate;
}

PrefixMatch EngineCore::Match(NamespaceHandle in, std::span<const BlockKey> keys) const {
  PrefixMatch match;
  const std::uint8_t epoch = namespaces_.epoch(in);
  std::array<BlockView, kKeysAtOnce> views;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i % kKeysAtOnce == 0) {
      const auto some = keys.subspan(i, std::min(kKeysAtOnce, keys.size() - i));
      book_.index().Look(some, std::span(views).first(some.size()));
    }
    const BlockView& view = views[i % kKeysAtOnce];
    match.next_missing = ReasonFor(view, in, epoch, keys[i]);
    if (match.next_missing != MissReason::kNone) {
      break;
    }
    // A copy in host memory behind one in NVMe is of no more use than that one.
    ++(view.is_in_host && match.nvme_blocks == 0 ? match.host_blocks : match.nvme_blocks);
  }
  return match;
}

EngineStats EngineCore::Stats() const {
  EngineStats stats = counts_;
  stats.host = host_->stats();
  stats.offloads_skipped = host_->offloads_skipped();
  stats.prefetches_wasted = host_->prefetches_wasted();
  if (nvme_ != nullptr) {
    nvme_->AddTo(stats);
  }
  if (device_ != nullptr) {
    device_->AddTo(stats);
  }
  stats.index_bytes = book_.index().memory_bytes() + book_.entry_bytes() + host_->policy_bytes();
  stats.history_blocks = book_.history().blocks();
  stats.history_bytes = book_.history().memory_bytes();
  return stats;
}

void EngineCore::CheckInvariants() const {
  book_.CheckInvariants();
  host_->CheckInvariants();
  if (nvme_ != nullptr) {
    nvme_->CheckInvariants();
  }
  std::uint64_t misses = 0;
  for (const std::uint64_t count : counts_.misses) {
    misses += count;
  }
  KVFERRY_CHECK(counts_.lookups == counts_.hits_host + counts_.hits_nvme + misses);
  std::uint64_t refused = 0;
  for (const std::uint64_t count : counts_.puts_refused) {
    refused += count;
  }
  KVFERRY_CHECK(counts_.puts == counts_.puts_stored + counts_.puts_present + refused);
  KVFERRY_CHECK(counts_.requests_started == counts_.requests_ended + requests_.active());
  // Readers are the copies under way, and handles those that were not given up.
  std::vector<std::uint32_t> handles(book_.index().records_max());
  for (const HeldBlock& held : handles_) {
    if (held.record != kNoRecord) {
      ++handles[NumberOf(held.record)];
    }
  }
  std::vector<std::uint32_t> readers(book_.index().records_max());
  for (std::uint32_t number = 0; number < requests_.operations_max(); ++number) {
    const Operation& operation = requests_.operation(number);
    if (operation.stage == Operation::Stage::kReady ||
        operation.stage == Operation::Stage::kReading) {
      ++readers[NumberOf(operation.record)];
    }
  }
  if (nvme_ != nullptr) {
    nvme_->CountReaders(readers);
  }
  for (const RecordIndex record : in_doubt_) {
    ++readers[NumberOf(record)];
  }
  book_.index().ForEach([&](RecordIndex record) {
    const BlockRecord& block = book_.index()[record];
    const BlockUse& use = book_.index().use(record);
    if (block.host_state == CopyState::kFilling) {
      return;
    }
    KVFERRY_CHECK(use.handles == handles[NumberOf(record)]);
    KVFERRY_CHECK(use.readers == readers[NumberOf(record)]);
    KVFERRY_CHECK(block.is_indexed || use.readers + use.handles > 0);
  });
}

}  // namespace kvferry::engine
