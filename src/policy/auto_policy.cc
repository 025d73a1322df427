// From requests to touched pieces, and from worths to victims.
#include "policy/auto_policy.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "base/assert.h"

namespace kvferry::policy {
namespace {

constexpr std::uint32_t kNoBlock = 0xffffffff;
constexpr std::uint32_t kRememberedMultiple = 4;
// The model is refreshed after 1, 2, 4, ... requests, then each time after this many, or after so
// many that a refresh, which looks at every piece, costs little a request.
constexpr std::uint32_t kRefreshRequests = 200;
constexpr std::uint32_t kPiecesPerRefreshRequest = 16;
// The same for the order of the leaves.
constexpr std::uint32_t kLeavesPerOrderRequest = 32;
constexpr std::uint32_t kContinuedBlocksMin = 2;

// So many blocks of the piece as a share of the path that its last request named.
double ShareOf(const PathSegment& piece, std::uint32_t blocks) {
  return static_cast<double>(blocks) / std::max(1U, piece.path_blocks);
}

std::uint32_t RememberedMax(const PolicyOptions& options) {
  if (options.remembered_max > 0) {
    return options.remembered_max;
  }
  const std::uint64_t wanted = std::uint64_t{kRememberedMultiple} * options.residents_max;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, options.entries_max));
}

}  // namespace

AutoPolicy::AutoPolicy(const PolicyOptions& options)
    : segments_(options.entries_max, options.reports_forgotten),
      forgotten_(options),
      residents_max_(options.residents_max),
      remembered_max_(RememberedMax(options)) {
  // A live engine's step should not wait for the system's allocator.
  if (options.reports_forgotten) {
    candidates_max_ = std::size_t{2} * options.entries_max;
    candidates_.reserve(candidates_max_ + options.residents_max);
    followed_.reserve(options.entries_max);
    passed_over_.reserve(options.residents_max);
  }
}

void AutoPolicy::OnRequest(const Access& access,
                           std::span<const EntryIndex> path,
                           std::uint32_t /*leading_resident*/) {
  const std::int64_t now_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(access.now.time_since_epoch()).count();
  now_ns_ = std::max(now_ns_, now_ns);
  ++visit_;
  ForgetDownTo(remembered_max_);
  RefreshModelIfDue();

  if (segments_.new_leaves().size() >= candidates_max_ / 2) {
    AddNewCandidates();
  }
  path_ = path;
  asked_ = 0;
  if (set_aside_ != kNoSegment && segments_[set_aside_].leaf_position != kNoSegment) {
    PushCandidate(set_aside_);
  }
  set_aside_ = kNoSegment;
  added_segment_ = kNoSegment;
  frontier_ = kNoSegment;
  refuses_ = false;
  const std::size_t known_blocks = segments_.Follow(path, followed_);
  StartConversation(access, known_blocks);
  for (std::size_t i = 0; i < followed_.size(); ++i) {
    const PathSegment& piece = segments_[followed_[i]];
    const bool is_last_block =
        i + 1 == followed_.size() && known_blocks == path.size() && piece.length == 1;
    Touch(followed_[i], is_last_block);
    if (piece.resident_count > 0) {
      frontier_ = followed_[i];
    }
  }
  if (order_countdown_ > 0) {
    --order_countdown_;
  }
}

// Whether the request goes on with an earlier one, and what it will leave on its pieces.
void AutoPolicy::StartConversation(const Access& access, std::size_t known_blocks) {
  visitor_ = {};
  visitor_.visit = visit_;
  visitor_.request = access.request;
  visitor_.touched_ns = now_ns_;
  visitor_.path_blocks = static_cast<std::uint32_t>(path_.size());
  visitor_.added_blocks = static_cast<std::uint32_t>(path_.size() - known_blocks);
  if (followed_.empty()) {
    return;
  }
  const PathSegment& deepest = segments_[followed_.back()];
  if (access.request != 0 && deepest.request == access.request && path_.size() > 1) {
    visitor_.turn = deepest.turn;
    visitor_.gap_ns = deepest.gap_ns;
    visitor_.added_blocks += deepest.added_blocks;
    return;
  }
  const std::size_t earlier_blocks = deepest.path_blocks;
  const bool names_all =
      known_blocks + 1 >= earlier_blocks || (deepest.children == 0 && deepest.is_cut);
  const bool names_half = known_blocks * 2 >= earlier_blocks && known_blocks * 2 >= path_.size();
  if (known_blocks >= kContinuedBlocksMin && (names_all || names_half)) {
    visitor_.turn = deepest.turn + 1;
    visitor_.gap_ns = now_ns_ - deepest.touched_ns;
  }
}

void AutoPolicy::Touch(std::uint32_t segment, bool is_last_block) {
  PathSegment& piece = segments_[segment];
  const bool grows = visitor_.request != 0 && piece.request == visitor_.request && path_.size() > 1;
  if (!grows) {
    model_.CountReuse(piece.reuse_class, AgeOf(piece), ShareOf(piece, piece.length));
    ++piece.touches;
  }
  MarkTouched(piece, is_last_block);
  if (piece.leaf_position != kNoSegment) {
    PushCandidate(segment);
  }
}

