// Random schedules of blocks between a server, device and host memory: no block is ever torn.
//
// hbm_torn_tests --schedules 10000 --seed 1 runs more of them than CI does.
#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "tests/tiers/hbm/hbm_scene.h"

namespace kvferry::tiers {
namespace {

using kvferry::testing::HbmScene;
using kvferry::testing::Must;

// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): set once, by main.
std::uint64_t g_schedules = 120;
std::uint64_t g_seed = 1;
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

// One server with one stream, and one engine's thread: both are this thread, in random turns. Each
// block that is produced has a number of its own, which its bytes follow from; every copy that
// arrives is compared with it.
class TornRun {
 public:
  TornRun(sim::CudaSchedule schedule, std::uint64_t seed)
      : random_(seed), scene_(SimOptions(schedule, seed), MoveOptions(random_)) {
    hosts_.resize(HbmScene::kSlots);
    places_.resize(kSlotPlaces + HbmScene::kPages / 2);
    for (std::uint32_t i = 0; i < kSlotPlaces; ++i) {
      places_[i].slot = Must(scene_.pool().Reserve(0));
    }
  }

  void Run() {
    for (int action = 0; action < 60 && !::testing::Test::HasFailure(); ++action) {
      switch (random_.Below(5)) {
        case 0:
          Produce();
          break;
        case 1:
          Offload();
          break;
        case 2:
          Onboard();
          break;
        case 3:
          OverwriteHost();
          break;
        default:
          Step();
      }
      UseLayers();
    }
    while (scene_.moves().unfinished() > 0 || !onboards_.empty()) {
      Step();
      UseLayers();
      std::this_thread::yield();
    }
    CheckSeen();
    EXPECT_EQ(scene_.cuda().counts().pageable_copies, 0U);
    EXPECT_EQ(scene_.cuda().kernel_failure(), "");
    EXPECT_OK(scene_.pool().CheckInvariants());
  }

 private:
  static constexpr std::uint32_t kSlotPlaces = 8;  // The pool has more.

  struct Place {  // On the device: a slot, or two pages of the server's.
    HbmSlot slot;
    std::uint32_t value = 0;  // 0: nothing that counts.
    bool is_busy = false;
  };
  struct Host {
    std::uint32_t value = 0;
    std::uint32_t readers = 0;
    bool is_filled = false;  // False while an offload writes it.
    bool is_written = false;
  };
  struct Transfer {
    HbmMoveId id;
    bool is_paged = false;
    bool has_ended = false;
    std::uint32_t layer_next = 0;
    std::vector<std::uint32_t> places;
    std::vector<std::uint32_t> hosts;
    std::vector<std::uint32_t> seen;
  };

  static sim::SimCudaOptions SimOptions(sim::CudaSchedule schedule, std::uint64_t seed) {
    sim::SimCudaOptions options;
    options.schedule = schedule;
    options.seed = seed;
    options.delay_us_max = 20;
    options.device_bytes = std::uint64_t{1} << 24;
    return options;
  }
  static HbmMovesOptions MoveOptions(Random& random) {
    HbmMovesOptions options;
    options.kernels = random.Chance(0.5) ? &gpu::HostKernels() : nullptr;
    options.thresholds.single_count_max = random.Below(6);
    options.thresholds.single_bytes_min = random.Chance(0.5) ? 64 : 4096;
    options.thresholds.batch_bytes_min = random.Chance(0.5) ? 1 : 4096;
    options.part_bytes = HbmScene::kBlockBytes * random.Between(1, 3);
    options.parts_max = static_cast<std::uint32_t>(random.Between(1, 6));
    options.in_flight_bytes_max = HbmScene::kBlockBytes * random.Between(1, 6);
    options.moves_max = 8;
    if (random.Chance(0.5)) {  // Half of the memory goes by staging.
      options.is_pinned = [](std::span<const std::byte> bytes) {
        return reinterpret_cast<std::uintptr_t>(bytes.data()) / HbmScene::kBlockBytes % 2 == 0;
      };
      options.staging_parts = static_cast<std::uint32_t>(random.Between(1, 3));
    }
    return options;
  }

  bool IsPaged(std::uint32_t place) const { return place >= kSlotPlaces; }
  HbmBlock BlockAt(std::uint32_t place, std::uint32_t host) {
    return IsPaged(place) ? scene_.OfPages(place - kSlotPlaces, scene_.HostAt(host))
                          : scene_.OfSlot(places_[place].slot, scene_.HostAt(host));
  }
  void ProduceAt(std::uint32_t place) {
    places_[place].value = ++value_;
    if (IsPaged(place)) {
      scene_.ProducePages(place - kSlotPlaces, value_);
    } else {
      scene_.Produce(places_[place].slot, value_);
    }
  }
  std::uint32_t AnyPlace() { return static_cast<std::uint32_t>(random_.Below(places_.size())); }
  std::uint32_t AnyHost() { return static_cast<std::uint32_t>(random_.Below(hosts_.size())); }

