// Fields: little-endian, in a row, and never a byte outside their span.
#include "tiers/nvme/disk_fields.h"

#include <array>
#include <cstdint>

#include <gtest/gtest.h>

namespace kvferry::tiers {
namespace {

TEST(FieldWriterTest, PutsTheLowByteFirst) {
  std::array<std::byte, 4> bytes{};
  FieldWriter writer(bytes);
  writer.Put(std::uint16_t{0x0102});
  writer.Put(std::uint8_t{3});

  const std::array<std::byte, 4> expected = {std::byte{2}, std::byte{1}, std::byte{3},
                                             std::byte{0}};
  EXPECT_EQ(bytes, expected);
  EXPECT_EQ(writer.left(), 1U);
}

TEST(FieldWriterDeathTest, StopsAtTheEnd) {
  std::array<std::byte, 3> bytes{};
  FieldWriter writer(bytes);
  EXPECT_DEATH(writer.Put(std::uint32_t{1}), "");
}

TEST(FieldReaderTest, TakesWhatWasPut) {
  std::array<std::byte, 20> bytes{};
  const std::array<std::byte, 3> text = {std::byte{7}, std::byte{8}, std::byte{9}};
  FieldWriter writer(bytes);
  writer.Put(std::uint64_t{0xfedcba9876543210});
  writer.Put(std::uint32_t{0xffffffff});
  writer.PutBytes(text);
  writer.PutZeros(5);

  FieldReader reader(bytes);
  EXPECT_EQ(reader.Take<std::uint64_t>(), 0xfedcba9876543210);
  EXPECT_EQ(reader.Take<std::uint32_t>(), 0xffffffff);
  std::array<std::byte, 3> taken{};
  reader.TakeBytes(taken);
  EXPECT_EQ(taken, text);
  EXPECT_TRUE(reader.TakeZeros());
  EXPECT_EQ(reader.left(), 0U);
  EXPECT_FALSE(reader.is_short());
}

// A field cut by the end must not be half there, nor may one after it start in the middle.
TEST(FieldReaderTest, GivesZerosFromTheFirstFieldThatDoesNotFit) {
  const std::array<std::byte, 3> bytes = {std::byte{1}, std::byte{2}, std::byte{3}};
  FieldReader reader(bytes);
  EXPECT_EQ(reader.Take<std::uint16_t>(), 0x0201);
  EXPECT_EQ(reader.Take<std::uint32_t>(), 0U);
  EXPECT_TRUE(reader.is_short());
  EXPECT_EQ(reader.Take<std::uint8_t>(), 0U);
  std::array<std::byte, 2> taken = {std::byte{5}, std::byte{5}};
  reader.TakeBytes(taken);
  EXPECT_EQ(taken, (std::array<std::byte, 2>{}));
  EXPECT_FALSE(reader.TakeZeros(1));
}

TEST(FieldReaderTest, TellsWhetherBytesAreZero) {
  const std::array<std::byte, 3> bytes = {std::byte{0}, std::byte{0}, std::byte{1}};
  EXPECT_TRUE(FieldReader(bytes).TakeZeros(2));
  EXPECT_FALSE(FieldReader(bytes).TakeZeros(3));
  EXPECT_FALSE(FieldReader(bytes).TakeZeros(4));
}

}  // namespace
}  // namespace kvferry::tiers
