// DriveSet on raw block devices: what it takes, claims, formats and leaves alone.
#include "tests/support/status_matchers.h"
#include "tests/tiers/nvme/drive_samples.h"
#include "tiers/nvme/drive_set.h"

namespace kvferry::tiers {
namespace {

using testing::Overwrite;
using testing::ReadBack;
using testing::Says;
using testing::SmallStore;
using testing::TestDevice;
using testing::TestFolder;

using Opened = Result<std::unique_ptr<DriveSet>>;

class DriveSetDeviceTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kDeviceBytes = 9 * kMiB;

  void SetUp() override {
    if (!device_.is_there()) {
      GTEST_SKIP() << "this user may not make a loop device";
    }
  }

  TestFolder folder_;
  TestDevice device_{folder_ / "image", kDeviceBytes};
};

TEST_F(DriveSetDeviceTest, HoldsAStoreAsAFolderDoes) {
  const DriveSetOptions options = SmallStore({device_.path(), folder_ / "b"}, 4);
  Opened opened = DriveSet::Open(options);
  ASSERT_OK(opened.status());
  EXPECT_TRUE((*opened)->is_new());
  const StoreUuid store = (*opened)->store();
  const Status second = DriveSet::Open(SmallStore({device_.path()}, 4)).status();
  EXPECT_STATUS(second, StatusCode::kUnavailable);
  EXPECT_TRUE(Says(second, "in use")) << second.ToString();
  EXPECT_OK(DriveSet::OpenForReading(options.paths).status());
  (*opened).reset();

  opened = DriveSet::Open(options);
  ASSERT_OK(opened.status());
  EXPECT_FALSE((*opened)->is_new());
  EXPECT_EQ((*opened)->store(), store);
}

TEST_F(DriveSetDeviceTest, TakesAllOfADeviceWithoutACapacity) {
  DriveSetOptions options = SmallStore({device_.path()}, 4);
  options.capacity_bytes = 0;
  const Opened opened = DriveSet::Open(options);
  ASSERT_OK(opened.status());
  EXPECT_EQ((*opened)->layout().segment_count, 8U);
}

TEST_F(DriveSetDeviceTest, IsRefusedWhereItDoesNotFit) {
  const Status refused = DriveSet::Open(SmallStore({device_.path()}, 20)).status();
  EXPECT_STATUS(refused, StatusCode::kInvalidArgument);
  EXPECT_TRUE(Says(refused, "has 9.00 MiB")) << refused.ToString();
  ASSERT_OK(DriveSet::Open(SmallStore({device_.path()}, 4)).status());
  EXPECT_STATUS(DriveSet::Open(SmallStore({device_.path()}, 20)).status(),
                StatusCode::kInvalidArgument);
  EXPECT_OK(DriveSet::Open(SmallStore({device_.path()}, 4)).status());
}

TEST_F(DriveSetDeviceTest, LeavesWhatIsNotOursUnlessItMayFormat) {
  // A RAID signature at 4 KiB lies in none of the superblock's copies, a file system's does.
  for (const std::uint64_t at : {4096U, 1080U, 65'536U + 64, 1'048'575U}) {
    Overwrite(device_.path(), 0, std::string(kMiB, '\0'));
    Overwrite(device_.path(), at, "\xfc");
    DriveSetOptions options = SmallStore({device_.path()}, 4);
    const Status refused = DriveSet::Open(options).status();
    EXPECT_STATUS(refused, StatusCode::kInvalidArgument);
    EXPECT_TRUE(Says(refused, "allow formatting")) << refused.ToString();
    EXPECT_EQ(ReadBack(device_.path(), at, 1), "\xfc");

    options.may_format = true;
    ASSERT_OK(DriveSet::Open(options).status());
    options.may_format = false;
    const Opened opened = DriveSet::Open(options);
    ASSERT_OK(opened.status());
    EXPECT_FALSE((*opened)->is_new());
    EXPECT_EQ(ReadBack(device_.path(), 5000, 1), std::string(1, '\0'));
  }
}

TEST_F(DriveSetDeviceTest, IsNeverFormattedOverAStoreOfOurs) {
  ASSERT_OK(DriveSet::Open(SmallStore({device_.path(), folder_ / "b"}, 4)).status());
  DriveSetOptions options = SmallStore({device_.path()}, 4);
  options.may_format = true;
  EXPECT_STATUS(DriveSet::Open(options).status(), StatusCode::kInvalidArgument);
  for (std::size_t copy = 0; copy < 3; ++copy) {
    Overwrite(device_.path(), SuperblockOffset(copy) + 60, "rot");
  }
  const Status damaged = DriveSet::Open(options).status();
  EXPECT_STATUS(damaged, StatusCode::kDataLoss);
  EXPECT_TRUE(Says(damaged, "zero its first MiB")) << damaged.ToString();
}

TEST_F(DriveSetDeviceTest, LeavesNoSuperblockOfAStoreThatCouldNotBeMade) {
  const TestDevice small(folder_ / "small", 3 * kMiB);
  ASSERT_TRUE(small.is_there());
  EXPECT_STATUS(DriveSet::Open(SmallStore({device_.path(), small.path()}, 4)).status(),
                StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadBack(device_.path(), 0, kMiB), std::string(kMiB, '\0'));
}

// A dropped segment is still on the device; with its header it would come back.
TEST_F(DriveSetDeviceTest, GrowsByBlankSegments) {
  ASSERT_OK(DriveSet::Open(SmallStore({device_.path()}, 6)).status());
  Overwrite(device_.path(), 6 * kMiB, "the header of segment 5");
  Opened opened = DriveSet::Open(SmallStore({device_.path()}, 4));
  ASSERT_OK(opened.status());
  EXPECT_EQ((*opened)->segments_dropped(), 2U);
  (*opened).reset();
  ASSERT_OK(DriveSet::Open(SmallStore({device_.path()}, 6)).status());
  EXPECT_EQ(ReadBack(device_.path(), 6 * kMiB, 10), std::string(10, '\0'));
}

}  // namespace
}  // namespace kvferry::tiers
