// SettleRound: each way in which a kernel does part of a transfer ends in a whole one or an error.
#include "tiers/nvme/io_rounds.h"

#include <cerrno>

#include <gtest/gtest.h>

#include "tests/support/io_ops.h"
#include "tests/support/status_matchers.h"
#include "tiers/nvme/io_errors.h"

namespace kvferry::tiers {
namespace {

using testing::AlignedBytes;
using testing::CountingSink;
using testing::MakeOp;
constexpr std::int64_t kPage = kIoAlignment;

class SettleRoundTest : public ::testing::Test {
 protected:
  IoOp OpOf(IoOp::Kind kind) {
    IoOp op = MakeOp(kind, 8 * kIoAlignment, bytes_.all(), sink_);
    StartRounds(op);
    return op;
  }
  // Rounds with this result until it is over; how many.
  static std::uint32_t RoundsOf(IoOp& op, std::int64_t result) {
    std::uint32_t rounds = 1;
    while (SettleRound(op, result) != RoundEnd::kDone) {
      ++rounds;
    }
    return rounds;
  }

  CountingSink sink_;
  AlignedBytes bytes_{4 * kIoAlignment};
};

TEST_F(SettleRoundTest, IsDoneWithAllBytes) {
  IoOp op = OpOf(IoOp::Kind::kRead);
  EXPECT_EQ(SettleRound(op, 4 * kPage), RoundEnd::kDone);
  EXPECT_OK(op.status);
}

TEST_F(SettleRoundTest, GoesOnAfterWholePages) {
  IoOp op = OpOf(IoOp::Kind::kWrite);
  EXPECT_EQ(SettleRound(op, kPage), RoundEnd::kAgain);
  EXPECT_EQ(RestOf(op).data(), bytes_.page(1).data());
  EXPECT_EQ(RestOf(op).size(), 3 * kIoAlignment);
  EXPECT_EQ(RestOffset(op), 9 * kIoAlignment);
  EXPECT_EQ(SettleRound(op, 3 * kPage), RoundEnd::kDone);
  EXPECT_OK(op.status);
}

// Direct I/O cannot go on from within a page.
TEST_F(SettleRoundTest, RepeatsAPageThatCameInPart) {
  for (const std::int64_t moved : {2 * kPage + 1, 2 * kPage + 512, 3 * kPage - 512}) {
    IoOp op = OpOf(IoOp::Kind::kRead);
    EXPECT_EQ(SettleRound(op, moved), RoundEnd::kAgain);
    EXPECT_EQ(RestOffset(op), 10 * kIoAlignment);
    EXPECT_EQ(RestOf(op).data(), bytes_.page(2).data());
  }
}

TEST_F(SettleRoundTest, CallsNothingReadTruncated) {
  IoOp op = OpOf(IoOp::Kind::kRead);
  EXPECT_EQ(SettleRound(op, 0), RoundEnd::kDone);
  EXPECT_EQ(ClassifyIoError(op.status), IoErrorClass::kTruncated);
}

TEST_F(SettleRoundTest, GivesUpWithoutProgress) {
  IoOp read = OpOf(IoOp::Kind::kRead);
  EXPECT_EQ(RoundsOf(read, 512), kIoRoundsMax);
  EXPECT_EQ(ClassifyIoError(read.status), IoErrorClass::kTruncated);

  IoOp write = OpOf(IoOp::Kind::kWrite);
  EXPECT_EQ(RoundsOf(write, 0), kIoRoundsMax);
  EXPECT_EQ(ClassifyIoError(write.status), IoErrorClass::kBadBlock);
}

TEST_F(SettleRoundTest, TriesAgainWhatTheKernelPutsOff) {
  IoOp op = OpOf(IoOp::Kind::kRead);
  EXPECT_EQ(SettleRound(op, -EINTR), RoundEnd::kAgain);
  for (const int error_number : {EAGAIN, EBUSY, ECANCELED, ENOMEM}) {
    EXPECT_EQ(SettleRound(op, -error_number), RoundEnd::kAgainLater);
  }
  EXPECT_EQ(SettleRound(op, 4 * kPage), RoundEnd::kDone);
  EXPECT_OK(op.status);

  IoOp other = OpOf(IoOp::Kind::kRead);
  EXPECT_EQ(RoundsOf(other, -EAGAIN), kIoRoundsMax);
  EXPECT_EQ(ClassifyIoError(other.status), IoErrorClass::kTransient);
}

TEST_F(SettleRoundTest, ReportsErrorsAtOnce) {
  IoOp op = OpOf(IoOp::Kind::kWrite);
  EXPECT_EQ(SettleRound(op, -ENOSPC), RoundEnd::kDone);
  EXPECT_EQ(op.status.native_code(), ENOSPC);
}

// F1: a sync that has failed is never asked for again.
TEST_F(SettleRoundTest, NeverRepeatsASyncThatFailed) {
  IoOp op = OpOf(IoOp::Kind::kSyncData);
  EXPECT_EQ(SettleRound(op, -EIO), RoundEnd::kDone);
  EXPECT_EQ(op.status.native_code(), EIO);

  IoOp good = OpOf(IoOp::Kind::kSyncData);
  EXPECT_EQ(SettleRound(good, 0), RoundEnd::kDone);
  EXPECT_OK(good.status);
}

TEST_F(SettleRoundTest, DistrustsMoreBytesThanWereAskedFor) {
  IoOp op = OpOf(IoOp::Kind::kRead);
  EXPECT_EQ(SettleRound(op, 5 * kPage), RoundEnd::kDone);
  EXPECT_FALSE(op.status.ok());
}

}  // namespace
}  // namespace kvferry::tiers
