// Allocations of this executable, counted, and one of them made to fail.
#pragma once

#include <cstdint>

namespace kvferry::testing {

// While one lives, allocations on its thread belong to the engine: they are counted and may fail.
// Those of other threads always do.
//
// For one thread.
class EngineCode {
 public:
  EngineCode();
  EngineCode(const EngineCode&) = delete;
  EngineCode& operator=(const EngineCode&) = delete;
  ~EngineCode();
};

// Counts from nothing, and lets allocation number `failing` fail; 0: none.
void StartCounting(std::uint64_t failing);
// Stops it; how many there were.
std::uint64_t StopCounting();
// What those that were counted last asked for, whether they gave it back or not.
std::uint64_t CountedBytes();

}  // namespace kvferry::testing
