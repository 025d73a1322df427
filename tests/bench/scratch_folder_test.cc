// A scratch folder goes with its object, and with its process however that ends.
#include "bench/scratch_folder.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace kvferry::bench {
namespace {

namespace fs = std::filesystem;

void PutSomething(const std::string& path) {
  fs::create_directories(path + "/a/b");
  std::ofstream(path + "/a/b/file") << "text";
  std::ofstream(path + "/other") << "text";
}

TEST(ScratchFolderTest, IsTheOwnersAloneAndGoesWithItsObject) {
  std::string path;
  {
    const auto folder = ScratchFolder::Make(::testing::TempDir());
    ASSERT_OK(folder);
    path = (*folder)->path();
    EXPECT_EQ(path.rfind(::testing::TempDir(), 0), 0U) << path;
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all);
    PutSomething(path);
    const auto other = ScratchFolder::Make(::testing::TempDir());
    ASSERT_OK(other);
    EXPECT_NE((*other)->path(), path);
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(ScratchFolderTest, RefusesAParentThatIsNone) {
  const auto made = ScratchFolder::Make("/no/such/folder");
  EXPECT_STATUS(made, StatusCode::kInvalidArgument);
  EXPECT_NE(made.status().message().find("/no/such/folder"), std::string_view::npos);
}

// Whoever has had enough of a long run must not have to look for gigabytes afterwards.
TEST(ScratchFolderTest, GoesWhenItsProcessIsEnded) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGKILL}) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe(ends.data()), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(ends[0]);
      const auto folder = ScratchFolder::Make(::testing::TempDir());
      if (!folder.ok()) {
        ::_exit(1);
      }
      const std::string& path = (*folder)->path();
      PutSomething(path);
      if (::write(ends[1], path.data(), path.size()) < 0) {
        ::_exit(1);
      }
      ::raise(signal);
      ::pause();
    }
    ::close(ends[1]);
    int state = 0;
    ASSERT_EQ(::waitpid(child, &state, 0), child);
    ASSERT_TRUE(WIFSIGNALED(state));
    EXPECT_EQ(WTERMSIG(state), signal);
    std::string path(4096, '\0');
    const ssize_t size = ::read(ends[0], path.data(), path.size());
    ASSERT_GT(size, 0);
    path.resize(static_cast<std::size_t>(size));
    // The other end is closed when the one that removes has ended as well.
    char byte = 0;
    EXPECT_EQ(::read(ends[0], &byte, 1), 0);
    ::close(ends[0]);
    EXPECT_FALSE(fs::exists(path)) << path;
  }
}

}  // namespace
}  // namespace kvferry::bench
