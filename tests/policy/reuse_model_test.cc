// The hazards against a plain Kaplan-Meier estimate, and the worths against a search.
#include "policy/reuse_model.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace kvferry::policy {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr ReuseTraits kFirstTurn{.touches = 1, .turn = 0, .added_blocks = 4};

TEST(ReuseModelTest, AgeBucketsCoverAllAgesInOrder) {
  EXPECT_EQ(ReuseModel::AgeBucket(-5), 0U);
  EXPECT_EQ(ReuseModel::AgeBucket(0), 0U);
  for (std::uint32_t bucket = 0; bucket < ReuseModel::kAges; ++bucket) {
    const double least_s = ReuseModel::AgeOf(bucket);
    const double next_s = ReuseModel::AgeOf(bucket + 1);
    ASSERT_LT(least_s, next_s);
    for (const double part : {0.001, 0.5, 0.999}) {
      const double age_s = least_s + part * (next_s - least_s);
      EXPECT_EQ(ReuseModel::AgeBucket(static_cast<std::int64_t>(age_s * 1e9)), bucket);
    }
  }
  EXPECT_EQ(ReuseModel::AgeBucket(INT64_MAX), ReuseModel::kAges - 1);
}

// Pieces of one block each: some come back, some are lost sight of, some wait still.
TEST(ReuseModelTest, HazardsComeCloseToKaplanMeierWhereMuchIsKnown) {
  std::mt19937_64 random(1);
  ReuseModel model;
  const std::uint32_t reuse_class = ReuseModel::ClassOf(kFirstTurn);
  constexpr std::uint32_t kSamples = 200'000;
  std::vector<double> reused(ReuseModel::kAges);
  std::vector<double> watched(ReuseModel::kAges);
  model.BeginRefresh();
  for (std::uint32_t sample = 0; sample < kSamples; ++sample) {
    const auto age = static_cast<std::uint32_t>(10 + random() % 30);
    const std::uint64_t fate = random() % 3;
    if (fate == 0) {
      model.CountReuse(reuse_class, age, 1);
      reused[age] += 1;
    } else if (fate == 1) {
      model.CountUnwatched(reuse_class, age, 1);
    } else {
      model.CountWaiting(reuse_class, age, 1);
    }
    for (std::uint32_t before = 0; before <= age; ++before) {
      watched[before] += before == age && fate != 0 ? 0.5 : 1;
    }
  }
  model.FinishRefresh();
  for (std::uint32_t age = 0; age < 39; ++age) {
    EXPECT_NEAR(model.HazardOf(reuse_class, age), reused[age] / watched[age], 0.02) << age;
  }
}

double NaiveWorth(const ReuseModel& model, std::uint32_t reuse_class, std::uint32_t age) {
  double best = 0;
  for (std::uint32_t horizon = age; horizon < ReuseModel::kAges; ++horizon) {
    double survival = 1;
    double hits = 0;
    double held_s = 0;
    for (std::uint32_t at = age; at <= horizon; ++at) {
      const double share = at == age ? 0.5 : 1;
      const double chance = share * model.HazardOf(reuse_class, at);
      const double width_s = share * (ReuseModel::AgeOf(at + 1) - ReuseModel::AgeOf(at));
      hits += survival * chance;
      held_s += survival * ((1 - chance) * width_s + chance * width_s / 2);
      survival *= 1 - chance;
    }
    best = std::max(best, hits / held_s);
  }
  return best;
}

TEST(ReuseModelTest, WorthIsTheBestOverAllHorizons) {
  std::mt19937_64 random(2);
  ReuseModel model;
  for (int round = 0; round < 5; ++round) {
    std::vector<std::uint32_t> classes;
    for (int i = 0; i < 50; ++i) {
      const ReuseTraits traits{.touches = static_cast<std::uint32_t>(1 + random() % 30),
                               .turn = static_cast<std::uint32_t>(random() % 8),
                               .added_blocks = static_cast<std::uint32_t>(random() % 300),
                               .gap_ns = static_cast<std::int64_t>(random() % 100) * kSecond,
                               .is_last_block = random() % 5 == 0};
      classes.push_back(ReuseModel::ClassOf(traits));
      for (int k = 0; k < 40; ++k) {
        model.CountReuse(classes.back(), static_cast<std::uint32_t>(random() % 60),
                         static_cast<std::uint32_t>(1 + random() % 500));
      }
    }
    model.BeginRefresh();
    model.FinishRefresh();
    for (const std::uint32_t reuse_class : classes) {
      for (std::uint32_t age = 0; age < ReuseModel::kAges; ++age) {
        const double expected = NaiveWorth(model, reuse_class, age);
        ASSERT_NEAR(model.WorthOf(reuse_class, age), expected, expected * 1e-3);
      }
    }
  }
}

// Nothing seen yet: older is worth less, so the policy starts as leaf-LRU.
TEST(ReuseModelTest, StartsWithWorthsThatFallWithAge) {
  const ReuseModel model;
  const std::uint32_t reuse_class = ReuseModel::ClassOf(kFirstTurn);
  for (std::uint32_t age = 1; age < ReuseModel::kAges; ++age) {
    EXPECT_LE(model.WorthOf(reuse_class, age), model.WorthOf(reuse_class, age - 1)) << age;
  }
}

// What comes back after half a minute is worth more shortly before than shortly after.
TEST(ReuseModelTest, WorthRisesTowardsTheUsualAgeAndFallsBehindIt) {
  ReuseModel model;
  const std::uint32_t reuse_class = ReuseModel::ClassOf(kFirstTurn);
  const auto at = [](std::int64_t seconds) {
    return ReuseModel::AgeBucket(seconds * kSecond);
  };
  for (int i = 0; i < 10'000; ++i) {
    model.CountReuse(reuse_class, at(30), 1);
    model.CountUnwatched(reuse_class, at(1000), 1);
  }
  model.BeginRefresh();
  model.FinishRefresh();
  EXPECT_GT(model.WorthOf(reuse_class, at(20)), model.WorthOf(reuse_class, at(1)));
  EXPECT_GT(model.WorthOf(reuse_class, at(20)), model.WorthOf(reuse_class, at(60)));
}

// A class of which nothing is known yet is judged as what it is a part of.
TEST(ReuseModelTest, AClassWithoutObservationsLeansOnItsParent) {
  ReuseModel model;
  ReuseTraits seen = kFirstTurn;
  seen.gap_ns = kSecond;
  ReuseTraits unseen = kFirstTurn;
  unseen.gap_ns = 1000 * kSecond;
  ReuseTraits elsewhere = kFirstTurn;
  elsewhere.turn = 9;
  for (int i = 0; i < 10'000; ++i) {
    model.CountReuse(ReuseModel::ClassOf(seen), 20, 1);
    model.CountUnwatched(ReuseModel::ClassOf(elsewhere), 20, 1);
  }
  model.BeginRefresh();
  model.FinishRefresh();
  EXPECT_GT(model.HazardOf(ReuseModel::ClassOf(unseen), 20), 0.8);
  EXPECT_LT(model.HazardOf(ReuseModel::ClassOf(elsewhere), 20), 0.1);
}

}  // namespace
}  // namespace kvferry::policy
