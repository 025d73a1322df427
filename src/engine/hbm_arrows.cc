// Copies of blocks gathered into moves, and what becomes of them.
#include "engine/hbm_arrows.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/assert.h"
#include "base/log.h"

namespace kvferry::engine {
namespace {

constexpr std::uint32_t kMovesMax = 64;
constexpr std::uint32_t kBlocksMax = 64;  // Of a move,
constexpr std::uint32_t kPagesMax = 1024;
constexpr std::uint32_t kSlicesMax = 128;
// and its bytes: offloads in pieces; onboards as many as begin together, so that the first layer of
// all of them is there soon.
constexpr std::uint64_t kOffloadBytesMax = std::uint64_t{16} << 20;
constexpr std::uint64_t kOnboardBytesMax = std::uint64_t{128} << 20;
// How soon the device is asked again.
constexpr Duration kAskAgain = std::chrono::microseconds(50);

tiers::HbmUrgency UrgencyOf(const DeviceCopy& copy) {
  if (copy.arrow == Arrow::kOffloadHbmToHost) {
    return tiers::HbmUrgency::kWriteBack;
  }
  return copy.transfer_class == TransferClass::kDemand ? tiers::HbmUrgency::kDemand
                                                       : tiers::HbmUrgency::kPrefetch;
}

// As many as a part holds and the slices allow.
std::uint32_t LayersASlice(const tiers::PagedTensors& tensors, Arrow arrow, std::uint64_t part) {
  const std::uint32_t layers = tensors.layers();
  if (arrow == Arrow::kOnboardHostToHbm && layers <= kSlicesMax) {
    return 1;
  }
  const std::uint64_t layer_bytes = tensors.block_bytes() / layers;
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(part / layer_bytes, 1, layers));
}

}  // namespace

Result<std::unique_ptr<HbmArrows>> HbmArrows::Open(const Options& options,
                                                   std::span<std::byte> host_memory) {
  auto arrows = std::make_unique<HbmArrows>(Token(), options);
  KVFERRY_RETURN_IF_ERROR(arrows->OpenDevice());
  KVFERRY_RETURN_IF_ERROR(arrows->OpenMoves(host_memory));
  return arrows;
}

HbmArrows::HbmArrows(Token /*token*/, const Options& options)
    : options_(options),
      scheduler_(options.operations_max),
      transfers_(options.operations_max),
      open_(options.requests_max, kNone),
      blocks_(options.operations_max) {
  free_.reserve(transfers_.size());
  for (std::uint32_t number = options.operations_max; number > 0; --number) {
    free_.push_back(number - 1);
  }
  waiting_.reserve(transfers_.size());
  ending_.reserve(transfers_.size());
  scratch_.reserve(kBlocksMax);
}

HbmArrows::~HbmArrows() = default;

Status HbmArrows::OpenDevice() {
  const gpu::CudaApi* cuda = options_.cuda;
  if (cuda == nullptr) {
    gpu::RuntimeSearch search;
    search.file = options_.runtime_path;
    KVFERRY_ASSIGN_OR_RETURN(library_, gpu::CudaLibrary::Load(search));
    cuda = &library_->api();
  }
  KVFERRY_ASSIGN_OR_RETURN(device_, gpu::Device::Open(*cuda, options_.device));
  return Status::Ok();
}

Status HbmArrows::OpenMoves(std::span<std::byte> host_memory) {
  KVFERRY_ASSIGN_OR_RETURN(registrar_, tiers::HostRegistrar::Start(*device_, host_memory));
  tiers::HbmMovesOptions options;
  options.moves_max = kMovesMax;
  options.blocks_max = kBlocksMax;
  options.pages_max = kPagesMax;
  options.slices_max = kSlicesMax;
  options.part_bytes = options_.part_bytes;
  options.kernels = options_.kernels;
  options.is_pinned = [registrar = registrar_.get()](std::span<const std::byte> bytes) {
    return registrar->IsPinned(bytes);
  };
  KVFERRY_ASSIGN_OR_RETURN(moves_, tiers::HbmMoves::Create(*device_, nullptr, options));
  HbmCallers::Limits limits;
  limits.layer_bytes_max = options_.part_bytes;
  limits.pages_max = kPagesMax;
  limits.moves_max = kMovesMax;
  limits.requests_max = options_.requests_max;
  KVFERRY_ASSIGN_OR_RETURN(callers_, HbmCallers::Create(*device_, *moves_, limits));
  return Status::Ok();
}

