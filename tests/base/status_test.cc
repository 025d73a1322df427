// Status and Result: what they carry, how they travel, and what stops the process.
#include "kvferry/status.h"

#include <cerrno>
#include <memory>
#include <string>

#include <gtest/gtest.h>

namespace kvferry {
namespace {

Status Failing() {
  return Status::Error(StatusCode::kIoError, "write block 7", EIO);
}

Status Propagating(bool fails) {
  KVFERRY_RETURN_IF_ERROR(fails ? Failing() : Status::Ok());
  return Status::Error(StatusCode::kInternal, "reached the end");
}

Result<std::unique_ptr<int>> Boxed(int value) {
  if (value < 0) {
    return Status::Error(StatusCode::kInvalidArgument, "negative");
  }
  return std::make_unique<int>(value);
}

Result<int> Doubled(int value) {
  KVFERRY_ASSIGN_OR_RETURN(const std::unique_ptr<int> box, Boxed(value));
  return *box * 2;
}

TEST(StatusTest, OkCarriesNothing) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::kOk);
  EXPECT_EQ(status.message(), "");
  EXPECT_EQ(status.native_code(), 0);
  EXPECT_EQ(status.ToString(), "kOk");
  EXPECT_TRUE(status.WithContext("opening").ok());
}

TEST(StatusTest, AnErrorKeepsItsCauseAndGainsContext) {
  const Status status = Failing().WithContext("offload");
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_EQ(status.message(), "offload: write block 7");
  EXPECT_EQ(status.native_code(), EIO);
  EXPECT_NE(std::string(status.where().file).find("status_test.cc"), std::string::npos);
  EXPECT_GT(status.where().line, 0);
  EXPECT_NE(status.ToString().find("kIoError: offload: write block 7"), std::string::npos);
  EXPECT_NE(status.ToString().find("Input/output error"), std::string::npos) << status.ToString();
  EXPECT_NE(status.ToString().find("status_test.cc:"), std::string::npos);
  EXPECT_NE(
      Status::Error(StatusCode::kDeviceError, "copy", 700).ToString().find("(cudaError_t 700)"),
      std::string::npos);
}

TEST(StatusTest, EveryCodeHasItsName) {
  EXPECT_EQ(ToString(StatusCode::kOk), "kOk");
  EXPECT_EQ(ToString(StatusCode::kInvalidArgument), "kInvalidArgument");
  EXPECT_EQ(ToString(StatusCode::kResourceExhausted), "kResourceExhausted");
  EXPECT_EQ(ToString(StatusCode::kUnavailable), "kUnavailable");
  EXPECT_EQ(ToString(StatusCode::kDeadlineExceeded), "kDeadlineExceeded");
  EXPECT_EQ(ToString(StatusCode::kCancelled), "kCancelled");
  EXPECT_EQ(ToString(StatusCode::kDataLoss), "kDataLoss");
  EXPECT_EQ(ToString(StatusCode::kIoError), "kIoError");
  EXPECT_EQ(ToString(StatusCode::kDeviceError), "kDeviceError");
  EXPECT_EQ(ToString(StatusCode::kInternal), "kInternal");
  EXPECT_EQ(ToString(static_cast<StatusCode>(200)), "unknown");
}

TEST(StatusTest, ErrorsPropagateAndSuccessGoesOn) {
  EXPECT_EQ(Propagating(true).code(), StatusCode::kIoError);
  EXPECT_EQ(Propagating(false).code(), StatusCode::kInternal);
}

TEST(ResultTest, HoldsAValueOrTheReason) {
  const Result<int> good = Doubled(4);
  ASSERT_TRUE(good.has_value());
  EXPECT_EQ(*good, 8);
  EXPECT_TRUE(good.status().ok());

  const Result<int> bad = Doubled(-1);
  EXPECT_FALSE(bad);
  EXPECT_EQ(bad.error().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(bad.status().message(), "negative");
}

TEST(ResultTest, GivesUpAMoveOnlyValue) {
  std::unique_ptr<int> box = *Boxed(3);
  EXPECT_EQ(*box, 3);
}

TEST(ResultDeathTest, StopsWhereSomeoneReadsWhatIsNotThere) {
  const Result<int> bad = Doubled(-1);
  const Result<int> good = Doubled(1);
  EXPECT_DEATH((void)*bad, "");
  EXPECT_DEATH((void)good.error(), "");
  EXPECT_DEATH(Result<int>(Status::Ok()).status().IgnoreError(), "");
  EXPECT_DEATH(Status::Error(StatusCode::kOk, "").IgnoreError(), "kOk");
}

}  // namespace
}  // namespace kvferry
