// Random puts, gets, cancels and erasures between a server's tensors and the engine: blocks arrive
// whole, or not at all.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "tests/engine/hbm_server.h"
#include "tests/support/sanitizers.h"

namespace kvferry {
namespace {

using testing::HbmServer;
using testing::KeyOf;

constexpr std::uint32_t kNumbers = 40;  // Of blocks.

EngineOptions OptionsOf(Random& random) {
  EngineOptions options = HbmServer::Options();
  options.block_bytes = HbmServer::kBlockBytes;
  options.host.bytes = 2 << 20;  // Of 128 blocks, so nothing is evicted; erasures make misses.
  options.host.verify_on_get = random.Chance(0.3);
  options.copy_threads = 1;
  options.requests_max = 8;
  return options;
}

sim::SimCudaOptions SimOf(sim::CudaSchedule schedule, std::uint64_t seed) {
  sim::SimCudaOptions options = testing::ScheduledAs(schedule);
  options.seed = seed;
  options.delay_us_max = 50;
  return options;
}

// One server with its places: each is the server's, or a request's until its completion.
class TornEngineRun {
 public:
  TornEngineRun(sim::CudaSchedule schedule, std::uint64_t seed)
      : random_(seed), server_(SimOf(schedule, seed), OptionsOf(random_), random_.Chance(0.5)) {}

  void Play(std::uint32_t steps) {
    for (std::uint32_t step = 0; step < steps && !::testing::Test::HasFailure(); ++step) {
      const double dice = random_.Fraction();
      if (dice < 0.3) {
        Put();
      } else if (dice < 0.6) {
        Get();
      } else if (dice < 0.65) {
        Erase();
      } else if (dice < 0.75 && !requests_.empty()) {
        server_.engine().Cancel(requests_[random_.Below(requests_.size())].ticket);
      } else if (dice < 0.9) {
        UseLayers();
      }
      Poll();
    }
    while (!requests_.empty() && !::testing::Test::HasFailure()) {
      EXPECT_OK(server_.queue().Wait(Clock::now() + std::chrono::seconds(60)));
      Poll();
    }
    EXPECT_EQ(server_.cuda().counts().pageable_copies, 0U);
  }

 private:
  struct Request {
    Ticket ticket;
    bool is_get = false;
    bool is_erase = false;
    std::vector<std::uint32_t> numbers;
    std::vector<std::uint32_t> places;
    std::vector<BlockKey> keys;
    std::vector<DeviceBlock> blocks;
    std::uint32_t layer_next = 0;  // Layers before it were used.
  };

  // Up to `count` places that are the server's.
  std::vector<std::uint32_t> TakePlaces(std::size_t count) {
    std::vector<std::uint32_t> taken;
    for (std::uint32_t i = 0; i < 40 && taken.size() < count; ++i) {
      const auto place = static_cast<std::uint32_t>(random_.Below(HbmServer::kPlaces));
      if (!is_lent_[place]) {
        is_lent_[place] = true;
        taken.push_back(place);
      }
    }
    return taken;
  }
  Request& NewRequest(std::size_t blocks) {
    Request& request = *requests_.emplace(requests_.end());
    request.places = TakePlaces(blocks);
    const auto first = static_cast<std::uint32_t>(random_.Below(kNumbers));
    for (std::uint32_t i = 0; i < request.places.size(); ++i) {
      request.numbers.push_back((first + i) % kNumbers);
      request.keys.push_back(KeyOf(request.numbers.back()));
      request.blocks.push_back(HbmServer::At(request.places[i]));
    }
    return request;
  }
  void GiveBack(const Request& request) {
    for (const std::uint32_t place : request.places) {
      is_lent_[place] = false;
    }
  }
  // Whether it was taken up.
  bool Note(Request& request, const Result<Ticket>& ticket) {
    if (ticket.ok()) {
      request.ticket = *ticket;
      return true;
    }
    EXPECT_STATUS(ticket, StatusCode::kResourceExhausted);
    GiveBack(request);
    requests_.pop_back();
    return false;
  }

