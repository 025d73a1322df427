// Fuzz target: Qwen-Bailian JSONL.
#include "tests/fuzz/fuzz_read.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  kvferry::fuzz::ReadBytes({reinterpret_cast<const char*>(bytes), size}, "bailian");
  return 0;
}
