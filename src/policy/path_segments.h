// PathSegments: remembered blocks as a tree of path pieces that were always touched together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kvferry/policy.h"

#include "policy/entry_list.h"

namespace kvferry::policy {

inline constexpr std::uint32_t kNoSegment = 0xffffffff;

// A piece of a path. Its resident blocks are its first ones.
struct PathSegment {
  std::uint32_t parent = kNoSegment;  // Ends right before this one begins.
  std::uint32_t first = 0;            // Entry numbers; valid while length > 0.
  std::uint32_t last = 0;
  std::uint32_t resident_last = 0;  // Valid while resident_count > 0.
  std::uint32_t length = 0;         // 0: erased, kept while pieces behind it name it.
  std::uint32_t resident_count = 0;
  std::uint32_t children = 0;
  std::uint32_t resident_children = 0;
  std::uint32_t leaf_position = kNoSegment;  // In leaves().
  bool is_live = false;
  bool is_cut = false;  // What followed it was forgotten since it was touched.

  // What the last request that touched it left; kept here for the policy.
  std::uint32_t visit = 0;    // The policy's count of requests.
  std::uint64_t request = 0;  // Access::request.
  std::int64_t touched_ns = 0;
  std::int64_t gap_ns = -1;
  std::uint32_t path_blocks = 0;
  std::uint32_t added_blocks = 0;
  std::uint32_t turn = 0;
  std::uint32_t touches = 0;
  std::uint32_t reuse_class = 0;
};

// All blocks of a piece share their past, so a policy decides for pieces and pays little for
// blocks. A piece is split where a request leaves it; everything that hangs on a piece hangs on its
// last block. Known blocks are resident or departed ones; departed pieces without children wait
// to be forgotten, in the order of departing or, if later, of being followed.
//
// Ids of other traces may contradict the tree: a block that comes behind another predecessor than
// before is moved there with all that follows it; a path is followed up to its first repetition.
//
// Thread-compatible.
class PathSegments {
 public:
  // `is_reserved`: room for twice as many pieces as entries is taken at once, so that only long
  // chains of erased pieces, which others name, can need more later. Without it tables grow with
  // the pieces.
  PathSegments(std::uint32_t entries_max, bool is_reserved);

  bool is_known(std::uint32_t entry) const { return nodes_[entry].segment != kNoSegment; }
  bool is_resident(std::uint32_t entry) const { return is_resident_[entry] != 0; }
  // Known entries only.
  std::uint32_t segment_of(std::uint32_t entry) const { return nodes_[entry].segment; }
  PathSegment& operator[](std::uint32_t segment) { return segments_[segment]; }
  const PathSegment& operator[](std::uint32_t segment) const { return segments_[segment]; }
  // Numbers below this may be live segments.
  std::uint32_t segments_end() const { return static_cast<std::uint32_t>(segments_.size()); }
  std::uint32_t segment_count() const { return live_count_; }
  // Of what was in use at some time.
  std::size_t memory_bytes() const noexcept {
    return BytesOf(nodes_) + BytesOf(is_resident_) + BytesOf(segments_) + BytesOf(departed_links_) +
           BytesOf(free_) + BytesOf(leaves_) + BytesOf(new_leaves_) + BytesOf(followed_at_);
  }
  std::uint32_t known_count() const { return known_count_; }
  std::uint32_t resident_count() const { return resident_count_; }
  std::uint32_t departed_count() const { return known_count_ - resident_count_; }
  // Segments with a resident block and no resident child, in no order.
  std::span<const std::uint32_t> leaves() const { return leaves_; }
  // Those that became leaves since the last ClearNewLeaves.
  std::span<const std::uint32_t> new_leaves() const { return new_leaves_; }
  void ClearNewLeaves() { new_leaves_.clear(); }

  // Splits and moves pieces so that the known part of the path is a run of whole pieces, writes
  // them to `followed`, root first, and returns how many blocks they hold.
  std::size_t Follow(std::span<const EntryIndex> path, std::vector<std::uint32_t>& followed);

  // Makes an unknown entry known, as departed, behind `previous` on a path (kNoEntry: a root). It
  // goes on with `segment` where that ends with `previous`; otherwise, and for kNoSegment, it is a
  // piece of its own. Returns its piece.
  std::uint32_t Append(std::uint32_t entry, std::uint32_t previous, std::uint32_t segment);
  // The known entry is resident from now on.
  void Store(std::uint32_t entry);
  // The resident entry is departed from now on.
  void Depart(std::uint32_t entry);
  // The known entry is not known any more; what follows it stays.
  void Erase(std::uint32_t entry);
  // Whether `entry` is right before `next` in the tree.
  std::uint32_t previous_of(std::uint32_t entry) const { return nodes_[entry].previous; }

  // The piece whose last block may be forgotten next: it has waited longest. kNoSegment if there is
  // none departed.
  std::uint32_t NextToForget();
  // Forgets the last, departed, block of such a piece and returns it.
  std::uint32_t ForgetLast(std::uint32_t segment);

 private:
  struct Node {
    std::uint32_t segment = kNoSegment;
    std::uint32_t previous = 0xffffffff;  // The block before it on the path, or none.
  };

  std::uint32_t NewSegment();
  void FreeIfEmpty(std::uint32_t segment);
  // Cuts the piece behind `entry`, which is not its last: what is before becomes a new piece, which
  // is returned; what is behind keeps the number.
  std::uint32_t SplitBehind(std::uint32_t entry);
  // Makes the entry the first of its piece.
  void SplitBefore(std::uint32_t entry);
  void MoveBehind(std::uint32_t segment, std::uint32_t parent, std::uint32_t previous);
  void Unhang(std::uint32_t segment);
  void SetResidentCount(std::uint32_t segment, std::uint32_t count, std::uint32_t last);
  void UpdateLeaf(std::uint32_t segment);
  void UpdateDeparted(std::uint32_t segment);
  void RequeueDeparted(std::uint32_t segment);
  void LinkDeparted(std::uint32_t segment);
  void UnlinkDeparted(std::uint32_t segment);
  std::uint32_t FindDepartedInside() const;

  std::vector<Node> nodes_;
  std::vector<std::uint8_t> is_resident_;
  std::vector<PathSegment> segments_;
  struct Link {
    std::uint32_t next = kNoSegment;
    std::uint32_t previous = kNoSegment;
    bool is_linked = false;
  };
  std::vector<Link> departed_links_;  // By segment.
  std::uint32_t departed_first_ = kNoSegment;
  std::uint32_t departed_last_ = kNoSegment;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> leaves_;
  std::vector<std::uint32_t> new_leaves_;
  std::uint32_t live_count_ = 0;
  std::uint32_t known_count_ = 0;
  std::uint32_t resident_count_ = 0;
  std::uint32_t follow_ = 0;
  std::vector<std::uint32_t> followed_at_;  // By segment: the Follow that last passed it.
};

}  // namespace kvferry::policy
