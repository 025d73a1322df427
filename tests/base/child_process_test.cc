// Other programs: what they get, what comes back, and that none stays.
#include "base/child_process.h"

#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace kvferry {
namespace {

ChildCommand Shell(const std::string& text) {
  ChildCommand command;
  command.arguments = {"/bin/sh", "-c", text};
  return command;
}

// Fails the test if this process has a child left, running or not yet waited for.
void ExpectNoChildLeft() {
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

// More than any channel holds in both directions at once: feeding and collecting must take turns.
TEST(RunChildTest, PassesMegabytesThroughWithoutADeadlock) {
  std::string text(5 << 20, 'x');
  text[4096] = '\0';
  ChildCommand command;
  command.arguments = {"cat"};
  command.input = text;

  const Result<ChildOutcome> outcome = RunChild(command);

  ASSERT_OK(outcome);
  EXPECT_EQ(outcome->output, text);
  EXPECT_EQ(outcome->exit_code, 0);
  ExpectNoChildLeft();
}

TEST(RunChildTest, TellsExitCodeAndBothOutputsApart) {
  const Result<ChildOutcome> outcome = RunChild(Shell("echo out; echo err >&2; exit 7"));

  ASSERT_OK(outcome);
  EXPECT_EQ(outcome->exit_code, 7);
  EXPECT_EQ(outcome->signal, 0);
  EXPECT_EQ(outcome->output, "out\n");
  EXPECT_EQ(outcome->error_output, "err\n");
}

TEST(RunChildTest, ReportsTheSignalThatEndedIt) {
  const Result<ChildOutcome> outcome = RunChild(Shell("kill -TERM $$"));

  ASSERT_OK(outcome);
  EXPECT_EQ(outcome->signal, SIGTERM);
}

// A program that never reads must neither hang the caller nor end it by SIGPIPE.
TEST(RunChildTest, IsNotEndedByAProgramThatDoesNotRead) {
  const std::string text(5 << 20, 'x');
  ChildCommand command = Shell("exec <&-; echo done");
  command.input = text;

  const Result<ChildOutcome> outcome = RunChild(command);

  ASSERT_OK(outcome);
  EXPECT_EQ(outcome->output, "done\n");
}

// The caller may ignore SIGPIPE; the program must not inherit that, or its pipelines never end.
TEST(RunChildTest, GivesTheUsualSigpipeToTheProgram) {
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  const Result<ChildOutcome> outcome = RunChild(Shell("kill -PIPE $$; echo survived"));
  std::signal(SIGPIPE, before);

  ASSERT_OK(outcome);
  EXPECT_EQ(outcome->signal, SIGPIPE);
  EXPECT_EQ(outcome->output, "");
}

TEST(RunChildTest, PassesArgumentsWithoutAShell) {
  ChildCommand command;
  command.arguments = {"printf", "%s|", "a b", "$(id)", "", "'\""};

  const Result<ChildOutcome> outcome = RunChild(command);

  ASSERT_OK(outcome);
  EXPECT_EQ(outcome->output, "a b|$(id)||'\"|");
}

TEST(RunChildTest, NamesAProgramThatDoesNotExist) {
  ChildCommand command;
  command.arguments = {"/nonexistent/program"};

  const Result<ChildOutcome> outcome = RunChild(command);

  EXPECT_STATUS(outcome, StatusCode::kInvalidArgument);
  EXPECT_EQ(outcome.error().native_code(), ENOENT);
  EXPECT_NE(outcome.error().message().find("/nonexistent/program"), std::string::npos);
  ExpectNoChildLeft();
}

TEST(RunChildTest, EndsAProgramThatSaysTooMuch) {
  ChildCommand command = Shell("while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done");
  command.output_bytes_max = 100'000;

  EXPECT_STATUS(RunChild(command), StatusCode::kResourceExhausted);
  ExpectNoChildLeft();
}

// Exactly the limit is allowed, one byte more is not.
TEST(RunChildTest, AllowsExactlyTheLimit) {
  ChildCommand command = Shell("printf 12345");
  command.output_bytes_max = 5;
  EXPECT_OK(RunChild(command));
  command.output_bytes_max = 4;
  EXPECT_STATUS(RunChild(command), StatusCode::kResourceExhausted);
}

// A long complaint is cut, and the program is still heard to its end.
TEST(RunChildTest, CutsALongComplaint) {
  const Result<ChildOutcome> outcome =
      RunChild(Shell("i=0; while [ $i -lt 3000 ]; do echo "
                     "0123456789012345678901234567890123456789012345678901234567890123 >&2; "
                     "i=$((i+1)); done; echo done"));

  ASSERT_OK(outcome);
  EXPECT_EQ(outcome->error_output.size(), std::size_t{64} << 10);
  EXPECT_EQ(outcome->output, "done\n");
}

TEST(RunChildTest, EndsAProgramThatHangs) {
  ChildCommand command = Shell("exec sleep 1000");
  command.timeout_ms = 50;

  EXPECT_STATUS(RunChild(command), StatusCode::kDeadlineExceeded);
  ExpectNoChildLeft();
}

// Closed outputs are not the end of a program.
TEST(RunChildTest, EndsAProgramThatHangsWithItsOutputsClosed) {
  ChildCommand command = Shell("exec sleep 1000 >&- 2>&-");
  command.timeout_ms = 50;

  EXPECT_STATUS(RunChild(command), StatusCode::kDeadlineExceeded);
  ExpectNoChildLeft();
}

}  // namespace
}  // namespace kvferry
