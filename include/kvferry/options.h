// EngineOptions: everything that an engine can be told at Open, with one struct a component.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "kvferry/export.h"
#include "kvferry/status.h"

namespace kvferry {

enum class HugePages : std::uint8_t {
  kNone,
  kTransparent,  // Asked for by madvise; the kernel decides.
  kReserved,     // hugetlb where enough are reserved, else as kTransparent.
};

struct HostTierOptions {
  // Memory for blocks. 0: half of what the process may use (its cgroup's limit, or the machine's
  // memory).
  std::uint64_t bytes = 0;
  HugePages huge_pages = HugePages::kTransparent;
  std::int32_t numa_node = -1;      // -1: no binding. Ignored on a machine with one node.
  bool is_populated = true;         // Fault the pages in, in the background.
  bool verify_on_get = false;       // Check a block's bytes on each get from host memory.
  std::string policy = "leaf-lru";  // docs/policies.md has the names.
  std::uint32_t held_percent = 50;  // What handles may keep of it at most.
};

// Departed blocks that are remembered, for miss reasons and for policies that learn from them.
struct HistoryOptions {
  std::uint32_t blocks_max = 65'536;  // At most 16 bytes each.
};

// Validate() says what is out of range, and why.
struct EngineOptions {
  HostTierOptions host;
  HistoryOptions history;
  // The usual size of a block. Tables are sized for host.bytes / block_bytes blocks (and at least
  // 64); smaller ones are kept as long as the tables have room.
  std::uint64_t block_bytes = std::uint64_t{1} << 20;
  std::uint32_t namespaces_max = 256;
  std::uint32_t requests_max = 1024;  // Unfinished requests; more are refused.
  std::uint32_t blocks_per_request_max = 65'536;
  std::uint32_t handles_max = 65'536;  // Blocks held at one time.
  std::uint32_t transfers_max = 256;   // Reads and writes below the host tier, in flight.
  std::uint32_t deadline_ms = 30'000;  // Of requests that give none.
  std::uint32_t close_deadline_ms = 5'000;
  std::uint32_t copy_threads = 0;  // 0: one for every two cores, at least one.
  std::uint64_t seed = 1;

  // kInvalidArgument naming the option, what it is, what it may be.
  KVFERRY_EXPORT Status Validate() const;
};

// One line an option, "host.bytes = 68719476736", in a fixed order; what ParseEngineOptions reads.
KVFERRY_EXPORT std::string ToString(const EngineOptions& options);

// Reads TOML: tables and keys named like the fields ("[host]", "bytes = \"64GiB\"", "block_bytes =
// 262144"); sizes also as text with KiB, MiB, GiB, TiB. What is not named keeps its default; an
// unknown key, a wrong type and a number out of range are kInvalidArgument, naming `origin`, the
// line and the key. The result has passed Validate().
KVFERRY_EXPORT Result<EngineOptions> ParseEngineOptions(std::string_view toml,
                                                        std::string_view origin);

// The same from a file. kIoError or kInvalidArgument naming the path.
KVFERRY_EXPORT Result<EngineOptions> ReadEngineOptions(const std::string& path);

}  // namespace kvferry