  void Put() {
    Request& request = NewRequest(1 + random_.Below(6));
    if (request.places.empty()) {
      requests_.pop_back();
      return;
    }
    for (std::size_t i = 0; i < request.places.size(); ++i) {
      server_.Produce(request.places[i], request.numbers[i]);
    }
    const Result<Ticket> ticket = server_.Put(request.keys, request.blocks, Deadline());
    if (Note(request, ticket) && random_.Chance(0.3)) {
      // What the stream is given later has other places.
      const std::vector<std::uint32_t> other = TakePlaces(1);
      for (const std::uint32_t place : other) {
        server_.Produce(place, 99);
        is_lent_[place] = false;
      }
    }
  }
  void Get() {
    Request& request = NewRequest(1 + random_.Below(6));
    if (request.places.empty()) {
      requests_.pop_back();
      return;
    }
    request.is_get = true;
    for (const std::uint32_t place : request.places) {
      server_.Produce(place, 123);  // The last use; what is got comes after it.
    }
    Note(request, server_.Get(request.keys, request.blocks, Deadline()));
  }
  void Erase() {
    Request& request = NewRequest(1 + random_.Below(3));
    GiveBack(request);  // The places of an erasure are nobody's.
    request.places.clear();
    if (request.keys.empty()) {
      requests_.pop_back();
      return;
    }
    request.is_erase = true;
    Note(request,
         server_.engine().Name(engine::Call::Kind::kErase,
                               {.in = server_.space(), .keys = request.keys}, server_.queue()));
  }
  Instant Deadline() {
    return random_.Chance(0.1) ? Clock::now() + std::chrono::microseconds(random_.Below(2000))
                               : Instant();
  }

  void UseLayers() {
    for (Request& request : requests_) {
      while (request.is_get && request.layer_next < HbmServer::kLayers &&
             server_.engine()
                 .WaitLayer(request.ticket, request.layer_next, server_.stream().native())
                 .ok()) {
        for (const std::uint32_t place : request.places) {
          server_.Use(place, request.layer_next);
        }
        ++request.layer_next;
      }
    }
  }

  void Poll() {
    std::array<Completion, 8> ended;
    const std::size_t count = server_.queue().Poll(ended);
    for (const Completion& completion : std::span(ended).first(count)) {
      const auto found =
          std::find_if(requests_.begin(), requests_.end(),
                       [&](const Request& request) { return request.ticket == completion.ticket; });
      ASSERT_NE(found, requests_.end()) << "a second end";
      OnEnd(*found, completion);
      GiveBack(*found);
      requests_.erase(found);
    }
  }
  void OnEnd(const Request& request, const Completion& completion) {
    const StatusCode code = completion.status.code();
    EXPECT_TRUE(completion.status.ok() || code == StatusCode::kCancelled ||
                code == StatusCode::kDeadlineExceeded)
        << completion.status.ToString();
    if (!request.is_get) {
      return;
    }
    // Who cancels may have had all layers queued by then.
    if (completion.blocks_ready < request.places.size() && completion.status.ok()) {
      EXPECT_LT(request.layer_next, HbmServer::kLayers);
    }
    for (std::uint32_t i = 0; i < completion.blocks_ready; ++i) {
      for (std::uint32_t layer = request.layer_next; layer < HbmServer::kLayers; ++layer) {
        server_.Use(request.places[i], layer);
      }
    }
    // From here on the places are the server's, whatever became of the get.
    for (std::uint32_t i = completion.blocks_ready; i < request.places.size(); ++i) {
      server_.Produce(request.places[i], 200);
      server_.UseAll(request.places[i]);
    }
    ASSERT_OK(server_.stream().Synchronize());
    std::this_thread::yield();
    for (std::uint32_t i = 0; i < request.places.size(); ++i) {
      const std::uint32_t expected = i < completion.blocks_ready ? request.numbers[i] : 200;
      EXPECT_TRUE(HbmServer::IsBlock(server_.Seen(request.places[i]), expected))
          << "block " << i << " of " << request.places.size() << ", number " << expected;
    }
  }

  Random random_;
  HbmServer server_;
  std::array<bool, HbmServer::kPlaces> is_lent_{};
  std::vector<Request> requests_;
};

class HbmTornEngineTest : public ::testing::TestWithParam<sim::CudaSchedule> {};

INSTANTIATE_TEST_SUITE_P(AllSchedules,
                         HbmTornEngineTest,
                         testing::EachSchedule(),
                         testing::NameOfSchedule);

// A missing wait, or a place that is used again too early, mixes two blocks' bytes.
TEST_P(HbmTornEngineTest, BlocksArriveWholeOrNotAtAll) {
  for (std::uint64_t seed = 1; seed <= testing::Rounds(8) && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    TornEngineRun run(GetParam(), seed);
    run.Play(120);
  }
}

}  // namespace
}  // namespace kvferry
