// Pages that appear in the background, without a byte changing.
#include "tiers/host/page_toucher.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "base/file.h"
#include "tests/support/status_matchers.h"
#include "tiers/host/host_memory.h"

namespace kvferry::tiers {
namespace {

std::size_t ResidentPages(std::span<std::byte> bytes) {
  std::vector<unsigned char> is_there(bytes.size() /
                                      static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)));
  EXPECT_EQ(::mincore(bytes.data(), bytes.size(), is_there.data()), 0);
  return static_cast<std::size_t>(std::count(is_there.begin(), is_there.end(), 1));
}

class PageToucherTest : public ::testing::TestWithParam<bool> {};

TEST_P(PageToucherTest, BringsInEveryPageAndChangesNoByte) {
  const auto memory = HostMemory::Map({.bytes = 40 * kMiB, .huge_pages = HugePages::kNone});
  ASSERT_OK(memory);
  const std::span<std::byte> bytes = (*memory)->bytes();
  bytes[5 * kMiB] = std::byte{7};
  ASSERT_LT(ResidentPages(bytes), 40 * kMiB / 4096);

  const auto toucher = PageToucher::Start(bytes, {.may_populate = GetParam()});
  ASSERT_OK(toucher);
  bytes[39 * kMiB] = std::byte{8};  // While it runs.
  (*toucher)->Wait();

  EXPECT_EQ((*toucher)->populated_bytes(), 40 * kMiB);
  EXPECT_EQ(ResidentPages(bytes), 40 * kMiB / static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)));
  EXPECT_EQ(bytes[5 * kMiB], std::byte{7});
  EXPECT_EQ(bytes[39 * kMiB], std::byte{8});
  EXPECT_EQ(bytes[20 * kMiB], std::byte{0});
}

INSTANTIATE_TEST_SUITE_P(ByAdviceAndByTouch, PageToucherTest, ::testing::Bool());

// An engine that closes right after it opened must not wait for the whole area: this one is far
// larger than any memory, so walking to its end would not succeed at all.
TEST(PageToucherStopTest, EndsEarlyWhenStopped) {
  const auto memory = HostMemory::Map({.bytes = 256 * kGiB, .huge_pages = HugePages::kNone});
  ASSERT_OK(memory);
  const auto toucher = PageToucher::Start((*memory)->bytes());
  ASSERT_OK(toucher);
  (*toucher)->Stop();
  (*toucher)->Stop();

  EXPECT_LT((*toucher)->populated_bytes(), 256 * kGiB);
  EXPECT_EQ((*toucher)->populated_bytes() % PageToucher::kPieceBytes, 0U);
}

// Pages that the system cannot give, here behind the end of a file, end the walk and nothing else.
TEST(PageToucherStopTest, EndsWhereTheSystemHasNoPages) {
  const FileDescriptor file(::memfd_create("kvferry-test", MFD_CLOEXEC));
  ASSERT_TRUE(file.is_open());
  ASSERT_EQ(::ftruncate(file.fd(), 16 << 20), 0);
  void* address = ::mmap(nullptr, 32 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd(), 0);
  ASSERT_NE(address, MAP_FAILED);
  const std::span<std::byte> bytes(static_cast<std::byte*>(address), 32 * kMiB);
  constexpr int kPopulateWrite = 23;
  if (::madvise(address, 4096, kPopulateWrite) == 0) {
    const auto toucher = PageToucher::Start(bytes);
    ASSERT_OK(toucher);
    (*toucher)->Wait();
    EXPECT_EQ((*toucher)->populated_bytes(), 16 * kMiB);
  }
  ASSERT_EQ(::munmap(address, 32 << 20), 0);
}

TEST(PageToucherStopTest, HasNothingToDoForNoBytes) {
  const auto toucher = PageToucher::Start({});
  ASSERT_OK(toucher);
  (*toucher)->Wait();
  EXPECT_EQ((*toucher)->populated_bytes(), 0U);
}

}  // namespace
}  // namespace kvferry::tiers
