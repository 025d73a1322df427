// The calls to the system that tables ask for.
#include "base/huge_array.h"

#include <sys/mman.h>

#include <cstdint>

#include "base/bytes.h"

namespace kvferry {
namespace {

constexpr std::size_t kPageBytes = 4096;

}  // namespace

void AdviseHugePages(void* memory, std::size_t size_bytes) noexcept {
  // Refused where the kernel has none, or the range is shorter than one.
  ::madvise(memory, size_bytes, MADV_HUGEPAGE);
}

void* MapZeroBytes(std::size_t size_bytes, std::size_t alignment, int flags) noexcept {
  const std::size_t mapped_bytes = size_bytes + alignment;
  void* const mapped = ::mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  if (mapped == MAP_FAILED) {
    return nullptr;
  }
  // What lies before and behind the aligned range goes back.
  const auto address = reinterpret_cast<std::uintptr_t>(mapped);
  const std::size_t skipped = (alignment - address % alignment) % alignment;
  if (skipped > 0) {
    ::munmap(mapped, skipped);
  }
  auto* const memory = static_cast<std::byte*>(mapped) + skipped;
  const std::size_t end = AlignUp(size_bytes, kPageBytes);
  if (skipped + end < mapped_bytes) {
    ::munmap(memory + end, mapped_bytes - skipped - end);
  }
  return memory;
}

void UnmapBytes(void* memory, std::size_t size_bytes) noexcept {
  ::munmap(memory, size_bytes);
}

}  // namespace kvferry
