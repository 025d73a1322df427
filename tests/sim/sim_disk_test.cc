// SimDisk: what is seen at once, what a sync makes durable, and what a power cut may leave.
#include "sim/sim_disk.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "base/bytes.h"

namespace kvferry::sim {
namespace {

using Bytes = std::vector<std::byte>;
constexpr std::size_t kSector = SimDisk::kSectorBytes;
constexpr std::size_t kPage = SimDisk::kPageBytes;

Bytes Filled(std::size_t size_bytes, int value) {
  return Bytes(size_bytes, static_cast<std::byte>(value));
}

Bytes ReadOf(const SimDisk& disk, std::uint64_t offset_bytes, std::size_t size_bytes) {
  Bytes bytes(size_bytes);
  disk.Read(offset_bytes, bytes);
  return bytes;
}

// The values that sectors 0 .. count - 1 are filled with; a mixed one stops the test.
std::vector<int> SectorValues(const SimDisk& disk, std::size_t count) {
  std::vector<int> values;
  for (std::size_t i = 0; i < count; ++i) {
    const Bytes sector = ReadOf(disk, i * kSector, kSector);
    EXPECT_TRUE(std::all_of(sector.begin(), sector.end(),
                            [&](std::byte byte) { return byte == sector.front(); }));
    values.push_back(std::to_integer<int>(sector.front()));
  }
  return values;
}

TEST(SimDiskTest, GivesBackWhatWasWrittenAcrossPages) {
  SimDisk disk(kMiB);
  disk.Write(kPage - kSector, Filled(2 * kSector, 7));

  EXPECT_EQ(ReadOf(disk, kPage - kSector, 2 * kSector), Filled(2 * kSector, 7));
  EXPECT_EQ(ReadOf(disk, kPage - (2 * kSector), kSector), Filled(kSector, 0));
  EXPECT_EQ(disk.allocated_bytes(), 2 * kPage);
}

TEST(SimDiskTest, GivesTheSameGarbageForUnwrittenPages) {
  const SimDisk disk(kMiB, 5, SimDisk::Unwritten::kGarbage);
  const SimDisk same(kMiB, 5, SimDisk::Unwritten::kGarbage);
  const SimDisk other(kMiB, 6, SimDisk::Unwritten::kGarbage);
  EXPECT_EQ(ReadOf(disk, 0, kPage), ReadOf(same, 0, kPage));
  EXPECT_NE(ReadOf(disk, 0, kPage), ReadOf(other, 0, kPage));
  EXPECT_NE(ReadOf(disk, 0, kPage), ReadOf(disk, kPage, kPage));
}

TEST(SimDiskTest, KeepsWhatWasSyncedThroughAnyPowerCut) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SimDisk disk(kMiB);
    disk.Write(0, Filled(kPage, 1));
    disk.Sync(disk.write_point());
    Random random(seed);
    disk.PowerCut(random);
    EXPECT_EQ(ReadOf(disk, 0, kPage), Filled(kPage, 1)) << "seed " << seed;
  }
}

// All three contents of each sector since it was last durable must come up, and nothing else.
TEST(SimDiskTest, LeavesAnyContentSinceTheLastSyncAfterAPowerCut) {
  std::vector<std::set<int>> seen(8);
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SimDisk disk(kMiB);
    disk.Write(0, Filled(kPage, 1));
    disk.Sync(disk.write_point());
    disk.Write(0, Filled(kPage, 2));
    disk.Write(0, Filled(kPage, 3));
    Random random(seed);
    disk.PowerCut(random);
    const std::vector<int> values = SectorValues(disk, seen.size());
    for (std::size_t i = 0; i < seen.size(); ++i) {
      seen.at(i).insert(values.at(i));
    }
    EXPECT_EQ(disk.unsynced_sector_count(), 0);
  }
  for (const std::set<int>& values : seen) {
    EXPECT_EQ(values, (std::set<int>{1, 2, 3}));
  }
}

