// How paths are stored, and how a builder turns ids into entry numbers.
#include "replay/trace.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/assert.h"
#include "base/bytes.h"
#include "replay/text_format.h"

namespace kvferry::replay {
namespace {

constexpr std::uint32_t kNone = 0xffffffff;
constexpr std::size_t kTableSlotsMin = 1024;

std::uint64_t Mix(std::uint32_t high, std::uint64_t id) {
  std::uint64_t x = id + (std::uint64_t{high} + 1) * 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ULL;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ULL;
  return x ^ (x >> 32);
}

}  // namespace

void Trace::ReadPath(const TraceRequest& request, std::span<EntryIndex> path) const {
  KVFERRY_CHECK(path.size() == request.block_count);
  if (!is_chained_) {
    for (std::size_t i = 0; i < path.size(); ++i) {
      path[i] = EntryIndex{refs_[request.location + i]};
    }
    return;
  }
  std::size_t end = path.size();
  auto entry = static_cast<std::uint32_t>(request.location);
  while (end > 0) {
    const std::uint32_t start = run_start_[entry];
    const std::size_t begin = end - (entry - start + 1);
    for (std::size_t i = 0; i < end - begin; ++i) {
      path[begin + i] = EntryIndex{start + static_cast<std::uint32_t>(i)};
    }
    end = begin;
    entry = parent_[start];
  }
}

std::uint64_t Trace::memory_bytes() const noexcept {
  return requests_.capacity() * sizeof(requests_[0]) +
         (parent_.capacity() + run_start_.capacity() + refs_.capacity()) * sizeof(std::uint32_t);
}

std::uint32_t Trace::BlockTokensAt(const TraceRequest& request, std::uint32_t position) const {
  const std::uint64_t begin = std::uint64_t{position} * origin_.block_tokens;
  if (begin >= request.input_tokens) {
    return 0;
  }
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(origin_.block_tokens, request.input_tokens - begin));
}

std::uint64_t Trace::PrefixTokens(const TraceRequest& request, std::uint32_t hit_blocks) const {
  return std::min<std::uint64_t>(std::uint64_t{hit_blocks} * origin_.block_tokens,
                                 request.input_tokens);
}

TraceBuilder::TraceBuilder(std::uint64_t memory_max_bytes)
    : table_(kTableSlotsMin, kNone), memory_max_bytes_(memory_max_bytes) {}

void TraceBuilder::BeginStream(std::uint32_t scope) {
  scope_ = scope;
  scopes_max_ = std::max(scopes_max_, scope + 1);
  stream_starts_.push_back(trace_.requests_.size());
}

Status TraceBuilder::Add(const RawRequest& request) {
  return AddPath(request, false);
}

Status TraceBuilder::AddUnchainedIds(const RawRequest& request) {
  return AddPath(request, true);
}

Status TraceBuilder::AddPath(const RawRequest& request, bool ids_are_single) {
  if (trace_.parent_.size() + request.ids.size() >= kNone - scopes_max_) {
    return Status::Error(StatusCode::kResourceExhausted, "more than 4 billion distinct blocks");
  }
  // Scopes count down from the top and entries up from zero, so the two never meet.
  const std::uint32_t scope_key = kNone - 1 - scope_;
  path_.resize(request.ids.size());
  std::uint32_t previous = kNone;
  bool contradicts = false;
  for (std::size_t i = 0; i < path_.size();) {
    const std::uint64_t id = request.ids[i];
    const std::uint32_t high = ids_are_single && previous != kNone ? previous : scope_key;
    // Most blocks follow the one that they followed when they were new.
    std::uint32_t entry = previous + 1;  // kNone + 1 is 0: the first root ever seen.
    if (entry >= entry_id_.size() || entry_id_[entry] != id || entry_high_[entry] != high ||
        trace_.parent_[entry] != previous) {
      entry = FindOrAdd(high, id, previous);
      contradicts = contradicts || trace_.parent_[entry] != previous;
    }
    path_[i++] = entry;
    i = FollowRun(request.ids, i, ids_are_single);
    previous = path_[i - 1];
  }
  if (contradicts && trace_.is_chained_) {
    KVFERRY_RETURN_IF_ERROR(GiveUpChaining());
  }
  AddRequest(request);
  return memory_bytes() > memory_max_bytes_ ? MemoryError(memory_bytes()) : Status::Ok();
}

std::size_t TraceBuilder::FollowRun(std::span<const std::uint64_t> ids,
                                    std::size_t begin,
                                    bool ids_are_single) {
  std::uint32_t entry = path_[begin - 1];
  const std::uint32_t run_start = trace_.run_start_[entry];
  const std::uint32_t scope_key = kNone - 1 - scope_;
  const std::size_t count = std::min<std::size_t>(ids.size() - begin, entry_id_.size() - entry - 1);
  std::size_t i = begin;
  for (const std::size_t end = begin + count; i < end; ++i, ++entry) {
    const std::uint32_t next = entry + 1;
    if (entry_id_[next] != ids[i] || trace_.run_start_[next] != run_start ||
        entry_high_[next] != (ids_are_single ? entry : scope_key)) {
      break;
    }
    path_[i] = next;
  }
  return i;
}

