// The core over a device that ends copies when and how the test wants.
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/engine_core.h"
#include "tests/engine/inline_workers.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_blocks.h"

namespace kvferry::engine {
namespace {

using testing::BytesOf;
using testing::InlineWorkers;
using testing::KeysOf;
using testing::NamespaceOf;

constexpr std::uint32_t kBlockBytes = 4 << 10;

// An offload brings the bytes of BytesOf(1); `end` is how copies end in the next step, if they do.
class FakeDevice final : public DeviceArrows {
 public:
  Result<TensorsHandle> Register(const DeviceTensors& /*tensors*/) override { return No(); }
  Status Unregister(TensorsHandle /*tensors*/) override { return No(); }
  Result<Admitted> Admit(const Wish& /*wish*/) override { return No(); }
  void Release(const Admitted& /*admitted*/) override {}
  void Begin(Ticket /*ticket*/, std::uint32_t /*blocks*/, const Admitted& /*admitted*/) override {}
  Status WaitLayer(Ticket /*ticket*/, std::uint32_t /*layer*/, NativeStream /*stream*/) override {
    return No();
  }
  void Add(const DeviceCopy& copy) override { copies.push_back(copy); }
  void Cancel(std::uint32_t /*request*/) override { ++cancels; }
  void NoteMissing(std::uint32_t /*request*/) override { has_missing = true; }
  void EndRequest(std::uint32_t /*request*/,
                  const Admitted& /*admitted*/,
                  bool is_complete) override {
    EXPECT_TRUE(copies.empty());
    has_completed = is_complete;
  }
  std::size_t Step(Instant /*now*/, DeviceSink& sink) override {
    if (!end.has_value()) {
      return 0;
    }
    const std::vector<DeviceCopy> ended = std::exchange(copies, {});
    for (const DeviceCopy& copy : ended) {
      if (copy.arrow == Arrow::kOffloadHbmToHost && *end == DeviceEnd::kDone) {
        std::memcpy(copy.host, block_.data(), kBlockBytes);
      }
      sink.OnDeviceCopied(copy.operation, *end);
    }
    return ended.size();
  }
  void Start(Instant /*now*/) override {}
  Instant next_deadline() const override { return Instant::max(); }
  void AddTo(EngineStats& /*stats*/) const override {}
  void End() override {}

  std::vector<DeviceCopy> copies;
  std::optional<DeviceEnd> end;
  int cancels = 0;
  bool has_missing = false;
  bool has_completed = false;

 private:
  static Status No() { return Status::Error(StatusCode::kInternal, "not of this test"); }

  std::vector<std::byte> block_ = BytesOf(1, kBlockBytes);
};

class CoreDeviceTest : public ::testing::Test, private RequestSink {
 protected:
  void SetUp() override {
    auto slabs = tiers::HostSlabs::Create({.memory = {.bytes = 4 << 20}});
    ASSERT_OK(slabs);
    slabs_ = std::move(*slabs);
    EngineCore::Options options;
    options.residents_max = 64;
    options.requests_max = 4;
    options.blocks_per_request_max = 256;
    options.handles_max = 4;
    options.verify_on_get = true;
    auto core = EngineCore::Create(
        options, {.workers = workers_, .slabs = *slabs_, .namespaces = namespaces_, .sink = *this});
    ASSERT_OK(core);
    core_ = std::move(*core);
    core_->AttachDevice(device_);
    auto space = namespaces_.Add(NamespaceOf("model"), {.block_bytes = kBlockBytes});
    ASSERT_OK(space);
    space_ = *space;
  }

  void Step(int steps = 8) {
    for (int i = 0; i < steps; ++i) {
      core_->Step(now_ += std::chrono::microseconds(1));
      core_->CheckInvariants();
    }
  }
  Call CallOf(Call::Kind kind, const std::vector<BlockKey>& keys) {
    blocks_.resize(keys.size());
    Call call;
    call.kind = kind;
    call.in = space_;
    call.erasures = namespaces_.erasures(space_);
    call.block_bytes = kBlockBytes;
    call.deadline = Instant::max();
    call.keys = keys;
    call.is_device = kind != Call::Kind::kErase;
    call.blocks = blocks_;
    return call;
  }
  // Stores them.
  void Put(const std::vector<BlockKey>& keys) {
    device_.end = DeviceEnd::kDone;
    core_->Start(0, CallOf(Call::Kind::kPut, keys));
    Step();
    ASSERT_EQ(ended_.value().blocks_stored, keys.size());
    ended_.reset();
    device_.end.reset();
  }

  Instant now_{std::chrono::seconds(1)};
  NamespaceTable namespaces_{4};
  NamespaceHandle space_;
  FakeDevice device_;
  std::unique_ptr<EngineCore> core_;
  std::optional<Completion> ended_;
  std::unique_ptr<tiers::HostSlabs> slabs_;

 private:
  void OnRequestDone(std::uint32_t /*request*/,
                     const Completion& completion,
                     std::uint32_t /*first_handle*/) noexcept override {
    ended_ = completion;
  }