Result<TensorsHandle> HbmArrows::Register(const DeviceTensors& tensors) {
  return callers_->Register(tensors);
}
Status HbmArrows::Unregister(TensorsHandle tensors) {
  return callers_->Unregister(tensors);
}
Result<DeviceArrows::Admitted> HbmArrows::Admit(const Wish& wish) {
  return callers_->Admit(wish);
}
void HbmArrows::Release(const Admitted& admitted) {
  callers_->Release(admitted);
}
void HbmArrows::Begin(Ticket ticket, std::uint32_t blocks, const Admitted& admitted) {
  callers_->Begin(ticket, blocks, admitted);
}
Status HbmArrows::WaitLayer(Ticket ticket, std::uint32_t layer, NativeStream stream) {
  return callers_->WaitLayer(ticket, layer, stream);
}

bool HbmArrows::Joins(const Transfer& open, const DeviceCopy& copy) const {
  const std::uint64_t bytes_max =
      copy.arrow == Arrow::kOffloadHbmToHost ? kOffloadBytesMax : kOnboardBytesMax;
  return open.blocks < kBlocksMax && open.pages + copy.block->pages.size() <= kPagesMax &&
         open.bytes + open.tensors->block_bytes() <= bytes_max;
}

std::uint32_t HbmArrows::TakeTransfer(const DeviceCopy& copy) {
  KVFERRY_CHECK(!free_.empty());  // As many as operations.
  const std::uint32_t number = free_.back();
  free_.pop_back();
  Transfer& transfer = transfers_[number];
  transfer = Transfer();
  transfer.first = copy;
  transfer.tensors = &callers_->Tensors(copy.tensors);
  transfer.stage = Stage::kWaiting;
  waiting_.push_back(number);
  return number;
}

void HbmArrows::Add(const DeviceCopy& copy) {
  std::uint32_t& open = open_[copy.request];
  if (open == kNone || !Joins(transfers_[open], copy)) {
    open = TakeTransfer(copy);
  }
  Transfer& transfer = transfers_[open];
  blocks_[copy.operation] = {
      copy.host, {.pages = copy.block->pages, .first_token = copy.block->first_token}, kNone};
  if (transfer.last_block == kNone) {
    transfer.first_block = copy.operation;
  } else {
    blocks_[transfer.last_block].next = copy.operation;
  }
  transfer.last_block = copy.operation;
  ++transfer.blocks;
  transfer.pages += static_cast<std::uint32_t>(copy.block->pages.size());
  transfer.bytes += transfer.tensors->block_bytes();
}

void HbmArrows::Close(std::uint32_t number) {
  std::uint32_t& open = open_[transfers_[number].first.request];
  open = open == number ? kNone : open;
}

void HbmArrows::Cancel(std::uint32_t request) {
  for (std::uint32_t number = 0; number < transfers_.size(); ++number) {
    Transfer& transfer = transfers_[number];
    if (transfer.stage == Stage::kFree || transfer.first.request != request) {
      continue;
    }
    if (transfer.stage == Stage::kMoving) {
      moves_->Cancel(transfer.id);
    } else if (transfer.stage == Stage::kWaiting) {
      std::erase(waiting_, number);
      EndWith(number, DeviceEnd::kWithdrawn);
    } else if (transfer.stage == Stage::kQueued) {
      scheduler_.Remove(transfer.first.transfer_class, number);
      EndWith(number, DeviceEnd::kWithdrawn);
    }
  }
}