  void Produce() {
    const std::uint32_t place = AnyPlace();
    if (!places_[place].is_busy) {
      ProduceAt(place);
    }
  }

  // Up to three pairs of a place and a host slot for which `is_usable` holds, of one kind.
  template <class Usable>
  Transfer Choose(Usable is_usable) {
    Transfer transfer;
    transfer.is_paged = random_.Chance(0.5);
    for (int i = 0; i < 6 && transfer.places.size() < 3; ++i) {
      const std::uint32_t place = AnyPlace();
      const std::uint32_t host = AnyHost();
      if (IsPaged(place) == transfer.is_paged && !places_[place].is_busy &&
          is_usable(places_[place], hosts_[host])) {
        places_[place].is_busy = true;
        transfer.places.push_back(place);
        transfer.hosts.push_back(host);
        hosts_[host].is_written = !hosts_[host].is_filled;
      }
    }
    return transfer;
  }
  bool Submit(HbmArrow arrow, Transfer& transfer) {
    std::vector<HbmBlock> blocks;
    for (std::size_t i = 0; i < transfer.places.size(); ++i) {
      blocks.push_back(BlockAt(transfer.places[i], transfer.hosts[i]));
    }
    HbmMove move = scene_.MoveOf(arrow, blocks);
    move.tensors = transfer.is_paged ? &scene_.tensors() : nullptr;
    move.layers_a_slice = static_cast<std::uint32_t>(random_.Below(HbmScene::kLayers + 1));
    move.urgency = static_cast<HbmUrgency>(random_.Below(3));
    move.after = Must(scene_.events().Record(scene_.server().native()));
    auto id = scene_.moves().Submit(std::move(move));
    if (!id.ok()) {
      EXPECT_STATUS(id, StatusCode::kResourceExhausted);
      return false;
    }
    transfer.id = *id;
    return true;
  }

  void Offload() {
    Transfer transfer = Choose([](const Place& place, Host& host) {
      const bool is_usable = place.value != 0 && host.readers == 0 && !host.is_written;
      host.is_filled = host.is_filled && !is_usable;
      return is_usable;
    });
    if (transfer.places.empty()) {
      return;
    }
    for (std::size_t i = 0; i < transfer.places.size(); ++i) {
      hosts_[transfer.hosts[i]].value = places_[transfer.places[i]].value;
    }
    if (!Submit(HbmArrow::kOffload, transfer)) {
      for (std::size_t i = 0; i < transfer.places.size(); ++i) {
        places_[transfer.places[i]].is_busy = false;
        hosts_[transfer.hosts[i]] = Host();
      }
      return;
    }
    // A slot may be given up at once: the next block gets another as long as this one is read.
    for (const std::uint32_t place : transfer.places) {
      if (!transfer.is_paged && random_.Chance(0.5)) {
        scene_.pool().Free(places_[place].slot);
        const auto slot = scene_.pool().Reserve(0);
        if (slot.ok()) {
          places_[place].slot = *slot;
          ProduceAt(place);
        } else {
          homeless_.push_back(place);
          places_[place].value = 0;
        }
      }
    }
    offloads_.push_back(std::move(transfer));
  }

  void Onboard() {
    MakeRoomForSeen();
    Transfer transfer = Choose([](const Place& /*place*/, Host& host) {
      host.readers += host.is_filled ? 1U : 0U;
      return host.is_filled;
    });
    if (transfer.places.empty()) {
      return;
    }
    if (!Submit(HbmArrow::kOnboard, transfer)) {
      for (std::size_t i = 0; i < transfer.places.size(); ++i) {
        places_[transfer.places[i]].is_busy = false;
        --hosts_[transfer.hosts[i]].readers;
      }
      return;
    }
    for (std::size_t i = 0; i < transfer.places.size(); ++i) {
      places_[transfer.places[i]].value = hosts_[transfer.hosts[i]].value;
      transfer.seen.push_back(static_cast<std::uint32_t>(seen_.size()));
      seen_.push_back(places_[transfer.places[i]].value);
    }
    onboards_.push_back(std::move(transfer));
  }

  // The server has a place for what it reads of each block, which is compared later.
  void MakeRoomForSeen() {
    if (seen_.size() + 3 <= HbmScene::kSlots) {
      return;
    }
    while (!onboards_.empty()) {
      Step();
      UseLayers();
      std::this_thread::yield();
    }
    CheckSeen();
  }
  void CheckSeen() {
    ASSERT_OK(scene_.server().Synchronize());
    for (std::uint32_t i = 0; i < seen_.size(); ++i) {
      EXPECT_TRUE(HbmScene::IsHost(scene_.SeenAt(i), seen_[i])) << "onboarded block " << seen_[i];
    }
    seen_.clear();
  }

