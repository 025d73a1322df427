// The state of MIN elsewhere: the set of the references that residents wait for.
#include "replay/reference_min.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kvferry/types.h"

#include "base/assert.h"
#include "replay/index_set.h"
#include "replay/min_bound.h"

namespace kvferry::replay {
namespace {

constexpr std::uint32_t kNever = 0xffffffff;
// Of a block that is not used again and has been turned away: told from one that was kept.
constexpr std::uint32_t kGone = 0xfffffffe;

std::uint32_t NumberOf(EntryIndex entry) {
  return static_cast<std::uint32_t>(entry);
}

// For each reference, in file order, the number of the next one to the same block: under the prefix
// rule the first in a later request, under the block rule simply the next. At the end `first` has
// each block's first reference.
class NextReferences {
 public:
  NextReferences(const Trace& trace, HitRule hit_rule)
      : first_(trace.distinct_blocks(), kNever), next_(trace.block_refs()) {
    KVFERRY_CHECK(trace.block_refs() <= kMinReferencesMax);
    std::vector<EntryIndex> path(trace.path_blocks_max());
    auto base = static_cast<std::uint32_t>(trace.block_refs());
    const std::span<const TraceRequest> requests = trace.requests();
    for (std::size_t index = requests.size(); index-- > 0;) {
      const std::span<EntryIndex> blocks(path.data(), requests[index].block_count);
      trace.ReadPath(requests[index], blocks);
      base -= requests[index].block_count;
      if (hit_rule == HitRule::kPrefix) {
        for (std::uint32_t position = 0; position < blocks.size(); ++position) {
          next_[base + position] = first_[NumberOf(blocks[position])];
        }
      }
      for (std::uint32_t position = requests[index].block_count; position-- > 0;) {
        std::uint32_t& first = first_[NumberOf(blocks[position])];
        if (hit_rule == HitRule::kBlock) {
          next_[base + position] = first;
        }
        first = base + position;
      }
    }
  }

  std::uint32_t next(std::uint32_t reference) const { return next_[reference]; }
  std::vector<std::uint32_t>&& TakeFirst() { return std::move(first_); }

 private:
  std::vector<std::uint32_t> first_;
  std::vector<std::uint32_t> next_;
};

// MIN by references. A resident block is known by the reference that will use it next, so the set
// of these references is the state, and its largest member the victim. Residents that are not used
// again are only counted: they leave first, and which of them does changes nothing.
class ReferenceMinCell {
 public:
  ReferenceMinCell(const Trace& trace, const CellOptions& options)
      : trace_(trace),
        options_(options),
        references_(trace, options.hit_rule),
        upcoming_(references_.TakeFirst()),
        named_at_(trace.distinct_blocks()),
        waiting_(trace.block_refs()),
        path_(trace.path_blocks_max()) {}

  CellResult Run() {
    std::size_t index = 0;
    for (const TraceRequest& request : trace_.requests()) {
      is_counted_ = index >= options_.warmup_requests;
      const std::span<EntryIndex> blocks(path_.data(), request.block_count);
      trace_.ReadPath(request, blocks);
      if (options_.hit_rule == HitRule::kBlock) {
        PlayReferences(request, blocks);
      } else {
        PlayRequest(request, blocks);
      }
      base_ += request.block_count;
      if (!options_.outputs.empty() && options_.outputs[index].block_count > 0) {
        StoreOutput(options_.outputs[index]);
      }
      ReportProgress(options_, request);
      ++index;
    }
    result_.resident_end = resident_count();
    return result_;
  }

 private:
  std::uint64_t resident_count() const { return waiting_count_ + finished_count_; }

  void PlayReferences(const TraceRequest& request, std::span<const EntryIndex> path) {
    std::uint32_t hits = 0;
    for (std::uint32_t position = 0; position < path.size(); ++position) {
      const std::uint32_t reference = base_ + position;
      const bool is_hit = waiting_.contains(reference);
      if (is_hit) {
        waiting_.Erase(reference);
        --waiting_count_;
        ++hits;
      } else if (resident_count() >= options_.capacity_blocks) {
        EvictFarthest();
        result_.evictions += is_counted_ ? 1 : 0;
      }
      upcoming_[NumberOf(path[position])] = references_.next(reference);
      Insert(references_.next(reference));
      if (is_hit && is_counted_) {
        CountBlockHit(trace_, request, position, result_);
      }
    }
    if (is_counted_) {
      result_.lookups += path.size();
      result_.lookup_tokens += request.input_tokens;
      result_.requests_with_hit += hits > 0 ? 1 : 0;
    }
  }

