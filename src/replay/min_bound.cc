// MIN by intervals of future requests where blocks are chained, by references elsewhere.
#include "replay/min_bound.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kvferry/types.h"

#include "base/assert.h"
#include "replay/index_set.h"

namespace kvferry::replay {
namespace {

constexpr std::uint32_t kNever = 0xffffffff;
// Of a block that is not used again and has been turned away: told from one that was kept.
constexpr std::uint32_t kGone = 0xfffffffe;

std::uint32_t NumberOf(EntryIndex entry) {
  return static_cast<std::uint32_t>(entry);
}

// The next uses along a path never come earlier with depth: whoever uses a block uses all before
// it. So they are a few steps, each up to (not including) a position.
struct Step {
  std::uint32_t end = 0;
  std::uint32_t next = kNever;  // Request.
};

// The steps of every path a cell stores, by one pass from the last request to the first. A request
// paints its path, and as in a link-cut tree the number of steps it finds there is logarithmic in
// the number of requests on average.
class NextUseSteps {
 public:
  NextUseSteps(const Trace& trace, const CellOptions& options)
      : lookups_(trace.requests().size()), outputs_(options.outputs.size()) {
    std::vector<std::uint32_t> next_use(trace.distinct_blocks(), kNever);
    std::vector<EntryIndex> path(trace.path_blocks_max());
    const std::span<const TraceRequest> requests = trace.requests();
    for (std::size_t index = requests.size(); index-- > 0;) {
      if (!outputs_.empty() && options.outputs[index].block_count > 0) {
        const TraceRequest& successor = requests[options.outputs[index].successor];
        const std::span<EntryIndex> blocks(path.data(), successor.block_count);
        trace.ReadPath(successor, blocks);
        outputs_[index] = Collect(blocks.first(options.outputs[index].block_count), next_use);
      }
      const std::span<EntryIndex> blocks(path.data(), requests[index].block_count);
      trace.ReadPath(requests[index], blocks);
      lookups_[index] = Collect(blocks, next_use);
      for (const EntryIndex entry : blocks) {
        next_use[NumberOf(entry)] = static_cast<std::uint32_t>(index);
      }
    }
  }

  std::span<const Step> lookup(std::size_t index) const { return At(lookups_[index]); }
  std::span<const Step> output(std::size_t index) const { return At(outputs_[index]); }

 private:
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t count = 0;
  };

  Range Collect(std::span<const EntryIndex> path, const std::vector<std::uint32_t>& next_use) {
    const Range begin{.begin = steps_.size()};
    for (std::uint32_t position = 0; position < path.size(); ++position) {
      const std::uint32_t next = next_use[NumberOf(path[position])];
      if (position == 0 || steps_.back().next != next) {
        steps_.push_back({.end = position, .next = next});
      }
      steps_.back().end = position + 1;
    }
    return {.begin = begin.begin, .count = steps_.size() - begin.begin};
  }
  std::span<const Step> At(const Range& range) const {
    return std::span(steps_).subspan(range.begin, range.count);
  }

  std::vector<Step> steps_;
  std::vector<Range> lookups_;
  std::vector<Range> outputs_;
};

// MIN under the prefix rule on a chained trace. The residents whose next use is request j lie on
// j's path and, since what is kept is closed under prefixes, are neighbours there: two numbers for
// each request to come are the whole state. Blocks that are not used again are an interval of the
// request that used them last; its key is beyond all requests, the longer ago the farther.
class PrefixMinCell {
 public:
  PrefixMinCell(const Trace& trace, const CellOptions& options)
      : trace_(trace),
        options_(options),
        steps_(trace, options),
        request_count_(trace.requests().size()),
        intervals_(2 * request_count_),
        keys_(2 * request_count_) {}

  CellResult Run() {
    for (std::size_t index = 0; index < request_count_; ++index) {
      const TraceRequest& request = trace_.requests()[index];
      const bool is_counted = index >= options_.warmup_requests;
      const std::uint64_t before_count = resident_count_;
      const std::uint32_t hits = TakeOut(index);
      const Stored stored = Store(index, steps_.lookup(index), hits, before_count);
      if (is_counted) {
        CountLookup(trace_, request, hits, result_);
        result_.rejected += request.block_count - std::max(hits, stored.leading_count);
        result_.evictions += stored.left_count;
      }
      if (!options_.outputs.empty() && options_.outputs[index].block_count > 0) {
        const std::span<const Step> steps = steps_.output(index);
        const std::uint32_t leading = LeadingResidents(index, steps);
        const Stored output = Store(index, steps, leading, resident_count_);
        result_.evictions += is_counted ? output.left_count : 0;
      }
      ReportProgress(options_, request);
    }
    result_.resident_end = resident_count_;
    return result_;
  }

