// RunCell: one policy at one capacity over one trace; the semantics of cache mode, exactly.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "kvferry/policy.h"

#include "base/assert.h"
#include "replay/trace.h"

namespace kvferry::replay {

// Prefix: the hits of a request are its longest resident prefix. Block: every reference counts on
// its own, in file order, as classic cache simulation does.
enum class HitRule : std::uint8_t { kPrefix, kBlock };

// What one cell counts. Everything but the two marked fields counts from the end of the warm-up.
struct CellResult {
  std::string policy;
  std::uint64_t capacity_blocks = 0;
  std::uint64_t lookups = 0;  // Block references.
  std::uint64_t lookup_tokens = 0;
  std::uint64_t hit_blocks = 0;
  std::uint64_t hit_tokens = 0;
  std::uint64_t hit_tokens_full_blocks = 0;
  std::uint64_t requests_with_hit = 0;
  std::uint64_t evictions = 0;  // Resident before a request and not after it.
  std::uint64_t rejected = 0;   // Misses that are not resident after their request.
  // Misses whose block was resident, behind an absent one, and stayed.
  std::uint64_t resident_misses = 0;
  std::uint64_t resident_end = 0;  // Whole run.
  double seconds = 0;              // Whole run: the cell's own loop.
};

struct CellOptions {
  std::uint32_t capacity_blocks = 0;
  HitRule hit_rule = HitRule::kPrefix;
  std::size_t warmup_requests = 0;  // The first so many are not counted.
  // By request: blocks of its successor's path that exist when it ends (input and output). Empty: no
  // outputs are stored. A zero stores nothing.
  struct Output {
    std::uint32_t successor = 0;
    std::uint32_t block_count = 0;
  };
  std::span<const Output> outputs;
  // Grows by each request's references. May be null.
  std::atomic<std::uint64_t>* progress_refs = nullptr;
};

inline void ReportProgress(const CellOptions& options, const TraceRequest& request) {
  if (options.progress_refs != nullptr) {
    // Relaxed: a progress bar reads it, nothing is ordered by it.
    options.progress_refs->fetch_add(request.block_count, std::memory_order_relaxed);
  }
}

// Adds the lookup of one request, of which the first `hits` blocks are hits.
inline void CountLookup(const Trace& trace,
                        const TraceRequest& request,
                        std::uint32_t hits,
                        CellResult& result) {
  const std::uint32_t block_tokens = trace.origin().block_tokens;
  const std::uint64_t tokens = trace.PrefixTokens(request, hits);
  result.lookups += request.block_count;
  result.lookup_tokens += request.input_tokens;
  result.hit_blocks += hits;
  result.hit_tokens += tokens;
  result.hit_tokens_full_blocks += tokens / block_tokens * block_tokens;
  result.requests_with_hit += hits > 0 ? 1 : 0;
}

// Adds a hit of a single block; the lookup is counted apart.
inline void CountBlockHit(const Trace& trace,
                          const TraceRequest& request,
                          std::uint32_t position,
                          CellResult& result) {
  const std::uint32_t tokens = trace.BlockTokensAt(request, position);
  ++result.hit_blocks;
  result.hit_tokens += tokens;
  result.hit_tokens_full_blocks += tokens == trace.origin().block_tokens ? tokens : 0;
}

// Counts what a request changed: residency is compared before and after it, so a block that goes
// and comes back within one request has changed nothing.
//
// Thread-compatible.
class ResidencyLedger {
 public:
  explicit ResidencyLedger(std::uint32_t entries) : is_resident_(entries), changed_at_(entries) {}

  bool is_resident(EntryIndex entry) const {
    return is_resident_[static_cast<std::uint32_t>(entry)] != 0;
  }
  std::uint64_t resident_count() const { return resident_count_; }
  std::uint64_t came_count() const { return came_count_; }  // Of the request at hand.
  std::uint64_t left_count() const { return left_count_; }