  void PlayRequest(const TraceRequest& request, std::span<const EntryIndex> path) {
    std::uint32_t hits = 0;
    while (hits < path.size() && waiting_.contains(upcoming_[NumberOf(path[hits])])) {
      ++hits;
    }
    const std::uint64_t before_count = resident_count();
    const std::uint64_t came_count = StorePath(path, true);
    if (!is_counted_) {
      return;
    }
    CountLookup(trace_, request, hits, result_);
    std::uint64_t after_count = 0;
    for (std::size_t position = hits; position < path.size(); ++position) {
      if (IsResident(path[position])) {
        ++after_count;
      }
    }
    result_.evictions += before_count + came_count - resident_count();
    result_.rejected += path.size() - hits - after_count;
    result_.resident_misses += after_count - std::min(after_count, came_count);
  }

  bool IsResident(EntryIndex entry) const {
    const std::uint32_t upcoming = upcoming_[NumberOf(entry)];
    return upcoming == kNever || (upcoming != kGone && waiting_.contains(upcoming));
  }

  // Lets the whole path in and the farthest out again. Returns how many were not there before and
  // are now.
  std::uint64_t StorePath(std::span<const EntryIndex> path, bool is_lookup) {
    ++store_;
    came_.clear();
    finished_.clear();
    for (std::uint32_t position = 0; position < path.size(); ++position) {
      const std::uint32_t entry = NumberOf(path[position]);
      if (named_at_[entry] == store_) {
        continue;
      }
      named_at_[entry] = store_;
      std::uint32_t& upcoming = upcoming_[entry];
      const bool was_resident = waiting_.contains(upcoming);
      if (was_resident) {
        waiting_.Erase(upcoming);
        --waiting_count_;
      } else {
        came_.push_back(path[position]);
      }
      upcoming = is_lookup ? references_.next(base_ + position) : upcoming;
      Insert(upcoming);
      if (upcoming == kNever) {
        finished_.push_back(path[position]);
      }
    }
    while (resident_count() > options_.capacity_blocks) {
      if (finished_count_ == finished_.size() && finished_count_ > 0) {
        upcoming_[NumberOf(finished_.back())] = kGone;
        finished_.pop_back();
      }
      EvictFarthest();
    }
    return static_cast<std::uint64_t>(std::count_if(
        came_.begin(), came_.end(), [&](EntryIndex entry) { return IsResident(entry); }));
  }

  void StoreOutput(const CellOptions::Output& output) {
    const TraceRequest& successor = trace_.requests()[output.successor];
    const std::span<EntryIndex> blocks(path_.data(), successor.block_count);
    trace_.ReadPath(successor, blocks);
    const std::span<const EntryIndex> stored = blocks.first(output.block_count);
    const std::uint64_t before_count = resident_count();
    std::uint64_t came_count = 0;
    if (options_.hit_rule == HitRule::kBlock) {
      came_count = StoreEachMiss(stored);
    } else {
      came_count = StorePath(stored, false);
    }
    result_.evictions +=
        is_counted_ ? before_count + came_count - resident_count() : std::uint64_t{0};
  }

  // The block rule for a path that nobody looks up.
  std::uint64_t StoreEachMiss(std::span<const EntryIndex> path) {
    ++store_;
    came_.clear();
    for (const EntryIndex entry : path) {
      if (!IsResident(entry) && named_at_[NumberOf(entry)] != store_) {
        named_at_[NumberOf(entry)] = store_;
        came_.push_back(entry);
      }
    }
    for (std::size_t position = path.size(); position-- > 0;) {
      const EntryIndex entry = path[position];
      if (IsResident(entry)) {
        continue;
      }
      if (resident_count() >= options_.capacity_blocks) {
        EvictFarthest();
      }
      Insert(upcoming_[NumberOf(entry)]);
    }
    return static_cast<std::uint64_t>(std::count_if(
        came_.begin(), came_.end(), [&](EntryIndex entry) { return IsResident(entry); }));
  }

  void Insert(std::uint32_t upcoming) {
    if (upcoming == kNever) {
      ++finished_count_;
      return;
    }
    waiting_.Insert(upcoming);
    ++waiting_count_;
  }
  void EvictFarthest() {
    if (finished_count_ > 0) {
      --finished_count_;
      return;
    }
    waiting_.Erase(waiting_.Max());
    --waiting_count_;
  }

  const Trace& trace_;
  const CellOptions& options_;
  NextReferences references_;
  std::vector<std::uint32_t> upcoming_;  // By entry: its next reference.
  std::vector<std::uint32_t> named_at_;  // By entry: the store that saw it last.
  IndexSet waiting_;                     // The next references of residents.
  std::uint64_t waiting_count_ = 0;
  std::uint64_t finished_count_ = 0;  // Residents that are not used again.
  std::vector<EntryIndex> path_;
  std::vector<EntryIndex> came_;      // Of the store at hand: those that were absent.
  std::vector<EntryIndex> finished_;  // Of the store at hand: those not used again, still kept.
  std::uint32_t base_ = 0;            // The request's first reference.
  std::uint32_t store_ = 0;
  CellResult result_;
  bool is_counted_ = true;
};

}  // namespace

CellResult RunReferenceMin(const Trace& trace, const CellOptions& options) {
  return ReferenceMinCell(trace, options).Run();
}

}  // namespace kvferry::replay
