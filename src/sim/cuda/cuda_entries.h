// The entry functions of the simulated runtime, with exactly the types of CUDA's own.
#pragma once

#include "gpu/cuda_api.h"

namespace kvferry::sim::entry {

#define KVFERRY_SIM_CUDA_ENTRY(name) decltype(::cuda##name) name;
KVFERRY_CUDA_ENTRY_POINTS(KVFERRY_SIM_CUDA_ENTRY)
#undef KVFERRY_SIM_CUDA_ENTRY

}  // namespace kvferry::sim::entry
