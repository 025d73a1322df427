// RunPrefixMin: MIN under the prefix rule on a chained trace, without a byte a reference.
#pragma once

#include "replay/cache_cell.h"
#include "replay/trace.h"

namespace kvferry::replay {

// The first case of RunMinCell (min_bound.h), which sets policy, capacity and seconds. The trace
// must be chained; options.hit_rule is taken as the prefix rule. Time is linear in the references
// for one plain pass, and beyond that logarithmic in the requests, on average, for each request.
CellResult RunPrefixMin(const Trace& trace, const CellOptions& options);

}  // namespace kvferry::replay
