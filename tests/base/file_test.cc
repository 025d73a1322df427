// Files that are written whole or not at all.
#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace kvferry {
namespace {

namespace fs = std::filesystem;

class FileTest : public ::testing::Test {
 protected:
  FileTest() {
    std::string pattern = ::testing::TempDir() + "kvferry-file-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~FileTest() override {
    std::error_code error;
    fs::remove_all(folder_, error);
  }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  static std::string Read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  std::size_t FilesInFolder() const {
    const auto entries = fs::directory_iterator(folder_);
    return static_cast<std::size_t>(std::distance(fs::begin(entries), fs::end(entries)));
  }

  fs::path folder_;
};

// A text with NUL bytes and more than one write's worth arrives as it is.
TEST_F(FileTest, WritesTheWholeText) {
  std::string text(3 << 20, 'x');
  text[1000] = '\0';

  ASSERT_OK(WriteFileAtomically(Path("a"), text));

  EXPECT_EQ(Read(Path("a")), text);
  EXPECT_EQ(FilesInFolder(), 1U);
}

// A reader that has the old file open keeps the old content: the file is replaced, not rewritten.
TEST_F(FileTest, ReplacesInsteadOfRewriting) {
  ASSERT_OK(WriteFileAtomically(Path("a"), "old"));
  std::ifstream reader(Path("a"));

  ASSERT_OK(WriteFileAtomically(Path("a"), "new"));

  std::string seen;
  reader >> seen;
  EXPECT_EQ(seen, "old");
  EXPECT_EQ(Read(Path("a")), "new");
}

TEST_F(FileTest, KeepsTheModeOfAnExistingFile) {
  ASSERT_OK(WriteFileAtomically(Path("a"), "old"));
  ASSERT_EQ(::chmod(Path("a").c_str(), 0640), 0);

  ASSERT_OK(WriteFileAtomically(Path("a"), "new"));

  struct stat status = {};
  ASSERT_EQ(::stat(Path("a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640U);
}

// A link stays a link, and what it names changes.
TEST_F(FileTest, FollowsLinks) {
  ASSERT_OK(WriteFileAtomically(Path("a"), "old"));
  fs::create_symlink("a", folder_ / "link");

  ASSERT_OK(WriteFileAtomically(Path("link"), "new"));

  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(Read(Path("a")), "new");
}

// A pipe has a reader; replacing its name by a file would leave that one waiting.
TEST_F(FileTest, WritesDirectlyIntoWhatIsNoRegularFile) {
  ASSERT_EQ(::mkfifo(Path("pipe").c_str(), 0600), 0);
  const FileDescriptor reader(::open(Path("pipe").c_str(), O_RDONLY | O_NONBLOCK));
  ASSERT_TRUE(reader.is_open());

  ASSERT_OK(WriteFileAtomically(Path("pipe"), "text"));

  std::string seen(16, ' ');
  ASSERT_EQ(::read(reader.fd(), seen.data(), seen.size()), 4);
  EXPECT_EQ(seen.substr(0, 4), "text");
  EXPECT_TRUE(fs::is_fifo(folder_ / "pipe"));
}

TEST_F(FileTest, NamesThePathAndTheReasonAndLeavesNothing) {
  const Status status = WriteFileAtomically(Path("absent/a"), "text");

  EXPECT_STATUS(status, StatusCode::kIoError);
  EXPECT_NE(status.message().find("absent/a\": No such file or directory"), std::string::npos);
  EXPECT_EQ(FilesInFolder(), 0U);
}

TEST_F(FileTest, RefusesAFolder) {
  EXPECT_STATUS(WriteFileAtomically(folder_.string(), "text"), StatusCode::kIoError);
}

// A full disk is reported, not swallowed.
TEST_F(FileTest, ReportsAFullDevice) {
  if (!fs::exists("/dev/full")) {
    GTEST_SKIP() << "no /dev/full here";
  }
  const Status status = WriteFileAtomically("/dev/full", "text");

  EXPECT_STATUS(status, StatusCode::kIoError);
  EXPECT_EQ(status.native_code(), ENOSPC);
}

TEST_F(FileTest, CheckLeavesNothingBehindAndChangesNothing) {
  ASSERT_OK(WriteFileAtomically(Path("a"), "old"));

  EXPECT_OK(CheckFileCanBeWritten(Path("a")));
  EXPECT_OK(CheckFileCanBeWritten(Path("b")));
  EXPECT_OK(CheckFileCanBeWritten("/dev/null"));

  EXPECT_EQ(Read(Path("a")), "old");
  EXPECT_EQ(FilesInFolder(), 1U);
}

TEST_F(FileTest, CheckRefusesWhatCannotBeWritten) {
  EXPECT_STATUS(CheckFileCanBeWritten(folder_.string()), StatusCode::kInvalidArgument);
  EXPECT_STATUS(CheckFileCanBeWritten(Path("absent/a")), StatusCode::kInvalidArgument);
}

// One close for each descriptor, whatever was moved where.
TEST(FileDescriptorTest, MovesItsDescriptorAndClosesItOnce) {
  FileDescriptor first(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int number = first.fd();
  ASSERT_GE(number, 0);

  FileDescriptor second(std::move(first));
  EXPECT_FALSE(first.is_open());  // NOLINT(bugprone-use-after-move): moved-from is empty.
  FileDescriptor third;
  third = std::move(second);

  EXPECT_EQ(third.fd(), number);
  EXPECT_EQ(third.Close(), 0);
  EXPECT_EQ(third.Close(), 0);
  EXPECT_EQ(::fcntl(number, F_GETFD), -1);
}

}  // namespace
}  // namespace kvferry