void HbmArrows::EndRequest(std::uint32_t request, const Admitted& admitted, bool is_complete) {
  KVFERRY_CHECK(open_[request] == kNone);
  callers_->EndRequest(request, is_complete);
  callers_->Release(admitted);
}

void HbmArrows::EndWith(std::uint32_t number, DeviceEnd end) {
  Close(number);
  transfers_[number].stage = Stage::kEnding;
  transfers_[number].end = end;
  ending_.push_back(number);
}

std::size_t HbmArrows::Step(Instant now, DeviceSink& sink) {
  now_ = now;
  moves_->Step(now);
  TakeEnds(now);
  LoseAllIfLost();
  std::size_t copies = 0;
  while (!ending_.empty()) {  // What is told may end more.
    const std::uint32_t number = ending_.back();
    ending_.pop_back();
    copies += transfers_[number].blocks;
    Tell(number, sink);
  }
  return copies;
}

void HbmArrows::Tell(std::uint32_t number, DeviceSink& sink) {
  const Transfer told = transfers_[number];
  transfers_[number].stage = Stage::kFree;
  free_.push_back(number);
  for (std::uint32_t operation = told.first_block; operation != kNone;) {
    const std::uint32_t next = blocks_[operation].next;
    sink.OnDeviceCopied(operation, told.end);
    operation = next;
  }
}

void HbmArrows::TakeEnds(Instant now) {
  while (const auto end = moves_->TakeEnd()) {
    const auto number = static_cast<std::uint32_t>(end->tag);
    Transfer& transfer = transfers_[number];
    KVFERRY_CHECK(transfer.stage == Stage::kMoving);
    --moving_;
    scheduler_.meter(transfer.first.arrow).End(now, transfer.bytes);
    ArrowStats& stats = StatsOf(transfer.first.arrow);
    stats.bytes_in_flight -= transfer.bytes;
    callers_->ForgetMove(transfer.first.request, end->id, end->status);
    moves_->Forget(end->id);
    if (end->status.ok()) {
      stats.blocks += transfer.blocks;
      stats.bytes += transfer.bytes;
      EndWith(number, DeviceEnd::kDone);
      continue;
    }
    const StatusCode code = end->status.code();
    if (code == StatusCode::kCancelled || code == StatusCode::kDeadlineExceeded) {
      EndWith(number, DeviceEnd::kWithdrawn);
      continue;
    }
    ++stats.failures;
    if (device_->health().ok()) {
      LogWarning("HBM tier: a copy failed: " + end->status.ToString());
      EndWith(number, DeviceEnd::kFailed);
    } else {
      EndWith(number, end->is_host_in_doubt ? DeviceEnd::kLostInDoubt : DeviceEnd::kLost);
    }
  }
}

void HbmArrows::LoseAllIfLost() {
  const Status health = device_->health();
  if (health.ok() || (is_lost_ && free_.size() == transfers_.size())) {
    return;
  }
  if (!std::exchange(is_lost_, true)) {
    LogWarning("HBM tier: off until the process starts anew: " + health.ToString());
  }
  for (std::uint32_t number = 0; number < transfers_.size(); ++number) {
    Transfer& transfer = transfers_[number];
    if (transfer.stage == Stage::kWaiting) {
      std::erase(waiting_, number);
      EndWith(number, DeviceEnd::kLost);
    } else if (transfer.stage == Stage::kQueued) {
      scheduler_.Remove(transfer.first.transfer_class, number);
      EndWith(number, DeviceEnd::kLost);
    }
  }
}

