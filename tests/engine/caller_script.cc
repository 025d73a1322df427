// Random calls, and the comparison of each end with the model.
#include "tests/engine/caller_script.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace kvferry::testing {
namespace {

constexpr std::uint32_t kInFlightMax = 6;
constexpr std::uint32_t kHeldMax = 6;
constexpr std::uint32_t kBlocksMax = 5;
constexpr Duration kPatience = std::chrono::seconds(60);

}  // namespace

CallerScript::CallerScript(Engine& engine,
                           const ScriptSpaces& spaces,
                           stress::BlockModel& model,
                           const Options& options)
    : engine_(engine), spaces_(spaces), model_(model), options_(options), random_(options.seed) {
  auto queue = engine.CreateCompletionQueue(kInFlightMax);
  if (queue.ok()) {
    queue_ = std::move(*queue);
  } else if (queue.error().code() == StatusCode::kUnavailable && options.may_be_closed) {
    is_closed_ = true;
  } else {
    Fail("no completion queue: " + queue.error().ToString());
  }
}

void CallerScript::Fail(const std::string& what) {
  if (failure_.empty()) {
    failure_ = "seed " + std::to_string(options_.seed) + ": " + what;
  }
}

bool CallerScript::Run(std::uint32_t calls) {
  for (std::uint32_t i = 0; i < calls && !is_closed_ && failure_.empty(); ++i) {
    Call();
  }
  while (!pending_.empty() && Await()) {
  }
  held_.clear();
  if (!pending_.empty()) {
    // Somebody may still write there, so it is left where it is.
    static_cast<void>(queue_.release());
    return false;
  }
  std::array<Completion, 1> more;
  if (queue_ != nullptr && queue_->Poll(more) != 0) {
    Fail("there was one more completion than requests");
  }
  return !is_closed_ && failure_.empty();
}

void CallerScript::Call() {
  const std::uint64_t dice = random_.Below(100);
  if (dice < 3) {
    EraseSpace();
  } else if (dice < 10) {
    LookUp();
  } else if (dice < 18) {
    CancelOne();
  } else if (dice < 22) {
    CheckStats();
  } else if (dice < 28) {
    ReleaseOne();
  } else {
    if (pending_.size() == kInFlightMax) {
      Await();
    }
    Submit();
  }
}

std::uint32_t CallerScript::VersionOf(const Pending& pending, std::uint32_t key) const {
  return IsTracked(pending) ? model_.VersionOf(key) : 0;
}

