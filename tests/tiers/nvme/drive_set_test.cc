// DriveSet makes stores in folders, finds them again, changes their size and mends them.
#include "tiers/nvme/drive_set.h"

#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/status_matchers.h"
#include "tests/tiers/nvme/drive_samples.h"

namespace kvferry::tiers {
namespace {

using testing::BlocksFileIn;
using testing::DriveSetTest;
using testing::Overwrite;
using testing::ReadBack;
using testing::Says;
using testing::SmallStore;
using testing::TestVolume;

using Opened = Result<std::unique_ptr<DriveSet>>;

bool Warns(const DriveSet& drives, std::string_view text) {
  return std::any_of(
      drives.warnings().begin(), drives.warnings().end(),
      [text](const std::string& line) { return line.find(text) != std::string::npos; });
}

unsigned ModeOf(const std::string& path) {
  struct stat found = {};
  EXPECT_EQ(::lstat(path.c_str(), &found), 0) << path;
  return found.st_mode & 07777U;
}

TEST_F(DriveSetTest, MakesAPrivateStoreWhateverTheUmask) {
  const mode_t mask = ::umask(0);
  const Opened made = DriveSet::Open(SmallStore({folder_ / "a", folder_ / "b/"}, 4));
  ::umask(mask);

  ASSERT_OK(made.status());
  const DriveSet& drives = **made;
  EXPECT_TRUE(drives.is_new());
  EXPECT_EQ(drives.drive_count(), 2U);
  EXPECT_EQ(drives.layout(), (StoreLayout{.segment_bytes = kMiB, .segment_count = 4}));
  EXPECT_NE(drives.store(), StoreUuid{});
  EXPECT_EQ(drives.previous_segment_count(), 0U);
  EXPECT_EQ(drives.segments_dropped(), 0U);
  for (const char* const name : {"a", "b"}) {
    EXPECT_EQ(ModeOf(folder_ / name), 0700U);
    EXPECT_EQ(ModeOf(BlocksFileIn(folder_ / name)), 0600U);
    struct stat file = {};
    ASSERT_EQ(::stat(BlocksFileIn(folder_ / name).c_str(), &file), 0);
    EXPECT_EQ(file.st_size, static_cast<off_t>(drives.layout().end_bytes()));
    EXPECT_GE(file.st_blocks * 512, file.st_size) << "is not preallocated";
    EXPECT_FALSE(std::filesystem::exists(folder_ / name + "/" + std::string(kHalfMadeFileName)));
  }
  EXPECT_EQ(drives.path(1), folder_ / "b");
}

TEST_F(DriveSetTest, HasDescriptorsForAlignedReadsAndWrites) {
  const Opened made = DriveSet::Open(SmallStore({folder_ / "a"}, 2));
  ASSERT_OK(made.status());
  const int fd = (*made)->fds()[0];
  struct alignas(kDiskPageBytes) Page {
    std::array<char, kDiskPageBytes> bytes{};
  } page;
  page.bytes.fill('x');
  const auto at = static_cast<off_t>((*made)->layout().PageOffset(1, 3));
  ASSERT_EQ(::pwrite(fd, page.bytes.data(), kDiskPageBytes, at), kDiskPageBytes);
  page.bytes.fill('y');
  ASSERT_EQ(::pread(fd, page.bytes.data(), kDiskPageBytes, at), kDiskPageBytes);
  EXPECT_EQ(page.bytes[4095], 'x');
  EXPECT_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(::fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
}

TEST_F(DriveSetTest, FindsItsStoreAgain) {
  const DriveSetOptions options = SmallStore({folder_ / "a", folder_ / "b"}, 4);
  const StoreUuid store = MakeStore(options);
  const std::string before = ReadBack(BlocksFileIn(folder_ / "a"), 0, kMiB);

  DriveSetOptions any;
  any.paths = options.paths;
  for (const DriveSetOptions& again : {options, any}) {
    const Opened opened = DriveSet::Open(again);
    ASSERT_OK(opened.status());
    EXPECT_FALSE((*opened)->is_new());
    EXPECT_EQ((*opened)->store(), store);
    EXPECT_EQ((*opened)->layout().segment_count, 4U);
    EXPECT_EQ((*opened)->previous_segment_count(), 4U);
    EXPECT_FALSE(Warns(**opened, "order"));
    EXPECT_FALSE(Warns(**opened, "damaged"));
  }
  EXPECT_EQ(ReadBack(BlocksFileIn(folder_ / "a"), 0, kMiB), before) << "was written to";
}

TEST_F(DriveSetTest, TakesTheIdentityItIsGiven) {
  DriveSetOptions options = SmallStore({folder_ / "a"}, 2);
  options.new_store.bytes[5] = std::byte{7};
  EXPECT_EQ(MakeStore(options), options.new_store);
  EXPECT_NE(MakeStore(SmallStore({folder_ / "b"}, 2)), MakeStore(SmallStore({folder_ / "c"}, 2)));
}

TEST_F(DriveSetTest, IsOpenOnceInAProcess) {
  const DriveSetOptions options = SmallStore({folder_ / "a"}, 2);
  const Opened first = DriveSet::Open(options);
  ASSERT_OK(first.status());
  const Status second = DriveSet::Open(options).status();
  EXPECT_STATUS(second, StatusCode::kUnavailable);
  EXPECT_TRUE(Says(second, "this process")) << second.ToString();
  const Status twice = DriveSet::Open(SmallStore({folder_ / "b", folder_ / "b"}, 2)).status();
  EXPECT_STATUS(twice, StatusCode::kUnavailable);
}

TEST_F(DriveSetTest, NamesTheProcessThatHasItOpen) {
  const DriveSetOptions options = SmallStore({folder_ / "a"}, 2);
  std::array<int, 2> pipe_ends = {};
  ASSERT_EQ(::pipe(pipe_ends.data()), 0);
  const FileDescriptor reads(pipe_ends[0]);
  FileDescriptor writes(pipe_ends[1]);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const Opened opened = DriveSet::Open(options);
    const char is_open = opened.ok() ? 'y' : 'n';
    (void)!::write(writes.fd(), &is_open, 1);
    ::pause();
    ::_exit(0);
  }
  char is_open = 'n';
  ASSERT_EQ(::read(reads.fd(), &is_open, 1), 1);
  EXPECT_EQ(is_open, 'y');

  const Status refused = DriveSet::Open(options).status();
  EXPECT_STATUS(refused, StatusCode::kUnavailable);
  EXPECT_TRUE(Says(refused, "process " + std::to_string(child) + " has the store open") ||
              Says(refused, "another process has the store open"))
      << refused.ToString();
  EXPECT_OK(DriveSet::OpenForReading(options.paths).status());

  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_OK(DriveSet::Open(options).status());
}

TEST_F(DriveSetTest, GrowsAndShrinksByWholeSegments) {
  const std::vector<std::string> paths = {folder_ / "a", folder_ / "b"};
  const StoreUuid store = MakeStore(SmallStore(paths, 4));
  const std::string file = BlocksFileIn(folder_ / "b");
  Overwrite(file, 4 * kMiB, "the header of segment 3");

  Opened opened = DriveSet::Open(SmallStore(paths, 6));
  ASSERT_OK(opened.status());
  EXPECT_EQ((*opened)->layout().segment_count, 6U);
  EXPECT_EQ((*opened)->previous_segment_count(), 4U);
  EXPECT_EQ((*opened)->segments_dropped(), 0U);
  EXPECT_EQ((*opened)->store(), store);
  EXPECT_EQ(std::filesystem::file_size(file), 7 * kMiB);
  EXPECT_EQ(ReadBack(file, 4 * kMiB, 10), "the header");

  (*opened).reset();
  opened = DriveSet::Open(SmallStore(paths, 3));
  ASSERT_OK(opened.status());
  EXPECT_EQ((*opened)->layout().segment_count, 3U);
  EXPECT_EQ((*opened)->segments_dropped(), 3U);
  EXPECT_EQ(std::filesystem::file_size(file), 4 * kMiB);

  (*opened).reset();
  opened = DriveSet::Open(SmallStore(paths, 4));
  ASSERT_OK(opened.status());
  EXPECT_EQ((*opened)->previous_segment_count(), 3U);
  EXPECT_EQ(ReadBack(file, 4 * kMiB, 10), std::string(10, '\0')) << "came back with its blocks";
}

// A crash between two drives' superblocks leaves one longer than the other.
TEST_F(DriveSetTest, EndsAChangeOfSizeThatACrashInterrupted) {
  const std::vector<std::string> paths = {folder_ / "a", folder_ / "b"};
  MakeStore(SmallStore(paths, 4));
  const std::string short_one = ReadBack(BlocksFileIn(folder_ / "b"), 0, kMiB);
  MakeStore(SmallStore(paths, 6));
  Overwrite(BlocksFileIn(folder_ / "b"), 0, short_one);

  const Opened reading = DriveSet::OpenForReading(paths);
  ASSERT_OK(reading.status());
  EXPECT_EQ((*reading)->layout().segment_count, 4U);
  DriveSetOptions any;
  any.paths = paths;
  Opened opened = DriveSet::Open(any);
  ASSERT_OK(opened.status());
  EXPECT_EQ((*opened)->layout().segment_count, 4U);
  EXPECT_EQ((*opened)->segments_dropped(), 2U);
  (*opened).reset();
  opened = DriveSet::Open(SmallStore(paths, 6));
  ASSERT_OK(opened.status());
  EXPECT_EQ((*opened)->previous_segment_count(), 4U) << "is not the same on both";
}

TEST_F(DriveSetTest, KeepsItsSegmentSize) {
  DriveSetOptions options = SmallStore({folder_ / "a"}, 8);
  MakeStore(options);
  options.segment_bytes = 2 * kMiB;
  const Status refused = DriveSet::Open(options).status();
  EXPECT_STATUS(refused, StatusCode::kInvalidArgument);
  EXPECT_TRUE(Says(refused, "segments of 1.00 MiB")) << refused.ToString();
  options.segment_bytes = 0;
  options.block_bytes_max = kMiB;
  EXPECT_STATUS(DriveSet::Open(options).status(), StatusCode::kInvalidArgument);  // Four must fit.
}

TEST_F(DriveSetTest, PutsDrivesThatAreMixedUpInOrder) {
  MakeStore(SmallStore({folder_ / "a", folder_ / "b", folder_ / "c"}, 2));
  const Opened opened =
      DriveSet::Open(SmallStore({folder_ / "b", folder_ / "c", folder_ / "a"}, 2));
  ASSERT_OK(opened.status());
  EXPECT_EQ((*opened)->path(0), folder_ / "a");
  EXPECT_EQ((*opened)->path(2), folder_ / "c");
  EXPECT_TRUE(Warns(**opened, "another order"));
  struct stat by_name = {};
  struct stat by_descriptor = {};
  ASSERT_EQ(::stat(BlocksFileIn(folder_ / "b").c_str(), &by_name), 0);
  ASSERT_EQ(::fstat((*opened)->fds()[1], &by_descriptor), 0);
  EXPECT_EQ(by_name.st_ino, by_descriptor.st_ino);
}

TEST_F(DriveSetTest, RepairsEachDamagedCopyOfItsSuperblock) {
  const DriveSetOptions options = SmallStore({folder_ / "a"}, 2);
  MakeStore(options);
  const std::string file = BlocksFileIn(folder_ / "a");
  const std::string good = ReadBack(file, 0, 4096);
  for (std::size_t copy = 0; copy < kSuperblockCopies; ++copy) {
    Overwrite(file, SuperblockOffset(copy) + 50, "rot");
    Overwrite(file, SuperblockOffset((copy + 1) % 4), std::string(4096, '\0'));
    const Opened reading = DriveSet::OpenForReading(options.paths);
    ASSERT_OK(reading.status());
    EXPECT_TRUE(Warns(**reading, "damaged copies"));
    ASSERT_NE(ReadBack(file, SuperblockOffset(copy), 4096), good) << "reading changed it";

    const Opened opened = DriveSet::Open(options);
    ASSERT_OK(opened.status());
    EXPECT_TRUE(Warns(**opened, "damaged copies"));
    for (std::size_t i = 0; i < kSuperblockCopies; ++i) {
      EXPECT_EQ(ReadBack(file, SuperblockOffset(i), 4096), good) << "copy " << i;
    }
  }
}

// What a crash leaves before the first rename, between two, and in a file that was made by hand.
TEST_F(DriveSetTest, IsMadeAnewOrToItsEndAfterACrashInItsMaking) {
  const std::vector<std::string> paths = {folder_ / "a", folder_ / "b"};
  const auto unname = [](const std::string& path) {
    std::filesystem::rename(BlocksFileIn(path), path + "/" + std::string(kHalfMadeFileName));
  };
  const StoreUuid first = MakeStore(SmallStore(paths, 2));
  unname(paths[1]);
  Opened opened = DriveSet::Open(SmallStore(paths, 2));
  ASSERT_OK(opened.status());
  EXPECT_FALSE((*opened)->is_new());
  EXPECT_EQ((*opened)->store(), first);
  EXPECT_TRUE(std::filesystem::exists(BlocksFileIn(paths[1])));
  (*opened).reset();

  unname(paths[0]);
  unname(paths[1]);
  opened = DriveSet::Open(SmallStore(paths, 2));
  ASSERT_OK(opened.status());
  EXPECT_TRUE((*opened)->is_new());
  EXPECT_NE((*opened)->store(), first);
  EXPECT_FALSE(std::filesystem::exists(paths[0] + "/" + std::string(kHalfMadeFileName)));
  (*opened).reset();

  // One whose superblock did not get there belongs to no store.
  unname(paths[1]);
  Overwrite(paths[1] + "/" + std::string(kHalfMadeFileName), 0, std::string(kMiB, '\0'));
  EXPECT_STATUS(DriveSet::Open(SmallStore(paths, 2)).status(), StatusCode::kInvalidArgument);
}

TEST_F(DriveSetTest, ReadsWithoutMakingOrLockingAnything) {
  EXPECT_STATUS(DriveSet::OpenForReading({folder_ / "a"}).status(), StatusCode::kIoError);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "a"));
  std::filesystem::create_directory(folder_ / "a");
  ASSERT_EQ(::chmod((folder_ / "a").c_str(), 0755), 0);
  EXPECT_STATUS(DriveSet::OpenForReading({folder_ / "a"}).status(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "a"));
  EXPECT_EQ(ModeOf(folder_ / "a"), 0755U);

