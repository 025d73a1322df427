// Runs of free chunks against a search over an array of flags.
#include "tiers/host/chunk_pool.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

namespace kvferry::tiers {
namespace {

TEST(ChunkPoolTest, GivesTheLowestRunThatIsLongEnough) {
  ChunkPool pool(200);
  EXPECT_EQ(pool.Acquire(60), 0U);
  EXPECT_EQ(pool.Acquire(70), 60U);
  EXPECT_EQ(pool.Acquire(70), 130U);
  EXPECT_EQ(pool.Acquire(1), std::nullopt);

  pool.Release(10, 3);
  pool.Release(63, 2);
  EXPECT_EQ(pool.free_count(), 5U);
  EXPECT_EQ(pool.Find(4), std::nullopt);
  EXPECT_EQ(pool.Acquire(3), 10U);
  EXPECT_EQ(pool.Acquire(2), 63U);
}

TEST(ChunkPoolTest, JoinsNeighboursThatCameBackApart) {
  ChunkPool pool(64);
  ASSERT_EQ(pool.Acquire(64), 0U);
  pool.Release(8, 4);
  pool.Release(16, 4);
  EXPECT_EQ(pool.Find(12), std::nullopt);
  pool.Release(12, 4);
  EXPECT_EQ(pool.Find(12), 8U);
}

TEST(ChunkPoolTest, RefusesToTakeBackWhatIsFree) {
  ChunkPool pool(10);
  ASSERT_EQ(pool.Acquire(4), 0U);
  EXPECT_DEATH(pool.Release(3, 2), "Next");
  EXPECT_DEATH(pool.Release(9, 2), "length");
}

TEST(ChunkPoolTest, AgreesWithAnArrayOfFlags) {
  Random random(20);
  constexpr std::uint32_t kChunks = 300;
  ChunkPool pool(kChunks);
  std::vector<bool> is_free(kChunks, true);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> held;
  for (int step = 0; step < 5'000; ++step) {
    const auto length = static_cast<std::uint32_t>(random.Between(1, 33));
    const std::vector<bool> wanted(length, true);
    const auto found =
        std::search(is_free.begin(), is_free.end(), wanted.begin(), wanted.end()) - is_free.begin();
    const auto acquired = random.Chance(0.5) ? pool.Acquire(length) : std::nullopt;
    if (acquired) {
      ASSERT_EQ(*acquired, found);
      std::fill_n(is_free.begin() + found, length, false);
      held.emplace_back(*acquired, length);
    } else if (!held.empty()) {
      ASSERT_EQ(pool.Find(length).value_or(kChunks), found);
      std::swap(held[random.Below(held.size())], held.back());
      pool.Release(held.back().first, held.back().second);
      std::fill_n(is_free.begin() + held.back().first, held.back().second, true);
      held.pop_back();
    }
    ASSERT_EQ(pool.free_count(), std::count(is_free.begin(), is_free.end(), true));
  }
}

}  // namespace
}  // namespace kvferry::tiers
