// Maps the area and gives the kernel its advice.
#include "tiers/host/host_memory.h"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/huge_array.h"

namespace kvferry::tiers {
namespace {

// The page size's logarithm in the flags' upper bits; the C library names only the flag.
constexpr int kPagesOf2MiB = 21 << 26;
constexpr std::uint32_t kNodesMax = 1024;  // The kernel's own limit.

// Without MAP_NORESERVE, so that too few pages show here and not as a fault at a later touch; null
// then.
void* MapHugePages(std::size_t bytes) {
  void* const address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | kPagesOf2MiB, -1, 0);
  return address == MAP_FAILED ? nullptr : address;
}

// Preferred rather than bound: a full node would otherwise end the process although the machine has
// memory left.
bool PreferNode(std::span<std::byte> bytes, std::uint32_t node) {
  constexpr std::size_t kWordBits = sizeof(unsigned long) * CHAR_BIT;
  std::array<unsigned long, kNodesMax / kWordBits> mask{};
  mask[node / kWordBits] = 1UL << (node % kWordBits);
  return ::syscall(SYS_mbind, bytes.data(), bytes.size(), MPOL_PREFERRED, mask.data(),
                   kNodesMax + 1UL, 0U) == 0;
}

Status CheckNode(std::uint32_t node, const std::vector<std::uint32_t>& nodes) {
  if (nodes.size() <= 1 || std::binary_search(nodes.begin(), nodes.end(), node)) {
    return Status::Ok();
  }
  return Status::Error(StatusCode::kInvalidArgument, "memory node " + std::to_string(node) +
                                                         " does not exist; this machine has " +
                                                         std::to_string(nodes.size()));
}

}  // namespace

Result<std::unique_ptr<HostMemory>> HostMemory::Map(const HostMemoryOptions& options) {
  if (options.bytes == 0 || options.bytes > kTiB * 1024) {
    return Status::Error(StatusCode::kInvalidArgument,
                         "host memory of " + FormatBytes(options.bytes) +
                             ": the size must be above nothing and at most 1 PiB");
  }
  const std::vector<std::uint32_t> nodes =
      options.numa_node ? NumaNodes() : std::vector<std::uint32_t>();
  if (options.numa_node) {
    KVFERRY_RETURN_IF_ERROR(CheckNode(*options.numa_node, nodes));
  }
  auto memory = std::make_unique<HostMemory>(Token());
  const auto bytes = static_cast<std::size_t>(AlignUp(options.bytes, kAlignmentBytes));
  void* begin = nullptr;
  if (options.huge_pages == HugePages::kReserved) {
    begin = MapHugePages(bytes);
    memory->huge_pages_ = begin != nullptr ? HugePages::kReserved : HugePages::kNone;
  }
  if (begin == nullptr) {
    begin = MapZeroBytes(bytes, kAlignmentBytes, MAP_NORESERVE);
  }
  if (begin == nullptr) {
    return Status::Error(StatusCode::kResourceExhausted,
                         "the system refuses to map " + FormatBytes(bytes) + " of host memory",
                         errno);
  }
  memory->mapped_bytes_ = bytes;
  memory->bytes_ = {static_cast<std::byte*>(begin), static_cast<std::size_t>(options.bytes)};
  if (options.huge_pages != HugePages::kNone && memory->huge_pages_ == HugePages::kNone &&
      ::madvise(begin, bytes, MADV_HUGEPAGE) == 0) {
    memory->huge_pages_ = HugePages::kTransparent;
  }
  if (::madvise(begin, bytes, MADV_DONTDUMP) != 0 || ::madvise(begin, bytes, MADV_DONTFORK) != 0) {
    return Status::Error(StatusCode::kResourceExhausted,
                         "the system refuses to keep host memory out of dumps and children", errno);
  }
  if (nodes.size() > 1) {
    memory->is_on_node_ = PreferNode({static_cast<std::byte*>(begin), bytes}, *options.numa_node);
  }
  return memory;
}

HostMemory::~HostMemory() {
  if (!bytes_.empty() && !is_left_mapped_) {
    KVFERRY_CHECK(::munmap(bytes_.data(), mapped_bytes_) == 0);
  }
}

std::vector<std::uint32_t> NumaNodes(const std::string& folder) {
  constexpr std::string_view kPrefix = "node";
  std::vector<std::uint32_t> nodes;
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator(folder, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename();
    const char* end = name.data() + name.size();
    std::uint32_t number = 0;
    if (name.starts_with(kPrefix) && name.size() > kPrefix.size() &&
        std::from_chars(name.data() + kPrefix.size(), end, number).ptr == end &&
        number < kNodesMax) {
      nodes.push_back(number);
    }
  }
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

}  // namespace kvferry::tiers
