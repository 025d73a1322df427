// TierEngine: engines one after the other over an NVMe tier in a folder, called and waited for.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kvferry/engine.h"

#include "tests/support/status_matchers.h"
#include "tests/support/test_blocks.h"

namespace kvferry::testing {

// What tests of the tier on real files are made of; a base of their fixtures. Block `number` has
// the key KeyOf(number) and bytes that tell its number: a get that brings others fails the test.
// The folder goes with the object. For one thread.
class TierEngine {
 public:
  static constexpr std::uint32_t kBlockBytes = 64 << 10;

  TierEngine() {
    std::string pattern = ::testing::TempDir() + "kvferry_tier_XXXXXX";
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    folder = pattern;
    options.host.bytes = 8 << 20;
    options.host.is_populated = false;
    options.block_bytes = kBlockBytes;
    options.copy_threads = 1;
    options.nvme.paths = {folder + "/drive"};
    options.nvme.capacity_bytes = 64 << 20;
    options.nvme.segment_bytes = 1 << 20;
  }
  TierEngine(const TierEngine&) = delete;
  TierEngine& operator=(const TierEngine&) = delete;
  virtual ~TierEngine() {
    CloseEngine();
    std::filesystem::remove_all(folder);
  }

  enum class WaitsForScan { kNo, kYes };
  // Opens the engine, and waits until the tier has read its manifest.
  void OpenEngine(WaitsForScan waits = WaitsForScan::kYes) {
    auto opened = Engine::Open(options);
    ASSERT_OK(opened);
    engine = std::move(*opened);
    auto made = engine->CreateCompletionQueue(64);
    ASSERT_OK(made);
    queue = std::move(*made);
    auto handle = engine->AddNamespace(NamespaceOf("model"), {.block_bytes = kBlockBytes});
    ASSERT_OK(handle);
    space = *handle;
    const auto is_scanned = [this] {
      return engine->Stats().nvme_store.is_scanned;
    };
    ASSERT_TRUE(waits == WaitsForScan::kNo || Comes(is_scanned, 30));
  }
  void CloseEngine() {
    queue.reset();
    if (engine != nullptr) {
      EXPECT_OK(engine->Close());
      engine.reset();
    }
  }

  // Whether `condition` holds before so many seconds are over. No request may be unfinished.
  template <class Condition>
  bool Comes(const Condition& condition, int seconds) {
    const Instant give_up_at = Clock::now() + std::chrono::seconds(seconds);
    while (!condition()) {
      if (Clock::now() > give_up_at) {
        return false;
      }
      EXPECT_EQ(queue->Wait(Clock::now() + std::chrono::milliseconds(5)).code(),
                StatusCode::kDeadlineExceeded);
    }
    return true;
  }

  Completion Await(const Result<Ticket>& ticket) {
    EXPECT_OK(ticket);
    if (!ticket.ok()) {
      return {};
    }
    EXPECT_OK(queue->Wait(Clock::now() + std::chrono::seconds(60)));
    std::array<Completion, 1> done;
    EXPECT_EQ(queue->Poll(done), 1U);
    return done[0];
  }
  // Puts block `number`; whether it was stored.
  bool PutOne(std::uint64_t number) {
    const BlockKey key = KeyOf(number);
    const std::vector<std::byte> bytes = BytesOf(number, kBlockBytes);
    const std::array<const std::byte*, 1> sources{bytes.data()};
    return Await(engine->Put({.in = space, .keys = std::span(&key, 1), .sources = sources}, *queue))
               .blocks_ready == 1;
  }
  // Blocks number first to first + count - 1, stored.
  void Put(std::uint64_t first, std::size_t count) {
    for (std::uint64_t number = first; number < first + count; ++number) {
      EXPECT_TRUE(PutOne(number)) << "block " << number;
    }
  }
  Completion Persist(std::uint64_t first, std::size_t count) {
    const std::vector<BlockKey> keys = KeysOf(first, count);
    return Await(engine->Persist({.in = space, .keys = keys}, *queue));
  }
  Status Erase(const std::vector<BlockKey>& keys) {
    return Await(engine->Erase({.in = space, .keys = keys}, *queue)).status;
  }
  // Gets block `number`, and checks its bytes if it is there.
  Completion GetOne(std::uint64_t number, std::chrono::milliseconds deadline = {}) {
    const BlockKey key = KeyOf(number);
    std::vector<std::byte> bytes(kBlockBytes);
    const std::array<std::byte*, 1> targets{bytes.data()};
    GetRequest request{.in = space, .keys = std::span(&key, 1), .targets = targets};
    if (deadline.count() != 0) {
      request.options.deadline = Clock::now() + deadline;
    }
    Completion done = Await(engine->Get(request, *queue));
    if (done.blocks_ready == 1) {
      EXPECT_EQ(bytes, BytesOf(number, kBlockBytes)) << "block " << number;
    }
    return done;
  }
  bool Get(std::uint64_t number) { return GetOne(number).blocks_ready == 1; }
  std::size_t CountOf(std::uint64_t first, std::size_t count) {
    std::size_t found = 0;
    for (std::uint64_t number = first; number < first + count; ++number) {
      found += Get(number) ? 1U : 0U;
    }
    return found;
  }
  // Puts so many other blocks that none of those before is in host memory.
  void FloodHost(std::uint64_t first) { Put(first, options.host.bytes / kBlockBytes * 3 / 2); }
  std::string DataFile() const { return folder + "/drive/blocks.kvferry"; }

  std::string folder;
  EngineOptions options;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<CompletionQueue> queue;
  NamespaceHandle space;
};

}  // namespace kvferry::testing
