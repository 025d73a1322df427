// One thread, one checksum after another.
#include "bench/hash_pass.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "base/checksum.h"
#include "bench/bench_report.h"

namespace kvferry::bench {

HashCost MeasureHash(std::span<const std::byte> memory, std::uint32_t block_bytes, double seconds) {
  const std::size_t blocks = block_bytes == 0 ? 0 : memory.size() / block_bytes;
  KVFERRY_CHECK(blocks > 0);
  HashCost cost;
  double mebibytes = 0;
  double passed = 0;
  const double start = ThreadSeconds();
  do {
    for (std::size_t block = 0; block < blocks; ++block) {
      const Checksum checksum =
          ChecksumOf(memory.subspan(block * block_bytes, block_bytes), std::uint64_t{block});
      cost.checksum += std::to_integer<std::uint64_t>(checksum.bytes[0]);
    }
    mebibytes += static_cast<double>(blocks * block_bytes) / static_cast<double>(kMiB);
    passed = ThreadSeconds() - start;
  } while (passed < seconds);
  cost.cpu_us_per_mib = passed * 1e6 / mebibytes;
  return cost;
}

}  // namespace kvferry::bench
