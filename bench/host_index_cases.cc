// What the engine's tables cost: matches, puts of blocks that are hardly worth copying, memory.
#include <algorithm>
#include <chrono>
#include <utility>

#include "base/checksum.h"
#include "base/random.h"
#include "bench/host_cases.h"

namespace kvferry::bench {
namespace {

constexpr std::size_t kMatchKeys = 8'192;
constexpr std::size_t kMatchesMin = 5;
constexpr std::size_t kRoundsMin = 3;
constexpr std::size_t kLineBytes = 64;

double SecondsSince(Instant start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Reads `lines` lines of `memory` at random; seconds. `sum` keeps the reads from being dropped.
double ReadLines(std::span<const std::byte> memory,
                 std::size_t lines,
                 Random& random,
                 std::uint64_t& sum) {
  std::vector<std::size_t> places(lines);
  for (std::size_t& place : places) {
    place = random.Below(memory.size() / kLineBytes) * kLineBytes;
  }
  const double start = ThreadSeconds();
  for (const std::size_t place : places) {
    sum += std::to_integer<std::uint64_t>(memory[place]);
  }
  return ThreadSeconds() - start;
}

}  // namespace

Result<BenchResult> MeasureMatch(HostCase& shared, bool is_swept) {
  Random random(1);
  std::vector<double> ours;
  std::vector<double> ratios;
  std::uint64_t sum = 0;
  const std::span<std::byte> memory = shared.caller.bytes();
  // What the bound is read from: as much as the tables take, and swept over first.
  const std::span<std::byte> like_tables =
      memory.first(std::min<std::size_t>(memory.size(), shared.engine.Stats().index_bytes));
  // The latest fifteen sixteenths are surely there.
  const std::uint64_t oldest = shared.stored - shared.slots / 16 * 15;
  std::uint64_t first = oldest;
  const Instant start = Clock::now();
  while (ours.size() < kMatchesMin || SecondsSince(start) < shared.seconds) {
    if (first + kMatchKeys > shared.stored) {
      first = oldest;
    }
    const std::vector<BlockKey> keys = KeysOf(first, kMatchKeys);
    first += kMatchKeys;
    for (std::size_t at = 0; is_swept && at < memory.size(); at += kLineBytes) {
      sum += std::to_integer<std::uint64_t>(memory[at]);
    }
    const double before = ThreadSeconds();
    const std::uint32_t matched = shared.engine.Match(keys);
    ours.push_back((ThreadSeconds() - before) * 1e6);
    const double bound = ReadLines(like_tables, 2 * kMatchKeys, random, sum);
    ratios.push_back(ours.back() / (bound * 1e6));
    if (matched != kMatchKeys) {
      return Status::Error(StatusCode::kInternal, "a match found fewer blocks than were stored");
    }
  }
  BenchResult result;
  result.name = is_swept ? "match_8192_swept" : "match_8192";
  result.checksum = sum & 0xffffffff;
  result.value = Median(std::move(ours));
  result.unit = "us";
  result.bound = "reading two random lines a key";
  result.bound_value = result.value / Median(std::move(ratios));
  return result;
}

Result<BenchResult> MeasurePutMetadata(HostCase& shared, CallerMemory& like_pool) {
  const std::uint32_t block_bytes = shared.engine.options().block_bytes;
  const std::size_t blocks =
      std::min<std::size_t>(shared.caller.bytes().size() / block_bytes / 2, 65'536);
  std::vector<double> beyond;
  std::vector<double> copying;
  std::uint64_t sum = 0;
  const Instant start = Clock::now();
  while (beyond.size() < kRoundsMin || SecondsSince(start) < shared.seconds) {
    const std::vector<BlockKey> keys = KeysOf(shared.stored, blocks);
    const std::vector<std::byte*> taken = shared.caller.Take(blocks, block_bytes);
    const std::vector<const std::byte*> sources(taken.begin(), taken.end());
    const double before_put = ProcessSeconds();
    KVFERRY_RETURN_IF_ERROR(shared.engine.Put(keys, sources));
    const double put = ProcessSeconds() - before_put;
    shared.stored += blocks;

    const std::vector<std::byte*> from = shared.caller.Take(blocks, block_bytes);
    const std::vector<std::byte*> to = like_pool.Take(blocks, block_bytes);
    const double before_copy = ThreadSeconds();
    for (std::size_t i = 0; i < blocks; ++i) {
      const Checksum checksum =
          CopyAndChecksum({from[i], block_bytes}, {to[i], block_bytes}, keys[i]);
      sum += std::to_integer<std::uint64_t>(checksum.bytes[0]);
    }
    const double copy = ThreadSeconds() - before_copy;
    beyond.push_back((put - copy) / static_cast<double>(blocks) * 1e9);
    copying.push_back(copy / static_cast<double>(blocks) * 1e9);
  }
  BenchResult result;
  result.name = "put_metadata";
  result.block_bytes = block_bytes;
  result.value = Median(std::move(beyond));
  result.unit = "ns/block";
  result.bound = "copying it with its checksum";
  result.bound_value = Median(std::move(copying));
  result.checksum = sum & 0xffffffff;
  return result;
}

BenchResult MeasureIndexBytes(const HostCase& shared) {
  BenchResult result;
  result.name = "index_bytes_per_block";
  result.value =
      static_cast<double>(shared.engine.Stats().index_bytes) / static_cast<double>(shared.slots);
  result.unit = "B/block";
  result.bound = "its key and checksum";
  result.bound_value = sizeof(BlockKey) + sizeof(Checksum);
  result.checksum = shared.slots;
  return result;
}

}  // namespace kvferry::bench
