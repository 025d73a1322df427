// Fuzz target: the direct line scanner and simdjson must accept the same lines, alike.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/assert.h"
#include "replay/readers/line_reader.h"
#include "replay/readers/trace_line.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using kvferry::replay::TraceLine;
  static kvferry::replay::TraceLineParser parser;
  const std::string text(reinterpret_cast<const char*>(bytes), size);
  if (text.find('\n') != std::string::npos) {
    return 0;
  }
  const std::string padded = text + "\n" + std::string(kvferry::replay::kLinePadding, '\0');
  const std::string_view view = std::string_view(padded).substr(0, size);
  TraceLine line;
  const bool is_good = parser.Parse(view, line).ok();
  const TraceLine direct = line;
  const std::string session(direct.value(kvferry::replay::LineField::kSessionId));
  TraceLine slow;
  KVFERRY_CHECK(parser.ParseSlowly(view, slow).ok() == is_good);
  if (is_good) {
    KVFERRY_CHECK(direct.ids == slow.ids);
    KVFERRY_CHECK(direct.has_ids == slow.has_ids);
    KVFERRY_CHECK(session == slow.value(kvferry::replay::LineField::kSessionId));
    KVFERRY_CHECK(direct.value(kvferry::replay::LineField::kTimestamp) ==
                  slow.value(kvferry::replay::LineField::kTimestamp));
  }
  return 0;
}
