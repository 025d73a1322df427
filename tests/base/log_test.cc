// What reaches standard error, at which level, and that a message cannot forge a line.
#include "base/log.h"

#include <algorithm>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace kvferry {
namespace {

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

  const std::regex expected(
      R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z error: the drive \{\} is gone\n)");
  EXPECT_TRUE(std::regex_match(line, expected)) << line;
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

  const std::regex expected("([^\n]*Z error: (a{60}|b{60}|c{60})\n)*");
  std::size_t lines = 0;
  for (std::size_t begin = 0; begin < text.size(); ++lines) {
    const std::size_t end = text.find('\n', begin) + 1;
    ASSERT_TRUE(std::regex_match(text.substr(begin, end - begin), expected))
        << text.substr(begin, end - begin);
    begin = end;
  }
  EXPECT_EQ(lines, 3U * kLines);
}

}  // namespace
}  // namespace kvferry
