// GdsfPolicy: greedy dual with frequency, where every block has the same size and cost.
//
// L. Cherkasova: Improving WWW Proxies Performance with Greedy-Dual-Size-Frequency Caching Policy,
// HP Laboratories report HPL-98-69R1, 1998; with size and cost of 1.
//
// Each resident has a count of its touches since it came, and a priority. L starts at zero.
//
//   hit x:      count(x) += 1; priority(x) = L + count(x)
//   miss x:     make room if full; count(x) = 1; priority(x) = L + 1
//   make room:  evict the lowest priority, L = that priority;
//               of equal ones the one that was touched the longest ago
//
// Room is made before the newcomer is valued, as in greedy dual itself: it always comes in, and is
// valued by the new L.
//
// Priorities are whole numbers that never lie below L, so no heap is needed: blocks of one priority
// are a list, ordered by touch, and the lists of a window of kBuckets priorities are an array. What
// lies beyond the window waits in one more list and is dealt out when the window moves on.
//
// Blocks that the owner takes out by itself leave no trace, and L stays. Held blocks are passed
// over: the lowest priority among the others goes, and L becomes that.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kvferry/policy.h"

#include "policy/departed_entries.h"
#include "policy/entry_chain.h"
#include "policy/entry_list.h"
#include "policy/path_growth.h"

namespace kvferry::policy {

// Thread-compatible.
class GdsfPolicy final : public EvictionPolicy {
 public:
  static constexpr std::string_view kName = "gdsf";

  // Above the counts of nearly all blocks, so that few wait; 32 KiB of list ends.
  static constexpr std::uint32_t kBuckets = 4096;

  explicit GdsfPolicy(const PolicyOptions& options);

  void OnRequest(const Access& access,
                 std::span<const EntryIndex> path,
                 std::uint32_t leading_resident) override {
    growth_.OnRequest(access, path, leading_resident);
  }

  void OnHit(std::span<const EntryIndex> run) override {
    for (std::size_t end = run.size(); end > 0;) {
      std::size_t begin = end - 1;
      const std::uint32_t count = Touch(run[begin]);
      while (begin > 0 && lists_.next(NumberOf(run[begin - 1])) == NumberOf(run[begin]) &&
             blocks_[NumberOf(run[begin - 1])].count + 1 == count) {
        --begin;
        Touch(run[begin]);
      }
      lists_.MoveChainToFront(ListOf(inflation_ + count), NumberOf(run[begin]),
                              NumberOf(run[end - 1]));
      end = begin;
    }
  }

  bool Admit(EntryIndex /*entry*/) override { return true; }

  void OnInsert(EntryIndex entry, EntryIndex parent) override {
    const std::uint32_t inserted = NumberOf(entry);
    departed_.Withdraw(inserted);
    const EntryIndex before = growth_.Predecessor(entry, parent);
    const bool has_predecessor = before != kNoEntry && blocks_[NumberOf(before)].count > 0 &&
                                 blocks_[NumberOf(before)].priority == inflation_ + 1;
    blocks_[inserted] = {.priority = inflation_ + 1, .count = 1};
    PushBehind(lists_, ListOf(inflation_ + 1), inserted,
               has_predecessor ? NumberOf(before) : kNoLink);
  }

  EntryIndex TakeVictim(FunctionRef<bool(EntryIndex)> is_held) override {
    std::uint64_t lowest = lowest_;
    while (lowest < window_end_ && lists_.is_empty(ListOf(lowest))) {
      ++lowest;
    }
    std::uint32_t victim = LastNotHeld(lists_, ListOf(lowest), is_held);
    if (victim == kNoLink || lowest == window_end_) [[unlikely]] {
      victim = LowestNotHeld(lowest, is_held);
    }
    if (victim == kNoLink) {
      return kNoEntry;
    }
    // A block that was held may lie below L by now.
    inflation_ = std::max(inflation_, blocks_[victim].priority);
    lowest_ = lowest;
    if (lowest == window_end_) {
      MoveWindow();
    }
    return EntryIndex{victim};
  }

  void OnRemove(EntryIndex entry, RemoveReason /*reason*/) override {
    lists_.Unlink(NumberOf(entry));
    blocks_[NumberOf(entry)].count = 0;
    departed_.Add(NumberOf(entry));
  }

  std::size_t Forget(std::span<EntryIndex> freed) override { return departed_.Take(freed); }
  std::size_t memory_bytes() const noexcept override {
    return lists_.memory_bytes() + BytesOf(blocks_) + departed_.memory_bytes();
  }

 private:
  // 2^32 touches of one block and 2^64 of priority are out of reach.
  struct Block {
    std::uint64_t priority = 0;
    std::uint32_t count = 0;  // Zero: not resident.
  };

  static constexpr std::uint32_t kWaiting = kBuckets;  // The list behind those of the window.

  std::uint32_t Touch(EntryIndex entry) {
    Block& block = blocks_[NumberOf(entry)];
    ++block.count;
    block.priority = inflation_ + block.count;
    return block.count;
  }

  std::uint32_t ListOf(std::uint64_t priority) const {
    return priority < window_end_ ? static_cast<std::uint32_t>(priority % kBuckets) : kWaiting;
  }

  // The victim among the lists of the window from `lowest` on, or among the waiting; or kNoLink.
  std::uint32_t LowestNotHeld(std::uint64_t lowest, FunctionRef<bool(EntryIndex)> is_held) const;
  // Moves the window, whose lists are empty, to the lowest waiting priority, and deals out.
  void MoveWindow();

  EntryLists lists_;
  std::vector<Block> blocks_;
  std::uint64_t inflation_ = 0;  // L.
  std::uint64_t lowest_ = 0;     // No resident has a lower priority, nor will a newcomer.
  std::uint64_t window_end_ = kBuckets;
  PathGrowth growth_;
  DepartedEntries departed_;
};

}  // namespace kvferry::policy