  // The server takes up the layers that are there, in their order.
  void UseLayers() {
    for (std::size_t at = 0; at < onboards_.size();) {
      Transfer& transfer = onboards_[at];
      while (transfer.layer_next < HbmScene::kLayers && random_.Chance(0.7) && UseLayer(transfer)) {
      }
      if (transfer.layer_next < HbmScene::kLayers || !transfer.has_ended) {
        ++at;
        continue;
      }
      for (const std::uint32_t place : transfer.places) {
        places_[place].is_busy = false;
      }
      scene_.moves().Forget(transfer.id);
      onboards_.erase(onboards_.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
  bool UseLayer(Transfer& transfer) {
    const Status status =
        scene_.moves().WaitLayer(transfer.id, transfer.layer_next, scene_.server().native());
    if (!status.ok()) {
      EXPECT_STATUS(status, StatusCode::kUnavailable);
      return false;
    }
    for (std::size_t i = 0; i < transfer.places.size(); ++i) {
      const std::uint32_t place = transfer.places[i];
      if (transfer.is_paged) {
        scene_.UsePages(place - kSlotPlaces, transfer.layer_next, transfer.seen[i]);
      } else {
        scene_.Use(places_[place].slot, transfer.layer_next, transfer.seen[i]);
      }
    }
    ++transfer.layer_next;
    return true;
  }

  void Step() {
    scene_.moves().Step(scene_.now());
    while (const auto end = scene_.moves().TakeEnd()) {
      EXPECT_OK(end->status);
      NoteEnd(*end);
    }
    for (const std::uint32_t place : std::exchange(homeless_, {})) {
      const auto slot = scene_.pool().Reserve(0);
      if (slot.ok()) {
        places_[place].slot = *slot;
      } else {
        homeless_.push_back(place);
      }
    }
  }
  void NoteEnd(const HbmMoveEnd& end) {
    for (Transfer& transfer : onboards_) {
      if (transfer.id == end.id) {
        transfer.has_ended = true;
        for (const std::uint32_t host : transfer.hosts) {
          --hosts_[host].readers;
        }
        return;
      }
    }
    for (std::size_t at = 0; at < offloads_.size(); ++at) {
      Transfer& transfer = offloads_[at];
      if (transfer.id != end.id) {
        continue;
      }
      for (std::size_t i = 0; i < transfer.places.size(); ++i) {
        Host& host = hosts_[transfer.hosts[i]];
        EXPECT_TRUE(HbmScene::IsHost(scene_.HostAt(transfer.hosts[i]), host.value))
            << "offloaded block " << host.value;
        host.is_filled = true;
        host.is_written = false;
        places_[transfer.places[i]].is_busy = false;
        // The server may use the place again from here on, and does.
        if (transfer.is_paged && random_.Chance(0.5)) {
          ProduceAt(transfer.places[i]);
        }
      }
      scene_.moves().Forget(end.id);
      offloads_.erase(offloads_.begin() + static_cast<std::ptrdiff_t>(at));
      return;
    }
    ADD_FAILURE() << "a second end";
  }

  // Host memory that nobody reads gets another block.
  void OverwriteHost() {
    const std::uint32_t host = AnyHost();
    if (hosts_[host].readers == 0 && !hosts_[host].is_written) {
      HbmScene::FillHost(scene_.HostAt(host), ++value_);
      hosts_[host].value = value_;
      hosts_[host].is_filled = true;
    }
  }

  Random random_;
  HbmScene scene_;
  std::vector<Place> places_;
  std::vector<Host> hosts_;
  std::vector<Transfer> offloads_;
  std::vector<Transfer> onboards_;
  std::vector<std::uint32_t> seen_;      // Values.
  std::vector<std::uint32_t> homeless_;  // Places whose slot was given up, with no other yet.
  std::uint32_t value_ = 0;
};

class HbmTornTest : public ::testing::TestWithParam<sim::CudaSchedule> {};

INSTANTIATE_TEST_SUITE_P(AllSchedules,
                         HbmTornTest,
                         kvferry::testing::EachSchedule(),
                         kvferry::testing::NameOfSchedule);

TEST_P(HbmTornTest, BlocksArriveWhole) {
  // A missing wait, or a place that is used again too early, mixes two blocks' bytes.
  const std::uint64_t count = std::max<std::uint64_t>(g_schedules / 4, 1);
  for (std::uint64_t seed = g_seed; seed < g_seed + count && !HasFailure(); ++seed) {
    SCOPED_TRACE("--schedules 4 --seed " + std::to_string(seed));
    TornRun run(GetParam(), seed);
    run.Run();
  }
}

bool ReadNumber(std::string_view text, std::uint64_t& number) {
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && at == end;
}

}  // namespace
}  // namespace kvferry::tiers

int main(int argument_count, char** arguments) {
  ::testing::InitGoogleTest(&argument_count, arguments);
  for (int i = 1; i < argument_count; i += 2) {
    const std::string_view name = arguments[i];
    std::uint64_t& number = name == "--seed" ? kvferry::tiers::g_seed : kvferry::tiers::g_schedules;
    if ((name != "--seed" && name != "--schedules") || i + 1 == argument_count ||
        !kvferry::tiers::ReadNumber(arguments[i + 1], number)) {
      std::fprintf(stderr, "usage: hbm_torn_tests [--schedules N] [--seed N]\n");
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}