 private:
  // Positions [begin, end) of the path of the key's request.
  struct Interval {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
  };
  struct Stored {
    std::uint32_t leading_count = 0;  // Blocks of the path that are resident now: its first ones.
    std::uint64_t left_count = 0;     // Resident before and not any more.
  };

  std::size_t KeyOf(std::size_t index, const Step& step) const {
    return step.next != kNever ? step.next : 2 * request_count_ - 1 - index;
  }

  // All of the request's resident blocks are its next use's, and leave their interval.
  std::uint32_t TakeOut(std::size_t index) {
    Interval& interval = intervals_[index];
    const std::uint32_t count = interval.end - interval.begin;
    if (count > 0) {
      KVFERRY_CHECK(interval.begin == 0);
      keys_.Erase(index);
      interval = {};
      resident_count_ -= count;
    }
    return count;
  }

  // Puts the whole path in and lets the farthest blocks out again until the rest fits. The first
  // `leading` blocks were resident; `before_count` is the number of residents with them.
  Stored Store(std::size_t index,
               std::span<const Step> steps,
               std::uint32_t leading,
               std::uint64_t before_count) {
    std::uint32_t begin = 0;
    for (const Step& step : steps) {
      Interval& interval = intervals_[KeyOf(index, step)];
      if (interval.begin == interval.end) {
        interval = {.begin = begin, .end = step.end};
        keys_.Insert(KeyOf(index, step));
        resident_count_ += step.end - begin;
      } else if (interval.begin > begin) {
        resident_count_ += interval.begin - begin;
        interval.begin = begin;
      } else if (interval.end < step.end) {
        resident_count_ += step.end - interval.end;
        interval.end = step.end;
      }
      begin = step.end;
    }
    while (resident_count_ > options_.capacity_blocks) {
      const std::size_t key = keys_.Max();
      Interval& interval = intervals_[key];
      const auto cut = static_cast<std::uint32_t>(std::min<std::uint64_t>(
          interval.end - interval.begin, resident_count_ - options_.capacity_blocks));
      interval.end -= cut;
      resident_count_ -= cut;
      if (interval.begin == interval.end) {
        interval = {};
        keys_.Erase(key);
      }
    }
    const std::uint32_t kept = LeadingResidents(index, steps);
    const std::uint32_t came = kept > leading ? kept - leading : 0;
    return {.leading_count = kept, .left_count = before_count + came - resident_count_};
  }

  // Of a path whose steps these are.
  std::uint32_t LeadingResidents(std::size_t index, std::span<const Step> steps) const {
    std::uint32_t begin = 0;
    for (const Step& step : steps) {
      const Interval& interval = intervals_[KeyOf(index, step)];
      if (interval.end < step.end) {
        return interval.begin == interval.end ? begin : interval.end;
      }
      begin = step.end;
    }
    return begin;
  }

  const Trace& trace_;
  const CellOptions& options_;
  NextUseSteps steps_;
  std::size_t request_count_;
  std::vector<Interval> intervals_;  // By key.
  IndexSet keys_;                    // Of the intervals that are not empty.
  std::uint64_t resident_count_ = 0;
  CellResult result_;
};

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

// MIN by references. A resident block is known by the reference that will use it next, so the set of
// these references is the state, and its largest member the victim. Residents that are not used
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
    came_.clear();
    for (const EntryIndex entry : path) {
      if (!IsResident(entry)) {
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

CellResult RunMinCell(const Trace& trace, const CellOptions& options) {
  KVFERRY_CHECK(options.capacity_blocks > 0);
  const auto start = std::chrono::steady_clock::now();
  CellResult result;
  if (options.hit_rule == HitRule::kPrefix && trace.is_chained()) {
    result = PrefixMinCell(trace, options).Run();
  } else {
    result = ReferenceMinCell(trace, options).Run();
  }
  result.policy = kMinPolicyName;
  result.capacity_blocks = options.capacity_blocks;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

std::uint64_t MinCellMemoryBytes(const Trace& trace, HitRule hit_rule) {
  const std::uint64_t path_bytes = std::uint64_t{trace.path_blocks_max()} * 3 * sizeof(EntryIndex);
  const std::uint64_t distinct = trace.distinct_blocks();
  if (hit_rule == HitRule::kPrefix && trace.is_chained()) {
    // A path has a few steps, whose vector may have grown to twice their number.
    constexpr std::uint64_t kBytesARequest = 128;
    return distinct * sizeof(std::uint32_t) + trace.requests().size() * kBytesARequest + path_bytes;
  }
  return trace.block_refs() * sizeof(std::uint32_t) + trace.block_refs() / 7 +
         distinct * 2 * sizeof(std::uint32_t) + path_bytes;
}

}  // namespace kvferry::replay