Status TraceBuilder::MemoryError(std::uint64_t needed_bytes) const {
  return Status::Error(
      StatusCode::kResourceExhausted,
      "the trace needs " + FormatBytes(needed_bytes) + " of at most " +
          FormatBytes(memory_max_bytes_) + ": " +
          FormatCounted(trace_.requests_.size(), "request", "requests") + " and " +
          FormatCounted(trace_.parent_.size(), "distinct block", "distinct blocks") +
          " so far; raise --memory");
}

std::uint32_t TraceBuilder::FindOrAdd(std::uint32_t high, std::uint64_t id, std::uint32_t parent) {
  const std::size_t mask = table_.size() - 1;
  std::size_t slot = Mix(high, id) & mask;
  while (table_[slot] != kNone) {
    const std::uint32_t entry = table_[slot];
    if (entry_id_[entry] == id && entry_high_[entry] == high) {
      return entry;
    }
    slot = (slot + 1) & mask;
  }
  const auto entry = static_cast<std::uint32_t>(entry_id_.size());
  table_[slot] = entry;
  entry_id_.push_back(id);
  entry_high_.push_back(high);
  const bool continues = parent != kNone && parent + 1 == entry;
  trace_.run_start_.push_back(continues ? trace_.run_start_[parent] : entry);
  trace_.parent_.push_back(parent);
  if (entry_id_.size() * 2 > table_.size()) {
    Grow();
  }
  return entry;
}

void TraceBuilder::Grow() {
  std::vector<std::uint32_t> grown(table_.size() * 2, kNone);
  const std::size_t mask = grown.size() - 1;
  for (std::uint32_t entry = 0; entry < entry_id_.size(); ++entry) {
    std::size_t slot = Mix(entry_high_[entry], entry_id_[entry]) & mask;
    while (grown[slot] != kNone) {
      slot = (slot + 1) & mask;
    }
    grown[slot] = entry;
  }
  table_ = std::move(grown);
}

Status TraceBuilder::GiveUpChaining() {
  std::uint64_t refs = 0;
  for (const TraceRequest& request : trace_.requests_) {
    refs += request.block_count;
  }
  // Chained requests may name far more blocks than there is memory for.
  const std::uint64_t needed_bytes = memory_bytes() + refs * sizeof(std::uint32_t);
  if (needed_bytes > memory_max_bytes_) {
    return MemoryError(needed_bytes);
  }
  trace_.refs_.reserve(refs);
  std::vector<EntryIndex> path;
  for (TraceRequest& request : trace_.requests_) {
    path.resize(request.block_count);
    trace_.ReadPath(request, path);
    request.location = trace_.refs_.size();
    for (const EntryIndex entry : path) {
      trace_.refs_.push_back(static_cast<std::uint32_t>(entry));
    }
  }
  trace_.is_chained_ = false;
  return Status::Ok();
}

void TraceBuilder::AddRequest(const RawRequest& request) {
  TraceRequest added{.time_ms = request.time_ms,
                     .input_tokens = request.input_tokens,
                     .output_tokens = request.output_tokens,
                     .block_count = static_cast<std::uint32_t>(path_.size())};
  if (!request.session.empty()) {
    session_name_.assign(std::to_string(scope_)).append(1, ':').append(request.session);
    added.session =
        sessions_.try_emplace(session_name_, static_cast<std::uint32_t>(sessions_.size()))
            .first->second;
  }
  if (trace_.is_chained_) {
    added.location = path_.empty() ? kNone : path_.back();
  } else {
    added.location = trace_.refs_.size();
    trace_.refs_.insert(trace_.refs_.end(), path_.begin(), path_.end());
  }
  trace_.requests_.push_back(added);
}

std::uint64_t TraceBuilder::memory_bytes() const {
  // A session's name, its number and what a hash map's node and bucket add.
  constexpr std::uint64_t kSessionBytes = 96;
  return trace_.memory_bytes() + table_.capacity() * sizeof(table_[0]) +
         entry_id_.capacity() * sizeof(entry_id_[0]) +
         entry_high_.capacity() * sizeof(entry_high_[0]) + path_.capacity() * sizeof(path_[0]) +
         stream_starts_.capacity() * sizeof(stream_starts_[0]) + sessions_.size() * kSessionBytes;
}

Result<Trace> TraceBuilder::Finish(TraceOrigin origin,
                                   const TraceSelection& selection,
                                   bool merge_by_time) {
  table_ = {};
  entry_id_ = {};
  entry_high_ = {};
  path_ = {};
  sessions_ = {};
  if (merge_by_time && stream_starts_.size() > 1) {
    trace_.requests_ = MergeStreams();
  }
  Select(selection);
  DropUnnamedBlocks();
  RenumberSessions();
  for (const TraceRequest& request : trace_.requests_) {
    trace_.block_refs_ += request.block_count;
    trace_.input_tokens_ += request.input_tokens;
    trace_.path_blocks_max_ = std::max(trace_.path_blocks_max_, request.block_count);
  }
  trace_.requests_.shrink_to_fit();
  trace_.origin_ = std::move(origin);
  return std::move(trace_);
}

