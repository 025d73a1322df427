// RunMinCell: Belady's MIN over one trace, the most hits that any policy can have.
#pragma once

#include <cstdint>
#include <string_view>

#include "replay/cache_cell.h"
#include "replay/trace.h"

namespace kvferry::replay {

inline constexpr std::string_view kMinPolicyName = "min";

// Where a cell keeps four bytes a reference (block rule, unchained traces), it takes at most so
// many.
inline constexpr std::uint64_t kMinReferencesMax = 0xfffffffe;

// The offline bound (Belady, "A study of replacement algorithms for a virtual-storage computer",
// IBM Systems Journal 5(2), 1966), counted like any other cell:
//
// - Prefix rule, chained trace: after each request the cache keeps, of what it held and what the
//   request named, the blocks whose next use is nearest; a block may bypass it. Equal next uses are
//   blocks of one path: the deeper leave first. Blocks that are not used again leave before all
//   others, those whose last use is longest ago first and the deeper first. What is kept stays
//   closed under prefixes, so no policy has more block hits.
// - Prefix rule, unchained trace: the same rule block by block. A kept block may then lie behind an
//   absent one where it is no hit, so this is a strong policy and not a bound.
// - Block rule: every miss is stored and the block whose next use is farthest leaves for it;
//   nothing bypasses, as in classic cache simulation.
//
// Outputs (CellOptions::outputs) are stored when their request ends, under the same rules.
//
// Memory: a chained trace under the prefix rule takes 4 bytes a distinct block and some tens of
// bytes a request, anything else 4 bytes and a bit a reference and 8 bytes a distinct block.
// The trace has at most kMinReferencesMax references in the second case.
CellResult RunMinCell(const Trace& trace, const CellOptions& options);

// What RunMinCell will hold beside the trace, an estimate from above.
std::uint64_t MinCellMemoryBytes(const Trace& trace, HitRule hit_rule);

}  // namespace kvferry::replay
