// UringRing against a kernel that takes little, does part, puts off, and loses ends.
#include "tiers/nvme/uring_ring.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/io_ops.h"
#include "tests/support/status_matchers.h"
#include "tiers/nvme/io_errors.h"

namespace kvferry::tiers {
namespace {

using testing::AlignedBytes;
using testing::CountingSink;
using testing::MakeOp;

// What a test tells its kernel to do. Outlives the ring.
struct Script {
  std::size_t queue_size = 64;    // Of prepared requests.
  std::size_t taken_max = 64;     // At one Enter.
  std::deque<int> enter_results;  // Negative ones; then Enter succeeds.
  std::deque<int> end_results;    // One an end, in order; then every request is done whole.
  bool keeps_ends = false;
  std::vector<KernelRequest> taken;  // All so far.
  bool is_alive = true;
};

class ScriptedKernel final : public KernelRing {
 public:
  explicit ScriptedKernel(Script& script) : script_(script) {}
  ScriptedKernel(const ScriptedKernel&) = delete;
  ScriptedKernel& operator=(const ScriptedKernel&) = delete;
  ~ScriptedKernel() override { script_.is_alive = false; }

  bool Prepare(const KernelRequest& request) override {
    if (prepared_.size() == script_.queue_size) {
      return false;
    }
    prepared_.push_back(request);
    return true;
  }
  int Enter() override {
    if (!script_.enter_results.empty()) {
      const int result = script_.enter_results.front();
      script_.enter_results.pop_front();
      return result;
    }
    const std::size_t count = std::min(prepared_.size(), script_.taken_max);
    for (std::size_t i = 0; i < count; ++i) {
      script_.taken.push_back(prepared_.front());
      running_.push_back(prepared_.front());
      prepared_.pop_front();
    }
    return static_cast<int>(count);
  }
  std::size_t TakeEnds(std::span<KernelEnd> ends) override {
    std::size_t count = 0;
    while (count < ends.size() && !running_.empty() && !script_.keeps_ends) {
      int result = static_cast<int>(running_.front().rest.size());
      if (!script_.end_results.empty()) {
        result = script_.end_results.front();
        script_.end_results.pop_front();
      }
      ends[count++] = {running_.front().op, result};
      running_.pop_front();
    }
    return count;
  }
  int EnterAndWait(Duration /*time_max*/) override { return Enter(); }
  void Wake() noexcept override {}
  Status RegisterBuffer(std::span<std::byte> /*chunk*/) override { return Status::Ok(); }

 private:
  Script& script_;
  std::deque<KernelRequest> prepared_;
  std::deque<KernelRequest> running_;
};

class UringRingTest : public ::testing::Test {
 protected:
  UringRingTest()
      : ring_(std::make_unique<UringRing>(std::make_unique<ScriptedKernel>(script_), 1, 8)) {
    for (std::size_t i = 0; i < 8; ++i) {
      ops_.push_back(MakeOp(IoOp::Kind::kRead, i * 4 * kIoAlignment, bytes_.all(), sink_));
    }
  }
  // Steps of a millisecond, longer than any pause, until nothing is in flight.
  void Drain() {
    for (int i = 0; i < 1000 && ring_->in_flight() > 0; ++i) {
      now_ += std::chrono::milliseconds(1);
      ring_->Reap(now_);
    }
    EXPECT_EQ(ring_->in_flight(), 0);
  }
  Status Run() {
    EXPECT_OK(ring_->Submit(ops_.front()));
    Drain();
    EXPECT_EQ(sink_.CountOf(ops_.front()), 1);
    return ops_.front().status;
  }

