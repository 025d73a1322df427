// Sizes as users write and read them.
#include "base/bytes.h"

#include <cstdint>
#include <string_view>

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace kvferry {
namespace {

std::uint64_t Parsed(std::string_view text) {
  const Result<std::uint64_t> bytes = ParseBytes(text);
  EXPECT_OK(bytes);
  return bytes ? *bytes : UINT64_MAX;
}

TEST(BytesTest, TakesAPercentageToTheByte) {
  EXPECT_EQ(PercentOf(16 * kMiB, 50), 8 * kMiB);
  EXPECT_EQ(PercentOf(199, 1), 1U);  // Rounded down.
  EXPECT_EQ(PercentOf(99, 100), 99U);
  EXPECT_EQ(PercentOf(99, 1), 0U);
  EXPECT_EQ(PercentOf(UINT64_MAX, 100), UINT64_MAX);
}

TEST(BytesTest, ReadsBinaryAndDecimalUnits) {
  EXPECT_EQ(Parsed("0"), 0U);
  EXPECT_EQ(Parsed("4096"), 4096U);
  EXPECT_EQ(Parsed("12B"), 12U);
  EXPECT_EQ(Parsed("64GiB"), 64 * kGiB);
  EXPECT_EQ(Parsed("1.5 GB"), 1'500'000'000U);
  EXPECT_EQ(Parsed("0.5KiB"), 512U);
  EXPECT_EQ(Parsed("3TB"), 3'000'000'000'000U);
  EXPECT_EQ(Parsed("2 TiB"), 2 * kTiB);
}

// A double would round the first of these.
TEST(BytesTest, KeepsEveryByteOfAPlainCount) {
  EXPECT_EQ(Parsed("9007199254740993"), 9'007'199'254'740'993U);
  EXPECT_EQ(Parsed("9223372036854775808"), std::uint64_t{1} << 63);
}

TEST(BytesTest, RefusesWhatIsNoSizeAndNamesIt) {
  for (const std::string_view text :
       {"", " ", "GiB", "-1", "-1GiB", "1.5.2", "12 parsecs", "1e3", "nan", "inf",
        "9223372036854775809", "8388609 TiB", "64 Gib", "0x10", "1,000"}) {
    const Result<std::uint64_t> bytes = ParseBytes(text);
    EXPECT_STATUS(bytes, StatusCode::kInvalidArgument);
    if (!bytes) {
      EXPECT_NE(bytes.error().message().find("'" + std::string(text) + "'"),
                std::string_view::npos);
    }
  }
}

TEST(BytesTest, TellsASizeThatIsTooLargeFromNoSize) {
  for (const std::string_view text :
       {"9223372036854775809", "99999999999999999999999", "8193 PiB", "99999999999TiB"}) {
    const Result<std::uint64_t> bytes = ParseBytes(text);
    EXPECT_STATUS(bytes, StatusCode::kInvalidArgument);
    ASSERT_FALSE(bytes.ok());
    EXPECT_EQ(bytes.error().message(),
              "'" + std::string(text) + "' is out of range: a size is at most 8192 PiB");
  }
}

TEST(BytesTest, PrintsThreeDigits) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1024), "1.00 KiB");
  EXPECT_EQ(FormatBytes(kGiB * 3 / 2), "1.50 GiB");
  EXPECT_EQ(FormatBytes(kMiB - 1), "1.00 MiB");
  EXPECT_EQ(FormatBytes(10 * kMiB - 1), "10.0 MiB");
  EXPECT_EQ(FormatBytes(100 * kMiB - 1), "100 MiB");
  EXPECT_EQ(FormatBytes(UINT64_MAX), "16384 PiB");
}

TEST(BytesTest, RoundsUpAndNarrows) {
  EXPECT_EQ(AlignUp(0, 4096), 0U);
  EXPECT_EQ(AlignUp(1, 4096), 4096U);
  EXPECT_EQ(AlignUp(4096, 4096), 4096U);
  EXPECT_EQ(Narrow<std::uint8_t>(255), 255);
}

TEST(BytesDeathTest, StopsWhenANumberDoesNotFit) {
  EXPECT_DEATH((void)Narrow<std::uint8_t>(256), "in_range");
  EXPECT_DEATH((void)Narrow<std::uint32_t>(-1), "in_range");
}

}  // namespace
}  // namespace kvferry
