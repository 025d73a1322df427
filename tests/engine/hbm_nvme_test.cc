// Blocks from a server's tensors down to NVMe, and after a restart up again.
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/engine/hbm_server.h"

namespace kvferry {
namespace {

using testing::HbmServer;
using testing::KeysOf;

class HbmNvmeTest : public ::testing::TestWithParam<sim::CudaSchedule> {
 public:
  HbmNvmeTest() {
    std::string pattern = ::testing::TempDir() + "kvferry_hbm_XXXXXX";
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  ~HbmNvmeTest() override { std::filesystem::remove_all(folder_); }
  HbmNvmeTest(const HbmNvmeTest&) = delete;
  HbmNvmeTest& operator=(const HbmNvmeTest&) = delete;

 protected:
  EngineOptions Options() const {
    EngineOptions options = HbmServer::Options();
    options.nvme.paths = {folder_ + "/drive"};
    options.nvme.capacity_bytes = 64 << 20;
    options.nvme.segment_bytes = 1 << 20;
    return options;
  }

 private:
  std::string folder_;
};

INSTANTIATE_TEST_SUITE_P(AllSchedules,
                         HbmNvmeTest,
                         testing::EachSchedule(),
                         testing::NameOfSchedule);

TEST_P(HbmNvmeTest, WhatWasPutFromTheDeviceComesBackToItAfterARestart) {
  HbmServer server(testing::ScheduledAs(GetParam()), Options());
  server.PutBlocks(1, 20);
  const std::vector<BlockKey> keys = KeysOf(1, 20);
  const Completion kept = server.Await(server.engine().Name(
      engine::Call::Kind::kPersist, {.in = server.space(), .keys = keys}, server.queue()));
  EXPECT_EQ(kept.blocks_ready, 20U);
  server.CloseEngine();
  server.OpenEngine();
  const Instant give_up_at = Clock::now() + std::chrono::seconds(30);
  while (!server.engine().Stats().nvme_store.is_scanned) {
    ASSERT_LT(Clock::now(), give_up_at);
    std::this_thread::yield();
  }
  EXPECT_EQ(server.engine().Match(server.space(), keys).nvme_blocks, 20U);

  std::vector<DeviceBlock> to;
  for (std::uint32_t i = 0; i < 20; ++i) {
    server.Produce(i, 99);
    to.push_back(HbmServer::At(i));
  }
  const Result<Ticket> get = server.Get(keys, to);
  ASSERT_OK(get);
  for (std::uint32_t layer = 0; layer < HbmServer::kLayers; ++layer) {
    ASSERT_OK(server.AwaitLayer(*get, layer));
    for (std::uint32_t i = 0; i < 20; ++i) {
      server.Use(i, layer);
    }
  }
  EXPECT_EQ(server.Await().blocks_ready, 20U);
  ASSERT_OK(server.stream().Synchronize());
  for (std::uint32_t i = 0; i < 20; ++i) {
    EXPECT_TRUE(HbmServer::IsBlock(server.Seen(i), 1 + i)) << i;
  }
  EXPECT_EQ(server.engine().Stats().hits_nvme, 20U);
}

}  // namespace
}  // namespace kvferry
