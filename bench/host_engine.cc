// Two requests in flight through the public interface, and what they add up to.
#include "bench/host_engine.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <string>

#include "base/random.h"

namespace kvferry::bench {
namespace {

constexpr std::size_t kRequestsInFlight = 2;

}  // namespace

Namespace BenchNamespace() {
  Namespace description;
  description.tenant = Tenant::Shared();
  description.model_id = "bench";
  description.model_revision = "1";
  description.layer_group.layer_count = 4;
  description.layer_group.kv_head_count = 2;
  description.layer_group.key_width = 64;
  description.layer_group.value_width = 64;
  description.layout = "LBHNC";
  description.block_tokens = 16;
  description.rectangle.layer_end = 4;
  description.rectangle.kv_head_end = 2;
  return description;
}

BlockKey KeyOf(std::uint64_t number) {
  BlockKey key;
  SplitMix64 generator(number * 2 + 1);
  for (std::size_t at = 0; at < key.bytes.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t word = generator.Next();
    std::memcpy(key.bytes.data() + at, &word, sizeof(word));
  }
  return key;
}

std::vector<BlockKey> KeysOf(std::uint64_t first, std::size_t count) {
  std::vector<BlockKey> keys(count);
  for (std::size_t i = 0; i < count; ++i) {
    keys[i] = KeyOf(first + i);
  }
  return keys;
}

Result<HostEngine> HostEngine::Open(const Options& options) {
  EngineOptions engine_options;
  engine_options.host.bytes = options.host_bytes;
  engine_options.host.is_populated = false;  // Whoever measures fills it first.
  engine_options.block_bytes = options.block_bytes;
  engine_options.copy_threads = options.copy_threads;
  HostEngine opened;
  opened.options_ = options;
  KVFERRY_ASSIGN_OR_RETURN(opened.engine_, Engine::Open(engine_options));
  KVFERRY_ASSIGN_OR_RETURN(opened.queue_, opened.engine_->CreateCompletionQueue(kRequestsInFlight));
  KVFERRY_ASSIGN_OR_RETURN(
      opened.space_,
      opened.engine_->AddNamespace(BenchNamespace(), {.block_bytes = options.block_bytes}));
  return opened;
}

Status HostEngine::Put(std::span<const BlockKey> keys, std::span<const std::byte* const> sources) {
  const auto submit = [&](std::size_t begin, std::size_t count) {
    return engine_->Put({.in = space_,
                         .keys = keys.subspan(begin, count),
                         .sources = sources.subspan(begin, count)},
                        *queue_);
  };
  return Pump(keys.size(), submit, [](const Completion& done) { return done.blocks_stored; });
}

Status HostEngine::Get(std::span<const BlockKey> keys, std::span<std::byte* const> targets) {
  const auto submit = [&](std::size_t begin, std::size_t count) {
    return engine_->Get({.in = space_,
                         .keys = keys.subspan(begin, count),
                         .targets = targets.subspan(begin, count)},
                        *queue_);
  };
  return Pump(keys.size(), submit, [](const Completion& done) { return done.blocks_ready; });
}

std::uint32_t HostEngine::Match(std::span<const BlockKey> keys) const {
  return engine_->Match(space_, keys).host_blocks;
}

Status HostEngine::Pump(std::size_t blocks,
                        Submit submit,
                        FunctionRef<std::uint32_t(const Completion&)> count_of) {
  Status status = Status::Ok();
  std::size_t begun = 0;
  std::size_t in_flight = 0;
  std::size_t seen_to = 0;
  while (in_flight > 0 || (status.ok() && begun < blocks)) {
    if (status.ok() && in_flight < kRequestsInFlight && begun < blocks) {
      const std::size_t count = std::min<std::size_t>(options_.batch_blocks, blocks - begun);
      const Result<Ticket> ticket = submit(begun, count);
      status = ticket.status();
      begun += count;
      in_flight += ticket.ok() ? 1U : 0U;
      continue;
    }
    std::array<Completion, kRequestsInFlight> done;
    // Requests end by their own deadline, long before this one.
    KVFERRY_RETURN_IF_ERROR(queue_->Wait(Clock::now() + std::chrono::minutes(10)));
    const std::size_t ended = queue_->Poll(done);
    in_flight -= ended;
    for (const Completion& completion : std::span(done).first(ended)) {
      status = status.ok() ? completion.status : status;
      seen_to += count_of(completion);
    }
  }
  if (status.ok() && seen_to != blocks) {
    return Status::Error(StatusCode::kInternal, std::to_string(blocks - seen_to) + " of " +
                                                    std::to_string(blocks) +
                                                    " blocks were not stored or not there");
  }
  return status;
}

}  // namespace kvferry::bench
