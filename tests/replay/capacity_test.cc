// Capacities and durations as users write them.
#include "replay/capacity.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace kvferry::replay {
namespace {

std::uint32_t Blocks(std::string_view text, std::uint64_t distinct, std::uint64_t block_bytes = 0) {
  const Result<Capacity> capacity = ParseCapacity(text);
  EXPECT_OK(capacity);
  const Result<std::uint32_t> blocks = CapacityBlocks(*capacity, distinct, block_bytes);
  EXPECT_OK(blocks);
  return *blocks;
}

// A share is floor(share x distinct); binary rounding of 0.07 or 2.3 would lose a block.
TEST(CapacityTest, TakesTheFloorOfAnExactShare) {
  EXPECT_EQ(Blocks("1%", 182'790), 1'827U);
  EXPECT_EQ(Blocks("25%", 284'882), 71'220U);
  EXPECT_EQ(Blocks("7%", 100), 7U);
  EXPECT_EQ(Blocks("2.3%", 1'000), 23U);
  EXPECT_EQ(Blocks("100%", 4'294'967'294), 4'294'967'294U);
}

// A small share of a small trace is a small cache, not none.
TEST(CapacityTest, AShareIsAtLeastOneBlock) {
  EXPECT_EQ(Blocks("0.1%", 999), 1U);
  EXPECT_EQ(Blocks("1%", 0), 1U);
}

// A cache that holds nothing would give a row of zeros that looks like a result.
TEST(CapacityTest, RefusesACacheOfNothing) {
  for (const char* text : {"0", "00", "0%", "0.000%", "0B", "0 GiB"}) {
    const Result<Capacity> capacity = ParseCapacity(text);
    EXPECT_STATUS(capacity, StatusCode::kInvalidArgument);
    EXPECT_NE(capacity.status().message().find("holds nothing"), std::string_view::npos) << text;
  }
  const Result<Capacity> bytes = ParseCapacity("1KiB");
  ASSERT_OK(bytes);
  const Result<std::uint32_t> blocks = CapacityBlocks(*bytes, 10, 2048);
  EXPECT_STATUS(blocks, StatusCode::kInvalidArgument);
  EXPECT_NE(blocks.error().message().find("less than one block of 2.00 KiB"),
            std::string_view::npos)
      << blocks.error().message();
}

TEST(CapacityTest, SaysWhyANumberIsNoNumberOfBlocks) {
  EXPECT_NE(ParseCapacity("1.5").status().message().find("blocks are whole numbers"),
            std::string_view::npos);
  EXPECT_NE(ParseCapacity("99999999999999999999999").status().message().find("more than 4,294"),
            std::string_view::npos);
}

// Plain numbers are blocks, units are bytes and need to know what a block weighs.
TEST(CapacityTest, TellsBlocksFromBytes) {
  EXPECT_EQ(Blocks("5859", 10), 5'859U);
  EXPECT_EQ(Blocks("64GiB", 10, 8ULL << 20), 8'192U);
  EXPECT_EQ(Blocks("64 GiB", 10, (8ULL << 20) + 1), 8'191U);

  const Result<Capacity> bytes = ParseCapacity("1GB");
  ASSERT_OK(bytes);
  const Result<std::uint32_t> unknown = CapacityBlocks(*bytes, 10, 0);
  EXPECT_STATUS(unknown, StatusCode::kInvalidArgument);
  EXPECT_NE(unknown.error().message().find("--bytes-per-token"), std::string_view::npos);
}

// Whatever is not a capacity is named in the error, never read as something else.
TEST(CapacityTest, RefusesWhatIsNoCapacity) {
  for (const char* text : {"", "%", "-1", "-5%", "101%", "1.2.3%", "12parsecs", "1e3%", "nan%",
                           "0.0000000001%", "99999999999999999999999"}) {
    const Result<Capacity> capacity = ParseCapacity(text);
    EXPECT_STATUS(capacity, StatusCode::kInvalidArgument);
    EXPECT_NE(capacity.status().message().find("'" + std::string(text) + "'"),
              std::string_view::npos);
  }
  const Result<Capacity> huge = ParseCapacity("4294967295");
  ASSERT_OK(huge);
  EXPECT_STATUS(CapacityBlocks(*huge, 1, 0), StatusCode::kInvalidArgument);
}

// Times without a unit are seconds.
TEST(CapacityTest, ReadsDurations) {
  EXPECT_EQ(*ParseDurationMs("90"), 90'000);
  EXPECT_EQ(*ParseDurationMs("0.5"), 500);
  EXPECT_EQ(*ParseDurationMs("10min"), 600'000);
  EXPECT_EQ(*ParseDurationMs("2h"), 7'200'000);
  EXPECT_EQ(*ParseDurationMs("15ms"), 15);
  EXPECT_EQ(*ParseDurationMs("3m"), 180'000);
  EXPECT_EQ(*ParseDurationMs("2d"), 172'800'000);
  EXPECT_NE(ParseDurationMs("99999999999d").status().message().find("too long"),
            std::string_view::npos);
  for (const char* text : {"", "-1", "1 fortnight", "1e300", "inf", "min"}) {
    EXPECT_STATUS(ParseDurationMs(text), StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace kvferry::replay
