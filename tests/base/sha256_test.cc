// Sha256 against the published test values, in one piece and in many.
#include "base/sha256.h"

#include <array>
#include <span>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace kvferry {
namespace {

std::span<const std::byte> BytesOf(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string DigestOf(std::string_view text) {
  Sha256 sha;
  sha.Update(BytesOf(text));
  return ToHex(sha.Finish());
}

// FIPS 180-4 example values: another hash, or another byte order, would miss every stored key.
TEST(Sha256Test, GivesThePublishedDigests) {
  EXPECT_EQ(DigestOf(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(DigestOf("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(DigestOf("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

// A file is hashed in pieces as they are read; where they end must not matter.
TEST(Sha256Test, PiecesMakeNoDifferenceAndFinishStartsOver) {
  const std::string text(1000, 'k');
  Sha256 sha;
  for (std::size_t begin = 0; begin < text.size(); begin += 7) {
    sha.Update(BytesOf(std::string_view(text).substr(begin, 7)));
  }

  EXPECT_EQ(ToHex(sha.Finish()), DigestOf(text));
  EXPECT_EQ(ToHex(sha.Finish()), DigestOf(""));
}

// RFC 4231 test case 2, and the empty secret, which the library reads as "as before".
TEST(HmacSha256Test, GivesThePublishedCodes) {
  EXPECT_EQ(ToHex(HmacSha256(BytesOf("Jefe"), BytesOf("what do ya want for nothing?"))),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(ToHex(HmacSha256({}, {})),
            "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

// Keys are read from command lines: half a digit too many must not pass for a key.
TEST(HexTest, ReadsBackWhatItWritesAndNothingElse) {
  std::array<std::byte, 3> bytes{};
  EXPECT_TRUE(ParseHex("00aFf9", bytes));
  EXPECT_EQ(ToHex(bytes), "00aff9");

  EXPECT_FALSE(ParseHex("00aff", bytes));
  EXPECT_FALSE(ParseHex("00aff99", bytes));
  EXPECT_FALSE(ParseHex("00aff ", bytes));
  EXPECT_FALSE(ParseHex("0x0aff", bytes));
  EXPECT_EQ(ToHex(bytes), "00aff9");
}

}  // namespace
}  // namespace kvferry
