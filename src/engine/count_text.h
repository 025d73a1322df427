// CountText: a whole number as people read it.
#pragma once

#include <cstdint>
#include <string>

namespace kvferry::engine {

// "12,031".
inline std::string CountText(std::uint64_t count) {
  std::string text = std::to_string(count);
  for (std::size_t end = text.size(); end > 3; end -= 3) {
    text.insert(end - 3, 1, ',');
  }
  return text;
}

}  // namespace kvferry::engine