  Script script_;
  CountingSink sink_;
  AlignedBytes bytes_{4 * kIoAlignment};
  std::deque<IoOp> ops_;
  Instant now_;
  std::unique_ptr<UringRing> ring_;
};

// F2: the results that drives and file systems have been seen to give.
TEST_F(UringRingTest, FinishesShortTransfers) {
  const int length = 4 * static_cast<int>(kIoAlignment);
  script_.end_results = {1, length / 2, 512, length / 2 - 1};
  EXPECT_OK(Run());
  ASSERT_EQ(script_.taken.size(), 5);
  EXPECT_EQ(script_.taken.at(1).offset_bytes, 0);
  EXPECT_EQ(script_.taken.at(2).offset_bytes, 2 * kIoAlignment);
  EXPECT_EQ(script_.taken.at(4).offset_bytes, 3 * kIoAlignment);
  EXPECT_EQ(script_.taken.at(4).rest.data(), bytes_.page(3).data());
}

TEST_F(UringRingTest, CallsNothingTruncated) {
  script_.end_results = {0};
  EXPECT_EQ(ClassifyIoError(Run()), IoErrorClass::kTruncated);
}

TEST_F(UringRingTest, TriesAgainAfterAPause) {
  script_.end_results = {-EAGAIN};
  ASSERT_OK(ring_->Submit(ops_.front()));
  ring_->Reap(now_);
  ring_->Reap(now_);
  EXPECT_EQ(script_.taken.size(), 1);
  EXPECT_EQ(ring_->in_flight(), 1);

  now_ += std::chrono::milliseconds(1);
  EXPECT_EQ(ring_->Reap(now_), 1);
  EXPECT_OK(ops_.front().status);
  EXPECT_EQ(script_.taken.size(), 2);
}

// F3: what is submitted, prepared and taken are three things.
TEST_F(UringRingTest, HandsOverByAndByWhatTheKernelTakesInParts) {
  script_.queue_size = 3;
  script_.taken_max = 1;
  for (IoOp& op : ops_) {
    ASSERT_OK(ring_->Submit(op));
  }
  EXPECT_STATUS(ring_->Submit(ops_.front()), StatusCode::kResourceExhausted);
  Drain();
  for (const IoOp& op : ops_) {
    EXPECT_EQ(sink_.CountOf(op), 1);
    EXPECT_OK(op.status);
  }
  EXPECT_EQ(script_.taken.size(), ops_.size());
}

TEST_F(UringRingTest, GoesOnAfterPassingRefusalsToEnter) {
  script_.enter_results = {-EAGAIN, -EBUSY, -EINTR, -ENOMEM};
  EXPECT_OK(Run());
}

TEST_F(UringRingTest, IsOutOfOrderWhenTheKernelHasLostAnEnd) {
  for (const int error_number : {EBADR, ENXIO}) {
    Script script;
    script.keeps_ends = true;
    CountingSink sink;
    IoOp op = MakeOp(IoOp::Kind::kRead, 0, bytes_.all(), sink);
    auto ring = std::make_unique<UringRing>(std::make_unique<ScriptedKernel>(script), 1, 8);
    ASSERT_OK(ring->Submit(op));
    ring->Reap(now_);
    script.enter_results = {-error_number};
    ring->Reap(now_);

    EXPECT_STATUS(ring->Submit(ops_.front()), StatusCode::kUnavailable);
    EXPECT_EQ(sink.ended_count(), 0);
    ring.reset();
    EXPECT_FALSE(script.is_alive);
    EXPECT_EQ(sink.CountOf(op), 1);
    EXPECT_EQ(op.status.native_code(), ECANCELED);
  }
}

TEST_F(UringRingTest, DeliversWhatStillComesWhenOutOfOrder) {
  script_.keeps_ends = true;
  ASSERT_OK(ring_->Submit(ops_.front()));
  ring_->Reap(now_);
  script_.enter_results = {-EBADR};
  ring_->Reap(now_);

  script_.keeps_ends = false;
  EXPECT_EQ(ring_->Reap(now_), 1);
  EXPECT_OK(ops_.front().status);
}

}  // namespace
}  // namespace kvferry::tiers
