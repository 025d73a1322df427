// One place of a drive that cannot be read costs the block in it, and neither its segment's next
// life nor the tier; files that are lost cost what waits to be durable in them.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/random.h"
#include "engine/engine_core.h"
#include "sim/sim_disk.h"
#include "sim/sim_manifest.h"
#include "sim/sim_ring.h"
#include "stress/sim_copy_workers.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_blocks.h"

namespace kvferry::stress {
namespace {

using testing::BytesOf;
using testing::KeyOf;

constexpr std::uint32_t kBlockBytes = 4'096;
constexpr std::uint32_t kPagesPerSegment = 32;
constexpr std::uint32_t kSegments = 8;
constexpr std::uint64_t kPersisted = 1;  // The number of the block whose place turns bad.

// An engine's core over one simulated drive, in virtual time, with host memory for four blocks.
class BadPlaceTest : public ::testing::Test, private engine::RequestSink {
 protected:
  BadPlaceTest()
      : clock_(Instant(std::chrono::seconds(1))),
        disk_(Layout().end_bytes()),
        workers_(clock_, Random(1)),
        namespaces_(1) {}

  static tiers::StoreLayout Layout() {
    return {.segment_bytes = std::uint64_t{kPagesPerSegment} * tiers::kDiskPageBytes,
            .segment_count = kSegments};
  }

  void SetUp() override {
    const auto added = namespaces_.Add(testing::NamespaceOf("model"), {.block_bytes = kBlockBytes});
    ASSERT_OK(added);
    space_ = *added;
    tiers::HostSlabOptions memory;
    memory.memory.bytes = std::uint64_t{4} << 20;
    memory.memory.huge_pages = tiers::HugePages::kNone;
    auto slabs = tiers::HostSlabs::Create(memory);
    ASSERT_OK(slabs);
    slabs_ = std::move(*slabs);
    engine::EngineCore::Options options;
    options.residents_max = 4;
    options.nvme_blocks_max = kSegments * kPagesPerSegment;
    options.requests_max = 1;
    options.blocks_per_request_max = 1;
    options.has_nvme = true;
    auto core = engine::EngineCore::Create(options, {workers_, *slabs_, namespaces_, *this});
    ASSERT_OK(core);
    core_ = std::move(*core);
    ring_ = std::make_unique<sim::SimRing>(std::vector<sim::SimDisk*>{&disk_}, clock_,
                                           sim::SimRingOptions());
    manifest_ = std::make_unique<sim::SimManifest>(rows_, clock_, sim::SimManifestOptions());
    tiers::SegmentStore::Options store;
    store.store.bytes.fill(std::byte{7});
    store.layout = Layout();
    store.owners_per_segment_max = tiers::PayloadsMax(kPagesPerSegment);
    ASSERT_OK(core_->AttachNvme({*ring_, *manifest_, store}));
  }

  void OnRequestDone(std::uint32_t /*request*/,
                     const Completion& completion,
                     std::uint32_t /*first_handle*/) noexcept override {
    done_ = completion;
  }

  void StepOrWait() {
    if (!core_->Step(clock_.Now())) {
      Instant next = std::min(workers_.NextEventTime(), core_->next_deadline());
      next = std::min(next, ring_->NextEventTime().value_or(Instant::max()));
      next = std::min(next, manifest_->NextEventTime().value_or(Instant::max()));
      const Instant soon = clock_.Now() + std::chrono::milliseconds(1);
      clock_.MoveTo(std::clamp(next, clock_.Now() + std::chrono::microseconds(1), soon));
    }
  }
  // Whether the block was ready at the end of the request.
  bool Do(engine::Call::Kind kind, std::uint64_t number) {
    const BlockKey key = KeyOf(number);
    std::vector<std::byte> bytes = BytesOf(number, kBlockBytes);
    const std::array<const std::byte*, 1> sources{bytes.data()};
    std::vector<std::byte> got(kBlockBytes);
    const std::array<std::byte*, 1> targets{got.data()};
    engine::Call call;
    call.kind = kind;
    call.in = space_;
    call.block_bytes = kBlockBytes;
    call.deadline = clock_.Now() + std::chrono::seconds(5);
    call.keys = std::span(&key, 1);
    call.sources = sources;
    call.targets = targets;
    done_.reset();
    core_->Start(0, call);
    while (!done_) {
      StepOrWait();
    }
    const bool is_ready = done_->blocks_ready == 1;
    EXPECT_TRUE(!is_ready || kind != engine::Call::Kind::kGet || got == bytes);
    return is_ready;
  }
  // Steps until the core is at rest; false: not within a minute of its time.
  bool ComesToRest() {
    const Instant give_up_at = clock_.Now() + std::chrono::minutes(1);
    while (!core_->is_idle()) {
      if (clock_.Now() > give_up_at) {
        return false;
      }
      StepOrWait();
    }
    return true;
  }
  // Puts so many new blocks, 20 in a second.
  void PutOthers(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      EXPECT_TRUE(Do(engine::Call::Kind::kPut, next_other_++));
      ASSERT_TRUE(ComesToRest());
      const Instant next = clock_.Now() + std::chrono::milliseconds(50);
      while (clock_.Now() < next) {
        StepOrWait();
      }
    }
  }
  // Persists the block, leaves its copy on the drive alone, and makes that one unreadable.
  void MakePersistedBlockBad() {
    ASSERT_TRUE(Do(engine::Call::Kind::kPut, kPersisted));
    ASSERT_TRUE(Do(engine::Call::Kind::kPersist, kPersisted));
    PutOthers(8);
    const std::vector<std::byte> bytes = BytesOf(kPersisted, kBlockBytes);
    std::vector<std::byte> page(tiers::kDiskPageBytes);
    for (std::uint64_t at = 0; at < disk_.size_bytes(); at += page.size()) {
      disk_.Read(at, page);
      if (page == bytes) {
        disk_.MakeBad(at);
      }
    }
    ASSERT_FALSE(Do(engine::Call::Kind::kGet, kPersisted));
  }

