// What every IoRing promises, asked of io_uring, of threads and of the simulated one.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/random.h"
#include "sim/sim_disk.h"
#include "sim/sim_ring.h"
#include "tests/support/io_ops.h"
#include "tests/support/status_matchers.h"
#include "tiers/nvme/io_errors.h"
#include "tiers/nvme/io_ring.h"
#include "tiers/nvme/open_io_ring.h"

namespace kvferry::tiers {
namespace {

using testing::AlignedBytes;
using testing::CountingSink;
using testing::FillPattern;
using testing::HasPattern;
using testing::MakeOp;

enum class Form { kUring, kThreads, kSimulated };

constexpr std::size_t kPage = kIoAlignment;
constexpr std::uint64_t kFileBytes = 1 * kMiB;

std::string NameOf(const ::testing::TestParamInfo<Form>& info) {
  switch (info.param) {
    case Form::kUring:
      return "Uring";
    case Form::kThreads:
      return "Threads";
    case Form::kSimulated:
      break;
  }
  return "Simulated";
}

class IoRingConformanceTest : public ::testing::TestWithParam<Form> {
 protected:
  void SetUp() override { Open(8); }
  void TearDown() override {
    ring_.reset();
    if (!path_.empty()) {
      ::unlink(path_.c_str());
    }
  }

  // Over one file of kFileBytes.
  void Open(std::uint32_t in_flight_max) {
    ring_.reset();
    if (GetParam() == Form::kSimulated) {
      sim::SimRingOptions options;
      options.in_flight_max = in_flight_max;
      ring_ = std::make_unique<sim::SimRing>(std::vector<sim::SimDisk*>{&disk_}, clock_, options);
      return;
    }
    if (!file_.is_open()) {
      OpenFile();
    }
    IoRingOptions options;
    options.in_flight_max = in_flight_max;
    options.backend = GetParam() == Form::kUring ? IoBackend::kUring : IoBackend::kThreads;
    const int files[] = {file_.fd()};
    Result<OpenedIoRing> opened = OpenIoRing(files, options);
    if (GetParam() == Form::kUring && opened.status().code() == StatusCode::kUnavailable) {
      GTEST_SKIP() << opened.status().ToString();
    }
    ASSERT_OK(opened);
    ring_ = std::move(opened->ring);
  }

  void OpenFile() {
    path_ = ::testing::TempDir() + "io_ring_XXXXXX";
    file_ = FileDescriptor(::mkstemp(path_.data()));
    ASSERT_TRUE(file_.is_open()) << errno;
    ASSERT_EQ(::ftruncate(file_.fd(), static_cast<off_t>(kFileBytes)), 0) << errno;
    // Direct where the file system takes it.
    FileDescriptor direct(::open(path_.c_str(), O_RDWR | O_CLOEXEC | O_DIRECT));
    if (direct.is_open()) {
      file_ = std::move(direct);
    }
  }

  Instant Now() const { return GetParam() == Form::kSimulated ? clock_.Now() : Clock::now(); }
  void WaitAndReap() {
    ring_->WaitUntil(Now() + std::chrono::seconds(10));
    ring_->Reap(Now());
  }
  void Drain() {
    while (ring_->in_flight() > 0) {
      WaitAndReap();
    }
  }
  Status Run(IoOp op) {
    KVFERRY_RETURN_IF_ERROR(ring_->Submit(op));
    Drain();
    EXPECT_EQ(sink_.ended().back(), &op);
    return op.status;
  }

