// Splitting, moving and counting pieces.
#include "policy/path_segments.h"

#include <algorithm>

#include "base/assert.h"

namespace kvferry::policy {
namespace {

constexpr std::uint32_t kNoBlock = 0xffffffff;

}  // namespace

PathSegments::PathSegments(std::uint32_t entries_max, bool is_reserved)
    : nodes_(entries_max), is_resident_(entries_max) {
  if (is_reserved) {
    const std::size_t pieces_max = std::size_t{2} * entries_max;
    segments_.reserve(pieces_max);
    departed_links_.reserve(pieces_max);
    followed_at_.reserve(pieces_max);
    free_.reserve(pieces_max);
    leaves_.reserve(entries_max);
    new_leaves_.reserve(pieces_max);
  }
}

std::size_t PathSegments::Follow(std::span<const EntryIndex> path,
                                 std::vector<std::uint32_t>& followed) {
  followed.clear();
  ++follow_;
  std::uint32_t previous = kNoBlock;
  std::uint32_t parent = kNoSegment;
  std::size_t begin = 0;
  while (begin < path.size()) {
    const std::uint32_t entry = NumberOf(path[begin]);
    std::uint32_t segment = nodes_[entry].segment;
    if (segment == kNoSegment || followed_at_[segment] == follow_) {
      break;  // Unknown, or repeated.
    }
    if (segments_[segment].first != entry) {
      SplitBefore(entry);
    }
    if (nodes_[entry].previous != previous || segments_[segment].parent != parent) [[unlikely]] {
      MoveBehind(segment, parent, previous);
    }
    std::size_t end = begin + 1;
    while (end < path.size() && nodes_[NumberOf(path[end])].segment == segment &&
           nodes_[NumberOf(path[end])].previous == NumberOf(path[end - 1])) {
      ++end;
    }
    previous = NumberOf(path[end - 1]);
    if (previous != segments_[segment].last) {
      segment = SplitBehind(previous);
    }
    followed_at_[segment] = follow_;
    followed.push_back(segment);
    RequeueDeparted(segment);
    parent = segment;
    begin = end;
  }
  return begin;
}

std::uint32_t PathSegments::Append(std::uint32_t entry,
                                   std::uint32_t previous,
                                   std::uint32_t segment) {
  KVFERRY_DCHECK(!is_known(entry));
  ++known_count_;
  const bool continues = segment != kNoSegment && previous != kNoBlock &&
                         nodes_[previous].segment == segment && segments_[segment].last == previous;
  if (continues && segments_[segment].children == 0) {
    nodes_[entry] = {segment, previous};
    segments_[segment].last = entry;
    ++segments_[segment].length;
    UpdateDeparted(segment);
    return segment;
  }
  const std::uint32_t added = NewSegment();
  segments_[added].first = entry;
  segments_[added].last = entry;
  segments_[added].length = 1;
  nodes_[entry] = {added, previous};
  if (previous != kNoBlock && is_known(previous)) {
    const std::uint32_t before = nodes_[previous].segment;
    if (segments_[before].last == previous) {
      segments_[added].parent = before;
      ++segments_[before].children;
      UpdateDeparted(before);
    }
  }
  UpdateDeparted(added);
  return added;
}

void PathSegments::Store(std::uint32_t entry) {
  KVFERRY_DCHECK(is_known(entry) && !is_resident(entry));
  const std::uint32_t segment = nodes_[entry].segment;
  const PathSegment& piece = segments_[segment];
  const bool is_next = piece.resident_count == 0 ? piece.first == entry
                                                 : nodes_[entry].previous == piece.resident_last;
  if (!is_next) {
    SplitBefore(entry);
  }
  is_resident_[entry] = 1;
  ++resident_count_;
  SetResidentCount(segment, segments_[segment].resident_count + 1, entry);
}

void PathSegments::Depart(std::uint32_t entry) {
  KVFERRY_DCHECK(is_resident(entry));
  std::uint32_t segment = nodes_[entry].segment;
  if (segments_[segment].resident_last != entry) {
    segment = SplitBehind(entry);
  }
  is_resident_[entry] = 0;
  --resident_count_;
  SetResidentCount(segment, segments_[segment].resident_count - 1, nodes_[entry].previous);
}

void PathSegments::Erase(std::uint32_t entry) {
  if (is_resident(entry)) {
    Depart(entry);
  }
  std::uint32_t segment = nodes_[entry].segment;
  if (segments_[segment].last != entry) {
    segment = SplitBehind(entry);
  }
  if (segments_[segment].first != entry) {
    SplitBefore(entry);
  }
  Unhang(segment);
  PathSegment& piece = segments_[segment];
  piece.length = 0;
  nodes_[entry] = {};
  --known_count_;
  UpdateDeparted(segment);
  FreeIfEmpty(segment);
}

std::uint32_t PathSegments::NextToForget() {
  if (departed_first_ != kNoSegment) {
    return departed_first_;
  }
  return departed_count() > 0 ? FindDepartedInside() : kNoSegment;
}

std::uint32_t PathSegments::ForgetLast(std::uint32_t segment) {
  PathSegment& piece = segments_[segment];
  const std::uint32_t entry = piece.last;
  KVFERRY_DCHECK(piece.length > piece.resident_count);
  if (piece.children > 0) {
    Erase(entry);
    return entry;
  }
  if (piece.length == 1) {
    const std::uint32_t parent = piece.parent;
    if (parent != kNoSegment) {
      segments_[parent].is_cut = true;
    }
    Erase(entry);
    return entry;
  }
  piece.last = nodes_[entry].previous;
  piece.is_cut = true;
  --piece.length;
  nodes_[entry] = {};
  --known_count_;
  UpdateDeparted(segment);
  return entry;
}

std::uint32_t PathSegments::NewSegment() {
  ++live_count_;
  std::uint32_t segment = segments_end();
  if (free_.empty()) {
    segments_.emplace_back();
    departed_links_.emplace_back();
    followed_at_.push_back(0);
  } else {
    segment = free_.back();
    free_.pop_back();
    segments_[segment] = {};
    followed_at_[segment] = 0;
  }
  segments_[segment].is_live = true;
  return segment;
}

void PathSegments::FreeIfEmpty(std::uint32_t segment) {
  PathSegment& piece = segments_[segment];
  if (piece.length == 0 && piece.children == 0) {
    piece.is_live = false;
    --live_count_;
    free_.push_back(segment);
  }
}

std::uint32_t PathSegments::SplitBehind(std::uint32_t entry) {
  const std::uint32_t lower = nodes_[entry].segment;
  const std::uint32_t upper = NewSegment();
  const std::uint32_t behind = [&] {  // The block after `entry`: found from the last one upwards.
    std::uint32_t block = segments_[lower].last;
    while (nodes_[block].previous != entry) {
      block = nodes_[block].previous;
    }
    return block;
  }();
  PathSegment& front = segments_[upper];
  PathSegment& back = segments_[lower];
  front = back;
  front.leaf_position = kNoSegment;
  front.is_cut = false;
  front.last = entry;
  front.length = 1;
  for (std::uint32_t block = entry; block != front.first; block = nodes_[block].previous) {
    nodes_[block].segment = upper;
    ++front.length;
  }
  nodes_[front.first].segment = upper;
  front.resident_count = std::min(back.resident_count, front.length);
  if (front.resident_count == front.length) {
    front.resident_last = entry;
  }
  front.children = 1;
  back.parent = upper;
  back.first = behind;
  back.length -= front.length;
  back.resident_count -= front.resident_count;
  front.resident_children = back.resident_count > 0 ? 1 : 0;
  UpdateLeaf(upper);
  UpdateLeaf(lower);
  UpdateDeparted(upper);
  UpdateDeparted(lower);
  return upper;
}

void PathSegments::SplitBefore(std::uint32_t entry) {
  if (segments_[nodes_[entry].segment].first != entry) {
    SplitBehind(nodes_[entry].previous);
  }
}

void PathSegments::MoveBehind(std::uint32_t segment, std::uint32_t parent, std::uint32_t previous) {
  Unhang(segment);
  PathSegment& piece = segments_[segment];
  nodes_[piece.first].previous = previous;
  piece.parent = parent;
  if (parent != kNoSegment) {
    ++segments_[parent].children;
    segments_[parent].resident_children += piece.resident_count > 0 ? 1 : 0;
    UpdateLeaf(parent);
    UpdateDeparted(parent);
  }
}

void PathSegments::Unhang(std::uint32_t segment) {
  PathSegment& piece = segments_[segment];
  const std::uint32_t parent = piece.parent;
  if (parent == kNoSegment) {
    return;
  }
  piece.parent = kNoSegment;
  --segments_[parent].children;
  segments_[parent].resident_children -= piece.resident_count > 0 ? 1 : 0;
  UpdateLeaf(parent);
  UpdateDeparted(parent);
  FreeIfEmpty(parent);
}

void PathSegments::SetResidentCount(std::uint32_t segment,
                                    std::uint32_t count,
                                    std::uint32_t last) {
  PathSegment& piece = segments_[segment];
  const bool was_resident = piece.resident_count > 0;
  piece.resident_count = count;
  piece.resident_last = last;
  if (was_resident != (count > 0)) {
    UpdateLeaf(segment);
    if (piece.parent != kNoSegment) {
      PathSegment& parent = segments_[piece.parent];
      parent.resident_children += was_resident ? 0xffffffff : 1;
      UpdateLeaf(piece.parent);
    }
  }
  UpdateDeparted(segment);
}

void PathSegments::UpdateLeaf(std::uint32_t segment) {
  PathSegment& piece = segments_[segment];
  const bool is_leaf = piece.resident_count > 0 && piece.resident_children == 0;
  if (is_leaf == (piece.leaf_position != kNoSegment)) {
    return;
  }
  if (is_leaf) {
    piece.leaf_position = static_cast<std::uint32_t>(leaves_.size());
    leaves_.push_back(segment);
    new_leaves_.push_back(segment);
    return;
  }
  const std::uint32_t moved = leaves_.back();
  leaves_[piece.leaf_position] = moved;
  segments_[moved].leaf_position = piece.leaf_position;
  leaves_.pop_back();
  piece.leaf_position = kNoSegment;
}

void PathSegments::UpdateDeparted(std::uint32_t segment) {
  const PathSegment& piece = segments_[segment];
  const bool waits = piece.children == 0 && piece.length > piece.resident_count;
  if (waits == departed_links_[segment].is_linked) {
    return;
  }
  if (waits) {
    LinkDeparted(segment);
  } else {
    UnlinkDeparted(segment);
  }
}

void PathSegments::RequeueDeparted(std::uint32_t segment) {
  if (departed_links_[segment].is_linked) {
    UnlinkDeparted(segment);
    LinkDeparted(segment);
  }
}

void PathSegments::LinkDeparted(std::uint32_t segment) {
  departed_links_[segment] = {kNoSegment, departed_last_, true};
  (departed_last_ == kNoSegment ? departed_first_ : departed_links_[departed_last_].next) = segment;
  departed_last_ = segment;
}

void PathSegments::UnlinkDeparted(std::uint32_t segment) {
  Link& link = departed_links_[segment];
  (link.previous == kNoSegment ? departed_first_ : departed_links_[link.previous].next) = link.next;
  (link.next == kNoSegment ? departed_last_ : departed_links_[link.next].previous) = link.previous;
  link.is_linked = false;
}

// Only where an owner took residents out of the middle of a path, or held them: a departed piece
// with something behind it.
std::uint32_t PathSegments::FindDepartedInside() const {
  for (std::uint32_t segment = 0; segment < segments_end(); ++segment) {
    const PathSegment& piece = segments_[segment];
    if (piece.is_live && piece.length > piece.resident_count) {
      return segment;
    }
  }
  return kNoSegment;
}

}  // namespace kvferry::policy
