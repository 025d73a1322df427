// Who gets a place in host memory, who leaves for it, and what the books say at each turn.
#include "engine/host_cache.h"

#include <memory>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"
#include "tests/support/test_blocks.h"

namespace kvferry::engine {
namespace {

using testing::KeyOf;
using testing::NamespaceOf;

constexpr std::uint32_t kBlockBytes = 4'096;
constexpr std::uint32_t kResidents = 4;

class HostCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    space_ = Add("model", {.block_bytes = kBlockBytes});
    Make({.residents_max = kResidents, .policy = "leaf-lru"});
  }
  void TearDown() override {
    if (cache_ != nullptr) {
      cache_->CheckInvariants();
      book_->CheckInvariants();
    }
  }

  void Make(const HostCache::Options& options) {
    cache_.reset();
    tiers::HostSlabOptions slab_options;
    slab_options.memory.bytes = slab_bytes_;
    slab_options.memory.huge_pages = tiers::HugePages::kNone;
    auto slabs = tiers::HostSlabs::Create(slab_options);
    ASSERT_OK(slabs);
    slabs_ = std::move(*slabs);
    book_.emplace(
        BlockBook::Options{.records_max = 2 * options.residents_max,
                           .entries_max = options.residents_max + HostCache::kEntriesSpare,
                           .history_max = 60});
    auto cache = HostCache::Create(options, {*book_, *slabs_, namespaces_});
    ASSERT_OK(cache);
    cache_ = std::move(*cache);
  }
  NamespaceHandle Add(const std::string& model, const NamespaceOptions& options) {
    const auto added = namespaces_.Add(NamespaceOf(model), options);
    EXPECT_OK(added);
    return *added;
  }

  Access NextAccess() {
    Access access;
    access.request = ++requests_;
    return access;
  }
  static HostCache::Claim ClaimBehind(RecordIndex parent) {
    HostCache::Claim claim;
    claim.parent = parent;
    return claim;
  }
  HostCache::Reserved Reserve(std::uint64_t seed, HostCache::Claim claim = {}) {
    BlockRecord fresh;
    fresh.key = KeyOf(seed);
    fresh.size_bytes = kBlockBytes;
    fresh.namespace_index = space_.index;
    claim.access = NextAccess();
    const auto reserved = cache_->ReserveNew(claim, fresh);
    EXPECT_EQ(reserved.record == kNoRecord, reserved.refusal != MissReason::kNone);
    return reserved;
  }
  RecordIndex Store(std::uint64_t seed) {
    const auto reserved = Reserve(seed);
    EXPECT_NE(reserved.record, kNoRecord) << seed;
    cache_->Publish(reserved.record, {});
    return reserved.record;
  }
  std::vector<RecordIndex> StoreAll(std::uint64_t first, std::uint32_t count) {
    std::vector<RecordIndex> records;
    for (std::uint32_t i = 0; i < count; ++i) {
      records.push_back(Store(first + i));
    }
    return records;
  }
  bool IsHere(std::uint64_t seed) const {
    const RecordIndex record = book_->index().Find(KeyOf(seed));
    return record != kNoRecord && book_->index()[record].host_state == CopyState::kResident;
  }
  MissReason ReasonOf(std::uint64_t seed) const { return book_->history().ReasonOf(KeyOf(seed)); }
  // Its lower copy, by hand: there is no lower tier here.
  void SetInNvme(RecordIndex record, CopyState state) {
    book_->index().Update(record, [state](BlockRecord& block) { block.nvme_state = state; });
  }

  std::size_t slab_bytes_ = 2 << 20;
  NamespaceTable namespaces_{4};
  NamespaceHandle space_;
  std::unique_ptr<tiers::HostSlabs> slabs_;
  std::optional<BlockBook> book_;
  std::unique_ptr<HostCache> cache_;
  std::uint64_t requests_ = 0;
};

TEST_F(HostCacheTest, KnowsNoPolicyOfAnotherName) {
  EXPECT_STATUS(
      HostCache::Create({.residents_max = 4, .policy = "lru"}, {*book_, *slabs_, namespaces_}),
      StatusCode::kInvalidArgument);
}