std::vector<TraceRequest> TraceBuilder::MergeStreams() const {
  struct Head {
    std::int64_t time_ms;
    std::size_t stream;
    std::size_t next;
    std::size_t end;
  };
  const auto is_later = [](const Head& a, const Head& b) {
    return std::pair(a.time_ms, a.stream) > std::pair(b.time_ms, b.stream);
  };
  const std::span<const TraceRequest> requests = trace_.requests_;
  std::vector<Head> heads;
  for (std::size_t stream = 0; stream < stream_starts_.size(); ++stream) {
    const std::size_t begin = stream_starts_[stream];
    const std::size_t end =
        stream + 1 < stream_starts_.size() ? stream_starts_[stream + 1] : requests.size();
    if (begin < end) {
      heads.push_back({requests[begin].time_ms, stream, begin, end});
    }
  }
  std::make_heap(heads.begin(), heads.end(), is_later);
  std::vector<TraceRequest> merged;
  merged.reserve(requests.size());
  while (!heads.empty()) {
    std::pop_heap(heads.begin(), heads.end(), is_later);
    Head& head = heads.back();
    merged.push_back(requests[head.next]);
    if (++head.next == head.end) {
      heads.pop_back();
      continue;
    }
    // A stream whose times go back keeps its order: what comes late is as late as its predecessor.
    head.time_ms = std::max(head.time_ms, requests[head.next].time_ms);
    std::push_heap(heads.begin(), heads.end(), is_later);
  }
  return merged;
}

void TraceBuilder::Select(const TraceSelection& selection) {
  if (trace_.requests_.empty()) {
    return;
  }
  const std::int64_t origin_ms = trace_.requests_.front().time_ms;
  std::erase_if(trace_.requests_, [&](const TraceRequest& request) {
    std::int64_t offset_ms = 0;
    if (__builtin_sub_overflow(request.time_ms, origin_ms, &offset_ms)) {
      offset_ms = request.time_ms < origin_ms ? INT64_MIN : INT64_MAX;
    }
    // Unsorted times may lie before the first request's; without --from they stay.
    return (selection.from_ms > 0 && offset_ms < selection.from_ms) ||
           (selection.to_ms < INT64_MAX && offset_ms >= selection.to_ms);
  });
  if (trace_.requests_.size() > selection.requests_max) {
    trace_.requests_.resize(selection.requests_max);
  }
}

void TraceBuilder::DropUnnamedBlocks() {
  const std::size_t entries = trace_.parent_.size();
  std::vector<std::uint32_t> renumbered(entries, 0);
  for (const TraceRequest& request : trace_.requests_) {
    if (trace_.is_chained_) {
      if (request.block_count > 0) {
        renumbered[request.location] = 1;
      }
      continue;
    }
    for (std::size_t i = 0; i < request.block_count; ++i) {
      renumbered[trace_.refs_[request.location + i]] = 1;
    }
  }
  if (trace_.is_chained_) {  // Whoever has a named child is named too; parents are numbered lower.
    for (std::size_t entry = entries; entry-- > 0;) {
      if (renumbered[entry] != 0 && trace_.parent_[entry] != kNone) {
        renumbered[trace_.parent_[entry]] = 1;
      }
    }
  }
  std::uint32_t kept = 0;
  for (std::uint32_t& number : renumbered) {
    number = number != 0 ? kept++ : kNone;
  }
  if (kept == entries) {
    return;
  }
  for (std::size_t entry = 0; entry < entries; ++entry) {
    const std::uint32_t number = renumbered[entry];
    if (number == kNone) {
      continue;
    }
    std::uint32_t parent = trace_.parent_[entry];
    parent = parent == kNone ? kNone : renumbered[parent];
    const bool continues = parent != kNone && parent + 1 == number;
    trace_.parent_[number] = parent;
    trace_.run_start_[number] = continues ? trace_.run_start_[parent] : number;
  }
  trace_.parent_.resize(kept);
  trace_.run_start_.resize(kept);
  for (TraceRequest& request : trace_.requests_) {
    if (trace_.is_chained_ && request.block_count > 0) {
      request.location = renumbered[request.location];
    }
  }
  for (std::uint32_t& entry : trace_.refs_) {
    entry =
        renumbered[entry];  // References of dropped requests may become kNone; nobody reads them.
  }
}

void TraceBuilder::RenumberSessions() {
  std::unordered_map<std::uint32_t, std::uint32_t> renumbered;
  for (TraceRequest& request : trace_.requests_) {
    if (request.session != kNoSession) {
      request.session =
          renumbered.try_emplace(request.session, static_cast<std::uint32_t>(renumbered.size()))
              .first->second;
    }
  }
  trace_.session_count_ = static_cast<std::uint32_t>(renumbered.size());
}

}  // namespace kvferry::replay
