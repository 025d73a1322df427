// SegmentStore: what of a segment in quarantine is found again, and how many rows may go at once.
#include "tiers/nvme/segment_store.h"

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "sim/sim_disk.h"
#include "sim/sim_manifest.h"
#include "sim/sim_ring.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_blocks.h"

namespace kvferry::tiers {
namespace {

constexpr std::uint32_t kPages = 64;
constexpr std::uint32_t kSegments = 8;

// Blocks of one page each; the number of a block is that of its owner.
class SegmentStoreTest : public ::testing::Test, private StoreSink {
 protected:
  SegmentStoreTest() {
    options_.store.bytes.fill(std::byte{7});
    options_.layout = {.segment_bytes = std::uint64_t{kPages} * kDiskPageBytes,
                       .segment_count = kSegments};
    options_.owners_per_segment_max = 16;
    disk_ = std::make_unique<sim::SimDisk>(options_.layout.end_bytes());
  }

  // On what the last one has left.
  void OpenStore() {
    ring_.reset();
    manifest_.reset();
    store_.reset();
    found_.clear();
    victims_.clear();
    ring_ = std::make_unique<sim::SimRing>(std::vector{disk_.get()}, clock_, sim::SimRingOptions());
    manifest_ = std::make_unique<sim::SimManifest>(rows_, clock_, sim::SimManifestOptions());
    StoreSink& sink = *this;
    auto store = SegmentStore::Create(options_, {*ring_, *manifest_, sink});
    ASSERT_OK(store.status());
    store_ = std::move(store).value();
    RunUntil([this] {
      return store_->is_scanned() && store_->MakeRoom(SegmentStream::kNormal, 1, false);
    });
  }
  template <typename Condition>
  void RunUntil(const Condition& is_met) {
    for (int i = 0; i < 500'000 && !is_met(); ++i) {
      ring_->Reap(clock_.Now());
      manifest_->Reap(clock_.Now());
      store_->Step(clock_.Now());
      clock_.Advance(std::chrono::microseconds(10));
    }
    ASSERT_TRUE(is_met());
  }
  // Makes the block durable. Its page.
  std::uint32_t Store(std::uint32_t owner, std::uint8_t flags) {
    const auto page = store_->Append(SegmentStream::kNormal, 1, owner, false);
    EXPECT_TRUE(page.has_value());
    flags_[owner] = flags;
    store_->Written(owner, page.value_or(0), kDiskPageBytes);
    RunUntil([this] { return store_->commit().is_idle(); });
    EXPECT_EQ(last_end_, CommitSink::End::kDurable);
    return page.value_or(0);
  }
  void GiveUpSegmentOf(std::uint32_t page) {
    EXPECT_FALSE(store_->NoteFailure(page));
    EXPECT_FALSE(store_->NoteFailure(page));
    EXPECT_TRUE(store_->NoteFailure(page));
    RunUntil([this] { return store_->commit().is_idle(); });
  }

  bool FillRow(std::uint32_t owner, std::uint32_t /*page*/, BlockRow& row) override {
    row = BlockRow();
    row.key = testing::KeyOf(owner);
    row.stored_bytes = kDiskPageBytes;
    row.raw_bytes = kDiskPageBytes;
    row.flags = flags_.at(owner);
    return true;
  }
  bool FillRowIn(std::uint32_t /*owner*/, std::uint32_t /*segment*/, BlockRow& /*row*/) override {
    return false;
  }
  void OnEntryEnd(std::uint32_t /*owner*/,
                  std::uint32_t /*page*/,
                  bool /*is_rewrite*/,
                  CommitSink::End end,
                  std::uint8_t /*flags*/) noexcept override {
    last_end_ = end;
  }
  void OnVictim(std::uint32_t segment) noexcept override { victims_.push_back(segment); }
  std::uint32_t OnFound(const BlockRow& row,
                        std::uint32_t page,
                        std::uint64_t /*generation*/) override {
    EXPECT_TRUE(victims_.empty()) << "a segment is given up before all that it holds is known";
    found_.emplace_back(row.key, page);
    return static_cast<std::uint32_t>(found_.size());
  }