  ManualClock clock_;
  sim::SimDisk disk_;
  sim::SimManifestStore rows_;
  SimCopyWorkers workers_;
  engine::NamespaceTable namespaces_;
  NamespaceHandle space_;
  std::unique_ptr<tiers::HostSlabs> slabs_;
  std::unique_ptr<engine::EngineCore> core_;
  // These go first: what is in flight ends into a core that is still there.
  std::unique_ptr<sim::SimManifest> manifest_;
  std::unique_ptr<sim::SimRing> ring_;
  std::optional<Completion> done_;
  std::uint64_t next_other_ = 1'000;
};

// It was read again and again without a pause, and no segment was ever emptied any more.
TEST_F(BadPlaceTest, APersistedBlockInItDoesNotHoldUpItsSegment) {
  MakePersistedBlockBad();
  PutOthers(4 * kSegments * kPagesPerSegment);

  const EngineStats stats = core_->Stats();
  EXPECT_TRUE(stats.nvme_store.is_on);
  EXPECT_OK(core_->nvme()->failure());
  EXPECT_EQ(stats.nvme_store.blocks_lost, 1U);
  EXPECT_EQ(stats.nvme_store.bytes_persisted, 0U);
  EXPECT_GT(stats.nvme_store.segments_reused, 2 * kSegments);
  core_->CheckInvariants();
}

TEST_F(BadPlaceTest, ThatIsAskedForAgainAndAgainDoesNotCostTheTier) {
  MakePersistedBlockBad();
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(Do(engine::Call::Kind::kGet, kPersisted));
  }
  EXPECT_OK(core_->nvme()->failure());
  PutOthers(8);
  EXPECT_TRUE(Do(engine::Call::Kind::kGet, next_other_ - 8));
}

// What was durable of it a moment ago is not any more, so it ends with nothing.
TEST_F(BadPlaceTest, APersistThatIsUnderWayEndsWithTheReasonWhenTheFilesAreLost) {
  ASSERT_TRUE(Do(engine::Call::Kind::kPut, kPersisted));
  const BlockKey key = KeyOf(kPersisted);
  engine::Call call;
  call.kind = engine::Call::Kind::kPersist;
  call.in = space_;
  call.block_bytes = kBlockBytes;
  call.deadline = Instant::max();
  call.keys = std::span(&key, 1);
  done_.reset();
  core_->Start(0, call);
  core_->Step(clock_.Now());
  ASSERT_FALSE(done_);

  core_->LoseNvme(Status::Error(StatusCode::kUnavailable, "blocks.kvferry was deleted"));
  while (!done_) {
    StepOrWait();
  }
  EXPECT_EQ(done_->status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(done_->status.message(), "blocks.kvferry was deleted");
  EXPECT_EQ(done_->blocks_ready, 0U);

  // Nor is what comes before the tier is off.
  EXPECT_FALSE(Do(engine::Call::Kind::kPersist, kPersisted));
  EXPECT_EQ(done_->status.code(), StatusCode::kUnavailable);
  while (!core_->nvme()->is_quiet()) {
    StepOrWait();
  }
  core_->DetachNvme();
  EXPECT_TRUE(Do(engine::Call::Kind::kGet, kPersisted));  // From host memory.
  core_->CheckInvariants();
}

}  // namespace
}  // namespace kvferry::stress
