// Files that are written whole or not at all.
#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
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
 public:
  FileTest() {
    std::string pattern = ::testing::TempDir() + "kvferry-file-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~FileTest() override {
    std::error_code error;
    fs::remove_all(folder_, error);
  }

 protected:
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

// Nothing is seen of it before Commit, and all of it afterwards.
TEST_F(FileTest, AnAtomicFileAppearsAtOnce) {
  ASSERT_OK(WriteFileAtomically(Path("a"), "old"));
  ASSERT_EQ(::chmod(Path("a").c_str(), 0640), 0);
  fs::create_symlink("a", folder_ / "link");
  Result<AtomicFile> file = AtomicFile::Create(Path("link"));
  ASSERT_OK(file);

  ASSERT_GE(std::fputs("new", file->stream()), 0);
  ASSERT_EQ(std::fflush(file->stream()), 0);
  EXPECT_EQ(Read(Path("a")), "old");
  ASSERT_OK(file->Commit());

  EXPECT_EQ(Read(Path("a")), "new");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  struct stat status = {};
  ASSERT_EQ(::stat(Path("a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640U);
  EXPECT_EQ(FilesInFolder(), 2U);
}

// The work failed: the old content stays and no neighbour is left.
TEST_F(FileTest, AnAtomicFileWithoutCommitLeavesNothing) {
  ASSERT_OK(WriteFileAtomically(Path("a"), "old"));
  {
    Result<AtomicFile> file = AtomicFile::Create(Path("a"));
    ASSERT_OK(file);
    ASSERT_GE(std::fputs("new", file->stream()), 0);
  }

  EXPECT_EQ(Read(Path("a")), "old");
  EXPECT_EQ(FilesInFolder(), 1U);
}

// A file that happens to have the neighbour's name is somebody's, and a link there leads elsewhere.
TEST_F(FileTest, AnAtomicFileSparesItsNeighbours) {
  for (int i = 0; i < 50; ++i) {
    const std::string name = "a.part-" + std::to_string(::getpid()) + "-" + std::to_string(i);
    fs::create_symlink("victim", folder_ / name);
  }
  Result<AtomicFile> file = AtomicFile::Create(Path("a"));
  ASSERT_OK(file);
  ASSERT_GE(std::fputs("new", file->stream()), 0);
  ASSERT_OK(file->Commit());

  EXPECT_EQ(Read(Path("a")), "new");
  EXPECT_FALSE(fs::exists(Path("victim")));
  EXPECT_EQ(FilesInFolder(), 51U);
}

TEST_F(FileTest, AnAtomicFileReportsAFullDeviceByTheNameGiven) {
  if (!fs::exists("/dev/full")) {
    GTEST_SKIP() << "no /dev/full here";
  }
  Result<AtomicFile> file = AtomicFile::Create("/dev/full");
  ASSERT_OK(file);
  ASSERT_GE(std::fputs("new", file->stream()), 0);

  const Status status = file->Commit();
  EXPECT_STATUS(status, StatusCode::kIoError);
  EXPECT_EQ(status.native_code(), ENOSPC);
  EXPECT_NE(status.message().find("\"/dev/full\""), std::string::npos);
}

TEST_F(FileTest, AnAtomicFileCannotBeCreatedInAFolderThatIsNotThere) {
  const Result<AtomicFile> file = AtomicFile::Create(Path("absent/a"));

  EXPECT_STATUS(file, StatusCode::kIoError);
  EXPECT_NE(file.error().message().find("absent/a\""), std::string::npos);
  EXPECT_STATUS(AtomicFile::Create(folder_.string()), StatusCode::kIoError);
}

// One close for each descriptor, whatever was moved where.
TEST(FileDescriptorTest, MovesItsDescriptorAndClosesItOnce) {
  FileDescriptor first(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int number = first.fd();
  ASSERT_GE(number, 0);

  FileDescriptor second(std::move(first));
  // NOLINTNEXTLINE(bugprone-use-after-move,clang-analyzer-cplusplus.Move): moved-from is empty.
  EXPECT_FALSE(first.is_open());
  FileDescriptor third;
  third = std::move(second);

  EXPECT_EQ(third.fd(), number);
  EXPECT_EQ(third.Close(), 0);
  EXPECT_EQ(third.Close(), 0);
  EXPECT_EQ(::fcntl(number, F_GETFD), -1);
}

}  // namespace
}  // namespace kvferry