// Transfers whose streams have come so far are queued.
void HbmArrows::AskEvents() {
  std::size_t kept = 0;
  for (const std::uint32_t number : waiting_) {
    Transfer& transfer = transfers_[number];
    const Result<bool> is_done = callers_->IsEventDone(transfer.first.event);
    // An error that passes is as good as "not yet"; else the next step loses all.
    if (!is_done.ok() || !*is_done) {
      waiting_[kept++] = number;
      continue;
    }
    transfer.stage = Stage::kQueued;
    scheduler_.Push(transfer.first.transfer_class, number, transfer.first.deadline);
  }
  waiting_.resize(kept);
}

void HbmArrows::Start(Instant now) {
  AskEvents();
  std::array<bool, kArrowCount> is_full{};
  bool has_started = false;
  for (std::size_t of = 0; of < kTransferClassCount; ++of) {
    const auto transfer_class = static_cast<TransferClass>(of);
    while (!scheduler_.is_empty(transfer_class)) {
      const std::uint32_t next = scheduler_.Front(transfer_class);
      const DeviceCopy& first = transfers_[next].first;
      bool& is_arrow_full = is_full[static_cast<std::size_t>(first.arrow)];
      // What is less urgent does not pass by; the other arrow goes on.
      is_arrow_full =
          is_arrow_full || !scheduler_.meter(first.arrow).HasRoom(transfers_[next].bytes);
      if (is_arrow_full || !Submit(next, now)) {
        break;
      }
      scheduler_.Pop(transfer_class);
      has_started = true;
    }
  }
  if (has_started) {
    moves_->Step(now);  // Queues the first parts, so that layers can be waited for.
  }
}

bool HbmArrows::Submit(std::uint32_t number, Instant now) {
  Transfer& transfer = transfers_[number];
  scratch_.clear();
  for (std::uint32_t operation = transfer.first_block; operation != kNone;
       operation = blocks_[operation].next) {
    tiers::HbmBlock block;
    block.host = blocks_[operation].host;
    block.paged = blocks_[operation].place;
    scratch_.push_back(block);
  }
  tiers::HbmMove move;
  move.arrow = transfer.first.arrow == Arrow::kOffloadHbmToHost ? tiers::HbmArrow::kOffload
                                                                : tiers::HbmArrow::kOnboard;
  move.urgency = UrgencyOf(transfer.first);
  move.deadline = transfer.first.deadline;
  move.tensors = transfer.tensors;
  move.blocks = scratch_;
  move.layers_a_slice = LayersASlice(*transfer.tensors, transfer.first.arrow, options_.part_bytes);
  move.tag = number;
  const Result<tiers::HbmMoveId> id = moves_->Submit(std::move(move));
  if (!id.ok()) {
    // Full, or lost, which the next step sees to: checks were made when it was admitted.
    KVFERRY_CHECK(id.status().code() != StatusCode::kInvalidArgument);
    return false;
  }
  Close(number);
  transfer.stage = Stage::kMoving;
  transfer.id = *id;
  ++moving_;
  scheduler_.meter(transfer.first.arrow).Start(now, transfer.bytes);
  StatsOf(transfer.first.arrow).bytes_in_flight += transfer.bytes;
  callers_->NoteMove(transfer.first.request, transfer.blocks, *id);
  return true;
}

Instant HbmArrows::next_deadline() const {
  if (!ending_.empty()) {
    return now_;
  }
  return free_.size() == transfers_.size() ? Instant::max() : now_ + kAskAgain;
}

void HbmArrows::AddTo(EngineStats& stats) const {
  stats.offload_hbm_to_host = offload_stats_;
  stats.onboard_host_to_hbm = onboard_stats_;
  stats.hbm.tensors = callers_->registered();
  if (moves_ != nullptr) {
    stats.hbm.is_on = !is_lost_;
    stats.hbm.bytes_pinned = registrar_->registered_bytes();
    stats.hbm.bytes_staged = moves_->counts().staged_bytes;
  }
}

void HbmArrows::End() {
  KVFERRY_CHECK(free_.size() == transfers_.size());
  callers_->Close();
  moves_.reset();
  registrar_.reset();
}

}  // namespace kvferry::engine