void AutoPolicy::MarkTouched(PathSegment& piece, bool is_last_block) {
  piece.is_cut = false;
  piece.visit = visitor_.visit;
  piece.request = visitor_.request;
  piece.touched_ns = visitor_.touched_ns;
  piece.gap_ns = visitor_.gap_ns;
  piece.path_blocks = visitor_.path_blocks;
  piece.added_blocks = visitor_.added_blocks;
  piece.turn = visitor_.turn;
  piece.reuse_class = ClassFor(piece.touches, is_last_block);
}

std::uint32_t AutoPolicy::ClassFor(std::uint32_t touches, bool is_last_block) const {
  return ReuseModel::ClassOf({.touches = touches,
                              .turn = visitor_.turn,
                              .added_blocks = visitor_.added_blocks,
                              .gap_ns = visitor_.gap_ns,
                              .is_last_block = is_last_block});
}

// The block before `entry` on the path at hand, kNoBlock for a root; moves asked_ to the entry. An
// entry that is not ahead on the path stands alone.
std::uint32_t AutoPolicy::PreviousOnPath(std::uint32_t entry) {
  std::size_t position = asked_;
  while (position < path_.size() && NumberOf(path_[position]) != entry) {
    ++position;
  }
  if (position == path_.size()) {
    return kNoBlock;
  }
  asked_ = position;
  return position > 0 ? NumberOf(path_[position - 1]) : kNoBlock;
}

// Makes an unknown block of the request at hand known.
void AutoPolicy::Remember(std::uint32_t entry, std::uint32_t previous) {
  const bool is_last_block = IsLastOfPath(entry);
  const std::uint32_t segment =
      segments_.Append(entry, previous, is_last_block ? kNoSegment : added_segment_);
  forgotten_.Withdraw(entry);
  if (segment != added_segment_) {
    PathSegment& piece = segments_[segment];
    piece.touches = 1;
    MarkTouched(piece, is_last_block);
    added_segment_ = segment;
  }
}

bool AutoPolicy::Admit(EntryIndex entry) {
  const std::uint32_t number = NumberOf(entry);
  const std::uint32_t previous = PreviousOnPath(number);
  const bool is_known = segments_.is_known(number);
  if (!refuses_ && (previous == kNoBlock || segments_.is_resident(previous))) {
    if (segments_.resident_count() < residents_max_) {
      return true;
    }
    const double worth = is_known ? WorthOfSegment(segments_.segment_of(number))
                                  : model_.WorthOf(ClassFor(1, IsLastOfPath(number)), 0);
    if (BestVictim() != kNoSegment && candidates_.front().worth <= worth) {
      return true;
    }
  }
  refuses_ = true;
  if (!is_known) {
    Remember(number, previous);
  }
  return false;
}

void AutoPolicy::OnInsert(EntryIndex entry, EntryIndex parent) {
  const std::uint32_t number = NumberOf(entry);
  if (!segments_.is_known(number)) {
    Remember(number, NumberOf(parent));
  }
  segments_.Store(number);
  frontier_ = segments_.segment_of(number);
}

EntryIndex AutoPolicy::TakeVictim(FunctionRef<bool(EntryIndex)> is_held) {
  EntryIndex victim = kNoEntry;
  while (victim == kNoEntry) {
    const std::uint32_t segment = BestVictim();
    if (segment == kNoSegment) {
      break;
    }
    const EntryIndex last{segments_[segment].resident_last};
    if (!is_held(last)) [[likely]] {
      victim = last;
      break;
    }
    passed_over_.push_back(candidates_.front());
    PopCandidate();
  }
  for (const Candidate& candidate : passed_over_) {
    candidates_.push_back(candidate);
    std::push_heap(candidates_.begin(), candidates_.end(), GoesLater);
  }
  passed_over_.clear();
  return victim != kNoEntry ? victim : AnyVictim(is_held);
}

void AutoPolicy::OnRemove(EntryIndex entry, RemoveReason reason) {
  const std::uint32_t number = NumberOf(entry);
  segments_.Depart(number);
  if (reason != RemoveReason::kEvicted) {
    segments_.Erase(number);
    forgotten_.Add(number);
  }
}

std::size_t AutoPolicy::Forget(std::span<EntryIndex> freed) {
  ForgetDownTo(remembered_max_);
  return forgotten_.Take(freed);
}

double AutoPolicy::WorthOfSegment(std::uint32_t segment) const {
  const PathSegment& piece = segments_[segment];
  return model_.WorthOf(piece.reuse_class, AgeOf(piece));
}

