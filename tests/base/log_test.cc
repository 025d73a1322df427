// What reaches standard error, at which level, and that a message cannot forge a line.
#include "base/log.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace kvferry {
namespace {

// Whether `line` is a line of the log: a time, then `rest`.
bool IsLine(std::string_view line, std::string_view rest) {
  constexpr std::string_view kTime = "0000-00-00T00:00:00.000Z ";  // A 0 stands for any digit.
  if (line.size() != kTime.size() + rest.size() + 1 || !line.ends_with('\n')) {
    return false;
  }
  for (std::size_t i = 0; i < kTime.size(); ++i) {
    const bool is_digit = line[i] >= '0' && line[i] <= '9';
    if (kTime[i] == '0' ? !is_digit : line[i] != kTime[i]) {
      return false;
    }
  }
  return line.substr(kTime.size(), rest.size()) == rest;
}

template <class Write>
std::string Logged(Write write) {
  ::testing::internal::CaptureStderr();
  write();
  return ::testing::internal::GetCapturedStderr();
}

class LogTest : public ::testing::Test {
 protected:
  void TearDown() override { SetLogLevel(LogLevel::kWarning); }
};

TEST_F(LogTest, WritesOneLineWithTimeAndLevel) {
  const std::string line = Logged([] { LogError("the drive {} is gone"); });

  EXPECT_TRUE(IsLine(line, "error: the drive {} is gone")) << line;
}

TEST_F(LogTest, ShowsWhatTheLevelLetsThrough) {
  const auto write_all = [] {
    LogDebug("d1");
    LogInfo("i2");
    LogWarning("w3");
    LogError("e4");
  };
  const auto count = [](const std::string& text) {
    return std::count(text.begin(), text.end(), '\n');
  };

  EXPECT_EQ(count(Logged(write_all)), 2);
  SetLogLevel(LogLevel::kDebug);
  EXPECT_EQ(count(Logged(write_all)), 4);
  SetLogLevel(LogLevel::kInfo);
  EXPECT_EQ(Logged(write_all).find("d1"), std::string::npos);
  SetLogLevel(LogLevel::kError);
  EXPECT_EQ(count(Logged(write_all)), 1);
  SetLogLevel(LogLevel::kNone);
  EXPECT_EQ(Logged(write_all), "");
}

// Names and paths from outside end up in messages.
TEST_F(LogTest, EscapesWhatCouldForgeALineOrSteerATerminal) {
  const std::string line = Logged([] { LogError("a\nfake error: b\x1b[2J\x7f \xc3\xa4"); });

  EXPECT_NE(line.find("a\\x0afake error: b\\x1b[2J\\x7f \xc3\xa4\n"), std::string::npos) << line;
}

TEST_F(LogTest, KeepsLinesWholeBetweenThreads) {
  constexpr int kLines = 200;
  const std::string text = Logged([] {
    std::vector<std::thread> threads;
    for (const char letter : {'a', 'b', 'c'}) {
      threads.emplace_back([letter] {
        for (int i = 0; i < kLines; ++i) {
          LogError(std::string(60, letter));
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  });

  std::size_t lines = 0;
  for (std::size_t begin = 0; begin < text.size(); ++lines) {
    const std::size_t end = text.find('\n', begin) + 1;
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    const char letter = line.size() > 2 ? line[line.size() - 2] : ' ';
    ASSERT_TRUE(letter >= 'a' && letter <= 'c') << line;
    ASSERT_TRUE(IsLine(line, "error: " + std::string(60, letter))) << line;
    begin = end;
  }
  EXPECT_EQ(lines, 3U * kLines);
}

}  // namespace
}  // namespace kvferry
