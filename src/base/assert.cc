// The failure report of a broken check.
#include "base/assert.h"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>

namespace kvferry {
namespace {

void WriteText(const char* text) noexcept {
  const ssize_t written = ::write(STDERR_FILENO, text, std::strlen(text));
  (void)written;  // Nothing is left to do about it: the process is about to stop.
}

}  // namespace

void ReportBrokenCheck(const char* condition, const char* file, int line) noexcept {
  char digits[16] = {};
  std::to_chars(digits, digits + sizeof(digits) - 1, line);
  WriteText("kvferry: broken check: ");
  WriteText(condition);
  WriteText(" at ");
  WriteText(file);
  WriteText(":");
  WriteText(digits);
  WriteText("\n");
  std::abort();
}

}  // namespace kvferry
