// The HTML page from C++: which interpreter runs, and what each failure says. What the page holds
// is tested in tests/tools/report_page_test.py.
#include "replay/html_page.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace kvferry::replay {
namespace {

namespace fs = std::filesystem;

// Interpreters are shell scripts that stand in for Pythons of every kind.
class HtmlPageTest : public ::testing::Test {
 protected:
  HtmlPageTest() {
    std::string pattern = ::testing::TempDir() + "kvferry-html-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    script_.path = Write("page.py", "no shell reads this\n");
  }
  ~HtmlPageTest() override {
    std::error_code error;
    fs::remove_all(folder_, error);
  }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name)) << text;
    return Path(name);
  }
  std::string Interpreter(const std::string& name, const std::string& body) const {
    const std::string path = Write(name, "#!/bin/sh\n" + body + "\n");
    EXPECT_EQ(::chmod(path.c_str(), 0755), 0);
    return path;
  }
  static std::string Read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  static bool Says(const Status& status, const std::string& words) {
    return status.message().find(words) != std::string_view::npos;
  }

  fs::path folder_;
  PageScript script_;
};

constexpr char kNoMatplotlib[] =
    "cat >/dev/null; echo 'cannot import matplotlib: No module' >&2; exit 3";
// Says how it was called and what it was fed.
constexpr char kGood[] = "printf '%s|' \"$@\"; cat; echo '</html>'";

TEST_F(HtmlPageTest, WritesWhatTheScriptMakesOfTheJson) {
  script_.interpreters = {Interpreter("good", kGood)};

  ASSERT_OK(WriteHtmlPage("{\"a\": 1}", script_, Path("page.html")));

  EXPECT_EQ(Read(Path("page.html")), "-B|" + script_.path + "|{\"a\": 1}</html>\n");
}

TEST_F(HtmlPageTest, TakesTheFirstInterpreterThatHasMatplotlib) {
  script_.interpreters = {Path("absent"), Interpreter("bare", kNoMatplotlib),
                          Interpreter("broken", "kill -SEGV $$"), Interpreter("good", kGood),
                          Interpreter("never", "touch \"$0.ran\"")};

  EXPECT_OK(CheckHtmlPossible(script_));
  ASSERT_OK(WriteHtmlPage("{}", script_, Path("page.html")));

  EXPECT_TRUE(fs::exists(Path("page.html")));
  EXPECT_FALSE(fs::exists(Path("never.ran")));
}

// The remedy and every interpreter with its own reason, or the user hunts for the one that counted.
TEST_F(HtmlPageTest, NamesEachInterpreterThatWasTried) {
  script_.interpreters = {Path("absent"), Interpreter("bare", kNoMatplotlib)};

  for (const Status& status :
       {CheckHtmlPossible(script_), WriteHtmlPage("{}", script_, Path("page.html"))}) {
    EXPECT_STATUS(status, StatusCode::kInvalidArgument);
    EXPECT_TRUE(Says(status, "install python3-matplotlib, or leave --html out"));
    EXPECT_TRUE(Says(status, Path("absent") + "\": No such file or directory"));
    EXPECT_TRUE(Says(status, Path("bare") + ": cannot import matplotlib: No module"));
  }
  EXPECT_FALSE(fs::exists(Path("page.html")));
}

TEST_F(HtmlPageTest, SaysWhenTheScriptIsMissing) {
  script_.path = Path("absent.py");

  const Status status = CheckHtmlPossible(script_);

  EXPECT_STATUS(status, StatusCode::kInvalidArgument);
  EXPECT_TRUE(Says(status, Path("absent.py") + "\": No such file or directory"));
}

// A failure of the script is its own: no other interpreter is asked to repeat it.
TEST_F(HtmlPageTest, RepeatsTheScriptsOwnWordsWhenItFails) {
  script_.interpreters = {Interpreter("bad", "cat >/dev/null; echo 'field x is bad' >&2; exit 1"),
                          Interpreter("good", kGood)};
  Write("page.html", "old");

  const Status status = WriteHtmlPage("{}", script_, Path("page.html"));

  EXPECT_STATUS(status, StatusCode::kInternal);
  EXPECT_TRUE(Says(status, "failed: field x is bad;"));
  EXPECT_EQ(Read(Path("page.html")), "old");
}

// An interpreter that ends early with success has printed half a page.
TEST_F(HtmlPageTest, KeepsTheOldPageWhenTheNewOneIsCutShort) {
  script_.interpreters = {Interpreter("half", "echo '<!DOCTYPE html><p>'")};
  Write("page.html", "old");

  EXPECT_STATUS(WriteHtmlPage("{}", script_, Path("page.html")), StatusCode::kInternal);

  EXPECT_EQ(Read(Path("page.html")), "old");
}

TEST_F(HtmlPageTest, RefusesAPageAboveOneMegabyte) {
  script_.interpreters = {Interpreter("long", "cat >/dev/null; yes | head -c 1200000")};

  EXPECT_STATUS(WriteHtmlPage("{}", script_, Path("page.html")), StatusCode::kResourceExhausted);

  EXPECT_FALSE(fs::exists(Path("page.html")));
}

TEST_F(HtmlPageTest, NamesAPathThatCannotBeWritten) {
  script_.interpreters = {Interpreter("good", kGood)};

  const Status status = WriteHtmlPage("{}", script_, Path("absent/page.html"));

  EXPECT_STATUS(status, StatusCode::kIoError);
  EXPECT_TRUE(Says(status, Path("absent/page.html")));
}

// The real script refuses what is no report; and where matplotlib is missing, the check says so.
TEST_F(HtmlPageTest, TheRealScriptAnswers) {
  const PageScript script{.path = KVFERRY_REPORT_PAGE};
  if (const Status status = CheckHtmlPossible(script); !status.ok()) {
    EXPECT_TRUE(Says(status, "python3-matplotlib")) << status.ToString();
    GTEST_SKIP() << status.message();
  }

  const Status status = WriteHtmlPage("[]", script, Path("page.html"));

  EXPECT_STATUS(status, StatusCode::kInternal);
  EXPECT_TRUE(Says(status, "the input is not a JSON object"));
  EXPECT_OK(WriteHtmlPage("{\"trace\": \"x\"}", script, Path("page.html")));
  EXPECT_NE(Read(Path("page.html")).find("<!DOCTYPE html>"), std::string::npos);
}

}  // namespace
}  // namespace kvferry::replay
