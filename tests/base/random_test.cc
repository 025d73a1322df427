// Random and its distributions: what a seed means, and that the shapes are right.
#include "base/random.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace kvferry {
namespace {

constexpr std::uint64_t kSeed = 42;  // The golden values below belong to it.

// Recorded seeds name failures and workloads: another sequence would silently rename all of them.
TEST(RandomTest, KeepsTheSequenceOfASeed) {
  Random random(kSeed);
  EXPECT_EQ(random.Next(), 0xd0764d4f4476689fULL);
  EXPECT_EQ(random.Next(), 0x519e4174576f3791ULL);
  EXPECT_EQ(random.Next(), 0xfbe07cfb0c24ed8cULL);
  EXPECT_EQ(random.Next(), 0xb37d9f600cd835b8ULL);

  Random of_zero(0);
  EXPECT_EQ(of_zero.Next(), 0x53175d61490b23dfULL);
  EXPECT_EQ(of_zero.Next(), 0x61da6f3dc380d507ULL);
}

// The published first values of SplitMix64 for this seed.
TEST(SplitMix64Test, GivesThePublishedSequence) {
  SplitMix64 random(1234567);
  EXPECT_EQ(random.Next(), 6457827717110365317ULL);
  EXPECT_EQ(random.Next(), 3203168211198807973ULL);
  EXPECT_EQ(random.Next(), 9817491932198370423ULL);
}

// Computed by a separate program from the papers' descriptions.
TEST(RandomTest, KeepsTheDrawsOfASeed) {
  Random random(kSeed);
  for (const std::uint64_t expected :
       {8U, 3U, 9U, 7U, 7U, 5U, 1U, 6U, 2U, 9U, 5U, 8U, 6U, 0U, 4U, 5U}) {
    EXPECT_EQ(random.Below(10), expected);
  }

  random = Random(kSeed);
  for (const double expected : {0x1.a0ec9a9e88ecdp-1, 0x1.467905d15dbccp-2, 0x1.f7c0f9f61849dp-1}) {
    EXPECT_EQ(random.Fraction(), expected);
  }

  random = Random(kSeed);
  for (const double expected : {0x1.b37d9f600cd83p+0, 0x1.352cf3daf095cp+0, 0x1.1e7bf530041cfp-1,
                                0x1.8bc6e858d0501p+0, 0x1.1244b5b90b697p+1, 0x1.15a0b07d583a4p+0}) {
    EXPECT_EQ(random.Exponential(), expected);
  }
}

// With a bound above half the range nearly every second draw must be rejected; a missing rejection
// shows in these values.
TEST(RandomTest, RejectsWhatWouldBiasALargeBound) {
  Random random(kSeed);
  for (const std::uint64_t expected :
       {0x28cf20ba2bb79bc8ULL, 0x7df03e7d861276c6ULL, 0x59becfb0066c1adcULL, 0x4d74a703876c65a3ULL,
        0x1a9679ed784ae663ULL, 0x7777eb190cda506aULL}) {
    EXPECT_EQ(random.Below((std::uint64_t{1} << 63) + 1), expected);
  }
}

TEST(RandomTest, StaysWithinItsBounds) {
  Random random(kSeed);
  std::array<bool, 3> is_seen{};
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(random.Below(1), 0U);
    const std::uint64_t drawn = random.Between(5, 7);
    ASSERT_TRUE(drawn >= 5 && drawn <= 7);
    is_seen[drawn - 5] = true;
    EXPECT_EQ(random.Between(9, 9), 9U);
    EXPECT_FALSE(random.Chance(0));
    EXPECT_TRUE(random.Chance(1));
  }
  EXPECT_TRUE(is_seen[0] && is_seen[1] && is_seen[2]);
  // The whole range is a case of its own: its width does not fit.
  EXPECT_NE(random.Between(0, UINT64_MAX), random.Between(0, UINT64_MAX));
}

// Mean and variance of the exponential are 1; its median is ln 2.
TEST(RandomTest, ExponentialHasItsMoments) {
  constexpr int kDraws = 200'000;
  Random random(kSeed);
  double sum = 0;
  double squares = 0;
  int below_median = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double drawn = random.Exponential();
    sum += drawn;
    squares += drawn * drawn;
    below_median += drawn < 0.69314718055994531 ? 1 : 0;
  }
  EXPECT_NEAR(sum / kDraws, 1, 0.01);
  EXPECT_NEAR(squares / kDraws, 2, 0.06);
  EXPECT_NEAR(static_cast<double>(below_median) / kDraws, 0.5, 0.005);
}

TEST(RandomTest, AForkGoesItsOwnWay) {
  Random random(kSeed);
  Random fork = random.Fork();
  Random same(kSeed);
  EXPECT_NE(fork.Next(), random.Next());
  Random fork_of_same = same.Fork();
  EXPECT_EQ(fork_of_same.Next(), Random(0xd0764d4f4476689fULL).Next());
}

TEST(ZipfSamplerTest, KeepsTheDrawsOfASeed) {
  const ZipfSampler zipf(1000, 1.1);
  Random random(kSeed);
  for (const std::uint32_t expected :
       {152U, 3U, 837U, 56U, 126U, 22U, 0U, 25U, 1U, 488U, 18U, 213U, 47U, 0U, 5U, 16U}) {
    EXPECT_EQ(zipf.Draw(random), expected);
  }
}

// Frequencies against the definition, and the ends: one rank, and exponent 0, which is uniform.
TEST(ZipfSamplerTest, DrawsByThePowerLaw) {
  constexpr int kDraws = 200'000;
  const ZipfSampler zipf(100, 1);
  Random random(kSeed);
  std::vector<int> counts(100);
  for (int i = 0; i < kDraws; ++i) {
    ++counts[zipf.Draw(random)];
  }
  double harmonic = 0;
  for (int rank = 1; rank <= 100; ++rank) {
    harmonic += 1.0 / rank;
  }
  for (const int rank : {1, 2, 10, 100}) {
    const double expected = 1 / (rank * harmonic);
    const auto index = static_cast<std::uint32_t>(rank - 1);
    EXPECT_NEAR(zipf.Probability(index), expected, 1e-9);
    EXPECT_NEAR(counts[index] / static_cast<double>(kDraws), expected,
                4 * std::sqrt(expected / kDraws));
  }
  EXPECT_EQ(ZipfSampler(1, 2).Draw(random), 0U);
  EXPECT_DOUBLE_EQ(ZipfSampler(4, 0).Probability(3), 0.25);
}

TEST(RandomDeathTest, RefusesAnEmptyRange) {
  Random random(kSeed);
  EXPECT_DEATH(random.Below(0), "bound > 0");
  EXPECT_DEATH(random.Between(2, 1), "low <= high");
  EXPECT_DEATH(ZipfSampler(0, 1), "ranks > 0");
}

}  // namespace
}  // namespace kvferry
