// Checks of requests, tickets, and what callers' threads do.
#include "engine/engine_front.h"

#include <algorithm>
#include <new>
#include <system_error>

#include "kvferry/block_key.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "engine/memory_need.h"

namespace kvferry::engine {
namespace {

constexpr std::uint64_t kResidentsMin = 64;

std::string Refusal(std::string_view what, std::string_view reason) {
  return std::string(what) + ": " + std::string(reason);
}

Status TooManyRequests(std::uint32_t requests_max) {
  return Status::Error(StatusCode::kResourceExhausted,
                       "all " + std::to_string(requests_max) +
                           " requests are in use; poll completions, collect or discard "
                           "what was pinned, or raise requests_max");
}

// One address a key, none of them null; `what` is "source" or "target".
template <class Byte>
Status CheckAddresses(const std::string& what,
                      std::span<const BlockKey> keys,
                      std::span<Byte* const> addresses) {
  if (addresses.size() != keys.size()) {
    return Status::Error(StatusCode::kInvalidArgument,
                         std::to_string(addresses.size()) + " " + what + "s for " +
                             std::to_string(keys.size()) + " keys; give one for each");
  }
  const auto null = std::find(addresses.begin(), addresses.end(), nullptr);
  if (null == addresses.end()) {
    return Status::Ok();
  }
  const auto index = static_cast<std::size_t>(null - addresses.begin());
  return Status::Error(StatusCode::kInvalidArgument,
                       what + "s[" + std::to_string(index) + "] of " +
                           std::to_string(addresses.size()) + " is null, for block " +
                           ToHex(keys[index]) + "; give the block's address");
}

tiers::HugePages PagesOf(HugePages wanted) {
  switch (wanted) {
    case HugePages::kNone:
      return tiers::HugePages::kNone;
    case HugePages::kTransparent:
      return tiers::HugePages::kTransparent;
    case HugePages::kReserved:
      return tiers::HugePages::kReserved;
  }
  return tiers::HugePages::kNone;
}

EngineCore::Options CoreOptions(const EngineOptions& options, std::uint64_t host_bytes) {
  EngineCore::Options core;
  core.residents_max =
      static_cast<std::uint32_t>(std::max(kResidentsMin, host_bytes / options.block_bytes));
  core.history_max = options.history.blocks_max;
  core.requests_max = options.requests_max;
  core.blocks_per_request_max = options.blocks_per_request_max;
  core.handles_max = options.handles_max;
  core.held_bytes_max = PercentOf(host_bytes, options.host.held_percent);
  core.transfers_max = options.transfers_max;
  core.seed = options.seed;
  core.policy = options.host.policy;
  core.verify_on_get = options.host.verify_on_get;
  core.has_nvme = !options.nvme.paths.empty();
  core.nvme_blocks_max = static_cast<std::uint32_t>(NvmeBlocksMax(options));
  core.write_bytes_per_day = options.nvme.write_bytes_per_day;
  core.admits_on_second_touch = options.nvme.admits_on_second_touch;
  core.persisted_percent = options.nvme.protected_percent;
  return core;
}

// A block without a place would be dropped by each put, for ever.
Status CheckFitsHost(std::uint32_t block_bytes, const EngineOptions& options) {
  if (block_bytes > options.host.bytes) {
    return Status::Error(StatusCode::kInvalidArgument,
                         "block_bytes is " + FormatBytes(block_bytes) +
                             " and the host tier, which every block passes through, has " +
                             FormatBytes(options.host.bytes) +
                             "; raise host.bytes, or store smaller blocks");
  }
  return Status::Ok();
}

}  // namespace

Result<std::shared_ptr<EngineFront>> EngineFront::Open(const EngineOptions& options,
                                                       const DeviceSeams& seams) {
  KVFERRY_RETURN_IF_ERROR(options.Validate());
  KVFERRY_ASSIGN_OR_RETURN(const std::uint64_t host_bytes, HostBytes(options.host));
  EngineOptions effective = options;
  effective.host.bytes = host_bytes;
  KVFERRY_RETURN_IF_ERROR(effective.Validate());  // What a default came to has bounds as well.
  KVFERRY_RETURN_IF_ERROR(CheckTables(effective, ReadMemoryLimit()));
  try {
    auto front = std::make_shared<EngineFront>(Token(), options);
    front->seams_ = seams;
    if (!options.nvme.paths.empty()) {
      // First, since there is most to refuse.
      front->nvme_ = std::make_unique<NvmeKeeper>(front->options_, front->bell_);
      KVFERRY_RETURN_IF_ERROR(front->nvme_->Open());
    }
    tiers::HostSlabOptions slab_options;
    slab_options.memory.bytes = host_bytes;
    slab_options.memory.huge_pages = PagesOf(options.host.huge_pages);
    if (options.host.numa_node >= 0) {
      slab_options.memory.numa_node = static_cast<std::uint32_t>(options.host.numa_node);
    }
    KVFERRY_ASSIGN_OR_RETURN(front->slabs_, tiers::HostSlabs::Create(slab_options));
    if (options.host.is_populated) {
      KVFERRY_ASSIGN_OR_RETURN(front->toucher_,
                               tiers::PageToucher::Start(front->slabs_->memory().bytes()));
    }
    const std::uint32_t cores = std::max(1U, std::thread::hardware_concurrency());
    const std::uint32_t threads =
        options.copy_threads != 0 ? options.copy_threads : std::max(1U, cores / 2);
    KVFERRY_ASSIGN_OR_RETURN(
        front->arena_,
        CopyArena::Create(threads, CopyDesk::JobsMax(options.transfers_max), front->bell_));
    KVFERRY_ASSIGN_OR_RETURN(front->core_, EngineCore::Create(CoreOptions(options, host_bytes),
                                                              {.workers = *front->arena_,
                                                               .slabs = *front->slabs_,
                                                               .namespaces = front->namespaces_,
                                                               .sink = *front}));
    {
      const MutexLock lock(front->mutex_);
      front->stats_ = front->core_->Stats();
    }
    KVFERRY_RETURN_IF_ERROR(front->StartMover());
    return front;
  } catch (const std::bad_alloc&) {
    return Status::Error(StatusCode::kResourceExhausted,
                         "no memory for the engine's tables; lower host.bytes, history.blocks_max "
                         "or handles_max, or raise block_bytes");
  } catch (const std::system_error& error) {
    return Status::Error(StatusCode::kResourceExhausted,
                         Refusal("start the mover thread", error.what()), error.code().value());
  }
}

EngineFront::EngineFront(Token /*token*/, const EngineOptions& options)
    : options_(options), namespaces_(options.namespaces_max), slots_(options.requests_max) {
  free_.reserve(options.requests_max);
  ended_.reserve(options.requests_max);
  for (std::uint32_t slot = options.requests_max; slot > 0; --slot) {
    free_.push_back(slot - 1);
  }
  for (Inbox* inbox : {&inbox_, &taken_}) {
    inbox->calls.reserve(options.requests_max);
    // One for a request that ends before the inbox is looked at, one for the next in its slot.
    inbox->cancels.reserve(std::size_t{2} * options.requests_max);
    inbox->releases.reserve(options.handles_max);
  }
}

EngineFront::~EngineFront() {
  static_cast<void>(Close());  // Of one that could not be opened.
  if (is_stalled_) {           // Not before: Match() may be asked of a closed engine.
    static_cast<void>(core_.release());
    static_cast<void>(slabs_.release());
  }
}

Status EngineFront::CheckIsOpen() const {
  return is_closing_ ? Status::Error(StatusCode::kUnavailable,
                                     "the engine is closing or closed; open "
                                     "another one")
                     : Status::Ok();
}

Result<NamespaceHandle> EngineFront::AddNamespace(const Namespace& description,
                                                  const NamespaceOptions& options) {
  {
    const MutexLock lock(mutex_);
    KVFERRY_RETURN_IF_ERROR(CheckIsOpen());
  }
  KVFERRY_RETURN_IF_ERROR(CheckFitsHost(options.block_bytes, options_));
  return namespaces_.Add(description, options);
}

Status EngineFront::EraseNamespace(NamespaceHandle in) {
  {
    const MutexLock lock(mutex_);  // Completions come before it or after it.
    KVFERRY_RETURN_IF_ERROR(CheckIsOpen());
    KVFERRY_RETURN_IF_ERROR(namespaces_.BeginErase(in));
  }
  bell_.Ring();
  return Status::Ok();
}

Result<std::unique_ptr<CompletionQueue>> EngineFront::CreateCompletionQueue(
    std::uint32_t entries_max) {
  {
    const MutexLock lock(mutex_);
    KVFERRY_RETURN_IF_ERROR(CheckIsOpen());
  }
  KVFERRY_ASSIGN_OR_RETURN(std::unique_ptr<CompletionQueue> queue,
                           BoundedCompletionQueue::Create(entries_max, weak_from_this()));
  return queue;
}

PrefixMatch EngineFront::Match(NamespaceHandle in, std::span<const BlockKey> keys) const {
  if (!namespaces_.Contains(in)) {
    return {.next_missing = keys.empty() ? MissReason::kNone : MissReason::kOtherNamespace};
  }
  return core_->Match(in, keys);
}

Result<Call> EngineFront::CallOf(Call::Kind kind,
                                 NamespaceHandle in,
                                 std::span<const BlockKey> keys,
                                 const RequestOptions& options) const {
  if (!namespaces_.Contains(in)) {
    return Status::Error(StatusCode::kInvalidArgument,
                         "namespace handle " + std::to_string(in.index) +
                             " is none of this engine's; AddNamespace gives them");
  }
  if (keys.empty() || keys.size() > options_.blocks_per_request_max) {
    return Status::Error(StatusCode::kInvalidArgument,
                         "a request names 1 to " + std::to_string(options_.blocks_per_request_max) +
                             " blocks, not " + std::to_string(keys.size()) +
                             " (blocks_per_request_max)");
  }
  if ((options.tiers.bits & ~TierSet::All().bits) != 0) {
    return Status::Error(StatusCode::kInvalidArgument,
                         "tiers has the bits " + std::to_string(options.tiers.bits) +
                             ", of which some are no tier's; make it from TierSet::Of");
  }
  Call call;
  call.kind = kind;
  call.in = in;
  call.erasures = namespaces_.erasures(in);
  call.block_bytes = namespaces_.block_bytes(in);
  call.keys = keys;
  call.tiers = options.tiers;
  call.session = options.session;
  call.tag = options.tag;
  call.load_bytes_max = options.load_bytes_max;
  call.has_own_deadline = options.deadline != Instant();
  call.deadline = call.has_own_deadline
                      ? options.deadline
                      : Clock::now() + std::chrono::milliseconds(options_.deadline_ms);
  return call;
}

Result<Ticket> EngineFront::Put(const PutRequest& request, CompletionQueue& queue) {
  KVFERRY_ASSIGN_OR_RETURN(Call call,
                           CallOf(Call::Kind::kPut, request.in, request.keys, request.options));
  KVFERRY_RETURN_IF_ERROR(CheckAddresses("source", request.keys, request.sources));
  call.sources = request.sources;
  call.has_parent = request.parent != nullptr;
  call.parent = call.has_parent ? *request.parent : BlockKey{};
  return Submit(call, queue);
}

Result<Ticket> EngineFront::Get(const GetRequest& request, CompletionQueue& queue) {
  KVFERRY_ASSIGN_OR_RETURN(Call call,
                           CallOf(Call::Kind::kGet, request.in, request.keys, request.options));
  KVFERRY_RETURN_IF_ERROR(CheckAddresses("target", request.keys, request.targets));
  call.targets = request.targets;
  return Submit(call, queue);
}

Result<Ticket> EngineFront::Name(Call::Kind kind,
                                 const KeysRequest& request,
                                 CompletionQueue& queue) {
  const bool needs_nvme = kind == Call::Kind::kPersist || kind == Call::Kind::kUnpersist;
  if (needs_nvme && options_.nvme.paths.empty()) {
    return Status::Error(StatusCode::kInvalidArgument,
                         "nothing can be persisted without an NVMe tier; set nvme.paths");
  }
  KVFERRY_ASSIGN_OR_RETURN(const Call call,
                           CallOf(kind, request.in, request.keys, request.options));
  return Submit(call, queue);
}

Result<Ticket> EngineFront::Submit(const Call& call, CompletionQueue& queue) {
  // CreateCompletionQueue makes no other kind.
  auto& bounded = static_cast<BoundedCompletionQueue&>(queue);
  if (!bounded.IsOf(*this)) {
    return Status::Error(StatusCode::kInvalidArgument,
                         "the completion queue is another engine's; this one's "
                         "CreateCompletionQueue gives its own");
  }
  Ticket ticket;
  {
    const MutexLock lock(mutex_);
    KVFERRY_RETURN_IF_ERROR(CheckIsOpen());
    if (free_.empty()) {
      ++refused_;
      return TooManyRequests(options_.requests_max);
    }
    if (!bounded.TryReserve()) {
      ++refused_;
      return Status::Error(StatusCode::kResourceExhausted,
                           "the completion queue has no room for one more request; poll it, or "
                           "create it with more entries");
    }
    ticket.entry = free_.back();
    free_.pop_back();
    Slot& slot = slots_[ticket.entry];
    slot.state = State::kActive;
    slot.is_cancel_wanted = false;
    slot.is_abandoned = false;
    slot.queue = &bounded;
    slot.in = call.in;
    slot.erasures = call.erasures;
    slot.is_read = call.kind != Call::Kind::kPut && call.kind != Call::Kind::kErase;
    slot.generation = slot.generation == 0xffffffff ? 1 : slot.generation + 1;
    ticket.generation = slot.generation;
    if (call.is_device) {
      const bool is_awaited = call.kind == Call::Kind::kGet;
      device_->Begin({ticket.entry, is_awaited ? ticket.generation : 0},
                     static_cast<std::uint32_t>(call.keys.size()), {call.tensors, call.event});
    }
    inbox_.calls.emplace_back(ticket.entry, call);
  }
  bell_.Ring();
  return ticket;
}

bool EngineFront::IsCurrent(Ticket ticket) const {
  return ticket.entry < slots_.size() && ticket.generation != 0 &&
         slots_[ticket.entry].generation == ticket.generation &&
         slots_[ticket.entry].state != State::kFree;
}

Status EngineFront::Collect(Ticket ticket, std::span<BlockHandle> handles) {
  const MutexLock lock(mutex_);
  if (!IsCurrent(ticket) || slots_[ticket.entry].state != State::kHeld) {
    return Status::Error(StatusCode::kInvalidArgument,
                         "the ticket names no completed Pin with blocks to collect");
  }
  Slot& slot = slots_[ticket.entry];
  if (handles.size() != slot.handles) {
    return Status::Error(StatusCode::kInvalidArgument,
                         "room for " + std::to_string(handles.size()) + " handles where " +
                             std::to_string(slot.handles) +
                             " are ready; give as many as Completion::blocks_ready");
  }
  if (!std::all_of(handles.begin(), handles.end(),
                   [](const BlockHandle& handle) { return handle.is_empty(); })) {
    // To let go of what they hold takes the lock that is held here.
    return Status::Error(StatusCode::kInvalidArgument,
                         "a handle to collect into still holds a block; release it first");
  }
  std::uint32_t entry = slot.first_handle;
  for (BlockHandle& handle : handles) {
    KVFERRY_CHECK(entry != kNone);
    const HeldBlock& held = core_->held(entry);
    BlockHandle fresh;
    fresh.front_ = shared_from_this();
    fresh.entry_ = entry;
    fresh.bytes_ = held.bytes;
    entry = held.next;
    handle = std::move(fresh);
  }
  slot.state = State::kFree;
  free_.push_back(ticket.entry);
  return Status::Ok();
}

void EngineFront::ReleaseHandles(std::uint32_t first_handle) {
  for (std::uint32_t handle = first_handle; handle != kNone; handle = core_->held(handle).next) {
    inbox_.releases.push_back(handle);
  }
}

void EngineFront::Discard(Ticket ticket) {
  {
    const MutexLock lock(mutex_);
    if (!IsCurrent(ticket) || slots_[ticket.entry].state != State::kHeld) {
      return;
    }
    ReleaseHandles(slots_[ticket.entry].first_handle);
    slots_[ticket.entry].state = State::kFree;
    free_.push_back(ticket.entry);
  }
  bell_.Ring();
}

void EngineFront::Cancel(Ticket ticket) {
  {
    const MutexLock lock(mutex_);
    if (!IsCurrent(ticket)) {
      return;
    }
    CancelSlot(ticket.entry);
  }
  bell_.Ring();
}

void EngineFront::CancelSlot(std::uint32_t entry) {
  Slot& slot = slots_[entry];
  if (slot.state == State::kActive && !slot.is_cancel_wanted) {
    slot.is_cancel_wanted = true;
    inbox_.cancels.push_back(entry);
  }
}

void EngineFront::EndAllOf(const BoundedCompletionQueue& queue) {
  {
    const MutexLock lock(mutex_);
    for (std::uint32_t entry = 0; entry < slots_.size(); ++entry) {
      if (slots_[entry].state == State::kActive && slots_[entry].queue == &queue) {
        slots_[entry].is_abandoned = true;
        CancelSlot(entry);
      }
    }
  }
  bell_.Ring();
}

void EngineFront::ReleaseHandle(std::uint32_t handle) noexcept {
  {
    const MutexLock lock(mutex_);
    inbox_.releases.push_back(handle);  // Has room for every handle there is.
  }
  bell_.Ring();
}

void EngineFront::OnRequestDone(std::uint32_t request,
                                const Completion& completion,
                                std::uint32_t first_handle) noexcept {
  ended_.push_back({request, completion, first_handle});  // Has room for every request there is.
}

EngineStats EngineFront::Stats() const {
  const MutexLock lock(mutex_);
  EngineStats stats = stats_;
  stats.requests_refused = refused_;
  stats.nvme_store.off_reason = nvme_off_reason_;
  return stats;
}

}  // namespace kvferry::engine