  const StoreUuid store = MakeStore(SmallStore({folder_ / "b"}, 2));
  const Opened reading = DriveSet::OpenForReading({folder_ / "b"});
  ASSERT_OK(reading.status());
  EXPECT_EQ((*reading)->store(), store);
  EXPECT_FALSE((*reading)->is_new());
  char byte = 'x';
  EXPECT_EQ(::pwrite((*reading)->fds()[0], &byte, 1, 0), -1);
  EXPECT_OK(DriveSet::Open(SmallStore({folder_ / "b"}, 2)).status());
}

TEST_F(DriveSetTest, LeavesNothingOnAVolumeWithoutRoom) {
  const TestVolume volume(folder_ / "volume", "tmpfs", "size=8m,mode=700");
  if (!volume.is_mounted()) {
    GTEST_SKIP() << "this user may not mount a volume";
  }
  const std::vector<std::string> paths = {folder_ / "a", folder_ / "volume/b"};
  const Status refused = DriveSet::Open(SmallStore(paths, 16)).status();
  EXPECT_STATUS(refused, StatusCode::kIoError);
  EXPECT_EQ(refused.native_code(), ENOSPC);
  EXPECT_TRUE(Says(refused, "volume/b/blocks.kvferry") && Says(refused, "needs 17.0 MiB") &&
              Says(refused, "has 8.00 MiB free") && Says(refused, "free some"))
      << refused.ToString();
  EXPECT_TRUE(std::filesystem::is_empty(paths[0]));
  EXPECT_TRUE(std::filesystem::is_empty(paths[1]));

  Opened opened = DriveSet::Open(SmallStore(paths, 4));
  ASSERT_OK(opened.status());
  EXPECT_TRUE(Warns(**opened, "in memory"));
  (*opened).reset();
  EXPECT_EQ(DriveSet::Open(SmallStore(paths, 16)).status().native_code(), ENOSPC);
  opened = DriveSet::Open(SmallStore(paths, 4));
  ASSERT_OK(opened.status());
  EXPECT_EQ((*opened)->previous_segment_count(), 4U) << "a failed growth is not undone";
  EXPECT_EQ(std::filesystem::file_size(BlocksFileIn(paths[0])), 5 * kMiB);
}

