// Whether the tests were built with a sanitizer, and how much less they do then.
#pragma once

#include <cstdint>

namespace kvferry::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

// So many rounds, or a tenth of them where each takes ten times as long.
constexpr std::uint32_t Rounds(std::uint32_t rounds) {
  return kIsSanitized ? (rounds + 9) / 10 : rounds;
}

}  // namespace kvferry::testing
