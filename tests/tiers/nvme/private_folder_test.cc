// EnsurePrivateFolder makes a closed folder, and takes no open, foreign or linked one.
#include "tiers/nvme/private_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace kvferry::tiers {
namespace {

class PrivateFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "kvferry-folder-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::string root_;
};

TEST_F(PrivateFolderTest, IsMadeClosedAndFoundAgain) {
  for (const char* const name : {"/one", "/one", "/one/", "/two/"}) {
    ASSERT_OK(EnsurePrivateFolder(root_ + name));
    struct stat found = {};
    ASSERT_EQ(::stat((root_ + name).c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777, 0700U) << name;
  }
}

TEST_F(PrivateFolderTest, IsRefusedOpenLinkedOrAFile) {
  std::filesystem::create_directory(root_ + "/open");
  ASSERT_EQ(::chmod((root_ + "/open").c_str(), 0710), 0);
  EXPECT_STATUS(EnsurePrivateFolder(root_ + "/open"), StatusCode::kInvalidArgument);
  ASSERT_OK(EnsurePrivateFolder(root_ + "/closed"));
  std::filesystem::create_directory_symlink(root_ + "/closed", root_ + "/link");
  const Status linked = EnsurePrivateFolder(root_ + "/link");
  EXPECT_STATUS(linked, StatusCode::kInvalidArgument);
  EXPECT_EQ(linked.message(),
            root_ +
                "/link is a symbolic link, which a store is not reached through, since it may "
                "lead elsewhere tomorrow; name the folder itself, or bind-mount it (mount "
                "--bind) there");
  EXPECT_STATUS(EnsurePrivateFolder(root_ + "/link/"), StatusCode::kInvalidArgument);
  std::ofstream(root_ + "/file") << "x";
  EXPECT_STATUS(EnsurePrivateFolder(root_ + "/file"), StatusCode::kInvalidArgument);
}

TEST_F(PrivateFolderTest, IsNotMadeWithoutItsParent) {
  const Status refused = EnsurePrivateFolder(root_ + "/none/here");

  EXPECT_STATUS(refused, StatusCode::kIoError);
  EXPECT_EQ(refused.message(), root_ + "/none/here: cannot be made (No such file or directory); " +
                                   "make its parent folder, " + root_ + "/none, first");
}

// A remedy that was followed already makes nobody wiser.
TEST_F(PrivateFolderTest, SaysWhyItIsNotMadeInAFolderThatIsThere) {
  EXPECT_EQ(EnsurePrivateFolder("/proc/kvferry").message(),
            "/proc/kvferry: cannot be made (No such file or directory); /proc is there, but its "
            "file system takes no new folders (as /proc and /sys); name a folder on a drive");
  std::ofstream(root_ + "/file") << "x";
  EXPECT_EQ(EnsurePrivateFolder(root_ + "/file/here").message(),
            root_ + "/file/here: cannot be made (Not a directory); check the path, and that " +
                root_ + "/file is a folder that takes others");
  if (::geteuid() == 0) {
    GTEST_SKIP() << "root may write anywhere";
  }
  ASSERT_EQ(::chmod(root_.c_str(), 0500), 0);
  EXPECT_EQ(EnsurePrivateFolder(root_ + "/closed").message(),
            root_ + "/closed: cannot be made (Permission denied); let this user read and write " +
                root_ + ", or name another folder");
  ASSERT_EQ(::chmod(root_.c_str(), 0700), 0);
}

}  // namespace
}  // namespace kvferry::tiers
