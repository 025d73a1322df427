// The state of MIN on a chained trace: an interval a request to come.
#include "replay/prefix_min.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kvferry/types.h"

#include "base/assert.h"
#include "replay/index_set.h"

namespace kvferry::replay {
namespace {

constexpr std::uint32_t kNever = 0xffffffff;

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

}  // namespace

CellResult RunPrefixMin(const Trace& trace, const CellOptions& options) {
  KVFERRY_CHECK(trace.is_chained());
  return PrefixMinCell(trace, options).Run();
}

}  // namespace kvferry::replay
