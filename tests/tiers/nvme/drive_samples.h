// What tests of drives work on: a folder of their own, mounted volumes and loop devices.
#pragma once

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "base/child_process.h"
#include "base/file.h"
#include "tests/support/status_matchers.h"
#include "tiers/nvme/drive_set.h"

namespace kvferry::tiers::testing {

// A folder that goes with the test.
class TestFolder {
 public:
  TestFolder() {
    std::string pattern = ::testing::TempDir() + "kvferry-drives-XXXXXX";
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    path_ = pattern;
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  ~TestFolder() { std::filesystem::remove_all(path_); }

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// A file system in memory at a new folder, where the user may mount one.
class TestVolume {
 public:
  TestVolume(const std::string& path, const char* kind, const char* options) : path_(path) {
    std::filesystem::create_directory(path);
    is_mounted_ = ::mount("kvferry", path.c_str(), kind, 0, options) == 0;
  }
  TestVolume(const TestVolume&) = delete;
  TestVolume& operator=(const TestVolume&) = delete;
  ~TestVolume() {
    if (is_mounted_) {
      ::umount2(path_.c_str(), MNT_DETACH);
    }
  }

  bool is_mounted() const { return is_mounted_; }

 private:
  std::string path_;
  bool is_mounted_ = false;
};

// A file as a block device, where the user may make one.
class TestDevice {
 public:
  TestDevice(const std::string& file, std::uint64_t size_bytes) {
    const FileDescriptor made(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    EXPECT_EQ(::ftruncate(made.fd(), static_cast<off_t>(size_bytes)), 0);
    const Result<ChildOutcome> outcome =
        RunChild({.arguments = {"losetup", "--show", "-f", file}, .input = {}});
    if (outcome.ok() && outcome->exit_code == 0 && outcome->signal == 0) {
      path_ = outcome->output.substr(0, outcome->output.find('\n'));
    }
  }
  TestDevice(const TestDevice&) = delete;
  TestDevice& operator=(const TestDevice&) = delete;
  ~TestDevice() {
    if (is_there()) {
      RunChild({.arguments = {"losetup", "-d", path_}, .input = {}}).status().IgnoreError();
    }
  }

  bool is_there() const { return !path_.empty(); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Writes into a file or device behind the store's back.
inline void Overwrite(const std::string& path, std::uint64_t offset, const std::string& bytes) {
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(file.is_open()) << path;
  ASSERT_EQ(::pwrite(file.fd(), bytes.data(), bytes.size(), static_cast<off_t>(offset)),
            static_cast<ssize_t>(bytes.size()));
  ASSERT_EQ(::fsync(file.fd()), 0);
}

inline std::string ReadBack(const std::string& path, std::uint64_t offset, std::size_t size) {
  std::string bytes(size, '\0');
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const ssize_t got = ::pread(file.fd(), bytes.data(), size, static_cast<off_t>(offset));
  bytes.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  return bytes;
}

inline std::string BlocksFileIn(const std::string& folder) {
  return folder + "/" + std::string(kBlocksFileName);
}

// A store with segments of 1 MiB and that many of them on each drive.
inline DriveSetOptions SmallStore(std::vector<std::string> paths, std::uint32_t segment_count) {
  DriveSetOptions options;
  options.capacity_bytes = (segment_count + 1) * kMiB * paths.size();
  options.segment_bytes = kMiB;
  options.block_bytes_max = 64 * kKiB;
  options.paths = std::move(paths);
  return options;
}

inline bool Says(const Status& status, std::string_view text) {
  return status.message().find(text) != std::string_view::npos;
}

class DriveSetTest : public ::testing::Test {
 protected:
  // A store that is closed again.
  StoreUuid MakeStore(const DriveSetOptions& options) {
    const Result<std::unique_ptr<DriveSet>> made = DriveSet::Open(options);
    EXPECT_OK(made.status());
    return made.ok() ? made.value()->store() : StoreUuid{};
  }

  TestFolder folder_;
};

}  // namespace kvferry::tiers::testing
