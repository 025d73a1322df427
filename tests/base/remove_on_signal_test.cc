// Unfinished files and the signals that end a process.
#include "base/remove_on_signal.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "base/file.h"

namespace kvferry {
namespace {

namespace fs = std::filesystem;

class RemoveOnSignalDeathTest : public ::testing::TestWithParam<int> {
 public:
  RemoveOnSignalDeathTest() {
    std::string pattern = ::testing::TempDir() + "kvferry-signal-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~RemoveOnSignalDeathTest() override {
    std::error_code error;
    fs::remove_all(folder_, error);
  }

 protected:
  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  void Touch(const std::string& name) const { std::ofstream(Path(name)) << "text"; }

  fs::path folder_;
};

// The process ends by the signal itself, so that a shell or a parent sees what happened, and the
// file is gone.
TEST_P(RemoveOnSignalDeathTest, RemovesTheFileAndEndsByTheSignal) {
  Touch("unfinished");
  Touch("other");

  EXPECT_EXIT(
      {
        const RemoveOnSignal removal(Path("unfinished"));
        ::raise(GetParam());
        ::_exit(0);
      },
      ::testing::KilledBySignal(GetParam()), "");

  EXPECT_FALSE(fs::exists(Path("unfinished")));
  EXPECT_TRUE(fs::exists(Path("other")));
}

// After the end of its life the file is the user's.
TEST_P(RemoveOnSignalDeathTest, LeavesAFinishedFileAlone) {
  Touch("finished");

  EXPECT_EXIT(
      {
        { const RemoveOnSignal removal(Path("finished")); }
        ::raise(GetParam());
        ::_exit(0);
      },
      ::testing::KilledBySignal(GetParam()), "");

  EXPECT_TRUE(fs::exists(Path("finished")));
}

// What nohup and a shell's background jobs ignore must stay ignored.
TEST_P(RemoveOnSignalDeathTest, KeepsIgnoredSignalsIgnored) {
  Touch("unfinished");

  EXPECT_EXIT(
      {
        ::signal(GetParam(), SIG_IGN);
        const RemoveOnSignal removal(Path("unfinished"));
        ::raise(GetParam());
        ::_exit(7);
      },
      ::testing::ExitedWithCode(7), "");

  EXPECT_TRUE(fs::exists(Path("unfinished")));
}

TEST_P(RemoveOnSignalDeathTest, AnAtomicFileThatIsInterruptedLeavesNothing) {
  Touch("old");

  EXPECT_EXIT(
      {
        Result<AtomicFile> file = AtomicFile::Create(Path("old"));
        std::fputs("half of it", file->stream());
        std::fflush(file->stream());
        ::raise(GetParam());
        ::_exit(0);
      },
      ::testing::KilledBySignal(GetParam()), "");

  const auto entries = fs::directory_iterator(folder_);
  EXPECT_EQ(std::distance(fs::begin(entries), fs::end(entries)), 1);
  EXPECT_EQ(fs::file_size(Path("old")), 4U);
}

// A signal that comes while they are held back is not lost.
TEST_P(RemoveOnSignalDeathTest, HoldsSignalsBackUntilTheFileIsKnown) {
  Touch("unfinished");

  EXPECT_EXIT(
      {
        RemoveOnSignal* removal = nullptr;
        {
          const SignalsHeldBack held_back;
          ::raise(GetParam());
          static RemoveOnSignal kept(Path("unfinished"));
          removal = &kept;
        }
        ::_exit(removal == nullptr ? 1 : 0);
      },
      ::testing::KilledBySignal(GetParam()), "");

  EXPECT_FALSE(fs::exists(Path("unfinished")));
}

INSTANTIATE_TEST_SUITE_P(EachSignal,
                         RemoveOnSignalDeathTest,
                         ::testing::Values(SIGTERM, SIGINT, SIGHUP));

}  // namespace
}  // namespace kvferry
