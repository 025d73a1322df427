// Random requests, and the comparison of each end with the model.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "base/checksum.h"
#include "stress/sim_world.h"

namespace kvferry::stress {
namespace {

constexpr Duration kLateness = std::chrono::milliseconds(100);

bool IsRead(engine::Call::Kind kind) {
  return kind == engine::Call::Kind::kGet || kind == engine::Call::Kind::kPrefetch ||
         kind == engine::Call::Kind::kPin;
}

}  // namespace

NamespaceHandle SimWorld::HandleFor(std::uint32_t space, bool is_foreign) const {
  return handles_[is_foreign ? (space + 1) % kNamespaces : space];
}

std::optional<std::uint32_t> SimWorld::NextToReread() {
  while ((options_.power_cuts > 0 || options_.is_script) && next_reread_ < model_.keys()) {
    const std::uint32_t key = next_reread_++;
    if (model_.IsPersisted(key)) {
      return key;
    }
  }
  return std::nullopt;
}

std::uint64_t SimWorld::SumOf(const Pending& pending) const {
  ChecksumStream stream(std::uint64_t{0});
  for (const auto& buffer : pending.buffers) {
    stream.Update(buffer);
  }
  std::uint64_t sum = 0;
  const Checksum checksum = stream.Finish();
  std::memcpy(&sum, checksum.bytes.data(), sizeof sum);
  return sum;
}

void SimWorld::CheckBlocks(const Pending& pending, std::uint32_t ready) {
  for (std::uint32_t i = 0; i < ready; ++i) {
    const std::uint32_t key = pending.keys[i];
    if (!model_.IsOneOf(key, pending.versions[i], model_.VersionOf(key), pending.buffers[i])) {
      std::string which = "no version";
      for (std::uint32_t version = 0; version <= model_.VersionOf(key); ++version) {
        which = model_.IsOneOf(key, version, version, pending.buffers[i])
                    ? "version " + std::to_string(version)
                    : which;
      }
      Fail("wrong bytes for key " + std::to_string(key) + ", block " + std::to_string(i) +
           " of its request: " + which + ", not " + std::to_string(pending.versions[i]) + " to " +
           std::to_string(model_.VersionOf(key)));
    }
    ++outcome_.counts.blocks_compared;
  }
}

// What a put says to be stored is there at that moment.
void SimWorld::CheckStored(const Pending& pending, const Completion& completion) {
  const auto ready = std::span(pending.block_keys).first(completion.blocks_ready);
  const PrefixMatch match = core_->Match(HandleFor(pending.space, false), ready);
  if (match.blocks() != completion.blocks_ready) {
    Fail("of " + std::to_string(completion.blocks_ready) + " blocks that a put has stored, " +
         std::to_string(match.blocks()) + " are there");
  }
}

void SimWorld::EndErases(const Pending& pending, std::uint32_t ready) {
  for (std::size_t i = 0; i < pending.keys.size(); ++i) {
    // Only what it says to have erased is certain to be gone.
    if (i < ready) {
      ++outcome_.counts.acknowledged;
      model_.EndErase(pending.keys[i]);
    } else {
      model_.GiveUpErase(pending.keys[i]);
    }
  }
}

void SimWorld::TakeHandles(const Pending& pending, std::uint32_t ready, std::uint32_t handle) {
  for (std::uint32_t i = 0; i < ready; ++i) {
    if (handle == engine::kNone || core_->held(handle).index != i) {
      Fail("a pin has lost a handle");
    }
    const std::uint32_t key = pending.keys[i];
    held_.push_back({handle, key, pending.versions[i], model_.VersionOf(key),
                     clock_.Now() + std::chrono::microseconds(random_.Below(50'000))});
    handle = core_->held(handle).next;
  }
  if (handle != engine::kNone) {
    Fail("a pin has a handle too many");
  }
}

void SimWorld::OnRequestDone(std::uint32_t request,
                             const Completion& completion,
                             std::uint32_t first_handle) noexcept {
  Pending& pending = pending_[request];
  if (!pending.is_active) {
    Fail("a request ended twice");
  }
  pending.is_active = false;
  --active_;
  Mix(request);
  Mix(completion.blocks_ready);
  Mix(static_cast<std::uint64_t>(completion.status.code()) << 8 |
      static_cast<std::uint64_t>(completion.next_missing));
  if (clock_.Now() > pending.deadline + kLateness) {
    Fail("a request ended late");
  }
  if (completion.blocks_ready > pending.keys.size() ||
      (completion.blocks_ready == pending.keys.size()) !=
          (completion.next_missing == MissReason::kNone)) {
    Fail("a completion contradicts itself");
  }
  if (pending.is_barred && completion.blocks_ready > 0) {
    Fail("a key was served under a namespace in which nobody stored it, or that was erased");
  }
  outcome_.counts.other_namespace += completion.next_missing == MissReason::kOtherNamespace ? 1 : 0;
  switch (pending.kind) {
    case engine::Call::Kind::kGet:
      CheckBlocks(pending, completion.blocks_ready);
      break;
    case engine::Call::Kind::kPut:
      CheckStored(pending, completion);
      for (const std::uint32_t key : pending.keys) {
        model_.EndPut(key);
      }
      break;
    case engine::Call::Kind::kErase:
      EndErases(pending, completion.blocks_ready);
      break;
    case engine::Call::Kind::kPin:
      TakeHandles(pending, completion.blocks_ready, first_handle);
      break;
    case engine::Call::Kind::kPersist:
      for (std::uint32_t i = 0; i < completion.blocks_ready; ++i) {
        model_.EndPersist(pending.keys[i], pending.disturbances[i]);
        ++outcome_.counts.persisted;
        ++outcome_.counts.acknowledged;
      }
      break;
    case engine::Call::Kind::kPrefetch:
    case engine::Call::Kind::kUnpersist:
      break;
  }
  pending.settled_sum = SumOf(pending);
}

void SimWorld::ReleaseHeld(bool all) {
  for (std::size_t i = 0; i < held_.size();) {
    if (!all && held_[i].until > clock_.Now()) {
      ++i;
      continue;
    }
    const Held held = held_[i];
    held_[i] = held_.back();
    held_.pop_back();
    if (!model_.IsOneOf(held.key, held.oldest, held.newest, core_->held(held.handle).bytes)) {
      Fail("the bytes of held key " + std::to_string(held.key) + " have changed");
    }
    core_->LetGo(held.handle);
  }
}

void SimWorld::Submit() {
  std::uint32_t slot = 0;
  while (slot < pending_.size() && pending_[slot].is_active) {
    ++slot;
  }
  const std::uint64_t dice = random_.Below(100);
  if (dice < 3) {
    EraseOneNamespace();
  } else if (dice < 10) {
    LookUp();
  } else if (dice < 16) {
    // Cancels whatever is there, finished or not.
    core_->EndEarly(static_cast<std::uint32_t>(random_.Below(pending_.size())),
                    StatusCode::kCancelled);
  } else if (dice == 16 && drives_ != nullptr && !options_.is_script &&
             (options_.power_cuts > 0 || random_.Chance(0.2))) {
    Crash();
  } else if (dice < 18) {
    ChangeQuotas();
  } else if (slot < pending_.size() && active_ < callers_) {
    SubmitRequest(slot);
  }
}

// What it says about itself, beside its keys and memory.
engine::Call SimWorld::MakeCall(Pending& pending) {
  engine::Call call;
  call.kind = pending.kind;
  pending.is_barred = IsRead(pending.kind) && random_.Chance(0.03);
  call.in = HandleFor(pending.space, pending.is_barred);
  if (pending.kind == engine::Call::Kind::kPut && random_.Chance(0.3)) {
    call.has_parent = true;
    call.parent = model_.BlockKeyOf(pending.space * kKeysPerNamespace +
                                    static_cast<std::uint32_t>(random_.Below(kKeysPerNamespace)));
  }
  call.erasures = namespaces_->erasures(call.in);
  call.block_bytes = kBlockBytes[pending.space];
  call.session = random_.Below(8);
  call.has_own_deadline = random_.Chance(0.5);
  pending.deadline =
      clock_.Now() + (random_.Chance(0.3) ? std::chrono::microseconds(random_.Below(3'000))
                                          : std::chrono::milliseconds(random_.Between(5, 400)));
  call.deadline = pending.deadline;
  if (random_.Chance(0.05)) {
    call.tiers = TierSet::Of(TierKind::kHost);
  } else if (random_.Chance(0.02)) {
    call.tiers = TierSet::Of(TierKind::kNvme);
  }
  if (random_.Chance(0.05)) {
    call.load_bytes_max = random_.Below(30'000);
  }
  return call;
}

void SimWorld::SubmitRequest(std::uint32_t slot, std::optional<engine::Call::Kind> kind) {
  Pending& pending = pending_[slot];
  if (pending.settled_sum != 0 && pending.settled_sum != SumOf(pending)) {
    Fail("memory of a request was written after its end");
  }
  pending = Pending{};
  const std::uint64_t dice = random_.Below(100);
  pending.kind = dice < 35   ? engine::Call::Kind::kPut
                 : dice < 66 ? engine::Call::Kind::kGet
                 : dice < 74 ? engine::Call::Kind::kPrefetch
                 : dice < 84 ? engine::Call::Kind::kPin
                 : dice < 90 ? engine::Call::Kind::kErase
                 : dice < 97 ? engine::Call::Kind::kPersist
                             : engine::Call::Kind::kUnpersist;
  pending.kind = kind.value_or(pending.kind);
  pending.space = static_cast<std::uint32_t>(random_.Below(kNamespaces));
  const std::optional<std::uint32_t> reread = NextToReread();
  if (reread) {
    pending.kind = engine::Call::Kind::kGet;
    pending.space = model_.NamespaceOf(*reread);
  }
  // Mostly runs from a few roots, sometimes anything, now and then a key twice.
  const std::uint32_t base = pending.space * kKeysPerNamespace;
  const auto root = static_cast<std::uint32_t>(random_.Below(4) * 12);
  const auto length = static_cast<std::uint32_t>(random_.Between(1, kBlocksPerRequestMax));
  const bool is_scattered = random_.Chance(0.1);
  if (reread) {
    pending.keys.push_back(*reread);
  }
  for (std::uint32_t i = 0; i < length && !reread; ++i) {
    pending.keys.push_back(
        base +
        (is_scattered ? static_cast<std::uint32_t>(random_.Below(kKeysPerNamespace)) : root + i));
  }
  engine::Call call = MakeCall(pending);
  for (const std::uint32_t key : pending.keys) {
    pending.block_keys.push_back(model_.BlockKeyOf(key));
    pending.versions.push_back(model_.OldestOf(key));
    pending.disturbances.push_back(model_.DisturbancesOf(key));
    if (pending.kind == engine::Call::Kind::kPut || pending.kind == engine::Call::Kind::kGet) {
      pending.buffers.emplace_back(kBlockBytes[pending.space]);
    }
    if (pending.kind == engine::Call::Kind::kPut) {
      model_.BeginPut(key);
      model_.FillBytes(key, model_.VersionOf(key), pending.buffers.back());
    } else if (pending.kind == engine::Call::Kind::kErase) {
      model_.BeginErase(key);
    } else if (pending.kind == engine::Call::Kind::kUnpersist) {
      model_.Disturb(key);
    }
  }
  for (auto& buffer : pending.buffers) {
    pending.sources.push_back(buffer.data());
    pending.targets.push_back(buffer.data());
  }
  call.keys = pending.block_keys;
  call.sources = pending.sources;
  call.targets = pending.targets;
  pending.is_active = true;
  ++active_;
  Mix(static_cast<std::uint64_t>(pending.kind) << 32 | pending.keys.front());
  core_->Start(slot, call);
}

void SimWorld::EraseOneNamespace() {
  const auto space = static_cast<std::uint16_t>(random_.Below(kNamespaces));
  if (namespaces_->BeginErase(handles_[space]).ok()) {
    model_.EraseNamespace(space);
    for (Pending& pending : pending_) {
      pending.is_barred = pending.is_barred || (IsRead(pending.kind) && pending.space == space);
    }
  }
}

void SimWorld::LookUp() {
  const auto space = static_cast<std::uint32_t>(random_.Below(kNamespaces));
  const auto first = static_cast<std::uint32_t>(random_.Below(kKeysPerNamespace - 8));
  std::vector<BlockKey> keys;
  for (std::uint32_t i = 0; i < 8; ++i) {
    keys.push_back(model_.BlockKeyOf(space * kKeysPerNamespace + first + i));
  }
  const bool is_foreign = random_.Chance(0.1);
  const PrefixMatch match = core_->Match(HandleFor(space, is_foreign), keys);
  if (is_foreign && match.blocks() > 0) {
    Fail("a key matched under a namespace in which nobody stored it");
  }
  if ((match.blocks() == keys.size()) != (match.next_missing == MissReason::kNone)) {
    Fail("a match contradicts itself");
  }
  Mix(match.blocks());
}

}  // namespace kvferry::stress
