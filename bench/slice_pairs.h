// MeasurePairs: what one way of working attains beside its bound, slice by slice in turn.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kvferry/function_ref.h"
#include "kvferry/status.h"

#include "base/bytes.h"

namespace kvferry::bench {

// So many pairs make a median that another run gives again within some percent.
inline constexpr std::size_t kPairsWanted = 40;
inline constexpr std::size_t kPairsMin = 3;

// What one side did in one slice of time.
struct Slice {
  std::uint64_t bytes = 0;
  double seconds = 0;
  double cpu_seconds = 0;  // Processor time of every thread that had a part in it.
};

struct PairedRates {
  std::size_t pairs = 0;
  double gbps = 0;  // Medians of the slices, in 10^9 bytes a second.
  double bound_gbps = 0;
  double ratio = 0;           // Median of the pairs' ratios, which a drift of the machine spares.
  double cpu_us_per_mib = 0;  // Of all slices together.
  double bound_cpu_us_per_mib = 0;
};

// One slice of each side in turn, who goes first changing from pair to pair, until the slices have
// taken `seconds` and there are kPairsMin of them; one pair before them warms up and does not
// count. The first error of a side. kInternal for a slice that moved nothing.
Result<PairedRates> MeasurePairs(double seconds,
                                 FunctionRef<Result<Slice>()> ours,
                                 FunctionRef<Result<Slice>()> bound);

}  // namespace kvferry::bench
