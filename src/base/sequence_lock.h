// SequenceLock: readers that look again where the one writer was at work, and never hold it up.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace kvferry {

// For data that is read far more often than written, by sections of some nanoseconds. A reader
// reads between two looks at a count that is odd while the writer is at work, and does it again
// where the looks differ; it writes nothing, so that readers do not take lines from one another.
//
// What is guarded must be atomic: stored with memory_order_release and loaded with
// memory_order_acquire, or a reader could believe what it read too early or too late.
//
// One thread writes. A write must be short, and must not wait, allocate or call out.
class SequenceLock {
 public:
  // Of the writer.
  void BeginWrite() noexcept {
    sequence_.store(sequence_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  void EndWrite() noexcept {
    sequence_.store(sequence_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  // The count before a read. Odd, and never current, while the writer is at work.
  std::uint32_t sequence() const noexcept { return sequence_.load(std::memory_order_acquire); }
  // Whether what was read since `sequence` was given is whole.
  bool IsCurrent(std::uint32_t sequence) const noexcept {
    return sequence % 2 == 0 && sequence_.load(std::memory_order_relaxed) == sequence;
  }
  // Calls `read` until what it has returned is whole. Gives its processor away where that takes
  // longer than a write should: the writer may have lost its own.
  template <class Reader>
  auto Read(const Reader& read) const {
    for (std::uint32_t turn = 1;; ++turn) {
      const std::uint32_t before = sequence();
      if (before % 2 == 0) {
        const auto result = read();
        if (IsCurrent(before)) {
          return result;
        }
      }
      if (turn % kTurnsMax == 0) {
        std::this_thread::yield();
      }
    }
  }

 private:
  static constexpr std::uint32_t kTurnsMax = 64;

  std::atomic<std::uint32_t> sequence_ = 0;
};

// Writes under a sequence lock for a scope.
class SequenceWrite {
 public:
  explicit SequenceWrite(SequenceLock& lock) : lock_(lock) { lock_.BeginWrite(); }
  ~SequenceWrite() { lock_.EndWrite(); }
  SequenceWrite(const SequenceWrite&) = delete;
  SequenceWrite& operator=(const SequenceWrite&) = delete;

 private:
  SequenceLock& lock_;
};

}  // namespace kvferry