  void BeginRequest() {
    ++request_;
    came_count_ = 0;
    left_count_ = 0;
  }
  void Insert(EntryIndex entry) {
    const auto index = static_cast<std::uint32_t>(entry);
    is_resident_[index] = 1;
    ++resident_count_;
    if (changed_at_[index] == request_) {
      changed_at_[index] = 0;
      --left_count_;
    } else {
      changed_at_[index] = request_;
      ++came_count_;
    }
  }
  void Remove(EntryIndex entry) {
    const auto index = static_cast<std::uint32_t>(entry);
    is_resident_[index] = 0;
    --resident_count_;
    if (changed_at_[index] == request_) {
      changed_at_[index] = 0;
      --came_count_;
    } else {
      changed_at_[index] = request_;
      ++left_count_;
    }
  }

 private:
  std::vector<std::uint8_t> is_resident_;
  std::vector<std::uint32_t> changed_at_;
  std::uint32_t request_ = 0;
  std::uint64_t resident_count_ = 0;
  std::uint64_t came_count_ = 0;
  std::uint64_t left_count_ = 0;
};

// Policy is EvictionPolicy, or a final class of src/policy, whose calls then need no dispatch.
template <class Policy>
class CacheCell {
 public:
  CacheCell(const Trace& trace, const CellOptions& options, Policy& policy)
      : trace_(trace), options_(options), policy_(policy), ledger_(trace.distinct_blocks()) {
    KVFERRY_CHECK(options.capacity_blocks > 0);
  }

  CellResult Run() {
    const auto start = std::chrono::steady_clock::now();
    std::vector<EntryIndex> path(trace_.path_blocks_max());
    std::size_t index = 0;
    for (const TraceRequest& request : trace_.requests()) {
      is_counted_ = index >= options_.warmup_requests;
      const std::span<EntryIndex> blocks(path.data(), request.block_count);
      trace_.ReadPath(request, blocks);
      Access access{.now = Instant(std::chrono::milliseconds(request.time_ms)),
                    .request = index + 1,
                    .session = request.session == kNoSession ? 0 : request.session + 1ULL};
      if (options_.hit_rule == HitRule::kPrefix) {
        PlayRequest(request, access, blocks);
      } else {
        PlayReferences(request, access, blocks);
      }
      if (!options_.outputs.empty() && options_.outputs[index].block_count > 0) {
        StoreOutput(options_.outputs[index], access, path);
      }
      ReportProgress(options_, request);
      ++index;
    }
    result_.capacity_blocks = options_.capacity_blocks;
    result_.resident_end = ledger_.resident_count();
    KVFERRY_CHECK(came_total_ == left_total_ + ledger_.resident_count());
    result_.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return result_;
  }

 private:
  void PlayRequest(const TraceRequest& request,
                   const Access& access,
                   std::span<const EntryIndex> path) {
    std::uint32_t hits = 0;
    while (hits < path.size() && ledger_.is_resident(path[hits])) {
      ++hits;
    }
    std::uint64_t behind_count = 0;
    for (std::size_t i = hits; i < path.size(); ++i) {
      behind_count += ledger_.is_resident(path[i]) ? 1 : 0;
    }
    ledger_.BeginRequest();
    Store(access, path, hits);
    came_total_ += ledger_.came_count();
    left_total_ += ledger_.left_count();
    if (!is_counted_) {
      return;
    }
    CountLookup(trace_, request, hits, result_);
    result_.evictions += ledger_.left_count();
    std::uint64_t resident_after_count = 0;
    std::uint64_t stayed_count = 0;
    if (behind_count > 0 || !trace_.is_chained()) {
      for (std::size_t i = hits; i < path.size(); ++i) {
        resident_after_count += ledger_.is_resident(path[i]) ? 1 : 0;
      }
      stayed_count = resident_after_count - std::min(resident_after_count, ledger_.came_count());
    } else {
      resident_after_count = ledger_.came_count();
    }
    result_.rejected += path.size() - hits - resident_after_count;
    result_.resident_misses += stayed_count;
  }

