// What a drive that fails costs the engine: hits, and for no longer than it fails. On real file
// systems that are full, shut down, frozen, or have lost their files.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mount.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "kvferry/engine.h"

#include "base/child_process.h"
#include "base/file.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_blocks.h"
#include "tests/support/tier_engine.h"
#include "tests/tiers/nvme/drive_samples.h"

namespace kvferry {
namespace {

using testing::BytesOf;
using testing::KeyOf;
using testing::TierEngine;
using tiers::testing::TestDevice;
using tiers::testing::TestVolume;

constexpr std::uint64_t kMiB = 1 << 20;
constexpr int kSecondsToComeBack = 10;
// What ext4 takes by ioctl().
constexpr unsigned long kFreeze = _IOWR('X', 119, int);
constexpr unsigned long kThaw = _IOWR('X', 120, int);
constexpr unsigned long kShutdown = _IOR('X', 125, std::uint32_t);
constexpr std::uint32_t kWithoutLog = 2;  // As if the power went.

// The engine with its tier at folder/volume/store.
class NvmeFaultsTest : public ::testing::Test, public TierEngine {
 protected:
  NvmeFaultsTest() {
    options.nvme.paths = {volume() + "/store"};
    options.nvme.capacity_bytes = 32 * kMiB;
    options.nvme.probe_ms = 500;
  }
  std::string volume() const { return folder + "/volume"; }
  // Whether a block can be stored and persisted.
  bool Works(std::uint64_t number) {
    return PutOne(number) && Persist(number, 1).blocks_ready == 1;
  }
  // The tier is back: what is put persists, and is read from the drive.
  void ExpectBack(std::uint64_t number) {
    EXPECT_TRUE(Comes([&] { return Works(number); }, kSecondsToComeBack));
    FloodHost(number + 1'000);
    EXPECT_TRUE(Get(number));
  }
  // Host memory does not care.
  void ExpectServing(std::uint64_t number) {
    Put(number, 20);
    EXPECT_EQ(CountOf(number, 20), 20U);
  }
};

// A volume of ext4 in a file, where this user may mount one.
class Ext4FaultsTest : public NvmeFaultsTest {
 protected:
  void SetUp() override {
    device_ = std::make_unique<TestDevice>(folder + "/image", 96 * kMiB);
    if (!device_->is_there()) {
      GTEST_SKIP() << "this user may not make a loop device";
    }
    const auto made =
        RunChild({.arguments = {"mkfs.ext4", "-q", "-F", device_->path()}, .input = {}});
    if (!made.ok() || made->exit_code != 0) {
      GTEST_SKIP() << "no mkfs.ext4";
    }
    std::filesystem::create_directory(volume());
    if (!Mount()) {
      GTEST_SKIP() << "this user may not mount ext4";
    }
  }
  void TearDown() override {
    CloseEngine();
    ::umount2(volume().c_str(), MNT_DETACH);
    device_.reset();
  }

