// Summaries of pages and the choice among them, against the same computed plainly.
#include "gpu/kernels/page_selection.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "tests/gpu/kernels/kernel_bench.h"
#include "tests/support/sanitizers.h"

namespace kvferry::gpu {
namespace {

using kvferry::testing::KernelBench;
using kvferry::testing::RandomValues;
using kvferry::testing::Suffix;
using kvferry::testing::Value;

template <class Element>
class GpuPageSelectionTest : public ::testing::Test {};
using Elements = ::testing::Types<__nv_bfloat16, __half>;
TYPED_TEST_SUITE(GpuPageSelectionTest, Elements);

TYPED_TEST(GpuPageSelectionTest, SummariesHoldTheExtremesOfEachChannel) {
  // Only of the tokens that the page has; pages that are not listed keep theirs.
  for (std::uint64_t seed = 1; seed <= testing::Rounds(20); ++seed) {
    Random random(seed);
    const std::size_t pages = 5;
    const auto heads = static_cast<std::size_t>(random.Between(1, 3));
    const auto size = static_cast<std::size_t>(random.Between(1, 40));
    const auto tokens = static_cast<std::size_t>(random.Between(1, 7));
    const auto keys = RandomValues<TypeParam>(random, pages * tokens * heads * size);
    const std::vector<std::int32_t> listed = {3, 0};
    const std::vector<std::int32_t> counts = {static_cast<std::int32_t>(random.Between(1, tokens)),
                                              static_cast<std::int32_t>(tokens)};
    KernelBench bench;
    PageSummaries work;
    work.keys = bench.Upload(keys);
    work.page_step = static_cast<std::int64_t>(tokens * heads * size);
    work.token_step = static_cast<std::int64_t>(heads * size);
    work.head_step = static_cast<std::int64_t>(size);
    work.pages = bench.Upload(listed);
    work.tokens = bench.Upload(counts);
    const std::vector<TypeParam> before(pages * heads * 2 * size, testing::As<TypeParam>(9.0F));
    auto* const summaries = bench.Upload(before);
    work.summaries = summaries;
    work.kv_heads = static_cast<std::int32_t>(heads);
    work.head_size = static_cast<std::int32_t>(size);

    bench.Run("kvferry_summarize_pages_" + Suffix<TypeParam>(), ShapeOf(work, 2), work);

    const auto made = bench.Download(summaries, before.size());
    for (std::size_t i = 0; i < made.size(); ++i) {
      const std::size_t page = i / (heads * 2 * size);
      const std::size_t head = i / (2 * size) % heads;
      const bool is_largest = i / size % 2 == 1;
      float expected = 9.0F;
      if (page == 3 || page == 0) {
        expected = is_largest ? -100.0F : 100.0F;
        for (std::size_t t = 0; t < static_cast<std::size_t>(counts[page == 3 ? 0 : 1]); ++t) {
          const float key = Value(keys[((page * tokens + t) * heads + head) * size + i % size]);
          expected = is_largest ? std::max(expected, key) : std::min(expected, key);
        }
      }
      ASSERT_EQ(Value(made[i]), expected) << "seed " << seed << " at " << i;
    }
  }
}

TYPED_TEST(GpuPageSelectionTest, SelectsThePagesWithTheLargestBounds) {
  // In order, without holes, and -1 where there are no more.
  for (std::uint64_t seed = 1; seed <= testing::Rounds(20); ++seed) {
    Random random(seed);
    const std::size_t pages = 12;
    const std::size_t sequences = 2;
    const auto kv_heads = static_cast<std::size_t>(random.Between(1, 2));
    const std::size_t heads = kv_heads * static_cast<std::size_t>(random.Between(1, 3));
    const auto size = static_cast<std::size_t>(random.Between(1, 40));
    const auto top = static_cast<std::size_t>(random.Between(1, 9));
    const std::size_t table_step = 8;
    const auto queries = RandomValues<TypeParam>(random, sequences * heads * size);
    const auto summaries = RandomValues<TypeParam>(random, pages * kv_heads * 2 * size);
    std::vector<std::int32_t> tables;
    for (std::size_t i = 0; i < sequences * table_step; ++i) {
      tables.push_back(random.Chance(0.2) ? -1 : static_cast<std::int32_t>(random.Below(pages)));
    }
    tables[1] = tables[0];  // Equal bounds: the earlier place wins.
    const std::vector<std::int32_t> counts = {8, static_cast<std::int32_t>(random.Between(0, 8))};
    KernelBench bench;
    PageSelection work;
    work.queries = bench.Upload(queries);
    work.summaries = bench.Upload(summaries);
    work.tables = bench.Upload(tables);
    work.counts = bench.Upload(counts);
    work.scores = bench.Upload(std::vector<float>(sequences * kv_heads * table_step));
    work.selected = bench.Upload(std::vector<std::int32_t>(sequences * kv_heads * top, 77));
    work.table_step = static_cast<std::int64_t>(table_step);
    work.heads = static_cast<std::int32_t>(heads);
    work.kv_heads = static_cast<std::int32_t>(kv_heads);
    work.head_size = static_cast<std::int32_t>(size);
    work.top = static_cast<std::int32_t>(top);

    bench.Run("kvferry_select_pages_" + Suffix<TypeParam>(),
              ShapeOf(work, static_cast<std::uint32_t>(sequences)), work);

    const auto selected = bench.Download(work.selected, sequences * kv_heads * top);
    for (std::size_t row = 0; row < sequences * kv_heads; ++row) {
      const std::size_t sequence = row / kv_heads;
      const std::size_t kv_head = row % kv_heads;
      std::vector<double> bounds(table_step, -std::numeric_limits<double>::infinity());
      std::vector<std::int32_t> order;
      for (std::size_t i = 0; i < static_cast<std::size_t>(counts[sequence]); ++i) {
        const std::int32_t page = tables[sequence * table_step + i];
        if (page < 0) {
          continue;
        }
        order.push_back(static_cast<std::int32_t>(i));
        const std::size_t least = (static_cast<std::size_t>(page) * kv_heads + kv_head) * 2 * size;
        const std::size_t group = heads / kv_heads;
        for (std::size_t q = kv_head * group; q < (kv_head + 1) * group; ++q) {
          double bound = 0;
          for (std::size_t d = 0; d < size; ++d) {
            const double query = Value(queries[(sequence * heads + q) * size + d]);
            bound += std::max(query * Value(summaries[least + d]),
                              query * Value(summaries[least + size + d]));
          }
          bounds[i] = std::max(bounds[i], bound);
        }
      }
      std::stable_sort(order.begin(), order.end(), [&bounds](std::int32_t a, std::int32_t b) {
        return bounds[static_cast<std::size_t>(a)] > bounds[static_cast<std::size_t>(b)];
      });
      order.resize(std::max(order.size(), top), -1);
      for (std::size_t rank = 0; rank < top; ++rank) {
        ASSERT_EQ(selected[row * top + rank], order[rank]) << "seed " << seed << " row " << row;
      }
    }
  }
}

}  // namespace
}  // namespace kvferry::gpu
