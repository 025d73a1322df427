// Jobs on the arena's threads.
#include "engine/copy_arena.h"

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"
#include "tests/support/test_blocks.h"

namespace kvferry::engine {
namespace {

using testing::BytesOf;
using testing::KeyOf;

constexpr std::uint32_t kJobs = 24;
constexpr std::size_t kSize = 5'000;

// A job that copies one block.
struct Work {
  CopyJob job;
  std::vector<std::byte> source;
  std::vector<std::byte> target = std::vector<std::byte>(kSize);
};

std::vector<std::unique_ptr<Work>> MakeWork() {
  std::vector<std::unique_ptr<Work>> works;
  for (std::uint32_t i = 0; i < kJobs; ++i) {
    auto work = std::make_unique<Work>();
    work->source = BytesOf(i, kSize);
    work->job.kind = CopyJob::Kind::kCopyAndSum;
    work->job.piece_count = 1;
    work->job.owner = i;
    work->job.pieces[0] = {.source = work->source.data(),
                           .target = work->target.data(),
                           .size_bytes = kSize,
                           .key = KeyOf(i),
                           .checksum = {}};
    works.push_back(std::move(work));
  }
  return works;
}

// A job that is lost or comes twice, or is told as done before its bytes are there.
TEST(CopyArenaTest, EachJobComesBackOnceWithItsBytes) {
  MoverBell bell;
  auto arena = CopyArena::Create(3, kJobs, bell);
  ASSERT_OK(arena);
  for (int round = 0; round < 20; ++round) {
    const auto works = MakeWork();
    for (const auto& work : works) {
      (*arena)->Submit(work->job);
    }
    (*arena)->Flush();
    std::vector<std::uint32_t> seen(kJobs);
    for (std::uint32_t done = 0; done < kJobs;) {
      std::array<CopyJob*, 5> jobs{};
      const std::size_t count = (*arena)->Reap(Instant(), jobs);
      if (count == 0) {
        bell.WaitUntil(Instant::max());
      }
      for (const CopyJob* job : std::span(jobs).first(count)) {
        const Work& work = *works[job->owner];
        ++seen[job->owner];
        EXPECT_EQ(work.target, work.source);
        EXPECT_EQ(job->pieces[0].checksum, ChecksumOf(work.source, KeyOf(job->owner)));
      }
      done += static_cast<std::uint32_t>(count);
    }
    EXPECT_EQ(seen, std::vector<std::uint32_t>(kJobs, 1));
    EXPECT_EQ((*arena)->in_flight(), 0U);
  }
}

// Threads that still write into memory of which the owner thinks that it is free.
TEST(CopyArenaTest, GoesOnlyWhenWhatIsInFlightIsDone) {
  MoverBell bell;
  const auto works = MakeWork();
  {
    auto arena = CopyArena::Create(2, kJobs, bell);
    ASSERT_OK(arena);
    for (const auto& work : works) {
      (*arena)->Submit(work->job);
    }
  }

  for (const auto& work : works) {
    EXPECT_EQ(work->target, work->source);
  }
}

}  // namespace
}  // namespace kvferry::engine