// A hit on bytes that are not there yet.
TEST_F(HostCacheTest, IsAHitOnlyOnceItIsPublished) {
  const RecordIndex record = Reserve(1).record;
  EXPECT_FALSE(IsHere(1));
  EXPECT_EQ(cache_->BytesOf(record).size(), kBlockBytes);
  EXPECT_EQ(cache_->stats().bytes_filling, kBlockBytes);
  EXPECT_EQ(cache_->residents(), 1U);

  cache_->Publish(record, {});

  EXPECT_TRUE(IsHere(1));
  EXPECT_EQ(cache_->stats().bytes_filling, 0U);
  EXPECT_EQ(cache_->stats().bytes_resident, kBlockBytes);
  EXPECT_EQ(cache_->stats().blocks_resident, 1U);
}

TEST_F(HostCacheTest, TheLeastRecentLeavesAndIsToldWhy) {
  const auto records = StoreAll(1, kResidents);
  cache_->Touch(NextAccess(), std::span(records).first(1));

  HostCache::Claim claim;
  claim.reason_to_leave = MissReason::kEvictedByPrefetch;
  const auto reserved = Reserve(9, claim);

  EXPECT_NE(reserved.record, kNoRecord);
  EXPECT_TRUE(IsHere(1));
  EXPECT_FALSE(IsHere(2));
  EXPECT_EQ(ReasonOf(2), MissReason::kEvictedByPrefetch);
  EXPECT_EQ(cache_->stats().evictions, 1U);
}

// What pushes its own parent out leaves a path that begins in the middle.
TEST_F(HostCacheTest, SparesTheParentAndWhatIsInUse) {
  const auto records = StoreAll(1, kResidents);
  ASSERT_TRUE(cache_->Hold(records[1], kBlockBytes));
  ++book_->index().use(records[2]).readers;

  EXPECT_NE(Reserve(9, ClaimBehind(records[0])).record, kNoRecord);
  EXPECT_FALSE(IsHere(4));
  // The last to go would be the parent itself.
  const auto refused = Reserve(10, ClaimBehind(records[0]));
  EXPECT_EQ(refused.refusal, MissReason::kDropped);
  EXPECT_EQ(ReasonOf(10), MissReason::kDropped);
  EXPECT_TRUE(IsHere(1) && IsHere(2) && IsHere(3));

  --book_->index().use(records[2]).readers;
  cache_->LetGo(records[1]);
}

TEST_F(HostCacheTest, ATenantAtItsQuotaPushesOutItsOwn) {
  StoreAll(1, 2);
  space_ = Add("small", {.block_bytes = kBlockBytes, .tenant = 1, .host_quota_bytes = kBlockBytes});
  Store(11);

  const RecordIndex filling = Reserve(12).record;

  EXPECT_NE(filling, kNoRecord);
  EXPECT_EQ(ReasonOf(11), MissReason::kEvictedByQuota);
  EXPECT_TRUE(IsHere(1) && IsHere(2));
  // What is on its way in cannot leave, and nobody else leaves for it.
  EXPECT_EQ(Reserve(13).refusal, MissReason::kOverQuota);
  EXPECT_TRUE(IsHere(1) && IsHere(2));
  EXPECT_EQ(cache_->tenant_bytes(1), kBlockBytes);
}

TEST_F(HostCacheTest, ATenantAtItsQuotaIsToldWhetherToWaitForItsOwn) {
  StoreAll(1, 2);
  space_ = Add("small", {.block_bytes = kBlockBytes, .tenant = 1, .host_quota_bytes = kBlockBytes});
  BlockRecord block;
  block.size_bytes = kBlockBytes;
  block.namespace_index = space_.index;

  const RecordIndex filling = Reserve(11).record;
  EXPECT_EQ(Reserve(12).refusal, MissReason::kOverQuota);
  EXPECT_TRUE(cache_->WaitsForOwn(block));
  BlockRecord large = block;
  large.size_bytes = 2 * kBlockBytes;
  EXPECT_FALSE(cache_->WaitsForOwn(large));  // It could never be here.
  cache_->Publish(filling, {});
  EXPECT_FALSE(cache_->WaitsForOwn(block));

  // Its last reader goes: it may leave.
  ++book_->index().use(filling).readers;
  EXPECT_EQ(Reserve(12).refusal, MissReason::kOverQuota);
  EXPECT_TRUE(cache_->WaitsForOwn(block));
  --book_->index().use(filling).readers;
  cache_->Settle(filling);
  EXPECT_FALSE(cache_->WaitsForOwn(block));

  // One that is held goes when its holder says so, which may be never.
  ASSERT_TRUE(cache_->Hold(filling, ~std::uint64_t{0}));
  EXPECT_EQ(Reserve(12).refusal, MissReason::kOverQuota);
  EXPECT_FALSE(cache_->WaitsForOwn(block));
  cache_->LetGo(filling);
  EXPECT_NE(Reserve(12).record, kNoRecord);
}

