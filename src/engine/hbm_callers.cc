// Tables of what callers have registered, recorded and wait for.
#include "engine/hbm_callers.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/assert.h"

namespace kvferry::engine {
namespace {

constexpr std::uint32_t kEventsMax = 1024;
// In the place of an event: there is nothing to wait for.
constexpr std::uint32_t kNoEvent = 0xffffffff;

Status Refuse(std::string reason) {
  return Status::Error(StatusCode::kInvalidArgument, std::move(reason));
}

Status StaleTensors() {
  return Refuse(
      "the tensors are not registered with this engine, or not any more; "
      "RegisterTensors gives handles");
}

}  // namespace

Result<std::unique_ptr<HbmCallers>> HbmCallers::Create(gpu::Device& device,
                                                       tiers::HbmMoves& moves,
                                                       const Limits& limits) {
  KVFERRY_ASSIGN_OR_RETURN(
      std::unique_ptr<gpu::CallerEvents> events,
      gpu::CallerEvents::Create(device, std::min(limits.requests_max, kEventsMax)));
  return std::make_unique<HbmCallers>(Token(), device, moves, limits, std::move(events));
}

HbmCallers::HbmCallers(Token /*token*/,
                       gpu::Device& device,
                       tiers::HbmMoves& moves,
                       const Limits& limits,
                       std::unique_ptr<gpu::CallerEvents> events)
    : device_(device),
      moves_(moves),
      limits_(limits),
      events_(std::move(events)),
      recorded_(std::min(limits.requests_max, kEventsMax)),
      registered_(kTensorsMax),
      awaited_(limits.requests_max),
      moving_(limits.moves_max) {
  for (std::uint32_t place = static_cast<std::uint32_t>(recorded_.size()); place > 0; --place) {
    recorded_free_.push_back(place - 1);
  }
}

Status HbmCallers::CheckIsOpen() const {
  if (is_closed_) {
    return Status::Error(StatusCode::kUnavailable, "the engine is closing or closed");
  }
  const Status health = device_.health();
  return health.ok()
             ? health
             : Status::Error(StatusCode::kUnavailable, health.ToString(), health.native_code());
}

Status HbmCallers::CheckSizes(const tiers::PagedTensors& tensors,
                              const DeviceTensors& described) const {
  const std::uint64_t layer_bytes = tensors.block_bytes() / tensors.layers();
  if (layer_bytes > limits_.layer_bytes_max) {
    return Refuse("a layer of a block has " + std::to_string(layer_bytes) +
                  " bytes: it may have at most " + std::to_string(limits_.layer_bytes_max) +
                  "; choose a smaller block_tokens");
  }
  const std::uint32_t pages = tensors.PagesFor(described.page_tokens - 1);
  if (pages > limits_.pages_max) {
    return Refuse("a block lies in up to " + std::to_string(pages) + " pages: at most " +
                  std::to_string(limits_.pages_max) +
                  " are allowed; choose a smaller block_tokens");
  }
  return Status::Ok();
}

Result<TensorsHandle> HbmCallers::Register(const DeviceTensors& tensors) {
  {
    const MutexLock lock(mutex_);
    KVFERRY_RETURN_IF_ERROR(CheckIsOpen());
  }
  // Asks CUDA of each plane, so not under the lock.
  KVFERRY_ASSIGN_OR_RETURN(std::unique_ptr<tiers::PagedTensors> made,
                           tiers::PagedTensors::Register(device_, tensors));
  KVFERRY_RETURN_IF_ERROR(CheckSizes(*made, tensors));
  const MutexLock lock(mutex_);
  KVFERRY_RETURN_IF_ERROR(CheckIsOpen());
  for (std::uint32_t index = 0; index < registered_.size(); ++index) {
    if (registered_[index].tensors == nullptr) {
      registered_[index].tensors = std::move(made);
      ++registered_count_;
      return TensorsHandle{index, registered_[index].generation};
    }
  }
  return Status::Error(StatusCode::kResourceExhausted,
                       "all " + std::to_string(registered_.size()) +
                           " places for tensors are taken; unregister some");
}

HbmCallers::Registered* HbmCallers::Find(TensorsHandle handle) {
  if (handle.index >= registered_.size() ||
      registered_[handle.index].generation != handle.generation ||
      registered_[handle.index].tensors == nullptr) {
    return nullptr;
  }
  return &registered_[handle.index];
}

Status HbmCallers::Unregister(TensorsHandle tensors) {
  const MutexLock lock(mutex_);
  Registered* const found = Find(tensors);
  if (found == nullptr) {
    return StaleTensors();
  }
  if (found->users > 0) {
    return Status::Error(StatusCode::kUnavailable,
                         std::to_string(found->users) +
                             " unfinished requests name the tensors; try again after their "
                             "completions");
  }
  found->tensors.reset();
  --registered_count_;
  ++found->generation;
  return Status::Ok();
}

Status HbmCallers::CheckWish(const DeviceArrows::Wish& wish) {
  const Registered* const found = Find(wish.tensors);
  if (found == nullptr) {
    return StaleTensors();
  }
  if (found->tensors->block_bytes() != wish.block_bytes) {
    return Refuse("blocks of the tensors have " + std::to_string(found->tensors->block_bytes()) +
                  " bytes, those of the namespace " + std::to_string(wish.block_bytes));
  }
  for (std::size_t i = 0; i < wish.blocks.size(); ++i) {
    KVFERRY_RETURN_IF_ERROR(
        found->tensors->Check(wish.blocks[i]).WithContext("blocks[" + std::to_string(i) + "]"));
  }
  return Status::Ok();
}

Result<DeviceArrows::Admitted> HbmCallers::Admit(const DeviceArrows::Wish& wish) {
  const MutexLock lock(mutex_);
  KVFERRY_RETURN_IF_ERROR(CheckIsOpen());
  KVFERRY_RETURN_IF_ERROR(CheckWish(wish));
  const std::uint32_t tensors = wish.tensors.index;
  if (wish.stream == nullptr && !wish.needs_stream) {
    ++registered_[tensors].users;
    return DeviceArrows::Admitted{tensors, kNoEvent};
  }
  // Under the lock, since Close() takes the events away; to record one does not block.
  KVFERRY_ASSIGN_OR_RETURN(gpu::CallerEvent event, events_->Record(wish.stream));
  ++registered_[tensors].users;
  KVFERRY_CHECK(!recorded_free_.empty());  // As many as there are events.
  const std::uint32_t place = recorded_free_.back();
  recorded_free_.pop_back();
  recorded_[place] = std::move(event);
  return DeviceArrows::Admitted{tensors, place};
}

void HbmCallers::Release(const DeviceArrows::Admitted& admitted) {
  const MutexLock lock(mutex_);
  KVFERRY_CHECK(registered_[admitted.tensors].users > 0);
  --registered_[admitted.tensors].users;
  if (admitted.event != kNoEvent && !is_closed_) {
    recorded_[admitted.event].reset();
    recorded_free_.push_back(admitted.event);
  }
}

void HbmCallers::Begin(Ticket ticket,
                       std::uint32_t blocks,
                       const DeviceArrows::Admitted& admitted) {
  const MutexLock lock(mutex_);
  Awaited& awaited = awaited_[ticket.entry];
  awaited = Awaited();
  awaited.generation = ticket.generation;
  awaited.blocks = blocks;
  awaited.layers = registered_[admitted.tensors].tensors->layers();
}

Status HbmCallers::WaitLayer(Ticket ticket, std::uint32_t layer, NativeStream stream) {
  // Held over the call, which does not block: the moves must not be forgotten meanwhile.
  const MutexLock lock(mutex_);
  if (ticket.entry >= awaited_.size() || ticket.generation == 0 ||
      awaited_[ticket.entry].generation != ticket.generation) {
    return Refuse(
        "the ticket names no request to the device, or one whose place was taken by a "
        "later one");
  }
  const Awaited& awaited = awaited_[ticket.entry];
  if (layer >= awaited.layers) {
    return Refuse("layer " + std::to_string(layer) + ": there are " +
                  std::to_string(awaited.layers));
  }
  KVFERRY_RETURN_IF_ERROR(awaited.failure);
  if (awaited.has_ended) {
    return Status::Ok();
  }
  KVFERRY_RETURN_IF_ERROR(CheckIsOpen());
  if (awaited.blocks_moving < awaited.blocks) {
    return Status::Error(StatusCode::kUnavailable, "not all blocks are on their way yet");
  }
  for (const Moving& moving : moving_) {
    if (moving.request == ticket.entry) {
      KVFERRY_RETURN_IF_ERROR(moves_.WaitLayer(moving.id, layer, stream));
    }
  }
  return Status::Ok();
}

tiers::PagedTensors& HbmCallers::Tensors(std::uint32_t index) {
  const MutexLock lock(mutex_);
  KVFERRY_CHECK(registered_[index].users > 0);
  return *registered_[index].tensors;
}

Result<bool> HbmCallers::IsEventDone(std::uint32_t event) {
  if (event == kNoEvent) {
    return true;
  }
  const MutexLock lock(mutex_);
  return (**recorded_[event]).is_done();
}

void HbmCallers::NoteMove(std::uint32_t request, std::uint32_t blocks, tiers::HbmMoveId move) {
  const MutexLock lock(mutex_);
  moving_[move.index] = {request, move};
  awaited_[request].blocks_moving += blocks;
}

void HbmCallers::ForgetMove(std::uint32_t request, tiers::HbmMoveId move, const Status& status) {
  const MutexLock lock(mutex_);
  moving_[move.index].request = kNobody;
  Awaited& awaited = awaited_[request];
  if (awaited.failure.ok()) {
    awaited.failure = status;
  }
}

void HbmCallers::SetMissing(Awaited& awaited) {
  if (awaited.failure.ok()) {
    awaited.failure = Status::Error(
        StatusCode::kDataLoss, "not every block was there; the completion says how many are ready");
  }
}

void HbmCallers::NoteMissing(std::uint32_t request) {
  const MutexLock lock(mutex_);
  SetMissing(awaited_[request]);
}

void HbmCallers::EndRequest(std::uint32_t request, bool is_complete) {
  const MutexLock lock(mutex_);
  Awaited& awaited = awaited_[request];
  awaited.has_ended = true;
  if (!is_complete) {
    SetMissing(awaited);
  }
}

std::uint32_t HbmCallers::registered() const {
  const MutexLock lock(mutex_);
  return registered_count_;
}

void HbmCallers::Close() {
  const MutexLock lock(mutex_);
  is_closed_ = true;
  recorded_.clear();
  events_.reset();
}

}  // namespace kvferry::engine