  InlineWorkers workers_;
  std::vector<DeviceBlock> blocks_;
};

TEST_F(CoreDeviceTest, PublishesAfterTheCopysEnd) {
  const auto keys = KeysOf(1, 4);
  core_->Start(0, CallOf(Call::Kind::kPut, keys));
  Step();
  EXPECT_EQ(device_.copies.size(), 4U);
  EXPECT_EQ(core_->Match(space_, keys).blocks(), 0U);
  EXPECT_FALSE(ended_.has_value());

  device_.end = DeviceEnd::kDone;
  Step();
  EXPECT_EQ(core_->Match(space_, keys).host_blocks, 4U);
  EXPECT_EQ(ended_.value().blocks_stored, 4U);
  EXPECT_TRUE(device_.has_completed);
}

TEST_F(CoreDeviceTest, ABlockThatIsErasedOnItsWayIsNotPublished) {
  const auto keys = KeysOf(1, 2);
  const auto erased = KeysOf(1, 1);
  core_->Start(0, CallOf(Call::Kind::kPut, keys));
  Step();
  core_->Start(1, CallOf(Call::Kind::kErase, erased));
  Step();
  EXPECT_EQ(ended_.value().blocks_ready, 1U);
  device_.end = DeviceEnd::kDone;
  Step();
  EXPECT_EQ(core_->Match(space_, erased).blocks(), 0U);
  EXPECT_EQ(ended_.value().next_missing, MissReason::kErased);
}

// The place stays with the copy until its end, also when the block is erased.
TEST_F(CoreDeviceTest, AnErasedBlockKeepsItsPlaceWhileItsCopyReadsIt) {
  const auto keys = KeysOf(1, 1);
  Put(keys);
  core_->Start(0, CallOf(Call::Kind::kGet, keys));
  Step();
  ASSERT_EQ(device_.copies.size(), 1U);
  core_->Start(1, CallOf(Call::Kind::kErase, keys));
  Step();
  EXPECT_EQ(core_->Stats().host.bytes_draining, kBlockBytes);
  device_.end = DeviceEnd::kDone;
  Step();
  EXPECT_EQ(core_->Stats().host.bytes_draining, 0U);
  EXPECT_EQ(ended_.value().blocks_ready, 1U);
}

TEST_F(CoreDeviceTest, ChecksWhatGoesToTheDeviceWhereWanted) {
  const auto keys = KeysOf(1, 1);
  Put(keys);
  const std::vector<std::byte> right = BytesOf(1, kBlockBytes);
  const std::span<std::byte> memory = slabs_->memory().bytes();
  const auto found = std::search(memory.begin(), memory.end(), right.begin(), right.end());
  ASSERT_NE(found, memory.end());
  *found ^= std::byte{1};
  core_->Start(0, CallOf(Call::Kind::kGet, keys));
  Step();
  EXPECT_TRUE(device_.copies.empty());
  EXPECT_EQ(ended_.value().next_missing, MissReason::kFailedCheck);
  EXPECT_TRUE(device_.has_missing);
  EXPECT_FALSE(device_.has_completed);
}

TEST_F(CoreDeviceTest, ACancelWaitsForTheCopysEnd) {
  const auto keys = KeysOf(1, 2);
  core_->Start(0, CallOf(Call::Kind::kPut, keys));
  Step();
  core_->EndEarly(0, StatusCode::kCancelled);
  Step();
  EXPECT_EQ(device_.cancels, 1);
  EXPECT_FALSE(ended_.has_value());
  device_.end = DeviceEnd::kWithdrawn;
  Step();
  EXPECT_STATUS(ended_.value().status, StatusCode::kCancelled);
  EXPECT_EQ(core_->Match(space_, keys).blocks(), 0U);
  EXPECT_EQ(core_->Stats().host.bytes_free, core_->Stats().host.bytes_total);
}

// Whatever a lost device may still write to is never given again.
TEST_F(CoreDeviceTest, PlacesInDoubtAreNotGivenAgain) {
  const auto keys = KeysOf(1, 2);
  core_->Start(0, CallOf(Call::Kind::kPut, keys));
  Step();
  const std::vector<DeviceCopy> copies = device_.copies;
  device_.end = DeviceEnd::kLostInDoubt;
  Step();
  EXPECT_STATUS(ended_.value().status, StatusCode::kUnavailable);
  EXPECT_TRUE(core_->is_memory_in_doubt());
  EXPECT_EQ(core_->Match(space_, keys).blocks(), 0U);
  EXPECT_EQ(core_->Stats().host.bytes_draining, 2U * kBlockBytes);

  // All other places, more than once.
  device_.end.reset();
  for (std::uint64_t first = 100; first < 300; first += 50) {
    const auto others = KeysOf(first, 50);
    core_->Start(0, CallOf(Call::Kind::kPut, others));
    Step();
    for (const DeviceCopy& copy : device_.copies) {
      EXPECT_NE(copy.host, copies[0].host);
      EXPECT_NE(copy.host, copies[1].host);
    }
    device_.end = DeviceEnd::kDone;
    Step();
    device_.end.reset();
  }
  EXPECT_EQ(core_->Stats().host.bytes_draining, 2U * kBlockBytes);
}

}  // namespace
}  // namespace kvferry::engine
