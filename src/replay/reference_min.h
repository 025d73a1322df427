// RunReferenceMin: MIN reference by reference, for the block rule and for unchained traces.
#pragma once

#include "replay/cache_cell.h"
#include "replay/trace.h"

namespace kvferry::replay {

// The other cases of RunMinCell (min_bound.h), which sets policy, capacity and seconds. The trace
// has at most kMinReferencesMax references.
CellResult RunReferenceMin(const Trace& trace, const CellOptions& options);

}  // namespace kvferry::replay
