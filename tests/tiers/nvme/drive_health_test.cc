// A bad place, a drive that is out for a while, and a drive that is gone.
#include "tiers/nvme/drive_health.h"

#include <cerrno>

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace kvferry::tiers {
namespace {

constexpr std::uint64_t kPage = 4'096;

Status Failed(int error_number) {
  return IoError("read", error_number);
}

TEST(DriveHealthTest, AFailureCountsAgainstItsSegmentOnceUntilSomethingWorks) {
  DriveHealth health(1);
  EXPECT_TRUE(health.NoteFailure(0, 0, Failed(EIO)));
  EXPECT_FALSE(health.NoteFailure(0, 0, Failed(EIO)));
  health.NoteSuccess(0);
  EXPECT_TRUE(health.NoteFailure(0, 0, Failed(EIO)));
  EXPECT_OK(health.failure());
}

TEST(DriveHealthTest, ManyFailuresInARowMeanThatTheDriveIsGone) {
  DriveHealth health(2);
  for (std::uint32_t i = 1; i < DriveHealth::kPlacesInRowMax; ++i) {
    health.NoteFailure(1, i * kPage, Failed(EIO));
  }
  EXPECT_OK(health.failure());
  health.NoteFailure(0, 0, Failed(EIO));
  EXPECT_OK(health.failure());  // That was another drive.
  EXPECT_FALSE(health.NoteFailure(1, 0, Failed(EIO)));
  EXPECT_FALSE(health.failure().ok());
}

// One bad block that somebody asked for again and again took the whole tier off.
TEST(DriveHealthTest, OnePlaceThatGoesOnFailingDoesNotCostTheDrive) {
  DriveHealth health(1);
  for (std::uint32_t i = 0; i < 4 * DriveHealth::kPlacesInRowMax; ++i) {
    health.NoteFailure(0, (i % 2) * kPage, Failed(EIO));
  }
  EXPECT_OK(health.failure());
}

TEST(DriveHealthTest, ASuccessInBetweenKeepsIt) {
  DriveHealth health(1);
  for (std::uint32_t i = 0; i < 4 * DriveHealth::kPlacesInRowMax; ++i) {
    health.NoteFailure(0, i * kPage, Failed(EIO));
    health.NoteSuccess(0);
  }
  EXPECT_OK(health.failure());
}

TEST(DriveHealthTest, ADriveThatSaysThatItIsGoneIsGone) {
  DriveHealth health(1);
  EXPECT_FALSE(health.NoteFailure(0, 0, Failed(ENODEV)));
  EXPECT_EQ(health.failure().native_code(), ENODEV);
}

TEST(DriveHealthTest, AFullDriveAndOneThatIsBusyAreNotFailing) {
  DriveHealth health(1);
  for (std::uint32_t i = 0; i < 2 * DriveHealth::kPlacesInRowMax; ++i) {
    EXPECT_FALSE(health.NoteFailure(0, i * kPage, Failed(ENOSPC)));
    EXPECT_FALSE(health.NoteFailure(0, i * kPage, Failed(EROFS)));
    EXPECT_FALSE(health.NoteFailure(0, i * kPage, Failed(EAGAIN)));
  }
  EXPECT_OK(health.failure());
}

}  // namespace
}  // namespace kvferry::tiers
