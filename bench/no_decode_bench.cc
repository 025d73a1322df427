// `bench decode` in a build without CUDA's headers: refused.
#include "bench/decode_bench.h"

namespace kvferry::bench {

Result<DecodeReport> RunDecodeBench(const DecodeBenchOptions& /*options*/,
                                    FunctionRef<void(std::string_view)> /*on_step*/) {
  return Status::Error(StatusCode::kUnavailable,
                       "this build has no GPU parts, not even simulated ones: CUDA's headers of "
                       "version 13 were not found when it was configured");
}

}  // namespace kvferry::bench
