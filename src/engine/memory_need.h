// What the options of an engine take of the process's memory, held against what it may use.
#pragma once

#include <cstdint>

#include "kvferry/options.h"
#include "kvferry/status.h"

#include "base/memory_limit.h"

namespace kvferry::engine {

// The size of the pool: half of what the process may use, unless told otherwise. kInvalidArgument
// for more than all of it.
Result<std::uint64_t> HostBytes(const HostTierOptions& host);

// Of index, records and history when they are full, for valid options whose host.bytes is set: a
// share of the pool's and the NVMe tier's blocks.
std::uint64_t TableBytes(const EngineOptions& options);

// kInvalidArgument where tables and pool together go beyond the limit, with what to change. An
// unknown limit is none.
Status CheckTables(const EngineOptions& options, const Result<MemoryLimit>& limit);

}  // namespace kvferry::engine
