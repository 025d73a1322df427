// DurableNamespaces over a simulated manifest: which numbers a restart gives, and knows.
#include "engine/durable_namespaces.h"

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sim/sim_disk.h"
#include "sim/sim_manifest.h"
#include "sim/sim_ring.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_blocks.h"

namespace kvferry::engine {
namespace {

constexpr std::uint32_t kBlockBytes = 4'096;

class NoRows final : public tiers::CommitSink {
 public:
  bool FillRow(std::uint32_t /*owner*/, std::uint32_t /*page*/, tiers::BlockRow& /*row*/) override {
    return false;
  }
  void OnEntryEnd(std::uint32_t /*owner*/,
                  std::uint32_t /*page*/,
                  bool /*is_rewrite*/,
                  End /*end*/,
                  std::uint8_t /*flags*/) noexcept override {}
};

// One process after the other, over rows that stay.
class DurableNamespacesTest : public ::testing::Test {
 protected:
  DurableNamespacesTest() { Restart(); }

  void Restart() {
    numbers_.reset();
    commit_.reset();
    manifest_.reset();
    manifest_.emplace(store_, clock_, sim::SimManifestOptions());
    commit_ = std::make_unique<tiers::GroupCommit>(
        tiers::GroupCommit::Options(), tiers::GroupCommit::Parts{ring_, *manifest_, table_, rows_});
    namespaces_ = std::make_unique<NamespaceTable>(4);
    numbers_ = std::make_unique<DurableNamespaces>(*namespaces_);
    EXPECT_OK(numbers_->Load(*manifest_, *commit_));
  }
  NamespaceHandle Add(const std::string& model) {
    const auto added = namespaces_->Add(testing::NamespaceOf(model), {.block_bytes = kBlockBytes});
    EXPECT_OK(added);
    return added.ok() ? *added : NamespaceHandle();
  }
  std::uint16_t NumberOf(NamespaceHandle in) {
    return numbers_->NumberOf(in.index, namespaces_->epoch(in), *commit_).value_or(0);
  }
  // All that was asked for becomes durable.
  void Commit() {
    commit_->Hurry();
    for (int step = 0; step < 100 && !commit_->is_idle(); ++step) {
      commit_->Step(clock_.Now());
      clock_.Advance(std::chrono::milliseconds(200));
      manifest_->Reap(clock_.Now());
    }
    EXPECT_TRUE(commit_->is_idle());
  }
  // The numbers that the manifest tells of.
  std::set<std::string> Names() const {
    std::set<std::string> names;
    for (const auto& [name, value] : store_.rows().meta) {
      names.insert(name);
    }
    return names;
  }

  ManualClock clock_{Instant(std::chrono::seconds(1))};
  sim::SimDisk disk_{1 << 20};
  sim::SimRing ring_{{&disk_}, clock_, sim::SimRingOptions()};
  tiers::SegmentTable table_{
      {.segment_count = 1, .pages_per_segment = 8, .owners_per_segment_max = 1}};
  sim::SimManifestStore store_;
  NoRows rows_;
  std::unique_ptr<NamespaceTable> namespaces_;
  std::optional<sim::SimManifest> manifest_;
  std::unique_ptr<tiers::GroupCommit> commit_;
  std::unique_ptr<DurableNamespaces> numbers_;
};

TEST_F(DurableNamespacesTest, ARestartKnowsANumber) {
  const NamespaceHandle first = Add("first");
  const std::uint16_t number = NumberOf(first);
  Commit();

  Restart();

  ASSERT_TRUE(numbers_->Find(number).has_value());
  EXPECT_EQ(numbers_->Find(number)->index, Add("first").index);
  EXPECT_EQ(NumberOf(Add("first")), number);
}

// Rows of an erased number may outlive it: under a number given twice they were another's blocks.
TEST_F(DurableNamespacesTest, NoNumberIsGivenTwice) {
  const NamespaceHandle first = Add("first");
  const std::uint16_t erased = NumberOf(first);
  Commit();
  ASSERT_OK(namespaces_->BeginErase(first));
  numbers_->Forget(first.index, commit_.get());
  Commit();

  Restart();

  EXPECT_FALSE(numbers_->Find(erased).has_value());
  EXPECT_GT(NumberOf(Add("second")), erased);
}

// A crash between the two would bring erased blocks back beside those that were put since.
TEST_F(DurableNamespacesTest, ANewNumberAndTheEndOfTheOldAreOneBatch) {
  const NamespaceHandle first = Add("first");
  const std::uint16_t old = NumberOf(first);
  Commit();
  ASSERT_OK(namespaces_->BeginErase(first));

  const std::uint16_t fresh = NumberOf(first);  // Before any sweep.
  Commit();

  EXPECT_EQ(Names(), (std::set<std::string>{"namespace/" + std::to_string(fresh), "namespaces"}));
  EXPECT_NE(fresh, old);
}

}  // namespace
}  // namespace kvferry::engine
