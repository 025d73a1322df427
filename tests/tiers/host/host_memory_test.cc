// What the system is told of the area: read back from /proc, from a forked child, from made-up
// folders.
#include "tiers/host/host_memory.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "tests/support/status_matchers.h"

namespace kvferry::tiers {
namespace {

// The flags of the mapping that begins at `address`, or nothing.
std::string FlagsOf(const std::byte* address) {
  std::ostringstream begin;
  begin << std::hex << reinterpret_cast<std::uintptr_t>(address) << '-';
  std::ifstream maps("/proc/self/smaps");
  bool is_ours = false;
  for (std::string line; std::getline(maps, line);) {
    is_ours = is_ours || line.starts_with(begin.str());
    if (is_ours && line.starts_with("VmFlags:")) {
      return line + " ";
    }
  }
  return "";
}

// Whether the system finds this value there on the process's behalf; asking does not fault. The
// value tells the area from whatever else may have been mapped at its address.
bool CanRead(const std::byte* byte, std::byte value) {
  int ends[2] = {-1, -1};
  if (::pipe(ends) != 0) {
    return false;
  }
  std::byte found{0};
  const bool is_readable =
      ::write(ends[1], byte, 1) == 1 && ::read(ends[0], &found, 1) == 1 && found == value;
  ::close(ends[0]);
  ::close(ends[1]);
  return is_readable;
}

TEST(HostMemoryTest, IsAlignedZeroedAndWritable) {
  for (const HugePages huge_pages :
       {HugePages::kNone, HugePages::kTransparent, HugePages::kReserved}) {
    const auto memory = HostMemory::Map({.bytes = 5 * kMiB + 100, .huge_pages = huge_pages});
    ASSERT_OK(memory);
    const std::span<std::byte> bytes = (*memory)->bytes();
    EXPECT_EQ(bytes.size(), 5 * kMiB + 100);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(bytes.data()) % HostMemory::kAlignmentBytes, 0U);
    EXPECT_EQ(bytes.front(), std::byte{0});
    bytes.front() = std::byte{1};
    bytes.back() = std::byte{2};
    EXPECT_EQ(bytes.back(), std::byte{2});
  }
}

TEST(HostMemoryTest, TakesUsualPagesWhenAskedFor) {
  const auto memory = HostMemory::Map({.bytes = kMiB, .huge_pages = HugePages::kNone});
  ASSERT_OK(memory);
  EXPECT_EQ((*memory)->huge_pages(), HugePages::kNone);
}

// Far more huge pages than anyone sets aside: the area must still come, and be usable.
TEST(HostMemoryTest, FallsBackWhenTooFewHugePagesAreSetAside) {
  const auto memory = HostMemory::Map({.bytes = 64 * kGiB, .huge_pages = HugePages::kReserved});
  ASSERT_OK(memory);
  EXPECT_NE((*memory)->huge_pages(), HugePages::kReserved);
  (*memory)->bytes()[40 * kGiB] = std::byte{1};
}

TEST(HostMemoryTest, StaysOutOfCoreDumpsAndChildren) {
  const auto memory = HostMemory::Map({.bytes = 4 * kMiB});
  ASSERT_OK(memory);
  const std::string flags = FlagsOf((*memory)->bytes().data());
  if (flags.empty()) {
    GTEST_SKIP() << "this kernel does not show the flags of a mapping";
  }
  EXPECT_NE(flags.find(" dd "), std::string::npos) << flags;
  EXPECT_NE(flags.find(" dc "), std::string::npos) << flags;
}

// A child that could see the pool would share pages that devices write to.
TEST(HostMemoryTest, IsNotMappedInAForkedChild) {
  const auto memory = HostMemory::Map({.bytes = 4 * kMiB});
  ASSERT_OK(memory);
  constexpr std::byte kMark{0x5a};
  const std::byte* byte = (*memory)->bytes().data();
  (*memory)->bytes().front() = kMark;
  ASSERT_TRUE(CanRead(byte, kMark));

  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::_exit(CanRead(byte, kMark) ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(HostMemoryTest, StaysMappedWhereADeviceMayStillWrite) {
  auto memory = HostMemory::Map({.bytes = 2 * kMiB, .huge_pages = HugePages::kNone});
  ASSERT_OK(memory);
  const std::span<std::byte> bytes = (*memory)->bytes();
  bytes[0] = std::byte{0x5a};
  (*memory)->LeaveMapped();
  memory->reset();
  EXPECT_TRUE(CanRead(bytes.data(), std::byte{0x5a}));
  EXPECT_EQ(::munmap(bytes.data(), bytes.size()), 0);
}

TEST(HostMemoryTest, RefusesSizesThatCannotBe) {
  EXPECT_STATUS(HostMemory::Map({.bytes = 0}), StatusCode::kInvalidArgument);
  EXPECT_STATUS(HostMemory::Map({.bytes = 2048 * kTiB}), StatusCode::kInvalidArgument);
  EXPECT_STATUS(HostMemory::Map({.bytes = 1024 * kTiB}), StatusCode::kResourceExhausted);
}

// With one node there is nothing to choose; with more, a wrong number is the caller's mistake.
TEST(HostMemoryTest, IgnoresTheNodeOnAMachineWithOne) {
  const auto memory = HostMemory::Map({.bytes = kMiB, .numa_node = 1'000'000});
  if (NumaNodes().size() > 1) {
    EXPECT_STATUS(memory, StatusCode::kInvalidArgument);
    EXPECT_OK(HostMemory::Map({.bytes = kMiB, .numa_node = NumaNodes().back()}));
    return;
  }
  ASSERT_OK(memory);
  EXPECT_FALSE((*memory)->is_on_node());
}

TEST(NumaNodesTest, AreTheNumberedFolders) {
  std::string folder = ::testing::TempDir() + "kvferry-nodes-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  for (const char* name : {"/node10", "/node2", "/node0", "/node", "/nodes", "/node3x", "/power"}) {
    std::filesystem::create_directory(folder + name);
  }
  EXPECT_EQ(NumaNodes(folder), (std::vector<std::uint32_t>{0, 2, 10}));
  std::filesystem::remove_all(folder);
  EXPECT_TRUE(NumaNodes(folder).empty());
}

}  // namespace
}  // namespace kvferry::tiers