// To ask for more than there is would take all there is, for a moment, from others who write there.
TEST_F(DriveSetTest, AsksForNothingThatTheVolumeDoesNotHave) {
  const std::filesystem::space_info room = std::filesystem::space(folder_ / ".");
  const std::vector<std::string> paths = {folder_ / "a", folder_ / "b"};
  DriveSetOptions options = SmallStore(paths, 4);
  options.capacity_bytes = AlignUp(room.available, kMiB) + kGiB;  // Each alone would fit.

  const Status refused = DriveSet::Open(options).status();

  EXPECT_STATUS(refused, StatusCode::kIoError);
  EXPECT_EQ(refused.native_code(), ENOSPC);
  EXPECT_TRUE(Says(refused, "a/blocks.kvferry: needs ") &&
              Says(refused, " more on its volume for 2 drives of the store, which has ") &&
              Says(refused, " free (No space left on device); free some, or lower") &&
              !Says(refused, "has 0 B"))
      << refused.ToString();
  EXPECT_TRUE(std::filesystem::is_empty(paths[0]));
  EXPECT_TRUE(std::filesystem::is_empty(paths[1]));

  ASSERT_OK(DriveSet::Open(SmallStore(paths, 4)).status());
  EXPECT_EQ(DriveSet::Open(options).status().native_code(), ENOSPC);
  EXPECT_EQ(std::filesystem::file_size(BlocksFileIn(paths[0])), 5 * kMiB);
}

TEST_F(DriveSetTest, DoesWithoutDirectIoAndPreallocationWhereThereAreNone) {
  const TestVolume volume(folder_ / "volume", "ramfs", "mode=700");
  if (!volume.is_mounted()) {
    GTEST_SKIP() << "this user may not mount a volume";
  }
  const DriveSetOptions options = SmallStore({folder_ / "volume/a"}, 4);
  Opened opened = DriveSet::Open(options);
  ASSERT_OK(opened.status());
  EXPECT_TRUE(Warns(**opened, "direct I/O"));
  EXPECT_TRUE(Warns(**opened, "preallocation"));
  EXPECT_EQ(::fcntl((*opened)->fds()[0], F_GETFL) & O_DIRECT, 0);
  (*opened).reset();
  opened = DriveSet::Open(options);
  ASSERT_OK(opened.status());
  EXPECT_FALSE((*opened)->is_new());
  EXPECT_EQ(std::count_if((*opened)->warnings().begin(), (*opened)->warnings().end(),
                          [](const std::string& line) {
                            return line.find("direct I/O") != std::string::npos;
                          }),
            1);
}

}  // namespace
}  // namespace kvferry::tiers
