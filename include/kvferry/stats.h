// EngineStats: what an engine has done and holds, by tier, by arrow and by cause.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "kvferry/export.h"
#include "kvferry/requests.h"

namespace kvferry {

// Bytes of blocks as they lie in one tier: total = free + resident + filling + draining.
struct TierStats {
  std::uint64_t bytes_total = 0;
  std::uint64_t bytes_resident = 0;  // Of copies that can be hit.
  std::uint64_t bytes_filling = 0;   // Of copies on their way in.
  std::uint64_t bytes_draining = 0;  // Of withdrawn copies that somebody still reads.
  std::uint64_t bytes_free = 0;
  std::uint64_t blocks_resident = 0;
  // With a handle, or of a completed Pin. What was released or discarded may count for another
  // moment: until the mover has come to it, which no completion tells.
  std::uint64_t blocks_held = 0;
  std::uint64_t evictions = 0;
};

// One arrow between neighbouring tiers.
struct ArrowStats {
  std::uint64_t blocks = 0;
  std::uint64_t bytes = 0;
  std::uint64_t failures = 0;
  std::uint64_t bytes_in_flight = 0;
};

// The store of the NVMe tier, beside what TierStats and ArrowStats tell.
struct NvmeStats {
  bool is_on = false;                 // It is configured, opened and working.
  bool is_scanned = false;            // All blocks from before a restart were found.
  std::uint64_t blocks_found = 0;     // From before, since the tier went on.
  std::uint64_t bytes_persisted = 0;  // Of blocks that must not leave.
  std::uint64_t bytes_written = 0;    // Payloads, moved ones included.
  std::uint64_t bytes_moved = 0;      // Kept when their segment was reused.
  std::uint64_t blocks_moved = 0;
  // Written, but a sync or the manifest failed; or persisted, and unreadable when they had to move.
  std::uint64_t blocks_lost = 0;
  std::uint64_t commits = 0;  // Groups made durable.
  std::uint64_t commit_failures = 0;
  std::uint64_t segments_reused = 0;
  std::uint64_t segments_quarantined = 0;
  std::uint64_t offloads_over_budget = 0;   // Not written, to keep write_bytes_per_day.
  std::uint64_t offloads_not_admitted = 0;  // Not written at the first touch.
  std::uint64_t times_off = 0;              // It failed and was closed, since Open.
  // Why nothing can be made durable for now, so that Persist and Erase wait, where it is the
  // manifest: no room, say. Empty: it can.
  std::string commit_error;
  // Why it is off, or about to be: the drive or file and what happened to it. Empty while it is on.
  std::string off_reason;
};

// The GPU whose memory blocks are copied from and to.
struct HbmStats {
  bool is_on = false;              // It is configured, opened and working.
  std::uint64_t bytes_pinned = 0;  // Of host memory; the rest is copied twice.
  std::uint64_t bytes_staged = 0;  // What was copied twice so far.
  std::uint64_t tensors = 0;       // Registered now.
};

// Counters since Open; a snapshot that is consistent in itself.
struct EngineStats {
  TierStats host;
  TierStats nvme;
  ArrowStats offload_hbm_to_host;
  ArrowStats onboard_host_to_hbm;
  ArrowStats offload_host_to_nvme;
  ArrowStats onboard_nvme_to_host;
  HbmStats hbm;
  NvmeStats nvme_store;

  std::uint64_t lookups = 0;  // Blocks asked for by Get, Pin and Prefetch, up to the first missing.
  std::uint64_t hits_host = 0;
  std::uint64_t hits_nvme = 0;
  // lookups = hits_host + hits_nvme + the sum of misses.
  std::array<std::uint64_t, kMissReasonCount> misses{};

  std::uint64_t puts = 0;         // Blocks given to Put and seen to.
  std::uint64_t puts_stored = 0;  // puts = stored + present + the sum of puts_refused.
  std::uint64_t puts_present = 0;
  std::array<std::uint64_t, kMissReasonCount> puts_refused{};  // By cause.
  std::uint64_t offloads_skipped = 0;  // Evicted before they could be written down.

  std::uint64_t coalesced_reads = 0;  // Requests for a block that another one's read served.
  std::uint64_t prefetches_used = 0;
  std::uint64_t prefetches_wasted = 0;
  std::uint64_t failed_checks = 0;
  std::uint64_t requests_started = 0;
  std::uint64_t requests_ended = 0;
  std::uint64_t requests_refused = 0;  // By a full table or queue, not by a closing engine.
  std::uint64_t deadlines_missed = 0;
  std::uint64_t cancelled = 0;

  std::uint64_t index_bytes = 0;  // Of the block table, the index and the policy.
  std::uint64_t history_blocks = 0;
  std::uint64_t history_bytes = 0;
};

// A table for people.
KVFERRY_EXPORT std::string ToString(const EngineStats& stats);

}  // namespace kvferry
