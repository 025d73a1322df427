// ClassifyIoError: each errno that drives and rings give means one thing to the tier.
#include "tiers/nvme/io_errors.h"

#include <cerrno>
#include <utility>

#include <gtest/gtest.h>

namespace kvferry::tiers {
namespace {

TEST(IoErrorsTest, PutsEachErrnoIntoOneClass) {
  const std::pair<int, IoErrorClass> expected[] = {
      {EIO, IoErrorClass::kBadBlock},       {EILSEQ, IoErrorClass::kBadBlock},
      {ENODATA, IoErrorClass::kBadBlock},   {ENXIO, IoErrorClass::kBadDevice},
      {ENODEV, IoErrorClass::kBadDevice},   {ENOSPC, IoErrorClass::kNoSpace},
      {EDQUOT, IoErrorClass::kNoSpace},     {EROFS, IoErrorClass::kReadOnly},
      {EAGAIN, IoErrorClass::kTransient},   {EINTR, IoErrorClass::kTransient},
      {EBUSY, IoErrorClass::kTransient},    {ECANCELED, IoErrorClass::kTransient},
      {ENOMEM, IoErrorClass::kTransient},   {EINVAL, IoErrorClass::kMisuse},
      {EBADF, IoErrorClass::kMisuse},       {EFAULT, IoErrorClass::kMisuse},
      {EREMOTEIO, IoErrorClass::kBadBlock},
  };
  for (const auto& [error_number, error_class] : expected) {
    EXPECT_EQ(ClassifyIoError(IoError("write", error_number)), error_class) << error_number;
  }
}

TEST(IoErrorsTest, ClassifiesWhatHasNoErrno) {
  EXPECT_EQ(ClassifyIoError(Status::Ok()), IoErrorClass::kNone);
  EXPECT_EQ(ClassifyIoError(TruncatedError("read")), IoErrorClass::kTruncated);
  EXPECT_EQ(ClassifyIoError(Status::Error(StatusCode::kResourceExhausted, "full")),
            IoErrorClass::kTransient);
  EXPECT_EQ(ClassifyIoError(Status::Error(StatusCode::kInvalidArgument, "misaligned")),
            IoErrorClass::kMisuse);
  EXPECT_EQ(ClassifyIoError(Status::Error(StatusCode::kInternal, "bug")), IoErrorClass::kBadBlock);
}

TEST(IoErrorsTest, KeepsTheErrnoAndTheText) {
  const Status status = IoError("read of file 1", EIO);
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_EQ(status.native_code(), EIO);
  EXPECT_EQ(status.message(), "read of file 1");
  EXPECT_EQ(ToString(ClassifyIoError(status)), "bad block");
}

}  // namespace
}  // namespace kvferry::tiers
