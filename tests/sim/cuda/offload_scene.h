// A miniature of what moves blocks between a GPU and the host, with bugs of this field to plant.
#pragma once

#include <cstdint>

#include "sim/cuda/sim_cuda.h"

namespace kvferry::testing {

enum class PlantedBug : std::uint8_t {
  kNone,
  kNoProducerWait,     // The copy down does not wait for what computes the block.
  kReusedTooEarly,     // The block is computed anew while the copy still reads it.
  kReadTooEarly,       // The host reads pinned memory before the copy's event.
  kOverwrittenSource,  // Pinned memory is overwritten while the copy up reads it.
  kFreedElsewhere,     // Memory is freed in a stream that does not wait for its use.
};
inline constexpr int kPlantedBugCount = 6;

// Whether all bytes came out right.
bool RunOffloadScene(PlantedBug bug, const sim::SimCudaOptions& options);

}  // namespace kvferry::testing
