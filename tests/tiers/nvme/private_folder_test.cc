// EnsurePrivateFolder makes a closed folder, and takes no open, foreign or linked one.
#include "tiers/nvme/private_folder.h"

#include <sys/stat.h>

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
  EXPECT_STATUS(EnsurePrivateFolder(root_ + "/link"), StatusCode::kInvalidArgument);
  EXPECT_STATUS(EnsurePrivateFolder(root_ + "/link/"), StatusCode::kInvalidArgument);
  std::ofstream(root_ + "/file") << "x";
  EXPECT_STATUS(EnsurePrivateFolder(root_ + "/file"), StatusCode::kInvalidArgument);
}

TEST_F(PrivateFolderTest, IsNotMadeWithoutItsParent) {
  EXPECT_STATUS(EnsurePrivateFolder(root_ + "/none/here"), StatusCode::kIoError);
}

}  // namespace
}  // namespace kvferry::tiers
