// RunKillRounds: a drive that forgets is found out, and folders that hold something are refused.
#include "stress/kill_rounds.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace kvferry::stress {
namespace {

class KillRoundsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "kvferry_kills_XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
};

TEST_F(KillRoundsTest, ADriveThatForgetsIsFoundOut) {
  // What must be able to fail: between two processes all blocks go, acknowledged ones too.
  const std::string store = folder_ + "/store";
  const auto lose = [&](std::uint64_t kills) {
    const std::string file = store + "/blocks.kvferry";
    if (kills == 8) {
      const auto size = std::filesystem::file_size(file);
      std::filesystem::resize_file(file, 1 << 20);
      std::filesystem::resize_file(file, size);
    }
  };

  const auto outcome = RunKillRounds({store, 1, 12}, lose);

  ASSERT_OK(outcome);
  EXPECT_GE(outcome->violations, 1U);
  ASSERT_TRUE(outcome->first.has_value());
  EXPECT_NE(outcome->first->text.find("was persisted, and is a miss"), std::string::npos)
      << outcome->first->text;
}

TEST_F(KillRoundsTest, AFolderThatHoldsSomethingIsRefused) {
  std::ofstream(folder_ + "/file") << "mine";

  const auto outcome = RunKillRounds({folder_, 1, 1}, [](std::uint64_t) {});

  EXPECT_EQ(outcome.status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/file"));
}

}  // namespace
}  // namespace kvferry::stress
