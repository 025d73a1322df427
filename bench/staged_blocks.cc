// Puts, gets and hints of whole sessions, and what becomes of them.
#include "bench/staged_blocks.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/log.h"
#include "bench/host_engine.h"

namespace kvferry::bench {
namespace {

constexpr Duration kPatience = std::chrono::minutes(10);
constexpr Duration kPause = std::chrono::microseconds(100);
// What has been put and not written down may take that part of the pool.
constexpr std::uint64_t kWaitingOfPool = 4;

Namespace NamespaceOf(const DecodeShape& shape) {
  Namespace description = BenchNamespace();
  description.model_id = shape.name;
  description.layer_group.kind =
      shape.is_latent ? LayerGroupKind::kLatent : LayerGroupKind::kFullAttention;
  description.layer_group.layer_count = shape.layers;
  description.layer_group.kv_head_count = shape.kv_heads;
  description.layer_group.key_width = shape.key_width;
  description.layer_group.value_width = shape.is_latent ? 0 : shape.value_width;
  description.value_type = shape.is_latent ? ElementType::kNone : ElementType::kBFloat16;
  description.block_tokens = shape.block_tokens;
  description.rectangle.layer_end = shape.layers;
  description.rectangle.kv_head_end = shape.kv_heads;
  return description;
}

RequestOptions OptionsOf(std::uint32_t session) {
  RequestOptions options;
  options.session = session + 1;
  return options;
}

double SecondsSince(Instant start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

Result<std::unique_ptr<StagedBlocks>> StagedBlocks::Open(const Parts& parts,
                                                         const EngineOptions& options) {
  auto opened = std::make_unique<StagedBlocks>(Token(), parts, options);
  KVFERRY_ASSIGN_OR_RETURN(
      opened->engine_, engine::EngineFront::Open(
                           options, {.cuda = &parts.gpu.api(), .kernels = parts.gpu.kernels()}));
  KVFERRY_ASSIGN_OR_RETURN(opened->queue_,
                           opened->engine_->CreateCompletionQueue(options.requests_max));
  const DecodeShape& shape = parts.values.shape();
  KVFERRY_ASSIGN_OR_RETURN(
      opened->space_,
      opened->engine_->AddNamespace(NamespaceOf(shape),
                                    {.block_bytes = Narrow<std::uint32_t>(shape.block_bytes())}));
  KVFERRY_ASSIGN_OR_RETURN(opened->tensors_,
                           opened->engine_->RegisterTensors(parts.memory.Describe()));
  return opened;
}

StagedBlocks::StagedBlocks(Token /*token*/, const Parts& parts, const EngineOptions& options)
    : parts_(parts), options_(options), sessions_(parts.plan.sessions) {}

StagedBlocks::~StagedBlocks() {
  if (engine_ == nullptr) {
    return;
  }
  if (const Status closed = engine_->Close(); !closed.ok()) {
    LogError("close the engine: " + closed.ToString());
  }
}

Status StagedBlocks::Prefill() {
  const std::uint32_t blocks = parts_.plan.context_tokens / parts_.plan.block_tokens;
  for (std::uint32_t session = 0; session < parts_.plan.sessions; ++session) {
    KVFERRY_RETURN_IF_ERROR(AwaitOffloads());
    sessions_[session].pages = parts_.memory.Take(parts_.plan.session_blocks());
    const std::span<const std::int32_t> pages(sessions_[session].pages);
    KVFERRY_RETURN_IF_ERROR(
        parts_.feeder.Feed(parts_.stream, parts_.memory, session, 0, pages.first(blocks)));
    KVFERRY_RETURN_IF_ERROR(BeginPut(session, blocks));
    KVFERRY_RETURN_IF_ERROR(AwaitPlace(session, Place::kOut));
  }
  waited_seconds_ = 0;
  return Status::Ok();
}

Status StagedBlocks::BeginTurn(std::uint32_t turn) {
  turn_ = turn;
  // The first turn names those that later ones would have named before it.
  const std::uint32_t nearest = turn == 0 ? 1 : parts_.plan.hint_turns;
  for (std::uint32_t ahead = nearest; ahead <= parts_.plan.hint_turns && ahead > 0; ++ahead) {
    KVFERRY_RETURN_IF_ERROR(HintTurn(turn + ahead));
  }
  const DecodePlan::Turn now = parts_.plan.TurnAt(turn);
  for (std::uint32_t session = now.first_session; session < now.first_session + now.sessions;
       ++session) {
    while (sessions_[session].place == Place::kLeaving ||
           (sessions_[session].place == Place::kOut &&
            parts_.memory.free_pages() < parts_.plan.session_blocks())) {
      KVFERRY_RETURN_IF_ERROR(AwaitEnds());
    }
    if (sessions_[session].place == Place::kOut) {
      KVFERRY_RETURN_IF_ERROR(BeginGet(session, now.tokens));
    }
  }
  return Status::Ok();
}

Status StagedBlocks::Poll() {
  KVFERRY_RETURN_IF_ERROR(TakeEnds());
  if (parts_.plan.hint_turns == 0 || turn_ + 1 >= parts_.plan.turns()) {
    return Status::Ok();
  }
  const DecodePlan::Turn next = parts_.plan.TurnAt(turn_ + 1);
  for (std::uint32_t session = next.first_session; session < next.first_session + next.sessions;
       ++session) {
    if (sessions_[session].place == Place::kOut &&
        parts_.memory.free_pages() >= parts_.plan.session_blocks()) {
      KVFERRY_RETURN_IF_ERROR(BeginGet(session, next.tokens));
    }
  }
  return Status::Ok();
}

Status StagedBlocks::AwaitLayer(std::uint32_t session, std::uint32_t layer) {
  const Session& awaited = sessions_[session];
  Instant start;
  while (awaited.place != Place::kIn) {
    if (awaited.place == Place::kTorn) {
      KVFERRY_RETURN_IF_ERROR(Recompute(session));
      continue;
    }
    Status ready = engine_->WaitLayer(awaited.get, layer, parts_.stream.native());
    if (ready.ok()) {
      break;
    }
    // Its copies are not queued yet; or it has ended, and its completion says how.
    start = start == Instant() ? Clock::now() : start;
    if (Clock::now() - start > kPatience) {
      return ready;
    }
    KVFERRY_RETURN_IF_ERROR(TakeEnds());
    std::this_thread::yield();
  }
  waited_seconds_ += start == Instant() ? 0 : SecondsSince(start);
  return Status::Ok();
}

Status StagedBlocks::EndTurn(std::uint32_t turn) {
  const DecodePlan::Turn ended = parts_.plan.TurnAt(turn);
  const std::uint32_t blocks = (ended.tokens + ended.steps) / parts_.plan.block_tokens;
  for (std::uint32_t session = ended.first_session; session < ended.first_session + ended.sessions;
       ++session) {
    // Its get may not have told its end, though all layers were there.
    KVFERRY_RETURN_IF_ERROR(AwaitPlace(session, Place::kIn));
    KVFERRY_RETURN_IF_ERROR(BeginPut(session, blocks));
  }
  return Status::Ok();
}

std::unique_ptr<StagedBlocks::Request> StagedBlocks::RequestOf(Kind kind,
                                                               std::uint32_t session,
                                                               std::uint32_t blocks) const {
  auto request = std::make_unique<Request>();
  request->kind = kind;
  request->session = session;
  request->keys = KeysOf(std::uint64_t{session} << 32, blocks);
  if (kind != Kind::kPrefetch) {
    const std::span<const std::int32_t> pages(sessions_[session].pages);
    for (std::uint32_t block = 0; block < blocks; ++block) {
      request->blocks.push_back({.pages = pages.subspan(block, 1)});
    }
  }
  return request;
}

Status StagedBlocks::Keep(std::unique_ptr<Request> request, const Result<Ticket>& ticket) {
  KVFERRY_RETURN_IF_ERROR(ticket.status());
  request->ticket = *ticket;
  requests_.push_back(std::move(request));
  return Status::Ok();
}

Status StagedBlocks::BeginPut(std::uint32_t session, std::uint32_t blocks) {
  Session& leaving = sessions_[session];
  if (blocks == 0) {
    leaving.place = Place::kOut;
    parts_.memory.Give(std::exchange(leaving.pages, {}));
    return Status::Ok();
  }
  leaving.place = Place::kLeaving;
  std::unique_ptr<Request> request = RequestOf(Kind::kPut, session, blocks);
  const Result<Ticket> ticket = engine_->PutFromDevice({.in = space_,
                                                        .keys = request->keys,
                                                        .tensors = tensors_,
                                                        .blocks = request->blocks,
                                                        .producer = parts_.stream.native(),
                                                        .options = OptionsOf(session)},
                                                       *queue_);
  return Keep(std::move(request), ticket);
}

Status StagedBlocks::BeginGet(std::uint32_t session, std::uint32_t tokens) {
  Session& coming = sessions_[session];
  coming.blocks = tokens / parts_.plan.block_tokens;
  coming.ready = 0;
  coming.pages = parts_.memory.Take(parts_.plan.session_blocks());
  coming.place = coming.blocks == 0 ? Place::kIn : Place::kComing;
  if (coming.blocks == 0) {
    return Status::Ok();
  }
  std::unique_ptr<Request> request = RequestOf(Kind::kGet, session, coming.blocks);
  const Result<Ticket> ticket = engine_->GetToDevice({.in = space_,
                                                      .keys = request->keys,
                                                      .tensors = tensors_,
                                                      .blocks = request->blocks,
                                                      .last_user = parts_.stream.native(),
                                                      .options = OptionsOf(session)},
                                                     *queue_);
  KVFERRY_RETURN_IF_ERROR(Keep(std::move(request), ticket));
  coming.get = *ticket;
  return Status::Ok();
}

Status StagedBlocks::HintTurn(std::uint32_t turn) {
  if (turn >= parts_.plan.turns()) {
    return Status::Ok();
  }
  const DecodePlan::Turn hinted = parts_.plan.TurnAt(turn);
  const std::uint32_t blocks = hinted.tokens / parts_.plan.block_tokens;
  for (std::uint32_t i = 0; i < hinted.sessions && blocks > 0; ++i) {
    const std::uint32_t session = hinted.first_session + i;
    if (sessions_[session].place != Place::kOut) {
      continue;
    }
    std::unique_ptr<Request> request = RequestOf(Kind::kPrefetch, session, blocks);
    const Result<Ticket> ticket = engine_->Name(
        engine::Call::Kind::kPrefetch,
        {.in = space_, .keys = request->keys, .options = OptionsOf(session)}, *queue_);
    KVFERRY_RETURN_IF_ERROR(Keep(std::move(request), ticket));
  }
  return Status::Ok();
}

Status StagedBlocks::TakeEnds() {
  std::array<Completion, 64> ended;
  while (const std::size_t count = queue_->Poll(ended)) {
    for (const Completion& completion : std::span(ended).first(count)) {
      KVFERRY_RETURN_IF_ERROR(TakeEnd(completion));
    }
  }
  return Status::Ok();
}

Status StagedBlocks::TakeEnd(const Completion& completion) {
  const auto found = std::find_if(requests_.begin(), requests_.end(), [&](const auto& request) {
    return request->ticket == completion.ticket;
  });
  KVFERRY_CHECK(found != requests_.end());
  const std::unique_ptr<Request> request = std::move(*found);
  requests_.erase(found);
  Session& session = sessions_[request->session];
  switch (request->kind) {
    case Kind::kPrefetch:  // A hint that came to nothing shows when the blocks are fetched.
      return Status::Ok();
    case Kind::kPut:
      session.place = Place::kOut;
      parts_.memory.Give(std::exchange(session.pages, {}));
      return completion.status;
    case Kind::kGet:
      session.ready = completion.blocks_ready;
      session.place = session.ready == session.blocks ? Place::kIn : Place::kTorn;
      return completion.status;
  }
  return Status::Ok();
}

Status StagedBlocks::AwaitEnds() {
  const Instant start = Clock::now();
  KVFERRY_RETURN_IF_ERROR(queue_->Wait(start + kPatience));
  waited_seconds_ += SecondsSince(start);
  return TakeEnds();
}

Status StagedBlocks::AwaitPlace(std::uint32_t session, Place place) {
  KVFERRY_RETURN_IF_ERROR(TakeEnds());
  while (sessions_[session].place != place) {
    KVFERRY_RETURN_IF_ERROR(AwaitEnds());
  }
  return Status::Ok();
}

Status StagedBlocks::Recompute(std::uint32_t session) {
  Session& torn = sessions_[session];
  const std::span<const std::int32_t> pages(torn.pages);
  const std::uint32_t missing = torn.blocks - torn.ready;
  KVFERRY_RETURN_IF_ERROR(parts_.feeder.Feed(parts_.stream, parts_.memory, session, torn.ready,
                                             pages.subspan(torn.ready, missing)));
  blocks_recomputed_ += missing;
  torn.place = Place::kIn;
  return Status::Ok();
}

Status StagedBlocks::AwaitOffloads() const {
  const std::uint64_t pool_blocks = options_.host.bytes / options_.block_bytes;
  const Instant start = Clock::now();
  while (!options_.nvme.paths.empty()) {
    const EngineStats stats = engine_->Stats();
    if (stats.offload_host_to_nvme.failures > 0) {
      return Status::Error(StatusCode::kIoError, "a block could not be written to the drive");
    }
    const std::uint64_t seen_to = stats.offload_host_to_nvme.blocks + stats.offloads_skipped;
    if (stats.puts_stored <= seen_to + pool_blocks / kWaitingOfPool) {
      break;
    }
    if (Clock::now() - start > kPatience) {
      return Status::Error(StatusCode::kUnavailable, "the drive does not take what is written");
    }
    std::this_thread::sleep_for(kPause);
  }
  return Status::Ok();
}

}  // namespace kvferry::bench
