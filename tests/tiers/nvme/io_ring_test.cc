// CheckIoOp: what no ring takes is refused before any of it reaches a kernel.
#include "tiers/nvme/io_ring.h"

#include <array>
#include <span>

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace kvferry::tiers {
namespace {

class IgnoringSink final : public IoSink {
 public:
  void OnIoDone(IoOp& /*op*/) noexcept override {}
};

class CheckIoOpTest : public ::testing::Test {
 protected:
  CheckIoOpTest() {
    op_.sink = &sink_;
    op_.buffer = std::span(pages_).first(kIoAlignment);
  }

  alignas(kIoAlignment) std::array<std::byte, 2 * kIoAlignment> pages_{};
  IgnoringSink sink_;
  IoOp op_;
};

TEST_F(CheckIoOpTest, TakesWhatIsAligned) {
  EXPECT_OK(CheckIoOp(op_, 1));
  op_.offset_bytes = 3 * kIoAlignment;
  op_.buffer = pages_;
  EXPECT_OK(CheckIoOp(op_, 1));
}

TEST_F(CheckIoOpTest, RefusesWhatIsNot) {
  op_.offset_bytes = 512;
  EXPECT_STATUS(CheckIoOp(op_, 1), StatusCode::kInvalidArgument);

  op_.offset_bytes = 0;
  op_.buffer = std::span(pages_).first(kIoAlignment + 512);
  EXPECT_STATUS(CheckIoOp(op_, 1), StatusCode::kInvalidArgument);

  op_.buffer = std::span(pages_).subspan(512, kIoAlignment);
  EXPECT_STATUS(CheckIoOp(op_, 1), StatusCode::kInvalidArgument);

  op_.buffer = {};
  EXPECT_STATUS(CheckIoOp(op_, 1), StatusCode::kInvalidArgument);
}

TEST_F(CheckIoOpTest, RefusesFilesThatAreNotThere) {
  op_.file_index = 1;
  EXPECT_OK(CheckIoOp(op_, 2));
  EXPECT_STATUS(CheckIoOp(op_, 1), StatusCode::kInvalidArgument);
}

TEST_F(CheckIoOpTest, AsksNoBufferOfASync) {
  op_.kind = IoOp::Kind::kSyncData;
  op_.buffer = {};
  EXPECT_OK(CheckIoOp(op_, 1));
  EXPECT_EQ(Describe(op_), "sync of file 0");
}

TEST_F(CheckIoOpTest, NamesTheOperation) {
  op_.kind = IoOp::Kind::kWrite;
  op_.offset_bytes = 8192;
  EXPECT_EQ(Describe(op_), "write of 4096 bytes at 8192 of file 0");
}

}  // namespace
}  // namespace kvferry::tiers
