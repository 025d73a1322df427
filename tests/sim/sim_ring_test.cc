// SimRing: virtual time, determinism, and each fault as its description says.
#include "sim/sim_ring.h"

#include <cerrno>
#include <chrono>
#include <deque>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "tests/support/io_ops.h"
#include "tests/support/status_matchers.h"
#include "tiers/nvme/io_errors.h"

namespace kvferry::sim {
namespace {

using testing::AlignedBytes;
using testing::CountingSink;
using testing::FillPattern;
using testing::HasPattern;
using testing::MakeOp;
using tiers::ClassifyIoError;
using tiers::IoErrorClass;
using tiers::IoOp;
constexpr std::size_t kPage = tiers::kIoAlignment;

class SimRingTest : public ::testing::Test {
 protected:
  SimRingTest() { Open(SimRingOptions()); }

  void Open(const SimRingOptions& options) {
    ring_.reset();
    ring_.emplace(std::vector<SimDisk*>{&disk_}, clock_, options);
  }
  // Until nothing but held operations is in flight.
  void Drain() {
    while (const std::optional<Instant> next = ring_->NextEventTime()) {
      ring_->WaitUntil(*next);
      ring_->Reap(clock_.Now());
    }
  }
  Status Run(IoOp::Kind kind, std::uint64_t offset_bytes, std::span<std::byte> buffer) {
    IoOp op = MakeOp(kind, offset_bytes, buffer, sink_);
    const int count_before = sink_.CountOf(op);
    KVFERRY_RETURN_IF_ERROR(ring_->Submit(op));
    Drain();
    ring_->ReleaseHeld();
    Drain();
    EXPECT_EQ(sink_.CountOf(op), count_before + 1);
    return op.status;
  }
  Status RunWith(SimFault fault, IoOp::Kind kind) {
    ring_->InjectAt(ring_->submitted_count(), fault);
    FillPattern(bytes_.all(), kind == IoOp::Kind::kWrite ? 2 : 0);
    Status status = Run(kind, 0, bytes_.all());
    EXPECT_EQ(ring_->fault_counts().of(fault), 1) << ToString(fault);
    return status;
  }
  void Put(std::uint64_t seed) {
    FillPattern(bytes_.all(), seed);
    ASSERT_OK(Run(IoOp::Kind::kWrite, 0, bytes_.all()));
  }
  bool Holds(std::uint64_t seed) {
    AlignedBytes found(bytes_.all().size());
    disk_.Read(0, found.all());
    return HasPattern(found.all(), seed);
  }