TEST_F(HostCacheTest, TellsBeforehandWhatCouldNeverBeHere) {
  BlockRecord block;
  block.size_bytes = kBlockBytes;
  block.namespace_index = space_.index;
  EXPECT_EQ(cache_->CannotHold(block, kResidents), MissReason::kNone);
  EXPECT_EQ(cache_->CannotHold(block, kResidents + 1), MissReason::kDropped);
  block.size_bytes = 4 << 20;
  EXPECT_EQ(cache_->CannotHold(block, 1), MissReason::kDropped);
  space_ = Add("small", {.block_bytes = kBlockBytes, .tenant = 1, .host_quota_bytes = kBlockBytes});
  block.size_bytes = kBlockBytes;
  block.namespace_index = space_.index;
  EXPECT_EQ(cache_->CannotHold(block, 2), MissReason::kOverQuota);
}

TEST_F(HostCacheTest, AFillThatFailedLeavesNothingButItsReason) {
  const RecordIndex record = Reserve(1).record;

  cache_->Abandon(record, MissReason::kReadFailed);

  EXPECT_FALSE(book_->index().is_used(record));
  EXPECT_EQ(ReasonOf(1), MissReason::kReadFailed);
  EXPECT_EQ(cache_->residents(), 0U);
  EXPECT_EQ(cache_->stats().bytes_free, cache_->stats().bytes_total);
}

// A place that is given away under a handle changes its bytes.
TEST_F(HostCacheTest, AWithdrawnCopyKeepsItsPlaceUntilItsLastUserIsGone) {
  const RecordIndex record = Store(1);
  ASSERT_TRUE(cache_->Hold(record, kBlockBytes));
  ++book_->index().use(record).readers;

  cache_->Withdraw(record, RemoveReason::kErased);
  book_->Depart(record, MissReason::kErased);
  EXPECT_EQ(cache_->stats().bytes_draining, kBlockBytes);
  cache_->LetGo(record);
  EXPECT_EQ(cache_->stats().bytes_draining, kBlockBytes);
  --book_->index().use(record).readers;
  cache_->Settle(record);

  EXPECT_EQ(cache_->stats().bytes_draining, 0U);
  EXPECT_EQ(cache_->stats().bytes_free, cache_->stats().bytes_total);
  book_->ReleaseIfUnused(record);
}

TEST_F(HostCacheTest, BoundsTheBytesThatHandlesKeep) {
  const auto records = StoreAll(1, 2);

  EXPECT_TRUE(cache_->Hold(records[0], kBlockBytes));
  EXPECT_TRUE(cache_->Hold(records[0], kBlockBytes));  // The same bytes.
  EXPECT_FALSE(cache_->Hold(records[1], kBlockBytes));
  cache_->LetGo(records[0]);
  EXPECT_FALSE(cache_->Hold(records[1], kBlockBytes));
  cache_->LetGo(records[0]);
  EXPECT_TRUE(cache_->Hold(records[1], kBlockBytes));

  EXPECT_EQ(cache_->held_bytes(), kBlockBytes);
  EXPECT_EQ(cache_->stats().blocks_held, 1U);
  cache_->LetGo(records[1]);
}