  SegmentStore::Options options_;
  ManualClock clock_{Instant(std::chrono::seconds(1))};
  std::unique_ptr<sim::SimDisk> disk_;
  sim::SimManifestStore rows_;
  std::unique_ptr<SegmentStore> store_;
  std::unique_ptr<sim::SimRing> ring_;  // Goes first, and with it what is under way.
  std::unique_ptr<sim::SimManifest> manifest_;
  std::map<std::uint32_t, std::uint8_t> flags_;
  std::vector<std::pair<BlockKey, std::uint32_t>> found_;
  std::vector<std::uint32_t> victims_;
  CommitSink::End last_end_ = CommitSink::End::kUnwanted;
};

// Rows of others may be those of blocks that were evicted from it, and put anew elsewhere since.
TEST_F(SegmentStoreTest, OfASegmentInQuarantineWhatPersistsIsFoundAndMovesOut) {
  OpenStore();
  const std::uint32_t kept = Store(1, BlockRow::kProtected);
  const std::uint32_t other = Store(2, 0);
  const std::uint32_t segment = store_->table().SegmentOf(kept);
  ASSERT_EQ(store_->table().SegmentOf(other), segment);
  GiveUpSegmentOf(kept);

  OpenStore();

  EXPECT_EQ(found_, (std::vector{std::pair(testing::KeyOf(1), kept)}));
  EXPECT_EQ(victims_, std::vector{segment});
  EXPECT_EQ(store_->quarantined(), 1U);
}

TEST_F(SegmentStoreTest, WhatHasLeftASegmentInQuarantineStaysAway) {
  OpenStore();
  const std::uint32_t kept = Store(1, BlockRow::kProtected);
  GiveUpSegmentOf(kept);
  store_->Delete(kept);
  RunUntil([this] { return store_->commit().is_idle(); });

  OpenStore();

  EXPECT_TRUE(found_.empty());
}

TEST_F(SegmentStoreTest, WhatWasInUseIsFoundWhole) {
  OpenStore();
  const std::uint32_t first = Store(1, BlockRow::kProtected);
  const std::uint32_t second = Store(2, 0);

  OpenStore();

  EXPECT_EQ(found_, (std::vector{std::pair(testing::KeyOf(1), first),
                                 std::pair(testing::KeyOf(2), second)}));
  EXPECT_TRUE(victims_.empty());
}

TEST_F(SegmentStoreTest, SaysWhyNothingIsRecordedForAsLongAsItIsNot) {
  OpenStore();
  Store(1, 0);
  EXPECT_OK(store_->commit().failure());
  manifest_->InjectAt(manifest_->submitted_count(), sim::SimFault::kBatchError);
  const auto page = store_->Append(SegmentStream::kNormal, 1, 2, false);
  ASSERT_TRUE(page.has_value());
  flags_[2] = 0;
  store_->Written(2, *page, kDiskPageBytes);
  RunUntil([this] { return last_end_ == CommitSink::End::kLost; });
  EXPECT_FALSE(store_->commit().failure().ok());

  RunUntil([this] { return store_->commit().is_idle(); });  // What was lost has rows to delete.
  EXPECT_OK(store_->commit().failure());
}

// A row that cannot wait was left where it was, and found again after a restart.
TEST_F(SegmentStoreTest, RowsThatCannotWaitGoBeyondTheBound) {
  OpenStore();
  const std::uint32_t page = Store(1, BlockRow::kProtected);
  while (store_->commit().CanDelete()) {
    store_->commit().DeleteNothing();
  }
  store_->Delete(page);
  const std::uint64_t number = store_->commit().queued_deletions();
  EXPECT_FALSE(store_->commit().CanDelete());
  RunUntil([&] { return store_->commit().durable_deletions() == number; });
  EXPECT_TRUE(store_->commit().CanDelete());

  OpenStore();

  EXPECT_TRUE(found_.empty());
}

}  // namespace
}  // namespace kvferry::tiers
