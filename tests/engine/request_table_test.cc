// Windows of requests, and shares of the operations.
#include "engine/request_table.h"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/test_blocks.h"

namespace kvferry::engine {
namespace {

Call CallFor(std::span<const BlockKey> keys) {
  Call call;
  call.keys = keys;
  return call;
}

std::uint32_t BeginStage(RequestTable& table, std::uint32_t request) {
  const std::uint32_t operation = table.BeginNext(request);
  table.operation(operation).stage = Operation::Stage::kWaiting;
  return operation;
}

// A request that is seen to out of order tells more ready blocks than lead its keys.
TEST(RequestTableTest, TheWindowMovesOnOverLeadingBlocksOnly) {
  const auto keys = testing::KeysOf(1, 5);
  RequestTable table(2);
  table.Begin(0, CallFor(keys));
  Request& request = table[0];
  std::vector<std::uint32_t> operations;
  operations.reserve(3);
  for (int i = 0; i < 3; ++i) {
    operations.push_back(BeginStage(table, 0));
  }

  table.MarkDone(request, 1);
  table.EndOperation(operations[1]);
  EXPECT_EQ(request.ready(), 0U);
  table.MarkDone(request, 0);
  table.EndOperation(operations[0]);
  EXPECT_EQ(request.ready(), 2U);
  table.Limit(request, 3, MissReason::kEvicted);
  table.Limit(request, 4, MissReason::kErased);
  table.MarkDone(request, 2);
  table.EndOperation(operations[2]);
  table.SkipNext(request);

  EXPECT_EQ(request.ready(), 3U);
  EXPECT_EQ(request.next_missing, MissReason::kEvicted);
  EXPECT_EQ(table.operations_in_use(), 0U);
}

TEST(RequestTableTest, ARequestIsAtWorkOnAWindowAtMost) {
  const auto keys = testing::KeysOf(1, 200);
  RequestTable table(64);
  table.Begin(0, CallFor(keys));

  std::uint32_t begun = 0;
  while (table.CanBegin(table[0])) {
    BeginStage(table, 0);
    ++begun;
  }

  EXPECT_EQ(begun, kWindowBlocks);
}

// A few long requests take every operation, and the others wait for them.
TEST(RequestTableTest, EachRequestFindsItsFairShare) {
  constexpr std::uint32_t kRequests = 64;
  const auto keys = testing::KeysOf(1, 100);
  RequestTable table(kRequests);
  for (std::uint32_t request = 0; request < kRequests; ++request) {
    table.Begin(request, CallFor(keys));
    while (table.CanBegin(table[request])) {
      BeginStage(table, request);
    }
  }

  for (std::uint32_t request = 0; request < kRequests; ++request) {
    EXPECT_GE(table[request].operations, RequestTable::kFairShare) << request;
  }
}

TEST(RequestTableTest, AListOfOperationsIsTakenInOrder) {
  const auto keys = testing::KeysOf(1, 3);
  RequestTable table(1);
  table.Begin(0, CallFor(keys));
  const std::uint32_t first = BeginStage(table, 0);
  const std::uint32_t second = BeginStage(table, 0);
  const std::uint32_t third = BeginStage(table, 0);
  OperationList list;

  table.Append(list, second);
  table.Append(list, first);
  EXPECT_EQ(table.TakeFirst(list), second);
  table.Append(list, third);
  EXPECT_EQ(table.TakeFirst(list), first);
  EXPECT_EQ(table.TakeFirst(list), third);
  EXPECT_EQ(list.first, kNone);
  // One that was emptied begins anew.
  table.Append(list, first);
  table.Append(list, second);
  EXPECT_EQ(table.TakeFirst(list), first);
  EXPECT_EQ(table.TakeFirst(list), second);
  EXPECT_EQ(list.first, kNone);
}

TEST(RequestTableTest, RequestsAreQueuedOnceAndTakenInOrder) {
  const auto keys = testing::KeysOf(1, 1);
  RequestTable table(4);
  for (const std::uint32_t request : {2U, 0U, 3U}) {
    table.Begin(request, CallFor(keys));
    table.Queue(request);
    table.Queue(request);
  }

  EXPECT_EQ(table.queued(), 3U);
  for (const std::uint32_t expected : {2U, 0U, 3U, kNone}) {
    EXPECT_EQ(table.TakeQueued(), expected);
  }
}

}  // namespace
}  // namespace kvferry::engine