void CallerScript::Submit() {
  auto made = std::make_unique<Pending>();
  Pending& pending = *made;
  const std::uint64_t dice = random_.Below(100);
  pending.kind = dice < 36   ? Kind::kPut
                 : dice < 72 ? Kind::kGet
                 : dice < 80 ? Kind::kPrefetch
                 : dice < 92 ? Kind::kPin
                             : Kind::kErase;
  pending.space = random_.Chance(0.7) ? options_.own_space : spaces_.shared();
  const auto length = static_cast<std::uint32_t>(random_.Between(1, kBlocksMax));
  const auto first =
      static_cast<std::uint32_t>(random_.Below(ScriptSpaces::kKeysPerSpace - length + 1));
  for (std::uint32_t i = 0; i < length; ++i) {
    const std::uint32_t key = pending.space * ScriptSpaces::kKeysPerSpace + first + i;
    pending.keys.push_back(key);
    pending.versions.push_back(VersionOf(pending, key));
    pending.block_keys.push_back(model_.BlockKeyOf(key));
    pending.blocks.emplace_back(ScriptSpaces::kBlockBytes);
    if (pending.kind == Kind::kPut) {
      model_.FillBytes(key, pending.versions.back(), pending.blocks.back());
    }
  }
  for (auto& block : pending.blocks) {
    pending.sources.push_back(block.data());
    pending.targets.push_back(block.data());
  }
  RequestOptions options;
  options.session = options_.own_space + 1;
  if (random_.Chance(0.05)) {
    pending.has_deadline = true;
    options.deadline = Clock::now() + std::chrono::microseconds(random_.Below(2'000));
  }
  const Result<Ticket> ticket = Send(pending, options);
  if (!ticket.ok()) {
    // A full table is no failure; nothing has begun then.
    is_closed_ = ticket.error().code() == StatusCode::kUnavailable && options_.may_be_closed;
    if (!is_closed_ && ticket.error().code() != StatusCode::kResourceExhausted) {
      Fail("refused: " + ticket.error().ToString());
    } else if (!pending_.empty()) {
      Await();
    }
    return;
  }
  pending.ticket = *ticket;
  Began(pending);
  pending_.push_back(std::move(made));
}

Result<Ticket> CallerScript::Send(const Pending& pending, const RequestOptions& options) {
  const NamespaceHandle in = spaces_.handles[pending.space];
  const KeysRequest named{.in = in, .keys = pending.block_keys, .options = options};
  switch (pending.kind) {
    case Kind::kPut:
      return engine_.Put(
          {.in = in, .keys = named.keys, .sources = pending.sources, .options = options}, *queue_);
    case Kind::kGet:
      return engine_.Get(
          {.in = in, .keys = named.keys, .targets = pending.targets, .options = options}, *queue_);
    case Kind::kPrefetch:
      return engine_.Prefetch(named, *queue_);
    case Kind::kPin:
      return engine_.Pin(named, *queue_);
    case Kind::kErase:
      return engine_.Erase(named, *queue_);
  }
  return Status::Error(StatusCode::kInternal, "no such kind");
}

void CallerScript::Began(const Pending& pending) {
  for (const std::uint32_t key : pending.keys) {
    if (IsTracked(pending) && pending.kind == Kind::kPut) {
      model_.BeginPut(key);
    } else if (IsTracked(pending) && pending.kind == Kind::kErase) {
      model_.BeginErase(key);
    }
  }
}

void CallerScript::CancelOne() {
  if (pending_.empty()) {
    return;
  }
  Pending& pending = *pending_[random_.Below(pending_.size())];
  pending.is_cancelled = true;
  engine_.Cancel(pending.ticket);
}

void CallerScript::LookUp() {
  std::vector<BlockKey> keys;
  const std::uint32_t space = random_.Chance(0.5) ? options_.own_space : spaces_.shared();
  for (std::uint32_t i = 0; i < ScriptSpaces::kKeysPerSpace; ++i) {
    keys.push_back(model_.BlockKeyOf(space * ScriptSpaces::kKeysPerSpace + i));
  }
  const PrefixMatch match = engine_.Match(spaces_.handles[space], keys);
  if (match.blocks() > keys.size() ||
      (match.blocks() == keys.size()) != (match.next_missing == MissReason::kNone)) {
    Fail("a match contradicts itself");
  }
}

void CallerScript::EraseSpace() {
  const std::uint32_t space = random_.Chance(0.5) ? options_.own_space : spaces_.shared();
  const Status erased = engine_.EraseNamespace(spaces_.handles[space]);
  if (erased.ok() && space == options_.own_space) {
    model_.EraseNamespace(space);
  } else if (!erased.ok() && erased.code() != StatusCode::kUnavailable) {
    Fail("erase a namespace: " + erased.ToString());
  }
}

void CallerScript::CheckStats() {
  const EngineStats stats = engine_.Stats();
  const std::uint64_t misses =
      std::accumulate(stats.misses.begin(), stats.misses.end(), std::uint64_t{0});
  const std::uint64_t refused =
      std::accumulate(stats.puts_refused.begin(), stats.puts_refused.end(), std::uint64_t{0});
  if (stats.lookups != stats.hits_host + stats.hits_nvme + misses ||
      stats.puts != stats.puts_stored + stats.puts_present + refused ||
      stats.host.bytes_total != stats.host.bytes_free + stats.host.bytes_resident +
                                    stats.host.bytes_filling + stats.host.bytes_draining ||
      stats.requests_ended > stats.requests_started) {
    Fail("the numbers do not add up");
  }
}

bool CallerScript::Await() {
  if (const Status waited = queue_->Wait(Clock::now() + kPatience); !waited.ok()) {
    Fail("a request did not end: " + waited.ToString());
    return false;
  }
  std::array<Completion, 4> completions;
  const std::size_t count = queue_->Poll(completions);
  if (count == 0) {
    Fail("a wait ended with nothing to poll");
  }
  for (const Completion& completion : std::span(completions).first(count)) {
    End(completion);
  }
  return count > 0;
}

void CallerScript::End(const Completion& completion) {
  const auto found = std::find_if(pending_.begin(), pending_.end(), [&](const auto& pending) {
    return pending->ticket == completion.ticket;
  });
  if (found == pending_.end()) {
    Fail("a ticket ended that was not open");
    return;
  }
  const std::unique_ptr<Pending> ended = std::move(*found);
  pending_.erase(found);
  ++ended_;
  CheckEnd(*ended, completion);
  for (std::size_t i = 0; IsTracked(*ended) && i < ended->keys.size(); ++i) {
    if (ended->kind == Kind::kPut) {
      model_.EndPut(ended->keys[i]);
    } else if (ended->kind == Kind::kErase && i < completion.blocks_ready) {
      model_.EndErase(ended->keys[i]);
    } else if (ended->kind == Kind::kErase) {
      model_.GiveUpErase(ended->keys[i]);
    }
  }
}

void CallerScript::CheckEnd(const Pending& pending, const Completion& completion) {
  const StatusCode code = completion.status.code();
  const bool is_expected =
      code == StatusCode::kOk ||
      (code == StatusCode::kCancelled && (pending.is_cancelled || options_.may_be_closed)) ||
      (code == StatusCode::kDeadlineExceeded && pending.has_deadline) ||
      (code == StatusCode::kResourceExhausted && pending.kind == Kind::kPin);
  if (!is_expected) {
    Fail("ended with " + completion.status.ToString());
  }
  if (completion.blocks_ready > pending.keys.size() ||
      (completion.blocks_ready == pending.keys.size()) !=
          (completion.next_missing == MissReason::kNone)) {
    Fail("a completion contradicts itself");
    return;
  }
  for (std::uint32_t i = 0; pending.kind == Kind::kGet && i < completion.blocks_ready; ++i) {
    const std::uint32_t key = pending.keys[i];
    ++compared_;
    if (!model_.IsOneOf(key, pending.versions[i], VersionOf(pending, key), pending.blocks[i])) {
      Fail("wrong bytes for key " + std::to_string(key));
    }
  }
  if (pending.kind == Kind::kPin && completion.blocks_ready > 0) {
    EndPin(pending, completion);
  }
}

void CallerScript::EndPin(const Pending& pending, const Completion& completion) {
  // Close lets go of what was not collected; who collects then may come too late.
  if (held_.size() >= kHeldMax || random_.Chance(0.3) || options_.may_be_closed) {
    engine_.Discard(completion.ticket);
    return;
  }
  std::vector<BlockHandle> handles(completion.blocks_ready);
  if (const Status collected = engine_.Collect(completion.ticket, handles); !collected.ok()) {
    Fail("collect: " + collected.ToString());
    return;
  }
  for (std::size_t i = 0; i < handles.size(); ++i) {
    const std::uint32_t key = pending.keys[i];
    held_.push_back({std::move(handles[i]), key, pending.versions[i], VersionOf(pending, key)});
    CheckHeld(held_.back());
  }
}

void CallerScript::CheckHeld(const Held& held) {
  ++compared_;
  if (held.handle.bytes().size() != ScriptSpaces::kBlockBytes ||
      !model_.IsOneOf(held.key, held.oldest, held.newest, held.handle.bytes())) {
    Fail("wrong bytes in a handle for key " + std::to_string(held.key));
  }
}

void CallerScript::ReleaseOne() {
  if (held_.empty()) {
    return;
  }
  const std::size_t chosen = random_.Below(held_.size());
  CheckHeld(held_[chosen]);
  held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(chosen));
}

}  // namespace kvferry::testing
