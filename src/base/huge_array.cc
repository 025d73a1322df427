// The one call to the system that tables ask for.
#include "base/huge_array.h"

#include <sys/mman.h>

namespace kvferry {

void AdviseHugePages(void* memory, std::size_t size_bytes) noexcept {
  // Refused where the kernel has none, or the range is shorter than one.
  ::madvise(memory, size_bytes, MADV_HUGEPAGE);
}

}  // namespace kvferry