TEST_F(HostCacheTest, GivesOutBlocksToWriteDownInOrderAndOnce) {
  Make({.residents_max = kResidents, .policy = "leaf-lru", .has_lower_tier = true});
  const auto records = StoreAll(1, kResidents);
  for (const RecordIndex record : {records[2], records[0], records[2], records[1]}) {
    cache_->WantOffload(record);
  }

  EXPECT_EQ(cache_->TakeOffload(), records[2]);
  EXPECT_EQ(cache_->TakeOffload(), records[0]);
  // One that leaves before its turn, since all others wait as well, is counted and not given out.
  for (const RecordIndex record : {records[3], records[0], records[2]}) {
    cache_->WantOffload(record);
  }
  Store(9);
  EXPECT_FALSE(IsHere(1));
  EXPECT_EQ(cache_->offloads_skipped(), 1U);
  EXPECT_EQ(cache_->TakeOffload(), records[1]);
  EXPECT_EQ(cache_->TakeOffload(), records[3]);
  EXPECT_EQ(cache_->TakeOffload(), records[2]);
  EXPECT_EQ(cache_->TakeOffload(), kNoRecord);
}

TEST_F(HostCacheTest, LooksForWhatTheQueueHadNoRoomFor) {
  constexpr std::uint32_t kMany = 1'500;
  slab_bytes_ = 8 << 20;
  Make({.residents_max = kMany,
        .policy = "leaf-lru",
        .has_lower_tier = true,
        .offload_queue_max = 4});
  const auto records = StoreAll(1, kMany);
  for (const RecordIndex record : records) {
    cache_->WantOffload(record);
  }
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(cache_->TakeOffload(), records[i]);
  }

  std::uint32_t calls = 0;
  std::uint32_t in_vain = 0;
  for (; cache_->offloads_wanted() > 0 && calls < 3 * kMany; ++calls) {
    in_vain += cache_->TakeOffload() == kNoRecord ? 1U : 0U;
  }

  EXPECT_EQ(cache_->offloads_wanted(), 0U);
  EXPECT_EQ(calls, kMany - 4 + in_vain);
  // One more, far behind the place where it looks next: not found at once, but soon.
  for (std::uint32_t i = 0; i < 5; ++i) {
    cache_->WantOffload(records[i]);
  }
  for (int i = 0; i < 4; ++i) {
    EXPECT_NE(cache_->TakeOffload(), kNoRecord);
  }
  RecordIndex last = cache_->TakeOffload();
  EXPECT_EQ(last, kNoRecord);
  EXPECT_EQ(cache_->offloads_wanted(), 1U);
  for (int i = 0; i < 6 && last == kNoRecord; ++i) {
    last = cache_->TakeOffload();
  }
  EXPECT_EQ(last, records[4]);
}

TEST_F(HostCacheTest, SparesWhatIsNotWrittenDownYet) {
  Make({.residents_max = kResidents, .policy = "leaf-lru", .has_lower_tier = true});
  const auto records = StoreAll(1, kResidents);
  cache_->WantOffload(records[0]);

  Store(9);

  EXPECT_TRUE(IsHere(1));
  EXPECT_FALSE(IsHere(2));
}

TEST_F(HostCacheTest, WritesNothingDownWithoutALowerTier) {
  cache_->WantOffload(Store(1));
  EXPECT_EQ(cache_->TakeOffload(), kNoRecord);
}

TEST_F(HostCacheTest, ABlockWithALowerCopyKeepsItsRecordAndComesBack) {
  const RecordIndex record = Store(1);
  SetInNvme(record, CopyState::kResident);
  StoreAll(2, kResidents);
  ASSERT_TRUE(book_->index().is_used(record));
  EXPECT_EQ(book_->index()[record].host_state, CopyState::kAbsent);

  HostCache::Claim claim;
  claim.access = NextAccess();
  const auto reserved = cache_->ReserveAgain(claim, record);
  EXPECT_EQ(reserved.record, record);
  // A fill that fails leaves the lower copy as it was.
  cache_->Abandon(record, MissReason::kReadFailed);

  EXPECT_EQ(book_->index().Find(KeyOf(1)), record);
  SetInNvme(record, CopyState::kAbsent);
  book_->Depart(record, MissReason::kErased);
  book_->ReleaseIfUnused(record);
}

TEST_F(HostCacheTest, StopsWhereACopyIsInAnotherState) {
  const RecordIndex record = Store(1);
  EXPECT_DEATH(cache_->Publish(record, {}), "kFilling");
  EXPECT_DEATH(cache_->Abandon(record, MissReason::kErased), "kFilling");
  EXPECT_DEATH(cache_->LetGo(record), "handles");
  EXPECT_DEATH(cache_->ReserveAgain({}, record), "kAbsent");
}

}  // namespace
}  // namespace kvferry::engine
