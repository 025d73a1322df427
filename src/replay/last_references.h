// LastReferences: by which request each block was last referenced, as a trace goes by.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "replay/trace.h"

namespace kvferry::replay {

inline constexpr std::uint32_t kNoRequest = 0xffffffff;

// What an unbounded cache knows of one request's path when the request comes.
struct PathReuse {
  std::uint32_t leading_seen = 0;     // Blocks in the longest prefix of blocks seen before.
  std::uint32_t latest = kNoRequest;  // Latest request that holds the last block of that prefix.
};

// Neighbours on a path that the same request referenced last.
struct ReferenceRun {
  std::uint32_t previous = 0;  // That request.
  std::uint32_t position = 0;  // Of the first of them on the path.
  std::uint32_t count = 0;
};

// Requests go by in order, from number 0. Four bytes a block.
//
// On a path of a chained trace the last request of a block is never earlier than that of a deeper
// one, so a path is handled run by run and is never written out.
//
// Thread-compatible. Borrows the trace until destroyed.
class LastReferences {
 public:
  explicit LastReferences(const Trace& trace)
      : trace_(trace),
        last_(trace.distinct_blocks()),
        path_(trace.is_chained() ? 0 : trace.path_blocks_max()) {}

  // References the next request's path. `on_run(const ReferenceRun&)` is called for every run of
  // blocks that were referenced before, in no particular order.
  template <class F>
  PathReuse Reference(const TraceRequest& request, F&& on_run) {
    ++request_number_;
    if (request.block_count == 0) {
      return {};
    }
    return trace_.is_chained() ? ReferenceChained(request, on_run) : ReferenceEach(request, on_run);
  }

 private:
  template <class F>
  PathReuse ReferenceChained(const TraceRequest& request, F&& on_run) {
    PathReuse reuse;
    std::uint32_t end_position = request.block_count;
    auto entry = static_cast<std::uint32_t>(request.location);
    while (end_position > 0) {
      const auto start = static_cast<std::uint32_t>(trace_.run_start(EntryIndex{entry}));
      const auto begin = last_.begin() + start;
      auto end = last_.begin() + entry + 1;
      while (end != begin) {
        const std::uint32_t number = *(end - 1);
        const auto run_begin =
            *begin == number ? begin
                             : std::partition_point(begin, end, [number](std::uint32_t other) {
                                 return other > number;
                               });
        const auto count = static_cast<std::uint32_t>(end - run_begin);
        if (number != 0 && reuse.leading_seen == 0) {
          reuse = {end_position, number - 1};
        }
        if (number != 0) {
          on_run(ReferenceRun{number - 1, end_position - count, count});
        }
        end_position -= count;
        end = run_begin;
      }
      std::fill(begin, last_.begin() + entry + 1, request_number_);
      entry = static_cast<std::uint32_t>(trace_.parent(EntryIndex{start}));
    }
    return reuse;
  }

  template <class F>
  PathReuse ReferenceEach(const TraceRequest& request, F&& on_run) {
    PathReuse reuse;
    const std::span<EntryIndex> path(path_.data(), request.block_count);
    trace_.ReadPath(request, path);
    while (reuse.leading_seen < path.size() && last_of(path[reuse.leading_seen]) != 0) {
      reuse.latest = last_of(path[reuse.leading_seen]) - 1;
      ++reuse.leading_seen;
    }
    for (std::uint32_t i = 0; i < path.size(); ++i) {
      std::uint32_t& number = last_of(path[i]);
      if (number != 0) {
        on_run(ReferenceRun{number - 1, i, 1});
      }
      number = request_number_;
    }
    return reuse;
  }

  std::uint32_t& last_of(EntryIndex entry) { return last_[static_cast<std::uint32_t>(entry)]; }

  const Trace& trace_;
  std::vector<std::uint32_t> last_;  // By block: request number plus one, 0 for none yet.
  std::vector<EntryIndex> path_;     // Unchained traces: of the request at hand.
  std::uint32_t request_number_ = 0;
};

}  // namespace kvferry::replay