void AutoPolicy::RefreshModelIfDue() {
  if (--refresh_countdown_ > 0) {
    return;
  }
  model_.BeginRefresh();
  for (std::uint32_t segment = 0; segment < segments_.segments_end(); ++segment) {
    const PathSegment& piece = segments_[segment];
    if (piece.is_live && piece.length > 0) {
      model_.CountWaiting(piece.reuse_class, AgeOf(piece), ShareOf(piece, piece.length));
    }
  }
  model_.FinishRefresh();
  refresh_interval_ = std::min(refresh_interval_ * 2, kRefreshRequests);
  refresh_countdown_ =
      std::max(refresh_interval_, segments_.segment_count() / kPiecesPerRefreshRequest);
  order_countdown_ = 0;
}

// A heap has on top what goes last by this order.
bool AutoPolicy::GoesLater(const Candidate& a, const Candidate& b) {
  if (a.worth != b.worth) {
    return a.worth > b.worth;
  }
  if (a.touched_ns != b.touched_ns) {
    return a.touched_ns > b.touched_ns;
  }
  return a.segment > b.segment;
}

void AutoPolicy::OrderCandidates() {
  candidates_.clear();
  for (const std::uint32_t segment : segments_.leaves()) {
    const PathSegment& piece = segments_[segment];
    candidates_.push_back({WorthOfSegment(segment), piece.touched_ns, segment, piece.visit});
  }
  std::make_heap(candidates_.begin(), candidates_.end(), GoesLater);
  segments_.ClearNewLeaves();
  order_countdown_ =
      1 + static_cast<std::uint32_t>(segments_.leaves().size()) / kLeavesPerOrderRequest;
}

// Most of what fills the heap is out of date, and not there any more once it is ordered anew.
void AutoPolicy::PushCandidate(std::uint32_t segment) {
  if (candidates_.size() >= candidates_max_) {
    OrderCandidates();
    return;  // The segment is a leaf, so it is there.
  }
  const PathSegment& piece = segments_[segment];
  candidates_.push_back({WorthOfSegment(segment), piece.touched_ns, segment, piece.visit});
  std::push_heap(candidates_.begin(), candidates_.end(), GoesLater);
}

void AutoPolicy::AddNewCandidates() {
  if (candidates_.size() + segments_.new_leaves().size() > candidates_max_) {
    OrderCandidates();
    return;
  }
  for (const std::uint32_t segment : segments_.new_leaves()) {
    if (segments_[segment].leaf_position != kNoSegment) {
      PushCandidate(segment);
    }
  }
  segments_.ClearNewLeaves();
}

void AutoPolicy::PopCandidate() {
  std::pop_heap(candidates_.begin(), candidates_.end(), GoesLater);
  candidates_.pop_back();
}

std::uint32_t AutoPolicy::BestVictim() {
  if (order_countdown_ == 0) {
    OrderCandidates();
  }
  if (!segments_.new_leaves().empty()) {
    AddNewCandidates();
  }
  while (!candidates_.empty()) {
    const Candidate top = candidates_.front();
    const PathSegment& piece = segments_[top.segment];
    if (piece.leaf_position == kNoSegment || piece.visit != top.visit || !piece.is_live) {
      PopCandidate();
      continue;
    }
    if (top.segment == frontier_) {
      set_aside_ = frontier_;
      PopCandidate();
      continue;
    }
    const double worth = WorthOfSegment(top.segment);
    if (worth > top.worth) {
      PopCandidate();
      PushCandidate(top.segment);
      continue;
    }
    return top.segment;
  }
  return kNoSegment;
}

// Where no candidate is left: the frontier, or any block that is not held, at the price of the leaf
// rule.
EntryIndex AutoPolicy::AnyVictim(FunctionRef<bool(EntryIndex)> is_held) const {
  for (const std::uint32_t segment : segments_.leaves()) {
    const EntryIndex last{segments_[segment].resident_last};
    if (!is_held(last)) {
      return last;
    }
  }
  for (std::uint32_t segment = 0; segment < segments_.segments_end(); ++segment) {
    const PathSegment& piece = segments_[segment];
    std::uint32_t entry = piece.resident_last;
    for (std::uint32_t i = 0; i < piece.resident_count; ++i) {
      if (!is_held(EntryIndex{entry})) {
        return EntryIndex{entry};
      }
      entry = segments_.previous_of(entry);
    }
  }
  return kNoEntry;
}

void AutoPolicy::ForgetDownTo(std::uint32_t departed_max) {
  while (segments_.departed_count() > departed_max) {
    const std::uint32_t segment = segments_.NextToForget();
    KVFERRY_DCHECK(segment != kNoSegment);
    const PathSegment& piece = segments_[segment];
    const std::uint32_t excess = segments_.departed_count() - departed_max;
    // Where something hangs on the piece, forgetting its last block takes the piece apart.
    std::uint32_t count =
        piece.children > 0 ? 1 : std::min(excess, piece.length - piece.resident_count);
    model_.CountUnwatched(piece.reuse_class, AgeOf(piece), ShareOf(piece, count));
    for (; count > 0; --count) {
      forgotten_.Add(segments_.ForgetLast(segment));
    }
  }
}

}  // namespace kvferry::policy
