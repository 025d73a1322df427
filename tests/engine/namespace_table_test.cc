// Namespaces by description, their epochs, and the quotas of tenants.
#include "engine/namespace_table.h"

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"
#include "tests/support/test_blocks.h"

namespace kvferry::engine {
namespace {

using ::testing::HasSubstr;
using testing::NamespaceOf;

constexpr std::uint32_t kBytes = 65'536;
constexpr std::uint64_t kNoQuota = ~std::uint64_t{0};

NamespaceHandle Added(NamespaceTable& table,
                      const std::string& model,
                      const NamespaceOptions& options = {.block_bytes = kBytes}) {
  const auto added = table.Add(NamespaceOf(model), options);
  EXPECT_OK(added);
  return added.ok() ? *added : NamespaceHandle{};
}

std::string Refusal(NamespaceTable& table,
                    const Namespace& description,
                    const NamespaceOptions& options) {
  const auto refused = table.Add(description, options);
  EXPECT_STATUS(refused, StatusCode::kInvalidArgument);
  return std::string(refused.status().message());
}

TEST(NamespaceTableTest, GivesOneHandleToOneDescription) {
  NamespaceTable table(8);
  const NamespaceHandle first = Added(table, "first");
  const NamespaceHandle second = Added(table, "second", {.block_bytes = 4096, .tenant = 9});

  EXPECT_NE(first, second);
  EXPECT_EQ(Added(table, "first"), first);
  EXPECT_EQ(Added(table, "second", {.block_bytes = 4096, .tenant = 9}), second);
  EXPECT_TRUE(table.Contains(first));
  EXPECT_TRUE(table.Contains(second));
  EXPECT_FALSE(table.Contains(NamespaceHandle{2}));
  EXPECT_FALSE(table.Contains(NamespaceHandle{}));
  EXPECT_EQ(table.block_bytes(first), kBytes);
  EXPECT_EQ(table.block_bytes(second), 4096U);
}

// Blocks of another size under one handle would be read past their end.
TEST(NamespaceTableTest, RefusesOtherFactsForADescriptionItKnows) {
  NamespaceTable table(8);
  Added(table, "model", {.block_bytes = kBytes, .tenant = 3, .host_quota_bytes = 100});

  EXPECT_EQ(Refusal(table, NamespaceOf("model"), {.block_bytes = 4096, .tenant = 3}),
            "the namespace was added with blocks of 65536 bytes, not 4096; what changes a block's "
            "size belongs into its description");
  EXPECT_EQ(Refusal(table, NamespaceOf("model"), {.block_bytes = kBytes, .tenant = 4}),
            "the namespace was added for tenant 3, not 4; give it the first one's number, or "
            "another Namespace::tenant");
  EXPECT_EQ(table.host_quota(table.tenant_index(0)), 100U);
}

TEST(NamespaceTableTest, RefusesBlocksOutOfRangeAndBadDescriptions) {
  NamespaceTable table(8);
  for (const std::uint32_t bytes : {0U, 4095U, (64U << 20) + 1}) {
    EXPECT_THAT(Refusal(table, NamespaceOf("model"), {.block_bytes = bytes}),
                HasSubstr("block_bytes is " + std::to_string(bytes)));
  }
  EXPECT_THAT(Refusal(table, Namespace(), {.block_bytes = kBytes}), HasSubstr("tenant"));
  EXPECT_FALSE(table.Contains(NamespaceHandle{0}));

  Added(table, "small", {.block_bytes = 4096});
  Added(table, "large", {.block_bytes = 64U << 20});
}

TEST(NamespaceTableTest, SaysWhenItIsFull) {
  NamespaceTable table(2);
  const NamespaceHandle first = Added(table, "first");
  Added(table, "second");

  const auto refused = table.Add(NamespaceOf("third"), {.block_bytes = kBytes});
  EXPECT_STATUS(refused, StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("raise namespaces_max"));
  EXPECT_EQ(Added(table, "first"), first);
}

// Each namespace may bring a tenant of its own, and one that shares must not take another's quota.
TEST(NamespaceTableTest, KeepsOneQuotaATenantAndTheLatestCounts) {
  NamespaceTable table(4);
  const NamespaceHandle free = Added(table, "free");
  const NamespaceHandle a =
      Added(table, "a",
            {.block_bytes = kBytes, .tenant = 7, .host_quota_bytes = 10, .nvme_quota_bytes = 20});
  const NamespaceHandle b =
      Added(table, "b", {.block_bytes = kBytes, .tenant = 8, .host_quota_bytes = 30});
  EXPECT_EQ(table.host_quota(table.tenant_index(free.index)), kNoQuota);
  EXPECT_EQ(table.nvme_quota(table.tenant_index(free.index)), kNoQuota);
  EXPECT_EQ(table.host_quota(table.tenant_index(a.index)), 10U);
  EXPECT_EQ(table.nvme_quota(table.tenant_index(a.index)), 20U);
  EXPECT_EQ(table.host_quota(table.tenant_index(b.index)), 30U);
  EXPECT_EQ(table.nvme_quota(table.tenant_index(b.index)), kNoQuota);

  const NamespaceHandle more =
      Added(table, "c",
            {.block_bytes = 4096, .tenant = 7, .host_quota_bytes = 11, .nvme_quota_bytes = 0});

  EXPECT_EQ(table.tenant_index(more.index), table.tenant_index(a.index));
  EXPECT_NE(table.tenant_index(b.index), table.tenant_index(a.index));
  EXPECT_EQ(table.host_quota(table.tenant_index(a.index)), 11U);
  EXPECT_EQ(table.nvme_quota(table.tenant_index(a.index)), 0U);
  for (const NamespaceHandle handle : {free, a, b, more}) {
    EXPECT_LT(table.tenant_index(handle.index), table.tenants_max());
  }
}

// A quota that nobody keeps is worse than none.
TEST(NamespaceTableTest, RefusesAQuotaForTheTenantWithout) {
  NamespaceTable table(4);
  EXPECT_THAT(Refusal(table, NamespaceOf("a"), {.block_bytes = kBytes, .host_quota_bytes = 5}),
              HasSubstr("tenant 0 has no quota"));
  EXPECT_THAT(Refusal(table, NamespaceOf("a"), {.block_bytes = kBytes, .nvme_quota_bytes = 5}),
              HasSubstr("tenant 0 has no quota"));
}

TEST(NamespaceTableTest, BeginsAnEpochOnlyWhenTheLastOneIsSwept) {
  NamespaceTable table(4);
  const NamespaceHandle first = Added(table, "first");
  const NamespaceHandle second = Added(table, "second");
  EXPECT_EQ(table.NextToSweep(), std::nullopt);

  const std::uint8_t before = table.epoch(second);
  EXPECT_OK(table.BeginErase(second));
  EXPECT_NE(table.epoch(second), before);
  EXPECT_EQ(table.NextToSweep(), second.index);
  EXPECT_STATUS(table.BeginErase(second), StatusCode::kUnavailable);
  EXPECT_OK(table.BeginErase(first));

  EXPECT_EQ(table.NextToSweep(), first.index);
  table.EndSweep(first);
  EXPECT_EQ(table.NextToSweep(), second.index);
  table.EndSweep(second);
  EXPECT_EQ(table.NextToSweep(), std::nullopt);
  EXPECT_STATUS(table.BeginErase(NamespaceHandle{2}), StatusCode::kInvalidArgument);
  EXPECT_STATUS(table.BeginErase(NamespaceHandle{}), StatusCode::kInvalidArgument);
}

// A caller that erases one namespace again and again would keep all others' memory.
TEST(NamespaceTableTest, SweepsEachErasedNamespaceInItsTurn) {
  NamespaceTable table(4);
  const NamespaceHandle stormy = Added(table, "stormy");
  const NamespaceHandle calm = Added(table, "calm");
  ASSERT_OK(table.BeginErase(stormy));
  ASSERT_OK(table.BeginErase(calm));
  ASSERT_EQ(table.NextToSweep(), stormy.index);
  table.EndSweep(stormy);
  ASSERT_OK(table.BeginErase(stormy));

  EXPECT_EQ(table.NextToSweep(), calm.index);
  table.EndSweep(calm);
  EXPECT_EQ(table.NextToSweep(), stormy.index);
}

TEST(NamespaceTableTest, TellsAnEpochFromTheLastOneAlsoWhenTheCountWraps) {
  NamespaceTable table(1);
  const NamespaceHandle handle = Added(table, "model");
  for (int round = 0; round < 600; ++round) {
    const std::uint8_t before = table.epoch(handle);
    ASSERT_OK(table.BeginErase(handle));
    ASSERT_NE(table.epoch(handle), before);
    table.EndSweep(handle);
  }
}

// What is read of a namespace that was seen is there in whole, whoever adds or erases meanwhile.
TEST(NamespaceTableTest, ServesReadersWhileOthersAddAndErase) {
  constexpr std::uint32_t kNamespaces = 64;
  NamespaceTable table(kNamespaces);
  std::atomic<bool> is_done = false;
  const auto add = [&] {
    for (std::uint32_t i = 0; i < kNamespaces; ++i) {
      const NamespaceHandle added =
          Added(table, "model" + std::to_string(i),
                {.block_bytes = 4096 + i, .tenant = i + 1, .host_quota_bytes = i});
      table.BeginErase(added).IgnoreError();  // Refused where the other thread's is not swept yet.
    }
  };
  std::vector<std::thread> adders(2);
  for (std::thread& adder : adders) {
    adder = std::thread(add);
  }
  std::thread mover([&] {
    std::vector<std::uint8_t> swept(kNamespaces);
    while (!is_done.load() || table.NextToSweep().has_value()) {
      if (const auto next = table.NextToSweep()) {
        const NamespaceHandle handle{*next};
        EXPECT_NE(table.epoch(handle), swept[*next]);
        swept[*next] = table.epoch(handle);
        table.EndSweep(handle);
      }
    }
  });
  std::thread reader([&] {
    while (!is_done.load()) {
      for (std::uint16_t i = 0; table.Contains(NamespaceHandle{i}); ++i) {
        const std::uint32_t bytes = table.block_bytes(NamespaceHandle{i});
        EXPECT_EQ(table.host_quota(table.tenant_index(i)), bytes - 4096);
      }
    }
  });
  for (std::thread& adder : adders) {
    adder.join();
  }
  is_done = true;
  mover.join();
  reader.join();

  EXPECT_TRUE(table.Contains(NamespaceHandle{kNamespaces - 1}));
}

}  // namespace
}  // namespace kvferry::engine