TEST(SimDiskTest, SyncsOnlyWhatWasWrittenBeforeThePoint) {
  bool is_lost = false;
  for (std::uint64_t seed = 0; seed < 100 && !is_lost; ++seed) {
    SimDisk disk(kMiB);
    disk.Write(0, Filled(kSector, 1));
    const std::uint64_t point = disk.write_point();
    disk.Write(kSector, Filled(kSector, 2));
    disk.Sync(point);
    Random random(seed);
    disk.PowerCut(random);
    EXPECT_EQ(SectorValues(disk, 1).front(), 1);
    is_lost = ReadOf(disk, kSector, kSector) == Filled(kSector, 0);
  }
  EXPECT_TRUE(is_lost);
}

// F1: a sync that follows a failed one says nothing about what the failed one was asked for.
TEST(SimDiskTest, LosesPartOfAFailedSyncAtOnceOrAtThePowerCut) {
  bool is_lost_at_once = false;
  bool is_lost_later = false;
  bool is_kept = false;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SimDisk disk(kMiB);
    disk.Write(0, Filled(kPage, 1));
    Random random(seed);
    disk.FailSync(disk.write_point(), random);
    disk.Sync(disk.write_point());
    const std::vector<int> before = SectorValues(disk, 8);
    disk.PowerCut(random);
    const std::vector<int> after = SectorValues(disk, 8);
    for (std::size_t i = 0; i < before.size(); ++i) {
      is_lost_at_once |= before.at(i) == 0;
      is_lost_later |= before.at(i) == 1 && after.at(i) == 0;
      is_kept |= after.at(i) == 1;
    }
  }
  EXPECT_TRUE(is_lost_at_once);
  EXPECT_TRUE(is_lost_later);
  EXPECT_TRUE(is_kept);
}

// Writing again is the cure, also where the loss has not shown yet.
TEST(SimDiskTest, KeepsWhatIsRewrittenAndSyncedAfterAFailedSync) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SimDisk disk(kMiB);
    disk.Write(0, Filled(kPage, 1));
    Random random(seed);
    disk.FailSync(disk.write_point(), random);
    disk.Write(0, Filled(kPage, 2));
    disk.Sync(disk.write_point());
    disk.PowerCut(random);
    EXPECT_EQ(ReadOf(disk, 0, kPage), Filled(kPage, 2)) << "seed " << seed;
  }
}

TEST(SimDiskTest, TearsAWriteBySectors) {
  SimDisk disk(kMiB);
  Random random(1);
  disk.WriteTorn(0, Filled(8 * kPage, 9), random);
  const std::vector<int> values = SectorValues(disk, 64);
  EXPECT_GT(std::count(values.begin(), values.end(), 9), 0);
  EXPECT_GT(std::count(values.begin(), values.end(), 0), 0);
}

TEST(SimDiskTest, BringsBackTheContentBeforeTheLastWrite) {
  SimDisk disk(kMiB);
  disk.Write(0, Filled(kPage, 1));
  disk.Write(0, Filled(kPage, 2));
  Bytes stale(kPage);
  disk.ReadStale(0, stale);
  EXPECT_EQ(stale, Filled(kPage, 1));
}

TEST(SimDiskTest, FlipsOneBit) {
  SimDisk disk(kMiB);
  disk.FlipBit((3 * 8) + 1);
  const Bytes page = ReadOf(disk, 0, kPage);
  EXPECT_EQ(std::to_integer<int>(page.at(3)), 2);
  EXPECT_EQ(std::count(page.begin(), page.end(), std::byte{0}), kPage - 1);
}

TEST(SimDiskTest, BoundsWhatIsNotDurable) {
  SimDisk disk(kMiB);
  const Bytes mebibyte = Filled(kMiB, 1);
  for (std::size_t i = 0; i < 65; ++i) {
    disk.Write(0, mebibyte);
  }
  EXPECT_EQ(disk.unsynced_sector_count(), SimDisk::kUnsyncedSectorsMax);
}

TEST(SimDiskDeathTest, StopsWhoReadsPastItsEnd) {
  const SimDisk disk(kPage);
  Bytes bytes(kPage);
  EXPECT_DEATH(disk.Read(kSector, bytes), "size_bytes");
}

}  // namespace
}  // namespace kvferry::sim
