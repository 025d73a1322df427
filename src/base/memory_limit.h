// MemoryLimit: how much memory this process may use, by its control groups and by the machine.
#pragma once

#include <cstdint>
#include <string>

#include "kvferry/status.h"

namespace kvferry {

struct MemoryLimit {
  std::uint64_t bytes = 0;
  // The file that sets the limit: a control group's, or /proc/meminfo for the machine's memory.
  std::string path;
};

// The least of the machine's memory and the limits of the process's control group and all groups
// above it, as far as they are mounted here: memory.max in version 2, memory.limit_in_bytes in
// version 1, both in the mixed form. Swap does not count. What is used already is not subtracted.
//
// `root` stands before /proc and before each mount point; a test gives a folder of its own.
// kUnavailable when /proc/meminfo does not say how much memory there is; groups that cannot be read
// set no limit.
//
// Thread-safe.
Result<MemoryLimit> ReadMemoryLimit(const std::string& root = "");

// The machine's memory alone, for what control groups do not count: huge pages that were set aside.
// Otherwise as ReadMemoryLimit.
Result<MemoryLimit> ReadMachineMemory(const std::string& root = "");

}  // namespace kvferry
