// AutoPolicy: keeps what is likeliest to come back per second of waiting, as learned from the
// traffic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "kvferry/policy.h"

#include "policy/departed_entries.h"
#include "policy/path_segments.h"
#include "policy/reuse_model.h"

namespace kvferry::policy {

// The default policy; docs/policies.md tells how it came about and what it reaches.
//
// Blocks live in pieces of paths (PathSegments); a piece belongs to a class of the ReuseModel by
// what its last request was like: which turn of its conversation, after what gap, how much was new,
// whether several conversations share it. Among the leaves the victim is the last block of the one
// whose class and age are worth least; of two that are worth the same, the one touched longer ago.
// A new block that is worth less than every leaf is refused, and with it the rest of its path.
//
// A request goes on with a conversation if it names all but at most the last block of an earlier
// request's path, or at least half of that path and of its own; and two blocks at least. Access::
// session and Access::tag are not needed.
//
// Leaf rule: only leaves go, and only children of residents come, so residents stay prefixes.
// Held blocks are passed over with all in front of them on their path, unless nothing else is left.
//
// What has departed or was refused is remembered, up to PolicyOptions::remembered_max blocks at the
// end of each request, four times the residents by default; the first to depart is forgotten first.
// What is erased or failed is forgotten at once.
//
// Age is Access::now; where it goes back, the newest time so far stands. Nine bytes an entry, and a
// hundred and fifty a piece. Amortised constant time a piece for the choice of victims: the order
// is computed anew after a number of requests that grows with the number of leaves, and what
// changes in between is looked at when it comes up.
//
// Thread-compatible.
class AutoPolicy final : public EvictionPolicy {
 public:
  static constexpr std::string_view kName = "auto";

  explicit AutoPolicy(const PolicyOptions& options);

  // Root first, so that the deep end of a path that is not worth its place is never stored.
  TouchOrder touch_order() const noexcept override { return TouchOrder::kHeadFirst; }
  void OnRequest(const Access& access,
                 std::span<const EntryIndex> path,
                 std::uint32_t leading_resident) override;
  // The announcement has touched them already.
  void OnHit(std::span<const EntryIndex> /*run*/) override {}
  bool Admit(EntryIndex entry) override;
  void OnInsert(EntryIndex entry, EntryIndex parent) override;
  EntryIndex TakeVictim(FunctionRef<bool(EntryIndex)> is_held) override;
  void OnRemove(EntryIndex entry, RemoveReason reason) override;
  std::size_t Forget(std::span<EntryIndex> freed) override;

  // What keeping the known block is worth now, in hits a second.
  double WorthOf(EntryIndex entry) const {
    return WorthOfSegment(segments_.segment_of(NumberOf(entry)));
  }
  std::uint32_t departed_count() const { return segments_.departed_count(); }
  std::size_t memory_bytes() const noexcept override {
    return segments_.memory_bytes() + model_.memory_bytes() + forgotten_.memory_bytes() +
           BytesOf(candidates_);
  }

 private:
  struct Candidate {
    double worth = 0;
    std::int64_t touched_ns = 0;
    std::uint32_t segment = kNoSegment;
    std::uint32_t visit = 0;  // Of the segment when it became a candidate.
  };

  double WorthOfSegment(std::uint32_t segment) const;
  std::uint32_t AgeOf(const PathSegment& piece) const {
    return ReuseModel::AgeBucket(now_ns_ - piece.touched_ns);
  }
  static bool GoesLater(const Candidate& a, const Candidate& b);
  void StartConversation(const Access& access, std::size_t known_blocks);
  void Touch(std::uint32_t segment, bool is_last_block);
  void MarkTouched(PathSegment& piece, bool is_last_block);
  std::uint32_t ClassFor(std::uint32_t touches, bool is_last_block) const;
  bool IsLastOfPath(std::uint32_t entry) const {
    return path_.size() > 1 && NumberOf(path_.back()) == entry;
  }
  void Remember(std::uint32_t entry, std::uint32_t previous);
  std::uint32_t PreviousOnPath(std::uint32_t entry);
  void RefreshModelIfDue();
  void OrderCandidates();
  void AddNewCandidates();
  void PushCandidate(std::uint32_t segment);
  // The top of the heap, made true; kNoSegment if there is none. Not the frontier.
  std::uint32_t BestVictim();
  void PopCandidate();
  EntryIndex AnyVictim(FunctionRef<bool(EntryIndex)> is_held) const;
  void ForgetDownTo(std::uint32_t departed_max);

  PathSegments segments_;
  ReuseModel model_;
  DepartedEntries forgotten_;
  std::uint32_t residents_max_;
  std::uint32_t remembered_max_;

  // Of the request at hand.
  std::span<const EntryIndex> path_;
  std::vector<std::uint32_t> followed_;
  PathSegment visitor_;    // What it leaves on the pieces that it touches.
  std::size_t asked_ = 0;  // Position on the path of the last block that was asked for.
  std::uint32_t added_segment_ = kNoSegment;
  std::uint32_t frontier_ = kNoSegment;   // Holds the deepest resident block of the path.
  std::uint32_t set_aside_ = kNoSegment;  // A frontier that was no candidate for that reason.
  bool refuses_ = false;

  std::vector<Candidate> candidates_;  // A heap, the least worth on top.
  std::size_t candidates_max_ = std::numeric_limits<std::size_t>::max();
  std::vector<Candidate> passed_over_;  // Scratch: held ones of one TakeVictim.
  std::uint32_t order_countdown_ = 0;
  std::uint32_t refresh_countdown_ = 1;
  std::uint32_t refresh_interval_ = 1;
  std::int64_t now_ns_ = INT64_MIN;
  std::uint32_t visit_ = 0;
};

}  // namespace kvferry::policy
