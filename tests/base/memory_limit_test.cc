// The memory limit from made-up /proc and /sys trees: both versions of control groups, containers.
#include "base/memory_limit.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "tests/support/status_matchers.h"

namespace kvferry {
namespace {

constexpr const char* kSecondVersionMount =
    "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr const char* kFirstVersionMount =
    "34 31 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

class MemoryLimitTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "kvferry-limit-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    Write("/proc/meminfo", "MemTotal:       16777216 kB\nMemFree:         1000 kB\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path whole = root_ + path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text;
  }
  void ExpectLimit(std::uint64_t bytes, const std::string& path) {
    const Result<MemoryLimit> limit = ReadMemoryLimit(root_);
    ASSERT_OK(limit);
    EXPECT_EQ(limit->bytes, bytes);
    EXPECT_EQ(limit->path, root_ + path);
  }

  std::string root_;
};

TEST_F(MemoryLimitTest, IsTheMachinesMemoryWhereNoGroupIsMounted) {
  ExpectLimit(16 * kGiB, "/proc/meminfo");
}

TEST_F(MemoryLimitTest, SaysWhenTheMachineDoesNotTell) {
  Write("/proc/meminfo", "MemTotal:\nMemFree: 3 kB\n");
  EXPECT_STATUS(ReadMemoryLimit(root_), StatusCode::kUnavailable);
  std::filesystem::remove(root_ + "/proc/meminfo");
  EXPECT_STATUS(ReadMemoryLimit(root_), StatusCode::kUnavailable);
}

// A parent's limit holds for its children whatever they say themselves.
TEST_F(MemoryLimitTest, IsTheLeastOfTheOwnGroupAndThoseAboveIt) {
  Write("/proc/self/mountinfo", kSecondVersionMount);
  Write("/proc/self/cgroup", "0::/pod/server\n");
  Write("/sys/fs/cgroup/pod/server/memory.max", "max\n");
  ExpectLimit(16 * kGiB, "/proc/meminfo");

  Write("/sys/fs/cgroup/pod/memory.max", "4294967296\n");
  ExpectLimit(4 * kGiB, "/sys/fs/cgroup/pod/memory.max");

  Write("/sys/fs/cgroup/pod/server/memory.max", "1073741824\n");
  ExpectLimit(kGiB, "/sys/fs/cgroup/pod/server/memory.max");

  Write("/sys/fs/cgroup/pod/server/memory.max", "8589934592\n");
  ExpectLimit(4 * kGiB, "/sys/fs/cgroup/pod/memory.max");
}

TEST_F(MemoryLimitTest, TellsTheMachinesMemoryWhateverTheGroupsSay) {
  Write("/proc/self/mountinfo", kSecondVersionMount);
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/memory.max", "1048576\n");

  const Result<MemoryLimit> machine = ReadMachineMemory(root_);

  ASSERT_OK(machine);
  EXPECT_EQ(machine->bytes, 16 * kGiB);
  EXPECT_EQ(machine->path, root_ + "/proc/meminfo");
}

// In a container with a namespace of its own the path is "/" and the mount point is the group.
TEST_F(MemoryLimitTest, FindsTheLimitOfAContainer) {
  Write("/proc/self/mountinfo", kSecondVersionMount);
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/memory.max", "2147483648\n");
  ExpectLimit(2 * kGiB, "/sys/fs/cgroup/memory.max");
}

TEST_F(MemoryLimitTest, ReadsTheFirstVersion) {
  Write("/proc/self/mountinfo", kFirstVersionMount);
  Write("/proc/self/cgroup", "7:name=systemd:/x\n4:hugetlb,memory:/box\n1:cpu:/elsewhere\n0::/\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  ExpectLimit(16 * kGiB, "/proc/meminfo");

  Write("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "1048576\n");
  ExpectLimit(kMiB, "/sys/fs/cgroup/memory/box/memory.limit_in_bytes");
}

// Without a namespace the mount shows only the container's group, but /proc names the whole path.
TEST_F(MemoryLimitTest, TakesTheMountsOwnTopOffThePath) {
  Write("/proc/self/mountinfo",
        "35 31 0:32 /box/7f /sys/fs/cgroup/with\\040blank ro - cgroup cgroup rw,memory\n");
  Write("/proc/self/cgroup", "4:memory:/box/7f/inner\n");
  Write("/sys/fs/cgroup/with blank/inner/memory.limit_in_bytes", "2097152\n");
  ExpectLimit(2 * kMiB, "/sys/fs/cgroup/with blank/inner/memory.limit_in_bytes");

  // A path that is not below the mount's top, or above it: the mount point is the nearest known.
  Write("/sys/fs/cgroup/with blank/memory.limit_in_bytes", "1048576\n");
  for (const char* group : {"4:memory:/box/7fff\n", "4:memory:/other\n", "4:memory:/box/7f\n"}) {
    Write("/proc/self/cgroup", group);
    ExpectLimit(kMiB, "/sys/fs/cgroup/with blank/memory.limit_in_bytes");
  }
}

TEST_F(MemoryLimitTest, TakesBothVersionsIntoAccount) {
  Write("/proc/self/mountinfo", std::string(kFirstVersionMount) + kSecondVersionMount);
  Write("/proc/self/cgroup", "4:memory:/a\n0::/b\n");
  Write("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "3145728\n");
  Write("/sys/fs/cgroup/b/memory.max", "2097152\n");
  ExpectLimit(2 * kMiB, "/sys/fs/cgroup/b/memory.max");
}

TEST_F(MemoryLimitTest, SurvivesLinesThatMakeNoSense) {
  Write(
      "/proc/self/mountinfo",
      std::string("\n - \n1 2 - cgroup2\n31 23 0:28 / /x - cgroup2\n\\04\n") + kSecondVersionMount);
  Write("/proc/self/cgroup", "\n:\n0:\n0::/../outside\n");
  Write("/sys/fs/cgroup/memory.max", "unreadable\n");
  ExpectLimit(16 * kGiB, "/proc/meminfo");
}

TEST_F(MemoryLimitTest, FindsSomethingOnThisMachine) {
  const Result<MemoryLimit> limit = ReadMemoryLimit();
  ASSERT_OK(limit);
  EXPECT_GE(limit->bytes, 16 * kMiB);
}

}  // namespace
}  // namespace kvferry
