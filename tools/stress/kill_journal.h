// KillJournal: what a process that is about to be killed tells the one that outlives it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "stress/block_model.h"

namespace kvferry::stress {

inline constexpr std::uint32_t kKillNamespaces = 3;
inline constexpr std::uint32_t kKillKeysPerNamespace = 96;
inline constexpr std::uint32_t kKillKeys = kKillNamespaces * kKillKeysPerNamespace;

// One change of the model: what a worker is about to do, or what was acknowledged.
struct KillStep {
  enum class Kind : std::uint8_t {
    kBeginPut,
    kEndPut,
    kBeginErase,
    kEndErase,
    kGiveUpErase,
    kDisturb,
    kEndPersist,      // `value`: the disturbances before.
    kEraseNamespace,  // `key`: the space.
  };
  Kind kind = Kind::kBeginPut;
  std::uint32_t key = 0;
  std::uint32_t value = 0;
};

void Apply(const KillStep& step, BlockModel& model);

// Lies in memory that both processes see, so that each word is told with the store of it, whenever
// its writer dies. One writer, the child; the parent reads the steps once it is dead.
class KillJournal {
 public:
  static constexpr std::size_t kStepsMax = 100'000;
  static constexpr std::int32_t kNowhere = -1;

  enum class Phase : std::uint8_t { kOpening, kVerifying, kWorking, kClosed };

  // False: there is no room for more, and nothing further may be done.
  bool Append(const KillStep& step) noexcept;
  void Replay(BlockModel& model) const;
  std::size_t step_count() const noexcept { return step_count_.load(std::memory_order_acquire); }

  // Keeps the first text.
  void NoteViolation(const std::string& text) noexcept;
  std::string violation() const { return {text_.data()}; }

  std::atomic<Phase> phase = Phase::kOpening;
  std::atomic<std::uint64_t> operations = 0;
  std::atomic<std::uint64_t> acknowledged = 0;  // Blocks persisted or erased.
  std::atomic<std::uint64_t> blocks_compared = 0;
  std::atomic<std::uint64_t> blocks_found = 0;          // Persisted ones that were looked for.
  std::atomic<bool> is_refused = false;                 // A damaged store: it does not open.
  std::array<std::atomic<bool>, kKillKeys> is_found{};  // By key: there before any work.
  std::atomic<std::uint64_t> segments_reused = 0;
  std::atomic<std::uint64_t> violations = 0;
  std::atomic<std::int32_t> killed_at = kNowhere;  // Of the kill points, by number.

 private:
  static constexpr std::size_t kTextMax = 512;

  std::atomic<std::size_t> step_count_ = 0;
  std::array<KillStep, kStepsMax> steps_{};
  std::array<char, kTextMax> text_{};
};

}  // namespace kvferry::stress