  ManualClock clock_;
  sim::SimDisk disk_{kFileBytes};
  std::string path_;
  FileDescriptor file_;
  CountingSink sink_;
  AlignedBytes bytes_{64 * kPage};
  std::unique_ptr<IoRing> ring_;
};

TEST_P(IoRingConformanceTest, ReadsBackWhatItWrote) {
  FillPattern(bytes_.all(), 3);
  ASSERT_OK(Run(MakeOp(IoOp::Kind::kWrite, 5 * kPage, bytes_.all(), sink_)));
  ASSERT_OK(Run(MakeOp(IoOp::Kind::kSyncData, 0, {}, sink_)));

  AlignedBytes found(64 * kPage);
  ASSERT_OK(Run(MakeOp(IoOp::Kind::kRead, 5 * kPage, found.all(), sink_)));
  EXPECT_TRUE(HasPattern(found.all(), 3));
}

TEST_P(IoRingConformanceTest, RefusesWhatDoesNotFitUntilSomethingEnds) {
  std::deque<IoOp> ops;
  for (std::size_t i = 0; i < 9; ++i) {
    ops.push_back(MakeOp(IoOp::Kind::kRead, i * kPage, bytes_.page(i), sink_));
  }
  ASSERT_EQ(ring_->in_flight_max(), 8);
  for (std::size_t i = 0; i < 8; ++i) {
    ASSERT_OK(ring_->Submit(ops.at(i)));
  }
  EXPECT_EQ(ring_->in_flight(), 8);
  EXPECT_STATUS(ring_->Submit(ops.at(8)), StatusCode::kResourceExhausted);

  Drain();
  EXPECT_EQ(sink_.CountOf(ops.at(8)), 0);
  EXPECT_OK(ring_->Submit(ops.at(8)));
  Drain();
  for (const IoOp& op : ops) {
    EXPECT_EQ(sink_.CountOf(op), 1);
  }
}

// F4: far more operations than entries, each ends once, whatever the order.
TEST_P(IoRingConformanceTest, EndsEachOfTenThousandOnce) {
  constexpr std::size_t kOpCount = 10'000;
  Random random(1);
  std::vector<IoOp> ops(kOpCount);
  // Each has memory of its own: one that was passed by all others may still be under way.
  AlignedBytes memory(kOpCount * kPage);
  for (std::size_t i = 0; i < kOpCount; ++i) {
    const bool is_write = random.Chance(0.25);
    const auto kind = is_write ? IoOp::Kind::kWrite : IoOp::Kind::kRead;
    ops[i] = MakeOp(kind, random.Below(256) * kPage, memory.page(i), sink_);
    Status submitted = ring_->Submit(ops[i]);
    while (submitted.code() == StatusCode::kResourceExhausted) {
      WaitAndReap();
      submitted = ring_->Submit(ops[i]);
    }
    ASSERT_OK(submitted);
  }
  Drain();
  EXPECT_EQ(sink_.ended_count(), kOpCount);
  for (const IoOp& op : ops) {
    ASSERT_EQ(sink_.CountOf(op), 1);
    ASSERT_OK(op.status);
  }
}

TEST_P(IoRingConformanceTest, RefusesWhatIsMalformed) {
  IoOp op = MakeOp(IoOp::Kind::kRead, 0, bytes_.page(0), sink_);
  op.file_index = 1;
  EXPECT_STATUS(ring_->Submit(op), StatusCode::kInvalidArgument);
  op.file_index = 0;
  op.offset_bytes = 1;
  EXPECT_STATUS(ring_->Submit(op), StatusCode::kInvalidArgument);
  EXPECT_EQ(ring_->in_flight(), 0);
  EXPECT_EQ(sink_.ended_count(), 0);
}

TEST_P(IoRingConformanceTest, CallsAReadPastTheEndTruncated) {
  const Status beyond = Run(MakeOp(IoOp::Kind::kRead, kFileBytes, bytes_.page(0), sink_));
  EXPECT_EQ(ClassifyIoError(beyond), IoErrorClass::kTruncated) << beyond.ToString();
  const Status across =
      Run(MakeOp(IoOp::Kind::kRead, kFileBytes - kPage, bytes_.all().first(2 * kPage), sink_));
  EXPECT_EQ(ClassifyIoError(across), IoErrorClass::kTruncated) << across.ToString();
}

TEST_P(IoRingConformanceTest, EndsAWaitByAWakeFromAnyThread) {
  const Instant start = Now();
  std::thread waker([this] { ring_->Wake(); });
  waker.join();
  ring_->WaitUntil(start + std::chrono::hours(1));
  EXPECT_LT(Now(), start + std::chrono::hours(1));

  // One wake ends one wait.
  ring_->WaitUntil(Now() + std::chrono::milliseconds(5));
  EXPECT_EQ(ring_->Reap(Now()), 0);
}

TEST_P(IoRingConformanceTest, EndsAWaitThatIsUnderWay) {
  if (GetParam() == Form::kSimulated) {
    GTEST_SKIP() << "a simulated wait takes no time";
  }
  for (int i = 0; i < 50; ++i) {
    std::thread waker([this] { ring_->Wake(); });
    ring_->WaitUntil(Now() + std::chrono::hours(1));
    waker.join();
  }
}

TEST_P(IoRingConformanceTest, WaitsNoLongerThanItsDeadline) {
  const Instant deadline = Now() + std::chrono::milliseconds(2);
  while (Now() < deadline) {
    ring_->WaitUntil(deadline);
  }
  EXPECT_EQ(ring_->Reap(Now()), 0);
}

// A sink may go on at once, with the operation that has just ended.
TEST_P(IoRingConformanceTest, TakesOperationsFromSinks) {
  class Repeating final : public IoSink {
   public:
    explicit Repeating(IoRing& ring) : ring_(ring) {}
    void OnIoDone(IoOp& op) noexcept override {
      ++count;
      if (count < 20) {
        is_taken = is_taken && ring_.Submit(op).ok();
      }
    }
    int count = 0;
    bool is_taken = true;

   private:
    IoRing& ring_;
  };
  Repeating sink(*ring_);
  IoOp op = MakeOp(IoOp::Kind::kRead, 0, bytes_.page(0), sink);
  ASSERT_OK(ring_->Submit(op));
  Drain();
  EXPECT_EQ(sink.count, 20);
  EXPECT_TRUE(sink.is_taken);
}

TEST_P(IoRingConformanceTest, EndsWhatIsInFlightWhenItGoes) {
  std::deque<IoOp> ops;
  FillPattern(bytes_.all(), 4);
  for (std::size_t i = 0; i < 8; ++i) {
    ops.push_back(MakeOp(IoOp::Kind::kWrite, i * kPage, bytes_.page(i), sink_));
    ASSERT_OK(ring_->Submit(ops.back()));
  }
  ring_.reset();
  for (const IoOp& op : ops) {
    EXPECT_EQ(sink_.CountOf(op), 1);
    EXPECT_OK(op.status);
  }
}

TEST_P(IoRingConformanceTest, WorksWithABufferThatItWasToldOf) {
  ring_->RegisterBuffer(bytes_.all()).IgnoreError();  // Only a matter of speed.
  FillPattern(bytes_.page(1), 5);
  ASSERT_OK(Run(MakeOp(IoOp::Kind::kWrite, 0, bytes_.page(1), sink_)));
  ASSERT_OK(Run(MakeOp(IoOp::Kind::kRead, 0, bytes_.page(2), sink_)));
  EXPECT_TRUE(HasPattern(bytes_.page(2), 5));
}

INSTANTIATE_TEST_SUITE_P(AllForms,
                         IoRingConformanceTest,
                         ::testing::Values(Form::kUring, Form::kThreads, Form::kSimulated),
                         NameOf);

}  // namespace
}  // namespace kvferry::tiers
