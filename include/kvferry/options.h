// EngineOptions: everything that an engine can be told at Open, with one struct a component.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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
  // memory). Open refuses more than all of it; reserved huge pages, which cgroups do not count as
  // memory, are held against the machine's.
  std::uint64_t bytes = 0;
  HugePages huge_pages = HugePages::kTransparent;
  std::int32_t numa_node = -1;      // -1: no binding. Ignored on a machine with one node.
  bool is_populated = true;         // Fault the pages in, in the background.
  bool verify_on_get = false;       // Check a block's bytes on each get from host memory.
  std::string policy = "leaf-lru";  // docs/policies.md has the names.
  std::uint32_t held_percent = 50;  // What handles may keep of `bytes`, rounded down to a byte.
};

enum class HbmMode : std::uint8_t {
  kOff,
  kAttached,  // Blocks are copied from and to a server's own paged tensors (kvferry/device.h).
};

// The engine's use of a GPU. No CUDA library is linked: the runtime (libcudart, of major version
// 13) is loaded at Open.
struct HbmTierOptions {
  HbmMode mode = HbmMode::kOff;
  std::uint32_t device = 0;  // Among the GPUs that the process sees.
  // A libcudart by its path, and no other. Empty: the one that the process has loaded already, then
  // the loader's path, then /usr/local/cuda/lib64.
  std::string runtime_path;
  bool is_required = true;  // Open fails without the GPU; false: one warning, and it goes without.
};

enum class NvmeIo : std::uint8_t {
  kAuto,     // io_uring, and threads where the kernel refuses it.
  kUring,    // "io_uring"; the tier does not open where the kernel refuses it.
  kThreads,  // Whatever the kernel offers.
};

struct NvmeTierOptions {
  // Folders or raw block devices, one a drive. Empty: no NVMe tier. Their names are of printable
  // ASCII, without '?', so that they can stand in a file and be printed.
  std::vector<std::string> paths;
  // Folder of the manifest. Empty: `manifest` in the first folder. Needed where the first path is a
  // raw device.
  std::string manifest_path;
  // What the tier's files may take together, the manifest included; needed with paths.
  std::uint64_t capacity_bytes = 0;
  // The unit that is reused as a whole, in whole MiB. 0: min(256 MiB, a drive's share / 64), but as
  // many as four blocks of block_bytes need.
  std::uint64_t segment_bytes = 0;
  std::uint64_t write_bytes_per_day = 0;  // 0: no budget.
  // Write down what was asked for or put again, not what is put for the first time: fewer writes,
  // and fewer hits after a restart. Persist is not concerned.
  bool admits_on_second_touch = false;
  std::uint32_t protected_percent = 50;  // What persisted blocks may take of the tier.
  // A group of writes is made durable when it has so many bytes, or when its first is so old.
  std::uint64_t commit_bytes = std::uint64_t{32} << 20;
  std::uint32_t commit_ms = 100;
  std::uint32_t in_flight_max = 128;  // Reads and writes in flight in the kernel.
  NvmeIo io = NvmeIo::kAuto;
  bool is_required = true;  // Open fails with the tier; false: it stays off and is tried again.
  std::uint32_t probe_ms = 5'000;  // How often a tier that is off is tried.
  bool may_format = false;         // Take over a raw device that carries something else.
};

// Departed blocks that are remembered, for miss reasons and for policies that learn from them.
struct HistoryOptions {
  std::uint32_t blocks_max = 65'536;  // At most 16 bytes each.
};

// Validate() says what is out of range, and why.
struct EngineOptions {
  HostTierOptions host;
  HbmTierOptions hbm;
  NvmeTierOptions nvme;
  HistoryOptions history;
  // The usual size of a block. Tables are sized for host.bytes / block_bytes blocks (and at least
  // 64); smaller ones are kept as long as the tables have room.
  std::uint64_t block_bytes = std::uint64_t{1} << 20;
  std::uint32_t namespaces_max = 256;
  // Requests that are unfinished, not polled or, of pins, not collected; more are refused.
  std::uint32_t requests_max = 1024;
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

// One line an option, "host.bytes = 68719476736", in a fixed order (a long list goes on in the next
// lines); what ParseEngineOptions reads.
KVFERRY_EXPORT std::string ToString(const EngineOptions& options);

// Reads TOML: tables and keys named like the fields ("[host]", "bytes = \"64GiB\"", "block_bytes =
// 262144"); sizes also as text with KiB, MiB, GiB, TiB; paths as a list of texts. What is not named
// keeps its default; an unknown key, a wrong type, a value out of range and values that do not go
// together are kInvalidArgument, naming `origin`, the line and the key. The result has passed
// Validate().
KVFERRY_EXPORT Result<EngineOptions> ParseEngineOptions(std::string_view toml,
                                                        std::string_view origin);

// The same from a file. kIoError or kInvalidArgument naming the path.
KVFERRY_EXPORT Result<EngineOptions> ReadEngineOptions(const std::string& path);

}  // namespace kvferry