  bool Mount() { return ::mount(device_->path().c_str(), volume().c_str(), "ext4", 0, "") == 0; }
  void Tell(unsigned long request, std::uint32_t argument) {
    const FileDescriptor root(::open(volume().c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_EQ(::ioctl(root.fd(), request, &argument), 0) << errno;
  }

  std::unique_ptr<TestDevice> device_;
};

// Every read and write is EIO until it is mounted anew.
TEST_F(Ext4FaultsTest, AShutDownFileSystemCostsHitsUntilItIsMountedAgain) {
  OpenEngine();
  Put(0, 40);
  ASSERT_EQ(Persist(0, 40).blocks_ready, 40U);
  FloodHost(1'000);
  ASSERT_NO_FATAL_FAILURE(Tell(kShutdown, kWithoutLog));

  EXPECT_EQ(CountOf(0, 40), 0U);
  ExpectServing(2'000);
  EXPECT_TRUE(Comes([this] { return !Works(3'000) && !engine->Stats().nvme_store.is_on; }, 10));
  ExpectServing(2'000);
  EXPECT_GE(engine->Stats().nvme_store.times_off, 1U);

  const bool is_free = Comes([this] { return ::umount(volume().c_str()) == 0; }, 10);
  ASSERT_TRUE(is_free) << "the engine has files open on the drive that failed";
  // Where it was mounted there is an empty folder now, which is not for a new store.
  EXPECT_FALSE(Comes([this] { return engine->Stats().nvme_store.is_on; }, 2));
  EXPECT_FALSE(std::filesystem::exists(volume() + "/store/blocks.kvferry"));
  ASSERT_TRUE(Mount());
  ExpectBack(4'000);
  EXPECT_EQ(CountOf(0, 40), 40U);  // They were persisted before.
}

// Writes wait until it thaws, and with them whoever may.
TEST_F(Ext4FaultsTest, AFrozenFileSystemHoldsUpNobodyPastHisDeadline) {
  OpenEngine();
  Put(0, 20);
  ASSERT_EQ(Persist(0, 20).blocks_ready, 20U);
  ASSERT_NO_FATAL_FAILURE(Tell(kFreeze, 0));
  const Instant frozen_at = Clock::now();

  while (Clock::now() < frozen_at + std::chrono::seconds(3)) {
    ExpectServing(2'000);
    EXPECT_TRUE(PutOne(3'000));
    const BlockKey key = KeyOf(3'000);
    const Instant deadline = Clock::now() + std::chrono::milliseconds(300);
    const Completion done = Await(engine->Persist(
        {.in = space, .keys = std::span(&key, 1), .options = {.deadline = deadline}}, *queue));
    EXPECT_EQ(done.blocks_ready, 0U);
    EXPECT_FALSE(done.status.ok());
  }
  ASSERT_NO_FATAL_FAILURE(Tell(kThaw, 0));
  ExpectBack(4'000);
  EXPECT_EQ(CountOf(0, 20), 20U);
}

class FullVolumeTest : public NvmeFaultsTest {
 protected:
  void SetUp() override {
    mounted_ = std::make_unique<TestVolume>(volume(), "tmpfs", "size=48m");
    if (!mounted_->is_mounted()) {
      GTEST_SKIP() << "this user may not mount a file system";
    }
  }
  void TearDown() override { CloseEngine(); }

  std::string filler() const { return volume() + "/filler"; }
  void Fill() {
    std::ofstream file(filler(), std::ios::binary);
    const std::string bytes(64 << 10, 'x');
    while (file.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush()) {
    }
  }

  std::unique_ptr<TestVolume> mounted_;
};

// B116, B118: after the drive was full, writes went on failing, and some threads never woke.
TEST_F(FullVolumeTest, B116IsOverWhenThereIsRoomAgain) {
  OpenEngine();
  Put(0, 20);
  ASSERT_EQ(Persist(0, 20).blocks_ready, 20U);
  Fill();

  // The data has its room already, and so have the next rows of the manifest; what fails once that
  // is used up is tried in manifest_tests.
  for (std::uint64_t number = 1'000; number < 1'200; ++number) {
    if (Works(number)) {
      const BlockKey key = KeyOf(number);
      const auto unpersist = engine->Unpersist({.in = space, .keys = std::span(&key, 1)}, *queue);
      EXPECT_OK(Await(unpersist).status);
    }
  }
  ExpectServing(2'000);
  EXPECT_LE(CountOf(0, 20), 20U);
  std::filesystem::remove(filler());
  ExpectBack(4'000);
  EXPECT_EQ(CountOf(0, 20), 20U);
}

TEST_F(FullVolumeTest, B118EachOfSixteenCallersHasItsAnswerWhileTheDriveIsFull) {
  OpenEngine();
  Fill();
  const auto call = [this](std::uint64_t number, CompletionQueue& answers) {
    const BlockKey key = KeyOf(number);
    const std::span keys(&key, 1);
    const std::vector<std::byte> bytes = BytesOf(number, kBlockBytes);
    const std::array<const std::byte*, 1> sources{bytes.data()};
    const Instant deadline = Clock::now() + std::chrono::milliseconds(500);
    ASSERT_OK(engine->Put(
        {.in = space, .keys = keys, .sources = sources, .options = {.deadline = deadline}},
        answers));
    ASSERT_OK(
        engine->Persist({.in = space, .keys = keys, .options = {.deadline = deadline}}, answers));
    std::array<Completion, 2> done;
    for (std::size_t ended = 0; ended < done.size();) {
      ASSERT_OK(answers.Wait(deadline + std::chrono::seconds(20)));
      ended += answers.Poll(std::span(done).subspan(ended));
    }
  };
  std::vector<std::thread> callers;
  for (std::uint64_t caller = 0; caller < 16; ++caller) {
    callers.emplace_back([&, caller] {
      const auto answers = engine->CreateCompletionQueue(4);
      ASSERT_OK(answers);
      for (std::uint64_t round = 0; round < 10; ++round) {
        call(10'000 + caller * 100 + round, **answers);
      }
    });
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
  std::filesystem::remove(filler());
  ExpectBack(4'000);
}

// B149: without a limit a store took all of a small drive.
TEST_F(FullVolumeTest, B149WithoutALimitItLeavesRoomOnASmallDrive) {
  options.nvme.capacity_bytes = 0;
  auto opened = Engine::Open(options);
  if (opened.ok()) {
    engine = std::move(*opened);
  } else {
    EXPECT_FALSE(opened.status().message().empty());
  }
  const std::filesystem::space_info room = std::filesystem::space(volume());
  EXPECT_GT(room.available, room.capacity / 50);
}

TEST_F(NvmeFaultsTest, ADeletedFileCostsWhatWasInItAndNoMore) {
  std::filesystem::create_directory(volume());
  OpenEngine();
  Put(0, 40);
  ASSERT_EQ(Persist(0, 40).blocks_ready, 40U);
  FloodHost(1'000);
  std::filesystem::remove(volume() + "/store/blocks.kvferry");
  EXPECT_LE(CountOf(0, 40), 40U);
  ExpectServing(2'000);
  CloseEngine();

  OpenEngine();
  EXPECT_EQ(CountOf(0, 40), 0U);
  ExpectBack(4'000);
}

}  // namespace
}  // namespace kvferry
