// RunCell: one policy at one capacity over one trace; the semantics of cache mode, exactly.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kvferry/policy.h"

#include "base/assert.h"
#include "replay/resident_set.h"
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
  // By request: blocks of its successor's path that exist when it ends (input and output). Empty:
  // no outputs are stored. A zero stores nothing.
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
  result.requests_with_hit += hits > 0 ? 1U : 0U;
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

// Policy is EvictionPolicy, or a final class of src/policy, whose calls then need no dispatch.
template <class Policy>
class CacheCell {
 public:
  CacheCell(const Trace& trace, const CellOptions& options, Policy& policy)
      : trace_(trace),
        options_(options),
        policy_(policy),
        residents_(trace),
        path_(trace.path_blocks_max()),
        named_at_(trace.is_chained() ? 0 : trace.distinct_blocks()) {
    KVFERRY_CHECK(options.capacity_blocks > 0);
  }

  CellResult Run() {
    const auto start = std::chrono::steady_clock::now();
    std::size_t index = 0;
    for (const TraceRequest& request : trace_.requests()) {
      is_counted_ = index >= options_.warmup_requests;
      const std::span<EntryIndex> blocks(path_.data(), request.block_count);
      trace_.ReadPath(request, blocks);
      const Access access{.now = Instant(std::chrono::milliseconds(request.time_ms)),
                          .request = index + 1,
                          .session = request.session == kNoSession ? 0 : request.session + 1ULL};
      if (options_.hit_rule == HitRule::kPrefix) {
        PlayRequest(request, access, blocks);
      } else {
        PlayReferences(request, access, blocks);
      }
      if (!options_.outputs.empty() && options_.outputs[index].block_count > 0) {
        StoreOutput(options_.outputs[index], access);
      }
      ReportProgress(options_, request);
      ++index;
    }
    result_.capacity_blocks = options_.capacity_blocks;
    result_.resident_end = residents_.size();
    result_.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return result_;
  }

 private:
  // What storing a path changed. Residency is compared before and after it, so a block that goes
  // and comes back within one request has changed nothing.
  struct Change {
    std::uint64_t resident_count = 0;  // Positions behind the leading hits that are resident now.
    std::uint64_t stayed_count = 0;    // Of these, positions that were resident before.
    std::uint64_t left_count = 0;      // Blocks, of this path or not, resident before and not now.
  };

  void PlayRequest(const TraceRequest& request,
                   const Access& access,
                   std::span<const EntryIndex> path) {
    const auto hits = static_cast<std::uint32_t>(residents_.RunEnd(path, 0));
    const Change change = StorePath(access, path, hits);
    if (is_counted_) {
      CountLookup(trace_, request, hits, result_);
      result_.evictions += change.left_count;
      result_.rejected += path.size() - hits - change.resident_count;
      result_.resident_misses += change.stayed_count;
    }
  }

  // The block rule: each reference is a request of one block.
  void PlayReferences(const TraceRequest& request,
                      const Access& access,
                      std::span<const EntryIndex> path) {
    std::uint32_t hits = 0;
    for (std::uint32_t position = 0; position < path.size(); ++position) {
      const std::span<const EntryIndex> block = path.subspan(position, 1);
      if (residents_.contains(block[0])) {
        policy_.OnRequest(access, block, 1);
        policy_.OnHit(block);
        ++hits;
        if (is_counted_) {
          CountBlockHit(trace_, request, position, result_);
        }
        continue;
      }
      const std::uint64_t before_count = residents_.size();
      policy_.OnRequest(access, block, 0);
      Insert(block[0], kNoEntry);
      if (is_counted_) {
        const std::uint64_t came_count = residents_.contains(block[0]) ? 1U : 0U;
        result_.evictions += before_count + came_count - residents_.size();
        result_.rejected += 1 - came_count;
      }
    }
    if (is_counted_) {
      result_.lookups += path.size();
      result_.lookup_tokens += request.input_tokens;
      result_.requests_with_hit += hits > 0 ? 1U : 0U;
    }
  }