  // The block rule: each reference is a request of one block.
  void PlayReferences(const TraceRequest& request,
                      const Access& access,
                      std::span<const EntryIndex> path) {
    std::uint32_t hits = 0;
    for (std::uint32_t i = 0; i < path.size(); ++i) {
      const bool is_hit = ledger_.is_resident(path[i]);
      ledger_.BeginRequest();
      Store(access, path.subspan(i, 1), is_hit ? 1 : 0);
      came_total_ += ledger_.came_count();
      left_total_ += ledger_.left_count();
      if (!is_counted_) {
        continue;
      }
      if (is_hit) {
        ++hits;
        CountBlockHit(trace_, request, i, result_);
      } else {
        result_.rejected += ledger_.is_resident(path[i]) ? 0 : 1;
      }
      result_.evictions += ledger_.left_count();
    }
    if (is_counted_) {
      result_.lookups += path.size();
      result_.lookup_tokens += request.input_tokens;
      result_.requests_with_hit += hits > 0 ? 1 : 0;
    }
  }

  void Store(const Access& access,
             std::span<const EntryIndex> path,
             std::uint32_t leading_resident) {
    policy_.OnRequest(access, path, leading_resident);
    if (policy_.touch_order() == TouchOrder::kTailFirst) {
      for (std::size_t end = path.size(); end > 0;) {
        std::size_t begin = end;
        while (begin > 0 && ledger_.is_resident(path[begin - 1])) {
          --begin;
        }
        if (begin < end) {
          policy_.OnHit(path.subspan(begin, end - begin));
          end = begin;
          continue;
        }
        --end;
        Insert(path[end], end > 0 ? path[end - 1] : kNoEntry);
      }
      return;
    }
    for (std::size_t begin = 0; begin < path.size();) {
      std::size_t end = begin;
      while (end < path.size() && ledger_.is_resident(path[end])) {
        ++end;
      }
      if (begin < end) {
        policy_.OnHit(path.subspan(begin, end - begin));
        begin = end;
        continue;
      }
      Insert(path[begin], begin > 0 ? path[begin - 1] : kNoEntry);
      ++begin;
    }
  }

  void Insert(EntryIndex entry, EntryIndex parent) {
    if (!policy_.Admit(entry)) {
      return;
    }
    if (ledger_.resident_count() >= options_.capacity_blocks) {
      const EntryIndex victim = policy_.TakeVictim([](EntryIndex) { return false; });
      KVFERRY_CHECK(victim != kNoEntry);
      KVFERRY_CHECK(ledger_.is_resident(victim));
      ledger_.Remove(victim);
      policy_.OnRemove(victim, RemoveReason::kEvicted);
    }
    ledger_.Insert(entry);
    policy_.OnInsert(entry, parent);
  }

  // The blocks that the request's answer filled: stored when it ends, looked up by nobody.
  void StoreOutput(const CellOptions::Output& output,
                   const Access& access,
                   std::vector<EntryIndex>& path) {
    const TraceRequest& successor = trace_.requests()[output.successor];
    const std::span<EntryIndex> blocks(path.data(), successor.block_count);
    trace_.ReadPath(successor, blocks);
    const std::span<const EntryIndex> stored = blocks.first(output.block_count);
    std::uint32_t leading = 0;
    while (leading < stored.size() && ledger_.is_resident(stored[leading])) {
      ++leading;
    }
    ledger_.BeginRequest();
    Store(access, stored, leading);
    came_total_ += ledger_.came_count();
    left_total_ += ledger_.left_count();
    result_.evictions += is_counted_ ? ledger_.left_count() : 0;
  }

  const Trace& trace_;
  const CellOptions& options_;
  Policy& policy_;
  ResidencyLedger ledger_;
  CellResult result_;
  std::uint64_t came_total_ = 0;
  std::uint64_t left_total_ = 0;
  bool is_counted_ = true;
};

}  // namespace kvferry::replay
