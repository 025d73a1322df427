// Places of blocks, layouts that are read back, and files where there is no room for them.
#include "bench/bench_file.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "tests/support/status_matchers.h"
#include "tiers/host/host_memory.h"
#include "tiers/nvme/superblock.h"

namespace kvferry::bench {
namespace {

TEST(PlacesTest, LieBetweenHeaderAndFooterOfEachSegment) {
  const tiers::StoreLayout layout{kMiB, 2};
  const std::vector<std::uint64_t> places = PlacesOf(layout, 256 * kKiB);
  // Three of 64 pages each beside a header; the fourth would leave the footer no page.
  const std::uint64_t first = kMiB + 4 * kKiB;
  const std::vector<std::uint64_t> expected{
      first,        first + 256 * kKiB,        first + 512 * kKiB,
      first + kMiB, first + kMiB + 256 * kKiB, first + kMiB + 512 * kKiB};
  EXPECT_EQ(places, expected);
}

TEST(PlacesTest, AreAsManyAsTheFormatAllows) {
  const tiers::StoreLayout layout{2 * kMiB, 1};
  const std::vector<std::uint64_t> places = PlacesOf(layout, 1);
  EXPECT_EQ(places.size(), tiers::PayloadsMax(layout.pages_per_segment()));
  EXPECT_LT(places.back(), layout.end_bytes());
}

TEST(FreeBytesTest, TellsRoomAndRefusesWhatIsNotThere) {
  const auto free_bytes = FreeBytes(::testing::TempDir());
  ASSERT_OK(free_bytes);
  EXPECT_GT(*free_bytes, 0U);
  EXPECT_STATUS(FreeBytes("/no/such/folder"), StatusCode::kInvalidArgument);
}

class BenchFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto mapped = tiers::HostMemory::Map({.bytes = 2 << 20});
    ASSERT_OK(mapped);
    memory_ = std::move(*mapped);
    std::filesystem::remove(path_);
  }
  void TearDown() override { std::filesystem::remove(path_); }

  // A file of each test's own: the tests of a fixture run side by side.
  std::string path_ = ::testing::TempDir() + "kvferry_bench_file_" +
                      ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::unique_ptr<tiers::HostMemory> memory_;
};

TEST_F(BenchFileTest, IsWrittenWhole) {
  std::ranges::fill(memory_->bytes(), std::byte{0x5a});
  const auto made = MakeBenchFile(path_, 3 * kMiB, memory_->bytes());
  if (made.status().code() == StatusCode::kInvalidArgument) {
    GTEST_SKIP() << made.status().ToString();
  }
  ASSERT_OK(made);
  std::ifstream file(path_, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  EXPECT_EQ(text, std::string(3 * kMiB, 'Z'));
  // It must not write over what is there.
  EXPECT_STATUS(MakeBenchFile(path_, kMiB, memory_->bytes()), StatusCode::kIoError);
}

TEST_F(BenchFileTest, TellsTheLayoutOfADriveAndWhereThereIsNone) {
  const tiers::StoreLayout layout{4 * kMiB, 3};
  tiers::Superblock superblock;
  superblock.store.bytes[0] = std::byte{1};
  superblock.sequence = 1;
  superblock.layout = layout;
  std::string text(tiers::kSegmentsAtBytes, '\0');
  for (std::size_t copy = 0; copy < tiers::kSuperblockCopies; ++copy) {
    std::array<std::byte, tiers::kDiskPageBytes> page{};
    tiers::EncodeSuperblock(superblock, page);
    std::memcpy(text.data() + tiers::SuperblockOffset(copy), page.data(), page.size());
  }
  std::ofstream(path_, std::ios::binary) << text;
  const auto file = OpenDirect(path_, FileUse::kRead);
  if (file.status().code() == StatusCode::kInvalidArgument) {
    GTEST_SKIP() << file.status().ToString();
  }
  ASSERT_OK(file);
  const auto read = LayoutOf(*file, memory_->bytes());
  ASSERT_OK(read);
  EXPECT_EQ(*read, layout);

  std::ofstream(path_, std::ios::binary) << std::string(tiers::kSegmentsAtBytes, 'x');
  const auto foreign = OpenDirect(path_, FileUse::kRead);
  ASSERT_OK(foreign);
  EXPECT_FALSE(LayoutOf(*foreign, memory_->bytes()).ok());
  std::ofstream(path_, std::ios::binary) << "short";
  const auto small = OpenDirect(path_, FileUse::kRead);
  ASSERT_OK(small);
  EXPECT_STATUS(LayoutOf(*small, memory_->bytes()), StatusCode::kIoError);
}

TEST_F(BenchFileTest, NamesWhatItCannotOpen) {
  const auto missing = OpenDirect(path_, FileUse::kReadAndWrite);
  EXPECT_STATUS(missing, StatusCode::kIoError);
  EXPECT_NE(missing.status().message().find(path_), std::string_view::npos);
  EXPECT_STATUS(MakeBenchFile("/no/such/folder/file", kMiB, memory_->bytes()),
                StatusCode::kIoError);
}

}  // namespace
}  // namespace kvferry::bench
