// Kill points: named places on the way of a block to the drive, at which a test ends the process.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kvferry::tiers {

// In the order in which a store meets them.
enum class KillPoint : std::uint8_t {
  kStoreWritten,    // A new store has its superblocks, and no drive its name yet.
  kStorePublished,  // The first drive has its name.
  kStoreExtended,   // The file is longer than its superblock says.
  kBlankWritten,    // The header of a life that is over is blank, not synced.
  kBlankSynced,     // And synced; the rows are still there.
  kReuseBegun,      // The row of a segment's next life is on its way.
  kReuseRecorded,   // It is durable, with the deletion of the last life's rows.
  kHeaderWritten,   // The header page of the new life is written, not synced.
  kHeaderSynced,    // The segment is clean, and nothing of it overwritten.
  kPayloadWritten,
  kSyncBegun,
  kSyncEnded,     // Before anything is made of it.
  kBatchBegun,    // The rows of a group are on their way.
  kBatchWriting,  // On the committer's thread, before the database.
  kBatchWritten,  // After it; nobody knows.
  kBatchEnded,    // Known, and nothing acknowledged yet.
  kFooterBegun,
  kFooterWritten,    // The segment is full, and its row does not say so yet.
  kFooterRewritten,  // Without what is erased, whose rows are still there.
};
inline constexpr std::size_t kKillPointCount = 19;

// "payload written" and so on; never null.
std::string_view ToString(KillPoint point) noexcept;
// All of them, for loops.
std::array<KillPoint, kKillPointCount> AllKillPoints();

// Is called on the thread that passes.
using KillPointHook = void (*)(KillPoint point);

// The hook of this process, null but in tests. Set before a store is opened.
inline std::atomic<KillPointHook>& KillPointHookOfProcess() noexcept {
  static constinit std::atomic<KillPointHook> hook = nullptr;
  return hook;
}

// Costs a load and a branch.
inline void Pass(KillPoint point) noexcept {
  if (const KillPointHook hook = KillPointHookOfProcess().load(std::memory_order_relaxed)) {
    hook(point);
  }
}

}  // namespace kvferry::tiers
