// Device memory by mmap and mprotect.
#include "sim/cuda/device_arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <string_view>

#include "base/assert.h"
#include "sim/cuda/sanitizer_hooks.h"

namespace kvferry::sim {
namespace {

constexpr std::size_t kArenaBytes = std::size_t{1} << 36;
constexpr std::size_t kPageBytes = 4096;
// Larger allocations stay zero: filling them costs more than it finds.
constexpr std::size_t kFilledBytesMax = std::size_t{64} << 20;
constexpr int kReadWrite = PROT_READ | PROT_WRITE;

constexpr std::size_t RoundUp(std::size_t size, std::size_t unit) {
  return (size + unit - 1) / unit * unit;
}

// Where the one arena of the process is, for the signal handler.
std::atomic<std::byte*>& GuardedBase() {
  static std::atomic<std::byte*> base{nullptr};
  return base;
}

std::atomic<bool>& IsDeviceCode() {
  static std::atomic<bool> is_device{false};
  return is_device;
}

extern "C" void TellWhoTouchedDeviceMemory(int /*signal*/, siginfo_t* info, void* /*context*/) {
  auto* const address = static_cast<std::byte*>(info->si_addr);
  std::byte* const base = GuardedBase().load();
  if (base != nullptr && address >= base && address < base + kArenaBytes) {
    constexpr std::string_view kHost = "sim cuda: host code touched device memory\n";
    constexpr std::string_view kDevice = "sim cuda: device code left its memory\n";
    const std::string_view text = IsDeviceCode().load() ? kDevice : kHost;
    static_cast<void>(!::write(STDERR_FILENO, text.data(), text.size()));
  }
  std::signal(SIGSEGV, SIG_DFL);
  std::raise(SIGSEGV);
}

}  // namespace

DeviceArena::DeviceArena(std::uint64_t capacity_bytes, bool is_guarded)
    : capacity_bytes_(capacity_bytes), is_guarded_(is_guarded) {
  void* const memory =
      ::mmap(nullptr, kArenaBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  KVFERRY_CHECK(memory != MAP_FAILED);
  base_ = static_cast<std::byte*>(memory);
  GuardedBase().store(base_);
  struct sigaction action {};
  action.sa_sigaction = TellWhoTouchedDeviceMemory;
  action.sa_flags = SA_SIGINFO;
  KVFERRY_CHECK(::sigaction(SIGSEGV, &action, nullptr) == 0);
}

DeviceArena::~DeviceArena() {
  for (const auto& [start, allocation] : allocations_) {
    Unpoison(allocation.pages, allocation.pages_bytes);
  }
  GuardedBase().store(nullptr);
  ::munmap(base_, kArenaBytes);
}

std::byte* DeviceArena::Allocate(std::size_t size_bytes) {
  const std::size_t aligned_bytes = RoundUp(size_bytes, kAlignmentBytes);
  const std::size_t pages_bytes = RoundUp(aligned_bytes, kPageBytes);
  if (size_bytes > capacity_bytes_ - used_bytes_ ||
      pages_bytes + kPageBytes > kArenaBytes - top_bytes_) {
    return nullptr;
  }
  std::byte* const pages = base_ + top_bytes_;
  top_bytes_ += pages_bytes + kPageBytes;
  KVFERRY_CHECK(::mprotect(pages, pages_bytes, kReadWrite) == 0);
  // At the end of its pages, so that the first byte behind it (but for the alignment) faults.
  std::byte* const start = pages + (pages_bytes - aligned_bytes);
  if (size_bytes <= kFilledBytesMax) {
    std::memset(start, 0xCB, aligned_bytes);
  }
  Poison(start + size_bytes, aligned_bytes - size_bytes);
  if (is_guarded_ && !is_open_) {
    KVFERRY_CHECK(::mprotect(pages, pages_bytes, PROT_NONE) == 0);
  }
  allocations_.emplace(start, Allocation{size_bytes, pages, pages_bytes});
  used_bytes_ += size_bytes;
  return start;
}

bool DeviceArena::Free(std::byte* memory) {
  const auto found = allocations_.find(memory);
  if (found == allocations_.end()) {
    return false;
  }
  const Allocation allocation = found->second;
  Unpoison(allocation.pages, allocation.pages_bytes);
  ::madvise(allocation.pages, allocation.pages_bytes, MADV_DONTNEED);
  KVFERRY_CHECK(::mprotect(allocation.pages, allocation.pages_bytes, PROT_NONE) == 0);
  used_bytes_ -= allocation.size_bytes;
  allocations_.erase(found);
  return true;
}

bool DeviceArena::Contains(const void* memory) const noexcept {
  const auto* const byte = static_cast<const std::byte*>(memory);
  return byte >= base_ && byte < base_ + kArenaBytes;
}

std::map<const std::byte*, DeviceArena::Allocation>::const_iterator DeviceArena::Find(
    const void* memory) const {
  const auto* const byte = static_cast<const std::byte*>(memory);
  auto after = allocations_.upper_bound(byte);
  if (after == allocations_.begin()) {
    return allocations_.end();
  }
  --after;
  return byte < after->first + after->second.size_bytes ? after : allocations_.end();
}

std::size_t DeviceArena::BytesFrom(const void* memory) const {
  const auto found = Find(memory);
  if (found == allocations_.end()) {
    return 0;
  }
  const auto* const byte = static_cast<const std::byte*>(memory);
  return found->second.size_bytes - static_cast<std::size_t>(byte - found->first);
}

bool DeviceArena::IsStart(const void* memory) const {
  return allocations_.contains(static_cast<const std::byte*>(memory));
}

std::size_t DeviceArena::SizeOf(const void* start) const {
  const auto found = allocations_.find(static_cast<const std::byte*>(start));
  return found == allocations_.end() ? 0 : found->second.size_bytes;
}

void DeviceArena::SetOpen(bool is_open) {
  IsDeviceCode().store(is_open);
  if (!is_guarded_ || is_open_ == is_open) {
    return;
  }
  is_open_ = is_open;
  for (const auto& [start, allocation] : allocations_) {
    KVFERRY_CHECK(::mprotect(allocation.pages, allocation.pages_bytes,
                             is_open ? kReadWrite : PROT_NONE) == 0);
  }
}

}  // namespace kvferry::sim
