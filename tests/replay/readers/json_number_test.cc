// Tests of number scanning against the standard library's conversions.
#include "replay/readers/json_number.h"

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

namespace kvferry::replay {
namespace {

// Scans `text` as an array with the padding that the scanner wants.
std::string Scanned(std::string_view text) {
  const std::string padded = std::string(text) + "\n" + std::string(64, '\0');
  std::vector<std::uint64_t> ids;
  const char* end = ScanIntegerArray(std::string_view(padded).substr(0, text.size()), ids);
  if (end == nullptr) {
    return "refused";
  }
  std::string result;
  for (const std::uint64_t id : ids) {
    result += std::to_string(id) + ";";
  }
  return result + std::string(end, padded.data() + text.size());
}

// The scanner takes eight digits at a time; each count of digits is a path of its own.
TEST(JsonNumberTest, ScansIntegersOfEveryLength) {
  constexpr std::uint64_t kSeed = 5;
  RecordProperty("seed", std::to_string(kSeed));
  Random random(kSeed);
  for (int round = 0; round < 20'000; ++round) {
    const std::uint64_t a = random.Next() >> random.Below(64);
    const std::uint64_t b = random.Next() >> random.Below(64);
    const std::string text = "[" + std::to_string(a) + ", " + std::to_string(b) + "]x";
    EXPECT_EQ(Scanned(text), std::to_string(a) + ";" + std::to_string(b) + ";x");
  }
  EXPECT_EQ(Scanned("[18446744073709551615]"), "18446744073709551615;");
  EXPECT_EQ(Scanned("[0,10000000,99999999,100000000]"), "0;10000000;99999999;100000000;");
  EXPECT_EQ(Scanned("[]"), "");
  EXPECT_EQ(Scanned("[ 1 ,\t2 ]"), "1;2;");
}

// What is no array of plain integers is left to the JSON parser, which knows the reason.
TEST(JsonNumberTest, RefusesEverythingButPlainIntegerArrays) {
  for (const char* text : {"",
                           "[",
                           "[1",
                           "[1,",
                           "[1,]",
                           "[,1]",
                           "[01]",
                           "[00000001]",
                           "[-1]",
                           "[1.0]",
                           "[1e3]",
                           "[1 2]",
                           "[\"1\"]",
                           "[[1]]",
                           "[1}",
                           "1",
                           "[0x1]",
                           "[1;2]",
                           "[/]",
                           "[:]",
                           "[12345678:]",
                           "[1234567/]",
                           "[18446744073709551616]",
                           "[99999999999999999999999]",
                           "[1\0,2]"}) {
    EXPECT_EQ(Scanned(text), "refused") << text;
  }
  for (int c = 0; c < 256; ++c) {
    const bool continues =
        (c >= '0' && c <= '9') || c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == ']';
    const std::string text = std::string("[12") + static_cast<char>(c) + "]";
    EXPECT_EQ(Scanned(text) != "refused", continues) << c;
  }
}

// Times must come out exact: floating point would turn 61.114 s into 61,113 ms.
TEST(JsonNumberTest, CutsDecimalsExactly) {
  EXPECT_EQ(ParseDecimal("61.114", 3), 61'114);
  EXPECT_EQ(ParseDecimal("0.0019999", 3), 1);
  EXPECT_EQ(ParseDecimal("-1.9999", 3), -1'999);
  EXPECT_EQ(ParseDecimal("1.5e-3", 3), 1);
  EXPECT_EQ(ParseDecimal("27", 3), 27'000);
  EXPECT_EQ(ParseDecimal("27.99", 0), 27);
  EXPECT_EQ(ParseDecimal("1e3", 0), 1'000);
  EXPECT_EQ(ParseDecimal("1.25E+2", 0), 125);
  EXPECT_EQ(ParseDecimal("0e99999999999", 3), 0);
  EXPECT_EQ(ParseDecimal("1e-99999999999", 3), 0);
  EXPECT_EQ(ParseDecimal("1e99", 0), std::nullopt);
  EXPECT_EQ(ParseDecimal("9223372036854775807", 0), std::nullopt);
  for (const char* text : {"", "-", ".5", "5.", "01", "1e", "+1", "0x1", "1 ", "nan"}) {
    EXPECT_EQ(ParseDecimal(text, 0), std::nullopt) << text;
  }
}

// The reason is what a user reads beside the field's name.
TEST(JsonNumberTest, SaysWhyAnIntegerIsNone) {
  EXPECT_EQ(ParseUnsigned("18446744073709551615").value, UINT64_MAX);
  EXPECT_EQ(ParseUnsigned("18446744073709551616").reason, "does not fit 64 bits");
  EXPECT_EQ(ParseUnsigned("-5").reason, "is negative");
  EXPECT_EQ(ParseUnsigned("1.5").reason, "is no whole number");
  EXPECT_EQ(ParseUnsigned("\"5\"").reason, "is no number");
  EXPECT_EQ(ParseUnsigned("null").reason, "is no number");
}

}  // namespace
}  // namespace kvferry::replay