  // The blocks that the request's answer filled: stored when it ends, looked up by nobody. The
  // policy sees them as a request of their own whose number is unknown, since they come whole.
  void StoreOutput(const CellOptions::Output& output, Access access) {
    const TraceRequest& successor = trace_.requests()[output.successor];
    const std::span<EntryIndex> blocks(path_.data(), successor.block_count);
    trace_.ReadPath(successor, blocks);
    const std::span<const EntryIndex> stored = blocks.first(output.block_count);
    access.request = 0;
    const Change change =
        StorePath(access, stored, static_cast<std::uint32_t>(residents_.RunEnd(stored, 0)));
    result_.evictions += is_counted_ ? change.left_count : std::uint64_t{0};
  }

  Change StorePath(const Access& access,
                   std::span<const EntryIndex> path,
                   std::uint32_t leading_resident) {
    const std::span<const EntryIndex> rest = path.subspan(leading_resident);
    const std::uint64_t before_count = residents_.size();
    // Rare: a resident behind an absent block, or a block that may come twice.
    const bool is_plain = trace_.is_chained() && residents_.CountOf(rest) == 0;
    if (!is_plain) {
      NoteResidency(rest);
    }
    policy_.OnRequest(access, path, leading_resident);
    if (policy_.touch_order() == TouchOrder::kTailFirst) {
      TouchTailFirst(path);
    } else {
      TouchHeadFirst(path, leading_resident);
    }
    Change change{.resident_count = residents_.CountOf(rest)};
    const std::uint64_t came_count = is_plain ? change.resident_count : CountCame(rest);
    change.stayed_count = change.resident_count - std::min(change.resident_count, came_count);
    change.left_count = before_count + came_count - residents_.size();
    return change;
  }

  void TouchTailFirst(std::span<const EntryIndex> path) {
    for (std::size_t end = path.size(); end > 0;) {
      if (!residents_.contains(path[end - 1])) {
        --end;
        Insert(path[end], end > 0 ? path[end - 1] : kNoEntry);
        continue;
      }
      const std::size_t begin = residents_.RunBegin(path, end);
      policy_.OnHit(path.subspan(begin, end - begin));
      end = begin;
    }
  }

  // Nothing leaves before the first insertion, so the leading hits need no second look.
  void TouchHeadFirst(std::span<const EntryIndex> path, std::size_t leading_resident) {
    std::size_t end = leading_resident;
    for (std::size_t begin = 0; begin < path.size();) {
      if (begin < end) {
        policy_.OnHit(path.subspan(begin, end - begin));
        begin = end;
        continue;
      }
      if (residents_.contains(path[begin])) {
        end = residents_.RunEnd(path, begin);
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
    if (residents_.size() >= options_.capacity_blocks) {
      const EntryIndex victim = policy_.TakeVictim([](EntryIndex) { return false; });
      KVFERRY_CHECK(victim != kNoEntry);
      KVFERRY_CHECK(residents_.contains(victim));
      residents_.Remove(victim);
      policy_.OnRemove(victim, RemoveReason::kEvicted);
    }
    residents_.Insert(entry);
    policy_.OnInsert(entry, parent);
  }

  void NoteResidency(std::span<const EntryIndex> rest) {
    was_resident_.clear();
    for (const EntryIndex entry : rest) {
      was_resident_.push_back(residents_.contains(entry) ? 1 : 0);
    }
  }
  // Blocks that are resident now and were not when NoteResidency was called, each once.
  std::uint64_t CountCame(std::span<const EntryIndex> rest) {
    ++store_;
    std::uint64_t count = 0;
    for (std::size_t position = 0; position < rest.size(); ++position) {
      if (was_resident_[position] != 0 || !residents_.contains(rest[position])) {
        continue;
      }
      if (!named_at_.empty()) {
        std::uint32_t& named_at = named_at_[static_cast<std::uint32_t>(rest[position])];
        if (named_at == store_) {
          continue;
        }
        named_at = store_;
      }
      ++count;
    }
    return count;
  }

  const Trace& trace_;
  const CellOptions& options_;
  Policy& policy_;
  ResidentSet residents_;
  std::vector<EntryIndex> path_;            // Of the request at hand.
  std::vector<std::uint8_t> was_resident_;  // By position behind the leading hits.
  std::vector<std::uint32_t> named_at_;     // By entry, unchained only: the store that counted it.
  std::uint32_t store_ = 0;
  CellResult result_;
  bool is_counted_ = true;
};

}  // namespace kvferry::replay
