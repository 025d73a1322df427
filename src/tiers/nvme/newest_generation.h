// NewestGeneration: what the headers of a store's segments tell when nothing else does.
#pragma once

#include <cstdint>

#include "tiers/nvme/drive_set.h"

namespace kvferry::tiers {

// The highest generation that a good header of the store has; 0: there is none. New lives must be
// above it, also where the manifest is lost. Reads one page a segment, and waits for the drives;
// what cannot be read is left out.
std::uint64_t NewestGeneration(const DriveSet& drives);

}  // namespace kvferry::tiers
