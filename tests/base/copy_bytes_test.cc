// Copies of all sizes around the borders of lines and of streaming, at every alignment.
#include "base/copy_bytes.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace kvferry {
namespace {

constexpr std::byte kUntouched{0xee};
constexpr std::size_t kMarginBytes = 128;

std::vector<std::byte> Pattern(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>((i * 197 + (i >> 8) * 31) & 255);
  }
  return bytes;
}

template <class Copy>
void ExpectExactCopy(std::size_t size, std::size_t source_shift, std::size_t shift, Copy copy) {
  const std::vector<std::byte> source = Pattern(size + source_shift);
  std::vector<std::byte> target(size + 2 * kMarginBytes, kUntouched);
  const std::span<const std::byte> wanted = std::span(source).subspan(source_shift);
  const std::span<std::byte> place = std::span(target).subspan(shift, size);

  copy(wanted, place);

  EXPECT_TRUE(std::ranges::equal(place, wanted)) << size << " to " << shift;
  const auto is_untouched = [](std::byte byte) {
    return byte == kUntouched;
  };
  EXPECT_TRUE(std::all_of(target.begin(), target.begin() + static_cast<std::ptrdiff_t>(shift),
                          is_untouched));
  EXPECT_TRUE(std::all_of(target.begin() + static_cast<std::ptrdiff_t>(shift + size), target.end(),
                          is_untouched))
      << size << " to " << shift;
}

TEST(CopyBytesTest, CopiesEverySizeAroundTheBorders) {
  for (const std::size_t middle : {std::size_t{64}, kStreamedBytesMin, std::size_t{65'536}}) {
    for (std::size_t size = middle - 64; size <= middle + 64; ++size) {
      ExpectExactCopy(size, size % 7, size % 65, CopyBytes);
    }
  }
}

TEST(StreamBytesTest, WritesNothingBesideItsTargetAtAnyAlignment) {
  for (std::size_t shift = 0; shift < 64; ++shift) {
    for (const std::size_t size :
         std::vector<std::size_t>{0, 1, 15, 63, 64, 65, 127, 128, 200, 4096}) {
      ExpectExactCopy(size, shift * 5 % 64, shift, [](auto source, auto target) {
        StreamBytes(source, target);
        OrderStreamedBytes();
      });
    }
  }
}

TEST(CopyBytesTest, TakesEmptySpans) {
  CopyBytes({}, {});
  StreamBytes({}, {});
  ExpectExactCopy(0, 0, 3, CopyBytes);
}

TEST(CopyBytesTest, RefusesATargetThatIsTooSmall) {
  const std::vector<std::byte> source(20'000);
  std::vector<std::byte> target(19'999);
  EXPECT_DEATH(CopyBytes(source, target), "target.size");
  EXPECT_DEATH(StreamBytes(source, target), "target.size");
}

}  // namespace
}  // namespace kvferry
