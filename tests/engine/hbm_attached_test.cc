// The engine attached to a server's tensors, on the simulated CUDA runtime.
#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/hbm_server.h"

namespace kvferry {
namespace {

using ::testing::HasSubstr;
using testing::HbmServer;
using testing::KeysOf;

class HbmAttachedTest : public ::testing::TestWithParam<sim::CudaSchedule> {};

INSTANTIATE_TEST_SUITE_P(AllSchedules,
                         HbmAttachedTest,
                         testing::EachSchedule(),
                         testing::NameOfSchedule);

// What the producer has only queued is what is stored; what comes later in its stream is not.
TEST_P(HbmAttachedTest, GivesBackWhatTheProducerHadQueued) {
  HbmServer server(GetParam());
  const std::vector<BlockKey> keys = KeysOf(1, 3);
  const std::array from{HbmServer::At(0), HbmServer::At(5), HbmServer::At(9)};
  for (std::uint32_t i = 0; i < 3; ++i) {
    server.Produce(i == 0 ? 0 : (i == 1 ? 5 : 9), 1 + i);
  }
  const Completion put = server.Await(server.Put(keys, from));
  EXPECT_OK(put.status);
  EXPECT_EQ(put.blocks_ready, 3U);
  EXPECT_EQ(put.blocks_stored, 3U);
  EXPECT_EQ(server.engine().Match(server.space(), keys).host_blocks, 3U);
  for (const std::uint32_t place : {0U, 5U, 9U, 1U, 2U, 3U}) {
    server.Produce(place, 77);  // The completion gave the source back, and the target is reused.
  }

  const std::array to{HbmServer::At(1), HbmServer::At(2), HbmServer::At(3)};
  const Result<Ticket> get = server.Get(keys, to);
  ASSERT_OK(get);
  for (std::uint32_t layer = 0; layer < HbmServer::kLayers; ++layer) {
    ASSERT_OK(server.AwaitLayer(*get, layer));
    for (const std::uint32_t place : {1U, 2U, 3U}) {
      server.Use(place, layer);
    }
  }
  const Completion got = server.Await();
  EXPECT_OK(got.status);
  EXPECT_EQ(got.blocks_ready, 3U);
  EXPECT_OK(server.AwaitLayer(*get, 3));  // Also after the end.
  ASSERT_OK(server.stream().Synchronize());
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(HbmServer::IsBlock(server.Seen(1 + i), 1 + i)) << i;
  }
  const EngineStats stats = server.engine().Stats();
  EXPECT_TRUE(stats.hbm.is_on);
  EXPECT_EQ(stats.hbm.tensors, 1U);
  EXPECT_EQ(stats.offload_hbm_to_host.blocks, 3U);
  EXPECT_EQ(stats.onboard_host_to_hbm.bytes, 3U * HbmServer::kBlockBytes);
  EXPECT_EQ(stats.hits_host, 3U);
  EXPECT_EQ(server.cuda().counts().pageable_copies, 0U);
}

// Host memory has the host form, [plane][token][head][row], with the right checksum.
TEST_P(HbmAttachedTest, HostAndDeviceSeeTheSameBlocks) {
  EngineOptions options = HbmServer::Options();
  options.host.verify_on_get = true;
  HbmServer server(testing::ScheduledAs(GetParam()), options, true);
  server.PutBlocks(1, 4);

  const std::vector<BlockKey> keys = KeysOf(1, 4);
  std::vector<std::byte> memory(std::size_t{4} * HbmServer::kBlockBytes);
  std::vector<std::byte*> targets;
  for (std::uint32_t i = 0; i < 4; ++i) {
    targets.push_back(memory.data() + std::size_t{i} * HbmServer::kBlockBytes);
  }
  const Completion got = server.Await(server.engine().Get(
      {.in = server.space(), .keys = keys, .targets = targets}, server.queue()));
  EXPECT_EQ(got.blocks_ready, 4U);
  for (std::uint32_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(HbmServer::IsBlock(std::span(targets[i], HbmServer::kBlockBytes), 1 + i)) << i;
  }

  // And the other way: put from host memory, got on the device.
  const std::vector<BlockKey> fresh = KeysOf(11, 1);
  for (std::uint32_t plane = 0; plane < HbmServer::kPlanes; ++plane) {
    std::memset(memory.data() + std::size_t{plane} * HbmServer::kPlaneBytes,
                HbmServer::PatternOf(11, plane), HbmServer::kPlaneBytes);
  }
  const std::array<const std::byte*, 1> sources{memory.data()};
  EXPECT_EQ(server
                .Await(server.engine().Put(
                    {.in = server.space(), .keys = fresh, .sources = sources}, server.queue()))
                .blocks_ready,
            1U);
  const std::array to{HbmServer::At(20)};
  EXPECT_EQ(server.Await(server.Get(fresh, to)).blocks_ready, 1U);
  server.UseAll(20);
  ASSERT_OK(server.stream().Synchronize());
  EXPECT_TRUE(HbmServer::IsBlock(server.Seen(20), 11));
}

TEST_P(HbmAttachedTest, AMissIsNoErrorButItsLayersCannotBeWaitedFor) {
  HbmServer server(GetParam());
  server.PutBlocks(1, 2);
  const std::vector<BlockKey> keys = KeysOf(1, 3);
  const std::array to{HbmServer::At(4), HbmServer::At(5), HbmServer::At(6)};
  const Result<Ticket> get = server.Get(keys, to);
  const Completion got = server.Await(get);
  EXPECT_OK(got.status);
  EXPECT_EQ(got.blocks_ready, 2U);
  EXPECT_EQ(got.next_missing, MissReason::kNeverStored);
  EXPECT_STATUS(server.AwaitLayer(*get, 0), StatusCode::kDataLoss);
}

// From the completion on the pages are the server's.
TEST_P(HbmAttachedTest, ACancelledGetWritesNothingAfterItsEnd) {
  HbmServer server(GetParam());
  server.PutBlocks(1, 16);
  const std::vector<BlockKey> keys = KeysOf(1, 16);
  const std::vector<DeviceBlock> to = HbmServer::PlacesFrom(0, 16);
  for (std::uint32_t round = 0; round < 20; ++round) {
    const Result<Ticket> get = server.Get(keys, to);
    ASSERT_OK(get);
    for (std::uint32_t spin = 0; spin < round * 40; ++spin) {
      std::this_thread::yield();
    }
    server.engine().Cancel(*get);
    const Completion done = server.Await();
    EXPECT_TRUE(done.status.ok() || done.status.code() == StatusCode::kCancelled);
    for (std::uint32_t place = 0; place < 16; ++place) {
      server.Produce(place, 100 + round);
    }
    ASSERT_OK(server.stream().Synchronize());
    for (std::uint32_t place = 0; place < 16; ++place) {
      server.UseAll(place);
    }
    ASSERT_OK(server.stream().Synchronize());
    for (std::uint32_t place = 0; place < 16; ++place) {
      ASSERT_TRUE(HbmServer::IsBlock(server.Seen(place), 100 + round)) << place;
    }
  }
}

TEST_P(HbmAttachedTest, ACancelledPutLeavesNothingOrAll) {
  HbmServer server(GetParam());
  for (std::uint32_t round = 0; round < 20; ++round) {
    const std::uint32_t first = 1 + 8 * round;
    std::vector<DeviceBlock> from;
    for (std::uint32_t i = 0; i < 8; ++i) {
      server.Produce(i, first + i);
      from.push_back(HbmServer::At(i));
    }
    const std::vector<BlockKey> keys = KeysOf(first, 8);
    const Result<Ticket> put = server.Put(keys, from);
    ASSERT_OK(put);
    server.engine().Cancel(*put);
    const std::uint32_t stored = server.Await().blocks_ready;
    for (std::uint32_t i = 0; i < 8; ++i) {
      server.Produce(i, 200);
    }
    const std::uint32_t found = server.engine().Match(server.space(), keys).blocks();
    EXPECT_GE(found, stored);
    const Completion got = server.Await(server.Get(keys, from));
    server.UseAll(0);
    ASSERT_OK(server.stream().Synchronize());
    if (got.blocks_ready > 0) {
      EXPECT_TRUE(HbmServer::IsBlock(server.Seen(0), first));
    }
  }
}

// The get waits for a long stream; meanwhile everything else leaves host memory.
TEST_P(HbmAttachedTest, AHostSlotIsKeptWhileItsCopyReadsIt) {
  EngineOptions options = HbmServer::Options();
  options.host.bytes = 2 << 20;  // 128 blocks.
  HbmServer server(testing::ScheduledAs(GetParam()), options);
  server.PutBlocks(1, 8);
  const std::vector<BlockKey> keys = KeysOf(1, 8);
  const std::vector<DeviceBlock> to = HbmServer::PlacesFrom(8, 8);
  for (int i = 0; i < 100; ++i) {
    server.Produce(20, 5);
  }
  const Result<Ticket> get = server.Get(keys, to);
  ASSERT_OK(get);
  const std::vector<std::byte> other(HbmServer::kBlockBytes, std::byte{0xee});
  const std::vector<const std::byte*> sources(32, other.data());
  std::uint32_t ended = 0;
  for (std::uint32_t first = 1000; first < 1320; first += 32) {
    const std::vector<BlockKey> fresh = KeysOf(first, 32);
    const Result<Ticket> put = server.engine().Put(
        {.in = server.space(), .keys = fresh, .sources = sources}, server.queue());
    ASSERT_OK(put);
    for (Completion done; done.ticket != *put;) {
      done = server.Await();
      ended += done.ticket == *get ? done.blocks_ready : 0;
    }
  }
  if (ended == 0) {
    ended = server.Await().blocks_ready;
  }
  EXPECT_EQ(ended, 8U);
  EXPECT_GT(server.engine().Stats().host.evictions, 100U);
  for (std::uint32_t place = 8; place < 16; ++place) {
    server.UseAll(place);
  }
  ASSERT_OK(server.stream().Synchronize());
  for (std::uint32_t i = 0; i < 8; ++i) {
    EXPECT_TRUE(HbmServer::IsBlock(server.Seen(8 + i), 1 + i)) << i;
  }
}

// A stream that stands still holds up its own request, until its deadline.
TEST(HbmLateStreamTest, EndsItsRequestByTheDeadline) {
  HbmServer server(sim::CudaSchedule::kLazy);  // The others run the stream by themselves.
  server.PutBlocks(1, 1);
  for (int i = 0; i < 3000; ++i) {
    server.Produce(0, 2);
  }
  const std::vector<BlockKey> late = KeysOf(2, 1);
  const std::array from{HbmServer::At(0)};
  const Result<Ticket> put = server.Put(late, from, Clock::now() + std::chrono::milliseconds(5));
  const std::vector<BlockKey> keys = KeysOf(1, 1);
  const std::array to{HbmServer::At(3)};
  const Result<Ticket> get = server.engine().GetToDevice(
      {.in = server.space(), .keys = keys, .tensors = server.tensors(), .blocks = to},
      server.queue());
  for (int i = 0; i < 2; ++i) {
    const Completion done = server.Await();
    EXPECT_EQ(done.status.code(),
              done.ticket == *put ? StatusCode::kDeadlineExceeded : StatusCode::kOk);
    EXPECT_EQ(done.blocks_ready, done.ticket == *put ? 0U : 1U);
  }
  EXPECT_EQ(server.engine().Match(server.space(), late).blocks(), 0U);
}

// A round of a put and a get, of which any call may be refused and any request may fail.
void PlayRound(HbmServer& server, bool is_well) {
  const std::vector<BlockKey> keys = KeysOf(1, 3);
  const std::array from{HbmServer::At(0), HbmServer::At(1), HbmServer::At(2)};
  const std::array to{HbmServer::At(4), HbmServer::At(5), HbmServer::At(6)};
  std::uint32_t ready = 0;
  for (const bool is_put : {true, false}) {
    const Result<Ticket> ticket = is_put ? server.Put(keys, from) : server.Get(keys, to);
    if (!ticket.ok()) {
      EXPECT_FALSE(is_well) << ticket.status().ToString();
      continue;
    }
    const Completion done = server.Await();
    EXPECT_EQ(done.ticket, *ticket);
    EXPECT_TRUE(done.status.ok() || done.status.code() == StatusCode::kUnavailable)
        << done.status.ToString();
    ready = done.blocks_ready;
    EXPECT_TRUE(!is_well || ready == 3) << done.status.ToString();
  }
  // Host memory has the right bytes, or none.
  std::vector<std::byte> memory(HbmServer::kBlockBytes);
  const std::array<std::byte*, 1> targets{memory.data()};
  for (std::uint32_t i = 0; i < 3; ++i) {
    const Completion got = server.Await(server.engine().Get(
        {.in = server.space(), .keys = std::span(keys).subspan(i, 1), .targets = targets},
        server.queue()));
    EXPECT_OK(got.status);
    EXPECT_TRUE(got.blocks_ready == 0 || HbmServer::IsBlock(memory, 1 + i)) << i;
    EXPECT_TRUE(got.blocks_ready == 1 || i >= ready);
  }
}

TEST_P(HbmAttachedTest, EveryRequestEndsWhicheverOperationLosesTheDevice) {
  for (std::uint32_t nth = 1; nth <= 16 && !HasFailure(); ++nth) {
    SCOPED_TRACE(nth);
    HbmServer server(GetParam());
    for (std::uint32_t i = 0; i < 3; ++i) {
      server.Produce(i, 1 + i);
    }
    ASSERT_OK(server.stream().Synchronize());
    server.cuda().FailOperation(nth, cudaErrorIllegalAddress);
    PlayRound(server, false);
    PlayRound(server, false);
  }
}

TEST_P(HbmAttachedTest, EveryRequestEndsWhicheverCallFails) {
  for (const char* const call :
       {"cudaMemcpyAsync", "cudaMemcpyBatchAsync", "cudaEventRecord", "cudaEventQuery",
        "cudaStreamWaitEvent", "cudaStreamIsCapturing", "cudaLaunchKernel"}) {
    for (std::uint32_t nth = 1; nth <= 5 && !HasFailure(); ++nth) {
      SCOPED_TRACE(std::string(call) + " " + std::to_string(nth));
      HbmServer server(testing::ScheduledAs(GetParam()), HbmServer::Options(), nth % 2 == 0);
      for (std::uint32_t i = 0; i < 3; ++i) {
        server.Produce(i, 1 + i);
      }
      ASSERT_OK(server.stream().Synchronize());
      server.cuda().FailCall(call, nth, cudaErrorMemoryAllocation);
      PlayRound(server, false);
      PlayRound(server, false);
    }
  }
}

TEST_P(HbmAttachedTest, ALostDeviceCostsWhatNeedsItAndNoMore) {
  HbmServer server(GetParam());
  server.PutBlocks(1, 4);
  const std::vector<BlockKey> keys = KeysOf(1, 4);
  const std::vector<DeviceBlock> to = HbmServer::PlacesFrom(8, 4);
  ASSERT_OK(server.stream().Synchronize());
  server.cuda().FailOperation(2, cudaErrorIllegalAddress);
  const Result<Ticket> get = server.engine().GetToDevice(
      {.in = server.space(), .keys = keys, .tensors = server.tensors(), .blocks = to},
      server.queue());
  const Completion lost = server.Await(get);
  EXPECT_STATUS(lost.status, StatusCode::kUnavailable);
  EXPECT_EQ(lost.blocks_ready, 0U);
  EXPECT_FALSE(server.engine().WaitLayer(*get, 0, server.stream().native()).ok());
  EXPECT_STATUS(server.Put(keys, to), StatusCode::kUnavailable);
  EXPECT_FALSE(server.engine().Stats().hbm.is_on);

  // Host memory goes on, with what was there.
  std::vector<std::byte> memory(HbmServer::kBlockBytes);
  const std::array<std::byte*, 1> targets{memory.data()};
  const Completion got = server.Await(server.engine().Get(
      {.in = server.space(), .keys = std::span(keys).first(1), .targets = targets},
      server.queue()));
  EXPECT_OK(got.status);
  EXPECT_TRUE(HbmServer::IsBlock(memory, 1));
}

TEST_P(HbmAttachedTest, ADeviceThatIsLostInAPutStoresNothing) {
  HbmServer server(GetParam());
  server.Produce(0, 1);
  server.Produce(1, 2);
  ASSERT_OK(server.stream().Synchronize());
  const std::vector<BlockKey> keys = KeysOf(1, 2);
  const std::array from{HbmServer::At(0), HbmServer::At(1)};
  server.cuda().FailOperation(2, cudaErrorIllegalAddress);
  const Completion lost = server.Await(server.Put(keys, from));
  EXPECT_STATUS(lost.status, StatusCode::kUnavailable);
  EXPECT_EQ(lost.blocks_ready, 0U);
  EXPECT_EQ(server.engine().Match(server.space(), keys).blocks(), 0U);
}

// One failed call costs its blocks; the next request has them.
TEST_P(HbmAttachedTest, AFailedCallCostsItsBlocks) {
  HbmServer server(GetParam());
  server.PutBlocks(1, 2);
  const std::vector<BlockKey> keys = KeysOf(1, 2);
  const std::array to{HbmServer::At(4), HbmServer::At(5)};
  for (const char* const call : {"cudaMemcpyBatchAsync", "cudaMemcpyAsync"}) {
    server.cuda().FailCall(call, 1, cudaErrorMemoryAllocation);
  }
  std::uint32_t ready = 0;
  for (int round = 0; round < 3; ++round) {
    const Completion got = server.Await(server.Get(keys, to));
    EXPECT_OK(got.status);
    EXPECT_TRUE(got.blocks_ready == 2 || got.next_missing == MissReason::kReadFailed);
    ready = got.blocks_ready;
  }
  EXPECT_EQ(ready, 2U);
  EXPECT_GT(server.engine().Stats().onboard_host_to_hbm.failures, 0U);
  server.cuda().FailCall("cudaMemcpyAsync", 1, cudaErrorInvalidValue);  // One may be left over.
  static_cast<void>(server.stream().Fill(nullptr, 0, 0));
}

TEST(HbmRefusalTest, SaysWhatIsWrong) {
  HbmServer server(sim::CudaSchedule::kEager);
  const std::vector<BlockKey> keys = KeysOf(1, 1);
  const std::array two{HbmServer::At(0), HbmServer::At(1)};
  EXPECT_STATUS(server.Put(keys, two), StatusCode::kInvalidArgument);
  const std::array<std::int32_t, 2> wrong{0, 1000};
  const std::array beyond{DeviceBlock{.pages = wrong}};
  EXPECT_THAT(server.Put(keys, beyond).status().ToString(), HasSubstr("blocks[0]"));
  const std::array one{HbmServer::At(0)};
  DevicePutRequest put{.in = server.space(), .keys = keys, .tensors = {}, .blocks = one};
  put.producer = server.stream().native();
  EXPECT_STATUS(server.engine().PutFromDevice(put, server.queue()), StatusCode::kInvalidArgument);
  put.tensors = server.tensors();
  put.producer = nullptr;
  EXPECT_STATUS(server.engine().PutFromDevice(put, server.queue()), StatusCode::kInvalidArgument);
  ASSERT_TRUE(server.cuda().BeginCapture(server.stream().native(), cudaStreamCaptureModeRelaxed));
  EXPECT_THAT(server.Put(keys, one).status().ToString(), HasSubstr("capture"));
  ASSERT_TRUE(server.cuda().EndCapture(server.stream().native()));
  const auto other = server.engine().AddNamespace(testing::NamespaceOf("other"),
                                                  {.block_bytes = 2 * HbmServer::kBlockBytes});
  ASSERT_OK(other);
  put.in = *other;
  put.producer = server.stream().native();
  EXPECT_THAT(server.engine().PutFromDevice(put, server.queue()).status().ToString(),
              HasSubstr("16384 bytes, those of the namespace 32768"));
  EXPECT_STATUS(server.engine().WaitLayer({}, 0, server.stream().native()),
                StatusCode::kInvalidArgument);

  DeviceTensors broken = server.Described();
  broken.pages *= 16;
  EXPECT_STATUS(server.engine().RegisterTensors(broken), StatusCode::kInvalidArgument);
}

TEST(HbmRefusalTest, TensorsStayWhileARequestNamesThem) {
  HbmServer server(sim::CudaSchedule::kEager);
  server.PutBlocks(1, 1);
  const std::vector<BlockKey> keys = KeysOf(1, 1);
  const std::array to{HbmServer::At(3)};
  const Result<Ticket> get = server.Get(keys, to);
  ASSERT_OK(get);
  EXPECT_STATUS(server.engine().WaitLayer(*get, HbmServer::kLayers, server.stream().native()),
                StatusCode::kInvalidArgument);
  EXPECT_EQ(server.Await().blocks_ready, 1U);
  EXPECT_OK(server.engine().UnregisterTensors(server.tensors()));
  EXPECT_STATUS(server.engine().UnregisterTensors(server.tensors()), StatusCode::kInvalidArgument);
  EXPECT_STATUS(server.Get(keys, to), StatusCode::kInvalidArgument);
  EXPECT_EQ(server.engine().Stats().requests_started, 2U);
}

// The text is all that an operator has.
TEST(HbmRefusalTest, SaysWhyThereIsNoGpu) {
  sim::SimCudaOptions none;
  none.device_count = 0;
  const sim::SimCuda cuda(none);
  EngineOptions options = HbmServer::Options();
  EXPECT_STATUS(engine::EngineFront::Open(options, {.cuda = &cuda.api()}),
                StatusCode::kUnavailable);

  options.hbm.is_required = false;
  const auto opened = engine::EngineFront::Open(options, {.cuda = &cuda.api()});
  ASSERT_OK(opened);
  const Status refused = (*opened)->RegisterTensors({}).status();
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable);
  EXPECT_THAT(refused.ToString(), HasSubstr("HBM tier"));
  EXPECT_FALSE((*opened)->Stats().hbm.is_on);
}

TEST(HbmRefusalTest, RefusesAGpuThatIsNotThere) {
  const sim::SimCuda cuda({});
  EngineOptions options = HbmServer::Options();
  options.hbm.device = 3;
  EXPECT_STATUS(engine::EngineFront::Open(options, {.cuda = &cuda.api()}),
                StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace kvferry
