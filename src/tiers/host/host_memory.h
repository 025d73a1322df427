// HostMemory: one reserved area of host memory, its pages taken from the system when first touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kvferry/status.h"

namespace kvferry::tiers {

enum class HugePages : std::uint8_t {
  kNone,         // The system's usual pages.
  kTransparent,  // Asked for by advice; the system gives them as it can.
  kReserved,     // Set aside beforehand by the administrator; transparent ones if too few are left.
};

struct HostMemoryOptions {
  std::uint64_t bytes = 0;
  HugePages huge_pages = HugePages::kTransparent;
  // The node to take pages from, as long as it has any. Ignored on a machine with one node.
  std::optional<std::uint32_t> numa_node = std::nullopt;
};

// The area starts on a multiple of 2 MiB and reads as zeros. It is left out of core dumps and of
// forked children, where touching it is a fault.
//
// Thread-safe but for LeaveMapped: nothing else changes between Map and destruction. Whoever uses
// the bytes must be done before that.
class HostMemory {
  struct Token {};  // Only Map can name it.

 public:
  static constexpr std::uint64_t kAlignmentBytes = std::uint64_t{2} << 20;

  // Reserves addresses only, so it returns at once whatever the size. kInvalidArgument for no bytes
  // or a node that does not exist; kResourceExhausted, errno attached, when the system refuses.
  static Result<std::unique_ptr<HostMemory>> Map(const HostMemoryOptions& options);

  explicit HostMemory(Token /*token*/) {}
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  ~HostMemory();

  std::span<std::byte> bytes() const noexcept { return bytes_; }
  // What was granted, which may be less than what was asked for.
  HugePages huge_pages() const noexcept { return huge_pages_; }
  // Whether the system took the wish for a node; containers may forbid it, which is no error.
  bool is_on_node() const noexcept { return is_on_node_; }
  // A device may write to the bytes as long as the process lives: they stay mapped for good.
  void LeaveMapped() noexcept { is_left_mapped_ = true; }

 private:
  std::span<std::byte> bytes_;
  std::size_t mapped_bytes_ = 0;
  HugePages huge_pages_ = HugePages::kNone;
  bool is_on_node_ = false;
  bool is_left_mapped_ = false;
};

// The numbers of the memory nodes that are online, ascending; empty where the kernel has none.
std::vector<std::uint32_t> NumaNodes(const std::string& folder = "/sys/devices/system/node");

}  // namespace kvferry::tiers
