// Checksums against reference values, in one piece and in many, from many threads.
#include "base/checksum.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "base/sha256.h"

namespace kvferry {
namespace {

struct Reference {
  std::size_t size;
  std::uint64_t seed;
  std::string_view hex;
};

// XXH3_128bits_withSeed of Pattern(size) by another build of the algorithm (release 0.8 as wrapped
// for Python). The sizes lie on both sides of each of its internal borders: 16, 128, 240, 1,024
// bytes.
constexpr Reference kReferences[] = {
    {0, 0x0ULL, "99aa06d3014798d86001c324468d497f"},
    {0, 0x123456789abcdefULL, "a4cb05dbbf09907aaaa287af24a9bb3a"},
    {1, 0x0ULL, "495b62073ef70ca44c5cca45d0f4811f"},
    {1, 0x123456789abcdefULL, "12016bb9bdaa396e6dcb95d31de5966b"},
    {8, 0x0ULL, "6a86a3bda6af4e3d61ddbe7f31a6100d"},
    {8, 0x123456789abcdefULL, "6772e8fbfadb118fb03e3f707785d391"},
    {16, 0x0ULL, "7f9a218b0425449ae2ce54a7c19c730d"},
    {16, 0x123456789abcdefULL, "23ba0f7dfacd86a8613ef350025dc6a6"},
    {17, 0x0ULL, "66fc23f6439dbd778d96ef110fcdebb4"},
    {17, 0x123456789abcdefULL, "970955beeb76b9a33da1583c400d8231"},
    {128, 0x0ULL, "aec730751478556cff361dec1385710a"},
    {128, 0x123456789abcdefULL, "1845b13c2454f0789452dc98c8721146"},
    {129, 0x0ULL, "98cd36ccbb5579264545b3a09738e31a"},
    {129, 0x123456789abcdefULL, "db41a44b2a2e117d7b899134ceb2e943"},
    {240, 0x0ULL, "5293e17bf553903d3f2c53e72293711f"},
    {240, 0x123456789abcdefULL, "d4e7e35d6856371323bdfbd98e5b2d95"},
    {241, 0x0ULL, "b53840fe3fedf161956cae592c67279e"},
    {241, 0x123456789abcdefULL, "53ab09c65afafe874cbae25b11e4b16b"},
    {1024, 0x0ULL, "f3fc143cd81d51baa1e16f2edf2cbed6"},
    {1024, 0x123456789abcdefULL, "05e505ec1ebf4ebad3c5fceb4e2ca258"},
    {1025, 0x0ULL, "90bcb44432d2e5020a6d2c17259fe4bb"},
    {1025, 0x123456789abcdefULL, "395397b59b15733960e50a0380c1a593"},
    {4096, 0x0ULL, "e5817aaf266e34c648aa0572119e973a"},
    {4096, 0x123456789abcdefULL, "361fb369595ab6b4190c4c0bfe4149b3"},
    {65536, 0x0ULL, "8ed434cc4900de947402b5216cd59665"},
    {65536, 0x123456789abcdefULL, "78862ec0e1f59283fde0c6c8de93cf72"},
    {1048577, 0x0ULL, "98f11c5e548d37cc088454eae13307c1"},
    {1048577, 0x123456789abcdefULL, "60a901df49dfc25df323754c947c0dea"},
};

std::vector<std::byte> Pattern(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>((i * 131 + 7 + (i >> 8) * 17) & 255);
  }
  return bytes;
}

TEST(ChecksumTest, GivesTheReferenceValues) {
  for (const Reference& reference : kReferences) {
    const std::vector<std::byte> bytes = Pattern(reference.size);
    EXPECT_EQ(ToHex(ChecksumOf(bytes, reference.seed).bytes), reference.hex) << reference.size;
  }
}

// A block is checked while it is copied, in pieces; where they end must not matter.
TEST(ChecksumStreamTest, PiecesMakeNoDifference) {
  Random random(11);
  for (const Reference& reference : kReferences) {
    const std::vector<std::byte> bytes = Pattern(reference.size);
    ChecksumStream stream(reference.seed);
    for (std::size_t begin = 0; begin < bytes.size();) {
      const std::size_t size = std::min<std::size_t>(bytes.size() - begin, random.Below(5'000));
      stream.Update(std::span(bytes).subspan(begin, size));
      begin += size;
    }
    stream.Update({});
    EXPECT_EQ(ToHex(stream.Finish().bytes), reference.hex) << reference.size;
  }
}

TEST(ChecksumStreamTest, GoesOnAfterFinish) {
  const std::vector<std::byte> bytes = Pattern(3'000);
  ChecksumStream stream(5);
  stream.Update(std::span(bytes).first(1'000));
  const Checksum of_the_start = stream.Finish();
  ChecksumStream copy = stream;
  stream.Update(std::span(bytes).subspan(1'000));
  copy.Update(std::span(bytes).subspan(1'000));

  EXPECT_EQ(of_the_start, ChecksumOf(std::span(bytes).first(1'000), 5));
  EXPECT_EQ(stream.Finish(), ChecksumOf(bytes, 5));
  EXPECT_EQ(copy.Finish(), ChecksumOf(bytes, 5));
}

// A whole block of another key must not pass: the seed is the key's first eight bytes, low one
// first.
TEST(ChecksumTest, DependsOnTheKey) {
  BlockKey key;
  for (std::size_t i = 0; i < key.bytes.size(); ++i) {
    key.bytes[i] = static_cast<std::byte>(i + 1);
  }
  BlockKey other = key;
  other.bytes[7] = std::byte{0};
  const std::vector<std::byte> bytes = Pattern(2'000);

  EXPECT_EQ(ChecksumSeed(key), 0x0807060504030201ULL);
  EXPECT_EQ(ChecksumOf(bytes, key), ChecksumOf(bytes, 0x0807060504030201ULL));
  EXPECT_NE(ChecksumOf(bytes, key), ChecksumOf(bytes, other));
  ChecksumStream stream(key);
  stream.Update(bytes);
  EXPECT_EQ(stream.Finish(), ChecksumOf(bytes, key));
}

// Pieces, lines and the border to plain copies must show neither in the bytes nor in the checksum.
TEST(CopyAndChecksumTest, EqualsACopyAndAChecksumAtEverySizeAndAlignment) {
  const std::vector<std::byte> bytes = Pattern(70'000);
  std::vector<std::byte> target(bytes.size());
  const auto expect_equal = [&](std::size_t size, std::size_t from, std::size_t to) {
    const std::span<const std::byte> source = std::span(bytes).subspan(from, size);
    std::ranges::fill(target, std::byte{0x55});
    EXPECT_EQ(CopyAndChecksum(source, std::span(target).subspan(to), 9), ChecksumOf(source, 9))
        << size << " from " << from << " to " << to;
    EXPECT_TRUE(std::ranges::equal(source, std::span(target).subspan(to, size)));
    EXPECT_EQ(target[to + size], std::byte{0x55});
  };
  for (const std::size_t middle : std::vector<std::size_t>{0, 256, 4096, 16'384, 20'480, 65'536}) {
    for (std::size_t size = middle < 70 ? 0 : middle - 70; size <= middle + 70; size += 5) {
      expect_equal(size, size % 61, size % 67);
    }
  }
  for (std::size_t shift = 0; shift < 64; ++shift) {
    expect_equal(20'000, 0, shift);
    expect_equal(20'000, shift, 0);
  }
}

TEST(CopyAndChecksumTest, VerifiesWhatItCopied) {
  std::vector<std::byte> bytes = Pattern(40'000);
  std::vector<std::byte> target(bytes.size());
  const BlockKey key{{std::byte{3}}};
  const BlockKey other{{std::byte{4}}};
  const Checksum right = ChecksumOf(bytes, key);

  EXPECT_TRUE(CopyAndVerify(bytes, target, key, right));
  EXPECT_FALSE(CopyAndVerify(bytes, target, other, right));
  bytes[39'999] ^= std::byte{1};
  EXPECT_FALSE(CopyAndVerify(bytes, target, key, right));
}

TEST(ChecksumTest, NoticesEveryFlippedBit) {
  std::vector<std::byte> bytes = Pattern(300);
  const Checksum right = ChecksumOf(bytes, 1);
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_NE(ChecksumOf(bytes, 1), right) << bit;
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

TEST(ChecksumTest, AgreesBetweenThreads) {
  const std::vector<std::byte> bytes = Pattern(65'536);
  std::vector<Checksum> found(4);
  std::vector<std::thread> threads;
  threads.reserve(found.size());
  for (Checksum& checksum : found) {
    threads.emplace_back([&] { checksum = ChecksumOf(bytes, 0); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const Checksum& checksum : found) {
    EXPECT_EQ(ToHex(checksum.bytes), "8ed434cc4900de947402b5216cd59665");
  }
}

#if defined(__x86_64__)
// Whether the processor holds something in the upper halves of vector registers; nothing where it
// does not tell.
std::optional<bool> AreUpperHalvesInUse() {
  constexpr unsigned kStateLeaf = 0xd;
  constexpr unsigned kTellsUse = 1U << 2;
  constexpr unsigned kAvxState = 1U << 2;
  std::array<unsigned, 4> facts{};
  if (__builtin_cpu_supports("avx") == 0 ||
      __get_cpuid_count(kStateLeaf, 1, &facts[0], &facts[1], &facts[2], &facts[3]) == 0 ||
      (facts[0] & kTellsUse) == 0) {
    return std::nullopt;
  }
  unsigned low = 0;
  unsigned high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));
  return (low & kAvxState) != 0;
}

[[gnu::target("avx"), gnu::noinline]] void ZeroUpperHalves() {
  __builtin_ia32_vzeroupper();
}

TEST(ChecksumTest, LeavesNoUpperHalfOfAVectorInUse) {
  // What the thread does with SSE afterwards would take up to eight times as long.
  const std::vector<std::byte> bytes(65'536);
  if (__builtin_cpu_supports("avx") != 0) {
    ZeroUpperHalves();
  }
  if (AreUpperHalvesInUse().value_or(true)) {
    GTEST_SKIP() << "this processor does not tell which registers are in use";
  }
  const Checksum whole = ChecksumOf(bytes, 1);
  const std::optional<bool> after_one = AreUpperHalvesInUse();
  ChecksumStream stream(1);
  stream.Update(bytes);
  const Checksum streamed = stream.Finish();
  const std::optional<bool> after_stream = AreUpperHalvesInUse();
  EXPECT_FALSE(*after_one);
  EXPECT_FALSE(*after_stream);
  EXPECT_EQ(whole, streamed);
}
#endif

}  // namespace
}  // namespace kvferry
