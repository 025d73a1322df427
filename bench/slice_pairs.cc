// Slices in turn, and their medians.
#include "bench/slice_pairs.h"

#include <utility>
#include <vector>

#include "bench/bench_report.h"

namespace kvferry::bench {
namespace {

// One side: its slices so far.
class Side {
 public:
  explicit Side(FunctionRef<Result<Slice>()> run) : run_(run) {}

  // The rate of one more slice.
  Result<double> Run(bool counts) {
    KVFERRY_ASSIGN_OR_RETURN(const Slice slice, run_());
    if (slice.bytes == 0 || slice.seconds <= 0) {
      return Status::Error(StatusCode::kInternal, "a slice of a measurement moved nothing");
    }
    const double rate = static_cast<double>(slice.bytes) * 1e-9 / slice.seconds;
    if (counts) {
      rates_.push_back(rate);
      bytes_ += static_cast<double>(slice.bytes);
      seconds_ += slice.seconds;
      cpu_seconds_ += slice.cpu_seconds;
    }
    return rate;
  }

  double rate() const { return Median(rates_); }
  double seconds() const { return seconds_; }
  double cpu_us_per_mib() const {
    return cpu_seconds_ * 1e6 / (bytes_ / static_cast<double>(kMiB));
  }

 private:
  FunctionRef<Result<Slice>()> run_;
  std::vector<double> rates_;
  double bytes_ = 0;
  double seconds_ = 0;
  double cpu_seconds_ = 0;
};

}  // namespace

Result<PairedRates> MeasurePairs(double seconds,
                                 FunctionRef<Result<Slice>()> ours,
                                 FunctionRef<Result<Slice>()> bound) {
  Side our_side(ours);
  Side bound_side(bound);
  KVFERRY_RETURN_IF_ERROR(bound_side.Run(false).status());
  KVFERRY_RETURN_IF_ERROR(our_side.Run(false).status());
  std::vector<double> ratios;
  while (ratios.size() < kPairsMin || our_side.seconds() + bound_side.seconds() < seconds) {
    const bool we_go_first = ratios.size() % 2 == 0;
    KVFERRY_ASSIGN_OR_RETURN(const double first, (we_go_first ? our_side : bound_side).Run(true));
    KVFERRY_ASSIGN_OR_RETURN(const double second, (we_go_first ? bound_side : our_side).Run(true));
    ratios.push_back(we_go_first ? first / second : second / first);
  }
  PairedRates rates;
  rates.pairs = ratios.size();
  rates.gbps = our_side.rate();
  rates.bound_gbps = bound_side.rate();
  rates.ratio = Median(std::move(ratios));
  rates.cpu_us_per_mib = our_side.cpu_us_per_mib();
  rates.bound_cpu_us_per_mib = bound_side.cpu_us_per_mib();
  return rates;
}

}  // namespace kvferry::bench