  ManualClock clock_;
  SimDisk disk_{8 * kMiB};
  CountingSink sink_;
  AlignedBytes bytes_{16 * kPage};
  std::optional<SimRing> ring_;
};

TEST_F(SimRingTest, EndsNothingBeforeItsTime) {
  IoOp op = MakeOp(IoOp::Kind::kRead, 0, bytes_.all(), sink_);
  ASSERT_OK(ring_->Submit(op));
  EXPECT_EQ(ring_->Reap(clock_.Now()), 0);

  const std::optional<Instant> due = ring_->NextEventTime();
  ASSERT_TRUE(due.has_value());
  EXPECT_GT(*due, clock_.Now());
  ring_->WaitUntil(*due - Duration(1));
  EXPECT_EQ(ring_->Reap(clock_.Now()), 0);
  ring_->WaitUntil(*due + std::chrono::seconds(1));
  EXPECT_EQ(clock_.Now(), *due);
  EXPECT_EQ(ring_->Reap(clock_.Now()), 1);
  EXPECT_OK(op.status);
}

TEST_F(SimRingTest, LeavesTheClockWhenItWasWoken) {
  ring_->Wake();
  ring_->WaitUntil(Instant(std::chrono::seconds(5)));
  EXPECT_EQ(clock_.Now(), Instant());
  ring_->WaitUntil(Instant(std::chrono::seconds(5)));
  EXPECT_EQ(clock_.Now(), Instant(std::chrono::seconds(5)));
}

// What a seed found must be found again.
TEST(SimRingSeedTest, GivesTheSameRunForTheSameSeed) {
  const auto run = [](std::uint64_t seed) {
    ManualClock clock;
    SimDisk disk(8 * kMiB);
    SimRingOptions options;
    options.seed = seed;
    options.faults = SimFaults::Hostile();
    CountingSink sink;
    AlignedBytes bytes(16 * kPage);
    std::deque<IoOp> ops;
    SimRing ring({&disk}, clock, options);
    std::string log;
    for (std::uint64_t i = 0; i < 2000; ++i) {
      const auto kind = static_cast<IoOp::Kind>(i % 3);
      IoOp& op = ops.emplace_back(MakeOp(kind, (i % 64) * kPage, bytes.page(i % 16), sink));
      log += ring.Submit(op).ok() ? "" : "!";
      if (i % 8 == 7) {
        ring.WaitUntil(clock.Now() + std::chrono::seconds(1));
        ring.Reap(clock.Now());
      }
    }
    for (const IoOp* op : sink.ended()) {
      log += std::to_string(op->offset_bytes) + op->status.ToString() + ";";
    }
    return log + std::to_string(clock.Now().time_since_epoch().count()) +
           ring.fault_counts().ToString();
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

TEST_F(SimRingTest, ReordersWhatIsInFlight) {
  std::deque<IoOp> ops;
  for (std::size_t i = 0; i < 16; ++i) {
    ops.push_back(MakeOp(IoOp::Kind::kRead, i * kPage, bytes_.page(i), sink_));
    ASSERT_OK(ring_->Submit(ops.back()));
  }
  Drain();
  std::vector<const IoOp*> in_order;
  in_order.reserve(ops.size());
  for (const IoOp& op : ops) {
    in_order.push_back(&op);
  }
  EXPECT_NE(sink_.ended(), in_order);
  EXPECT_EQ(sink_.ended_count(), 16);
}

TEST_F(SimRingTest, ReportsTheErrorsThatItInjects) {
  const struct {
    SimFault fault;
    IoOp::Kind kind;
    IoErrorClass expected;
  } cases[] = {
      {SimFault::kReadError, IoOp::Kind::kRead, IoErrorClass::kBadBlock},
      {SimFault::kWriteError, IoOp::Kind::kWrite, IoErrorClass::kBadBlock},
      {SimFault::kNoSpace, IoOp::Kind::kWrite, IoErrorClass::kNoSpace},
      {SimFault::kReadOnly, IoOp::Kind::kWrite, IoErrorClass::kReadOnly},
      {SimFault::kTransient, IoOp::Kind::kRead, IoErrorClass::kTransient},
      {SimFault::kCancelled, IoOp::Kind::kWrite, IoErrorClass::kTransient},
      {SimFault::kShortTransfer, IoOp::Kind::kRead, IoErrorClass::kBadBlock},
      {SimFault::kTruncatedRead, IoOp::Kind::kRead, IoErrorClass::kTruncated},
      {SimFault::kTornWrite, IoOp::Kind::kWrite, IoErrorClass::kBadBlock},
      {SimFault::kSyncError, IoOp::Kind::kSyncData, IoErrorClass::kBadBlock},
      {SimFault::kSubmitFull, IoOp::Kind::kRead, IoErrorClass::kTransient},
      {SimFault::kSubmitUnavailable, IoOp::Kind::kSyncData, IoErrorClass::kTransient},
  };
  for (const auto& expected : cases) {
    EXPECT_EQ(ClassifyIoError(RunWith(expected.fault, expected.kind)), expected.expected)
        << ToString(expected.fault);
    EXPECT_OK(Run(expected.kind, 0, bytes_.all()));
  }
}

TEST_F(SimRingTest, ReportsSuccessWhereADriveLies) {
  Put(1);
  EXPECT_OK(RunWith(SimFault::kLostWrite, IoOp::Kind::kWrite));
  EXPECT_TRUE(Holds(1));

  EXPECT_OK(RunWith(SimFault::kMisdirectedWrite, IoOp::Kind::kWrite));
  EXPECT_FALSE(Holds(2));

  Put(1);
  EXPECT_OK(RunWith(SimFault::kTornWriteUnseen, IoOp::Kind::kWrite));
  EXPECT_FALSE(Holds(1));
  EXPECT_FALSE(Holds(2));

  Put(1);
  EXPECT_OK(RunWith(SimFault::kMisdirectedRead, IoOp::Kind::kRead));
  EXPECT_FALSE(HasPattern(bytes_.all(), 1));

  Put(1);
  Put(3);
  EXPECT_OK(RunWith(SimFault::kStaleRead, IoOp::Kind::kRead));
  EXPECT_TRUE(HasPattern(bytes_.all(), 1));

  EXPECT_OK(RunWith(SimFault::kBitRot, IoOp::Kind::kRead));
  EXPECT_FALSE(HasPattern(bytes_.all(), 3));
  EXPECT_FALSE(Holds(3));
}

TEST_F(SimRingTest, HoldsAnOperationUntilItIsReleased) {
  ring_->InjectAt(0, SimFault::kHeld);
  IoOp op = MakeOp(IoOp::Kind::kRead, 0, bytes_.all(), sink_);
  ASSERT_OK(ring_->Submit(op));
  Drain();
  EXPECT_EQ(ring_->held_count(), 1);
  EXPECT_EQ(ring_->in_flight(), 1);
  EXPECT_EQ(sink_.ended_count(), 0);

  EXPECT_EQ(ring_->ReleaseHeld(), 1);
  Drain();
  EXPECT_EQ(sink_.CountOf(op), 1);
  EXPECT_OK(op.status);
}

TEST_F(SimRingTest, FailsAsADriveDoesForTheTimeOfAWindow) {
  const Instant end = clock_.Now() + std::chrono::seconds(1);
  const std::pair<SimWindow, IoErrorClass> cases[] = {
      {SimWindow::kErrors, IoErrorClass::kBadBlock},
      {SimWindow::kGone, IoErrorClass::kBadDevice},
      {SimWindow::kNoSpace, IoErrorClass::kNoSpace},
      {SimWindow::kReadOnly, IoErrorClass::kReadOnly},
  };
  for (const auto& [window, expected] : cases) {
    ring_->StartWindow(0, window, end);
    EXPECT_EQ(ClassifyIoError(Run(IoOp::Kind::kWrite, 0, bytes_.all())), expected);
  }
  EXPECT_OK(Run(IoOp::Kind::kRead, 0, bytes_.all()));
  clock_.MoveTo(end);
  EXPECT_OK(Run(IoOp::Kind::kWrite, 0, bytes_.all()));
}

TEST_F(SimRingTest, EndsNothingWhileADriveStalls) {
  const Instant end = clock_.Now() + std::chrono::seconds(60);
  ring_->StartWindow(0, SimWindow::kStalled, end);
  EXPECT_OK(Run(IoOp::Kind::kRead, 0, bytes_.all()));
  EXPECT_GE(clock_.Now(), end);
}

TEST_F(SimRingTest, CutsThePowerOfWhatIsInFlight) {
  Put(1);
  ASSERT_OK(Run(IoOp::Kind::kSyncData, 0, {}));
  FillPattern(bytes_.all(), 2);
  IoOp write = MakeOp(IoOp::Kind::kWrite, 0, bytes_.all(), sink_);
  ASSERT_OK(ring_->Submit(write));

  Random random(1);
  ring_->PowerCut(random);
  EXPECT_EQ(ring_->Reap(clock_.Now()), 1);
  EXPECT_EQ(write.status.native_code(), ENODEV);
  EXPECT_EQ(Run(IoOp::Kind::kWrite, 0, bytes_.all()).native_code(), ENODEV);

  Open(SimRingOptions());
  EXPECT_OK(Run(IoOp::Kind::kRead, 0, bytes_.all()));
}

TEST_F(SimRingTest, ABadPlaceIsBadUntilItIsWritten) {
  Open(SimRingOptions());
  Put(1);
  EXPECT_EQ(ClassifyIoError(RunWith(SimFault::kBadPlace, IoOp::Kind::kRead)),
            IoErrorClass::kBadBlock);
  EXPECT_EQ(ClassifyIoError(Run(IoOp::Kind::kRead, 0, bytes_.all())), IoErrorClass::kBadBlock);

  Put(2);
  EXPECT_OK(Run(IoOp::Kind::kRead, 0, bytes_.all()));
}

TEST_F(SimRingTest, MeetsEveryKindOfFaultInAHostileRun) {
  SimRingOptions options;
  options.faults = SimFaults::Hostile();
  Open(options);
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    Run(static_cast<IoOp::Kind>(i % 3), (i % 64) * kPage, bytes_.page(0)).IgnoreError();
  }
  for (const SimFault fault : AllSimFaults()) {
    if (!Befalls(fault, SimTarget::kBatch)) {
      EXPECT_GT(ring_->fault_counts().of(fault), 0) << ToString(fault);
    }
  }
}

}  // namespace
}  // namespace kvferry::sim
