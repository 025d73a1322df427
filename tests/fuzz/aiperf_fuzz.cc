// Fuzz target: AIPerf multi-turn JSONL.
#include "tests/fuzz/fuzz_read.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  kvferry::fuzz::ReadBytes({reinterpret_cast<const char*>(bytes), size}, "aiperf");
  return 0;
}
