// What a copy job does with its pieces, by kind.
#include "engine/copy_work.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/test_blocks.h"

namespace kvferry::engine {
namespace {

using testing::BytesOf;
using testing::KeyOf;

constexpr std::uint32_t kPieces = 3;
constexpr std::uint32_t kSize = 5'003;

class RunCopyJobTest : public ::testing::Test {
 protected:
  void SetUp() override {
    job_.piece_count = kPieces;
    for (std::uint32_t i = 0; i < CopyJob::kPiecesMax; ++i) {
      sources_.push_back(BytesOf(i, kSize));
      targets_.emplace_back(kSize + 1);
    }
    for (std::uint32_t i = 0; i < CopyJob::kPiecesMax; ++i) {
      CopyPiece& piece = job_.pieces[i];
      piece.source = sources_[i].data();
      piece.target = targets_[i].data();
      piece.size_bytes = kSize;
      piece.key = KeyOf(i);
      piece.checksum = ChecksumOf(sources_[i], KeyOf(i));
    }
  }

  bool IsCopied(std::uint32_t i) const {
    return std::equal(sources_[i].begin(), sources_[i].end(), targets_[i].begin()) &&
           targets_[i].back() == std::byte{0};
  }
  bool IsUntouched(std::uint32_t i) const {
    return targets_[i] == std::vector<std::byte>(kSize + 1);
  }
  void Damage(std::uint32_t i) { sources_[i][kSize / 2] ^= std::byte{4}; }
  void ExpectCopied() const {
    for (std::uint32_t i = 0; i < CopyJob::kPiecesMax; ++i) {
      EXPECT_TRUE(i < kPieces ? IsCopied(i) : IsUntouched(i)) << i;
    }
  }

  CopyJob job_;
  std::vector<std::vector<std::byte>> sources_;
  std::vector<std::vector<std::byte>> targets_;
};

TEST_F(RunCopyJobTest, CopiesItsPiecesAndNoOther) {
  job_.kind = CopyJob::Kind::kCopy;
  RunCopyJob(job_);
  ExpectCopied();
}

TEST_F(RunCopyJobTest, GivesTheChecksumOfWhatItCopied) {
  job_.kind = CopyJob::Kind::kCopyAndSum;
  for (CopyPiece& piece : job_.pieces) {
    piece.checksum = {};
  }

  RunCopyJob(job_);

  ExpectCopied();
  for (std::uint32_t i = 0; i < kPieces; ++i) {
    EXPECT_EQ(job_.pieces[i].checksum, ChecksumOf(sources_[i], KeyOf(i)));
  }
  EXPECT_EQ(job_.pieces[kPieces].checksum, Checksum{});
}

// One bit too many, or another block's bytes, must not pass.
TEST_F(RunCopyJobTest, TellsWhichCopiesAreNotIntact) {
  job_.kind = CopyJob::Kind::kCopyAndVerify;
  Damage(1);
  job_.pieces[2].key = KeyOf(9);

  RunCopyJob(job_);

  ExpectCopied();
  EXPECT_TRUE(job_.pieces[0].is_intact);
  EXPECT_FALSE(job_.pieces[1].is_intact);
  EXPECT_FALSE(job_.pieces[2].is_intact);
}

TEST_F(RunCopyJobTest, VerifiesWithoutCopying) {
  job_.kind = CopyJob::Kind::kVerify;
  Damage(1);
  for (CopyPiece& piece : job_.pieces) {
    piece.is_intact = &piece == &job_.pieces[1];  // What an earlier job left.
    piece.target = nullptr;
  }

  RunCopyJob(job_);

  EXPECT_TRUE(job_.pieces[0].is_intact);
  EXPECT_FALSE(job_.pieces[1].is_intact);
  EXPECT_TRUE(job_.pieces[2].is_intact);
  EXPECT_FALSE(job_.pieces[kPieces].is_intact);
}

// Longer than the stretches that a worker copies before it looks whether to go on.
TEST_F(RunCopyJobTest, CopiesLongBlocksWhole) {
  constexpr std::size_t kLong = (std::size_t{2} << 20) + 77;
  const std::vector<std::byte> source = BytesOf(5, kLong);
  const std::atomic<bool> stop{false};
  for (const auto kind : {CopyJob::Kind::kCopy, CopyJob::Kind::kCopyAndSum}) {
    std::vector<std::byte> target(kLong);
    CopyJob job;
    job.kind = kind;
    job.piece_count = 1;
    CopyPiece& piece = job.pieces[0];
    piece.source = source.data();
    piece.target = target.data();
    piece.size_bytes = kLong;
    piece.key = KeyOf(5);
    piece.stop = &stop;
    RunCopyJob(job);
    EXPECT_FALSE(piece.was_stopped);
    EXPECT_TRUE(target == source);
    EXPECT_EQ(kind == CopyJob::Kind::kCopy ? Checksum{} : ChecksumOf(source, KeyOf(5)),
              piece.checksum);
  }
}

TEST_F(RunCopyJobTest, LeavesOffWhereNobodyWantsTheCopy) {
  static constinit const std::atomic<bool> kStop{true};
  job_.pieces[1].stop = &kStop;
  for (const auto kind :
       {CopyJob::Kind::kCopyAndSum, CopyJob::Kind::kCopyAndVerify, CopyJob::Kind::kCopy}) {
    job_.kind = kind;
    RunCopyJob(job_);
    EXPECT_TRUE(job_.pieces[1].was_stopped);
    EXPECT_TRUE(IsUntouched(1));
    EXPECT_TRUE(IsCopied(0) && !job_.pieces[0].was_stopped);
    EXPECT_TRUE(IsCopied(2) && !job_.pieces[2].was_stopped);
  }
}

TEST(CopyJobTest, IsFullAtEitherBound) {
  CopyJob job;
  EXPECT_FALSE(job.is_full());
  job.piece_count = CopyJob::kPiecesMax;
  EXPECT_TRUE(job.is_full());
  job.piece_count = 1;
  job.size_bytes = CopyJob::kBytesMax;
  EXPECT_TRUE(job.is_full());
  job.size_bytes = CopyJob::kBytesMax - 1;
  EXPECT_FALSE(job.is_full());
}

}  // namespace
}  // namespace kvferry::engine
