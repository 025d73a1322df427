// KVFERRY_CHECK and KVFERRY_DCHECK: promises inside the program; a broken one stops the process.
#pragma once

#include <cstdint>
#include <string_view>

namespace kvferry {

// Prints the condition, the values (where given) and the place to stderr, then aborts. Async-signal
// safe in what it calls, so it may be used with any lock held.
[[noreturn]] void ReportBrokenCheck(const char* condition, const char* file, int line) noexcept;

}  // namespace kvferry

// On in every build. Never on bytes that came from a disk, a file or a caller.
#define KVFERRY_CHECK(condition)                     \
  (__builtin_expect(static_cast<bool>(condition), 1) \
       ? static_cast<void>(0)                        \
       : ::kvferry::ReportBrokenCheck(#condition, __FILE__, __LINE__))

// Where a profile says that the check costs; on in debug builds.
#ifdef NDEBUG
#define KVFERRY_DCHECK(condition) \
  do {                            \
    (void)sizeof(!(condition));   \
  } while (false)
#else
#define KVFERRY_DCHECK(condition) KVFERRY_CHECK(condition)
#endif
