// Trace: the decoded requests of a trace, with block ids turned into entry numbers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kvferry/status.h"
#include "kvferry/types.h"

namespace kvferry::replay {

inline constexpr std::uint32_t kNoSession = 0xffffffff;

struct TraceRequest {
  std::int64_t time_ms = 0;  // From the trace's own origin, truncated to whole milliseconds.
  std::uint32_t input_tokens = 0;
  std::uint32_t output_tokens = 0;
  std::uint32_t session = kNoSession;  // Index of a session id given by the trace.
  std::uint32_t block_count = 0;
  // Chained traces: the last block (an EntryIndex). Others: where the references start.
  std::uint64_t location = 0;
};

// What is known of a trace beside its requests; filled by the reader.
struct TraceOrigin {
  std::string name;                // As given on the command line; several joined by " + ".
  std::string sha256;              // Of the file's bytes as given, hex; several joined by " + ".
  std::string format;              // Reader's name, "mooncake" and so on.
  std::uint32_t block_tokens = 0;  // 0: the trace has no block ids.
  bool has_blocks = true;
  bool has_sessions = false;  // Session ids are given, not inferred.
  std::uint64_t skipped_lines = 0;
  std::vector<std::string> notes;  // What a report must say: drawn session starts, unsorted times.
};

// Immutable once built. Entries are numbered so that a parent's number is below its children's.
//
// A chained trace (each id always has the same predecessor) keeps, per request, only the last block
// and the length over a parent table: memory follows distinct blocks plus requests. Any other trace
// keeps four bytes a reference.
//
// Thread-safe after construction.
class Trace {
 public:
  const TraceOrigin& origin() const noexcept { return origin_; }
  TraceOrigin& mutable_origin() noexcept { return origin_; }
  std::span<const TraceRequest> requests() const noexcept { return requests_; }
  std::uint32_t distinct_blocks() const noexcept {
    return static_cast<std::uint32_t>(parent_.size());
  }
  std::uint64_t block_refs() const noexcept { return block_refs_; }
  std::uint64_t input_tokens() const noexcept { return input_tokens_; }
  std::uint32_t session_count() const noexcept { return session_count_; }
  std::uint32_t path_blocks_max() const noexcept { return path_blocks_max_; }
  bool is_chained() const noexcept { return is_chained_; }
  // What the decoded requests and their paths hold.
  std::uint64_t memory_bytes() const noexcept;

  // Chained traces only: the block before this one on every path, kNoEntry for a root.
  EntryIndex parent(EntryIndex entry) const {
    return EntryIndex{parent_[static_cast<std::uint32_t>(entry)]};
  }

  // Chained traces only: the first of the consecutive entry numbers up to `entry` in which each is
  // the parent of the next, so that a path can be walked run by run.
  EntryIndex run_start(EntryIndex entry) const {
    return EntryIndex{run_start_[static_cast<std::uint32_t>(entry)]};
  }

  // Writes the request's blocks, root first, into `path`, whose size must be the block_count.
  void ReadPath(const TraceRequest& request, std::span<EntryIndex> path) const;

  // The tokens of this request's block at `position`: the block size, or what is left for a last
  // block that is not full.
  std::uint32_t BlockTokensAt(const TraceRequest& request, std::uint32_t position) const;
  // Tokens of the first `hit_blocks` blocks of a request.
  std::uint64_t PrefixTokens(const TraceRequest& request, std::uint32_t hit_blocks) const;

 private:
  friend class TraceBuilder;
  TraceOrigin origin_;
  std::vector<TraceRequest> requests_;
  std::vector<std::uint32_t> parent_;  // By entry. Meaningless unless is_chained_.
  // By entry: first of the numbers e-k..e that follow each other.
  std::vector<std::uint32_t> run_start_;
  std::vector<std::uint32_t> refs_;  // Unchained only: all references in request order.
  std::uint64_t block_refs_ = 0;
  std::uint64_t input_tokens_ = 0;
  std::uint32_t session_count_ = 0;
  std::uint32_t path_blocks_max_ = 0;
  bool is_chained_ = true;
};

// One request as a reader sees it.
struct RawRequest {
  std::int64_t time_ms = 0;
  std::uint32_t input_tokens = 0;
  std::uint32_t output_tokens = 0;
  std::string_view session;  // Empty: none given.
  std::span<const std::uint64_t> ids;
};

// Which of the requests count, in this order; times are relative to the first request.
struct TraceSelection {
  std::int64_t from_ms = 0;
  std::int64_t to_ms = INT64_MAX;  // Exclusive.
  std::uint64_t requests_max = UINT64_MAX;

  // Whether a request so long after the first one lies in the span. Times may go back, so without a
  // lower end those before the first one count too.
  bool Takes(std::int64_t offset_ms) const {
    return (from_ms <= 0 || offset_ms >= from_ms) && offset_ms < to_ms;
  }
};

// Builds a Trace from requests in any number of streams (files, or sessions that draw their start).
//
// Thread-compatible.
class TraceBuilder {
 public:
  // `memory_max_bytes`: Add fails with kResourceExhausted, naming what the trace needs, above it.
  explicit TraceBuilder(std::uint64_t memory_max_bytes = UINT64_MAX);

  // Ids of different scopes are different blocks. A stream's requests keep their order; streams are
  // merged by time in Finish, the earlier stream first among equals. Session names are told apart
  // by scope too.
  void BeginStream(std::uint32_t scope);
  // ids stand for whole prefixes (each id names everything before it too).
  Status Add(const RawRequest& request);
  // ids stand for single blocks: the reader's format hashes each block by itself, so equal ids are
  // equal prefixes only when everything before them is equal too.
  Status AddUnchainedIds(const RawRequest& request);

  // False from the first request on that gives a block another predecessor than an earlier one did.
  bool is_chained() const noexcept { return trace_.is_chained_; }
  // Bytes held now, vectors counted with the room that they have in reserve.
  std::uint64_t memory_bytes() const;

  // Merges the streams, selects, drops blocks that no request names any more. `merge_by_time` false
  // keeps the order of adding (one file whose times are not sorted stands as it is).
  Result<Trace> Finish(TraceOrigin origin, const TraceSelection& selection, bool merge_by_time);

 private:
  std::uint32_t FindOrAdd(std::uint32_t high, std::uint64_t id, std::uint32_t parent);
  void Grow();
  Status AddPath(const RawRequest& request, bool ids_are_single);
  // Takes over what already known run of blocks continues path_[begin - 1]; the position behind it.
  std::size_t FollowRun(std::span<const std::uint64_t> ids, std::size_t begin, bool ids_are_single);
  Status GiveUpChaining();
  Status MemoryError(std::uint64_t needed_bytes) const;
  void AddRequest(const RawRequest& request);
  std::vector<TraceRequest> MergeStreams() const;
  void Select(const TraceSelection& selection);
  void DropUnnamedBlocks();
  void RenumberSessions();

  Trace trace_;
  // Open addressing from (scope or parent, id) to an entry number; the pair is kept by entry.
  std::vector<std::uint32_t> table_;
  std::vector<std::uint64_t> entry_id_;
  std::vector<std::uint32_t> entry_high_;
  std::vector<std::uint32_t> path_;  // Of the request at hand.
  std::vector<std::size_t> stream_starts_;
  std::unordered_map<std::string, std::uint32_t> sessions_;
  std::string session_name_;
  std::uint64_t memory_max_bytes_;
  std::uint32_t scope_ = 0;
  std::uint32_t scopes_max_ = 1;
};

}  // namespace kvferry::replay
