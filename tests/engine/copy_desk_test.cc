// What the desk takes before it wants some of it back.
#include "engine/copy_desk.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace kvferry::engine {
namespace {

// Says that jobs are done, and touches no memory.
class IdleWorkers final : public CopyWorkers {
 public:
  void Submit(CopyJob& job) override { waiting_.push_back(&job); }
  std::size_t Reap(Instant /*now*/, std::span<CopyJob*> done) override {
    const std::size_t count = std::min(done.size(), waiting_.size());
    std::copy_n(waiting_.end() - static_cast<std::ptrdiff_t>(count), count, done.begin());
    waiting_.resize(waiting_.size() - count);
    return count;
  }
  std::size_t in_flight() const noexcept override { return waiting_.size(); }

 private:
  std::vector<CopyJob*> waiting_;
};

class CopyDeskTest : public ::testing::Test, protected CopySink {
 protected:
  // Adds pieces of one size while there is room; how many.
  std::uint32_t AddAll(CopyJob::Kind kind, std::uint32_t size_bytes) {
    CopyPiece piece;
    piece.size_bytes = size_bytes;
    std::uint32_t added = 0;
    for (; desk_.HasRoom(kind); ++added) {
      desk_.Add(kind, piece);
    }
    return added;
  }
  void OnPieceDone(CopyJob::Kind /*kind*/, const CopyPiece& /*piece*/) noexcept override {}

  IdleWorkers workers_;
  CopyDesk desk_{workers_, 2};
};

// With the largest blocks, all jobs together would be 2 GiB to wait for past a deadline.
TEST_F(CopyDeskTest, BoundsTheBytesOfLargeBlocks) {
  EXPECT_EQ(AddAll(CopyJob::Kind::kCopy, 64 << 20), 2U);
  EXPECT_FALSE(desk_.HasRoom(CopyJob::Kind::kCopyAndSum));
  EXPECT_TRUE(desk_.HasRoom(CopyJob::Kind::kVerify));

  EXPECT_EQ(desk_.Reap(Instant(), *this), 2U);
  EXPECT_EQ(AddAll(CopyJob::Kind::kCopyAndSum, 32 << 20), 4U);
}

TEST_F(CopyDeskTest, BoundsTheJobsOfSmallBlocks) {
  constexpr std::uint32_t kPieces = CopyDesk::kRequestJobsMax * CopyJob::kPiecesMax;

  EXPECT_EQ(AddAll(CopyJob::Kind::kCopy, 4 << 10), kPieces);
  EXPECT_EQ(desk_.Reap(Instant(), *this), kPieces);
  EXPECT_EQ(AddAll(CopyJob::Kind::kCopy, 4 << 10), kPieces);
}

}  // namespace
}  // namespace kvferry::engine
