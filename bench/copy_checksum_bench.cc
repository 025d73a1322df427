// Copies of cold blocks, with and without their checksum, against memcpy of the same blocks.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvferry/status.h"
#include "kvferry/types.h"

#include "base/bytes.h"
#include "base/checksum.h"
#include "base/copy_bytes.h"
#include "base/random.h"
#include "bench/bench_report.h"
#include "tiers/host/host_memory.h"

namespace kvferry::bench {
namespace {

constexpr std::string_view kUsage =
    "copy_checksum_bench: GB/s of copying blocks that no cache holds, against memcpy\n"
    "  --pool SIZE    bytes on each side, well above the last cache (default 2GiB)\n"
    "  --slice SIZE   bytes copied in one way before the other's turn (default 64MiB)\n"
    "  --sizes LIST   sizes of a block (default 64KiB,256KiB,1MiB,4MiB)\n"
    "  --runs N       pairs of slices a case (default 15)\n"
    "  --json         one object instead of a table\n"
    "A pair is one slice of ours and one of memcpy, in alternating order, on blocks that were "
    "last\n"
    "touched a whole pool ago. The ratio is the median over the pairs; so is each value.\n";

struct Arguments {
  std::uint64_t pool_bytes = 2 * kGiB;
  std::uint64_t slice_bytes = 64 * kMiB;
  std::vector<std::uint64_t> sizes = {64 * kKiB, 256 * kKiB, kMiB, 4 * kMiB};
  int runs = 15;
  bool is_json = false;
  bool is_help = false;
};

Status BadArgument(std::string_view option, std::string_view value) {
  std::string message("'");
  message.append(value).append("' is no value for ").append(option).append("; see --help");
  return Status::Error(StatusCode::kInvalidArgument, std::move(message));
}

Status ParseSizes(std::string_view text, std::vector<std::uint64_t>& sizes) {
  sizes.clear();
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    KVFERRY_ASSIGN_OR_RETURN(const std::uint64_t size, ParseBytes(text.substr(0, comma)));
    sizes.push_back(size);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return Status::Ok();
}

Status SetOption(std::string_view option, std::string_view value, Arguments& arguments) {
  if (option == "--sizes") {
    return ParseSizes(value, arguments.sizes);
  }
  if (option == "--runs") {
    const auto [end, error] =
        std::from_chars(value.data(), value.data() + value.size(), arguments.runs);
    return error == std::errc() && arguments.runs > 0 ? Status::Ok() : BadArgument(option, value);
  }
  if (option == "--pool" || option == "--slice") {
    KVFERRY_ASSIGN_OR_RETURN(const std::uint64_t bytes, ParseBytes(value));
    (option == "--pool" ? arguments.pool_bytes : arguments.slice_bytes) = bytes;
    return Status::Ok();
  }
  return BadArgument(option, value);
}

Result<Arguments> ParseArguments(std::span<char* const> words) {
  Arguments arguments;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string_view word = words[i];
    arguments.is_json = arguments.is_json || word == "--json";
    arguments.is_help = arguments.is_help || word == "--help";
    if (word == "--json" || word == "--help") {
      continue;
    }
    const std::string_view value = i + 1 < words.size() ? words[++i] : "";
    KVFERRY_RETURN_IF_ERROR(SetOption(word, value, arguments));
  }
  for (const std::uint64_t size : arguments.sizes) {
    if (size == 0 || size > arguments.slice_bytes || arguments.slice_bytes > arguments.pool_bytes) {
      return Status::Error(StatusCode::kInvalidArgument,
                           "sizes must be above 0 and fit into a slice, a slice into the pool");
    }
  }
  return arguments;
}

using Copy = std::uint64_t (*)(std::span<const std::byte> source, std::span<std::byte> target);

std::uint64_t LowBytes(const Checksum& checksum) {
  std::uint64_t low = 0;
  std::memcpy(&low, checksum.bytes.data(), sizeof(low));
  return low;
}

std::uint64_t CopyByMemcpy(std::span<const std::byte> source, std::span<std::byte> target) {
  std::memcpy(target.data(), source.data(), source.size());
  return std::to_integer<std::uint64_t>(target[source.size() / 2]);
}

std::uint64_t CopyByCopyBytes(std::span<const std::byte> source, std::span<std::byte> target) {
  CopyBytes(source, target);
  return std::to_integer<std::uint64_t>(target[source.size() / 2]);
}

std::uint64_t CopyWithChecksum(std::span<const std::byte> source, std::span<std::byte> target) {
  return LowBytes(CopyAndChecksum(source, target, BlockKey{}));
}

// What putting costs without the fused function: the checksum reads the copied block once more.
std::uint64_t MemcpyThenChecksum(std::span<const std::byte> source, std::span<std::byte> target) {
  std::memcpy(target.data(), source.data(), source.size());
  return LowBytes(ChecksumOf(target.first(source.size()), BlockKey{}));
}

struct Way {
  std::string_view name;
  Copy copy;
};

constexpr Way kWays[] = {
    {"copy and checksum", CopyWithChecksum},
    {"copy past the caches", CopyByCopyBytes},
    {"memcpy, then checksum", MemcpyThenChecksum},
};

// Two pools walked slice by slice, so that a block comes up again only after all others did.
class Pools {
 public:
  static Result<Pools> Make(std::uint64_t bytes) {
    Pools pools;
    KVFERRY_ASSIGN_OR_RETURN(pools.source_, tiers::HostMemory::Map({.bytes = bytes}));
    KVFERRY_ASSIGN_OR_RETURN(pools.target_, tiers::HostMemory::Map({.bytes = bytes}));
    Random random(1);
    const std::span<std::byte> source = pools.source_->bytes();
    for (std::size_t at = 0; at + sizeof(std::uint64_t) <= source.size();
         at += sizeof(std::uint64_t)) {
      const std::uint64_t number = random.Next();
      std::memcpy(source.data() + at, &number, sizeof(number));
    }
    std::ranges::fill(pools.target_->bytes(), std::byte{1});
    return pools;
  }

  // GB/s of the next slice.
  double CopySlice(std::uint64_t slice_bytes, std::uint64_t size, Copy copy) {
    if (at_ + slice_bytes > source_->bytes().size()) {
      at_ = 0;
    }
    const std::uint64_t blocks = slice_bytes / size;
    const auto start = std::chrono::steady_clock::now();
    for (std::uint64_t block = 0; block < blocks; ++block) {
      const auto begin = static_cast<std::size_t>(at_ + block * size);
      checksum_ +=
          copy(source_->bytes().subspan(begin, size), target_->bytes().subspan(begin, size));
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    at_ += slice_bytes;
    return static_cast<double>(blocks * size) / seconds.count() * 1e-9;
  }
  // Of the copies since the last call, short enough for the table.
  std::uint64_t TakeChecksum() { return std::exchange(checksum_, 0) & 0xffffffff; }

 private:
  std::unique_ptr<tiers::HostMemory> source_;
  std::unique_ptr<tiers::HostMemory> target_;
  std::uint64_t at_ = 0;
  std::uint64_t checksum_ = 0;
};

BenchResult Measure(Pools& pools, const Arguments& arguments, std::uint64_t size, const Way& way) {
  std::vector<double> ours;
  std::vector<double> ratios;
  for (int run = 0; run < arguments.runs; ++run) {
    // Who goes first changes, so that a drift of the machine's speed favours neither.
    const bool is_first = run % 2 == 0;
    const double first =
        pools.CopySlice(arguments.slice_bytes, size, is_first ? way.copy : CopyByMemcpy);
    const double second =
        pools.CopySlice(arguments.slice_bytes, size, is_first ? CopyByMemcpy : way.copy);
    ours.push_back(is_first ? first : second);
    ratios.push_back(is_first ? first / second : second / first);
  }
  BenchResult result;
  result.name = std::string(way.name).append(", ").append(FormatBytes(size));
  result.value = Median(std::move(ours));
  result.unit = "GB/s";
  result.bound = "memcpy";
  // So that the ratio that is printed is the median of the pairs' ratios.
  result.bound_value = result.value / Median(std::move(ratios));
  result.checksum = pools.TakeChecksum();
  return result;
}

Status RunBench(const Arguments& arguments) {
  KVFERRY_ASSIGN_OR_RETURN(Pools pools, Pools::Make(arguments.pool_bytes));
  std::vector<BenchResult> results;
  results.reserve(arguments.sizes.size() * std::size(kWays));
  for (const Way& way : kWays) {
    for (const std::uint64_t size : arguments.sizes) {
      results.push_back(Measure(pools, arguments, size, way));
    }
  }
  if (arguments.is_json) {
    PrintJson(std::cout, "copy_checksum", results);
    return Status::Ok();
  }
  std::cout << DescribeMachine() << "; pools of " << FormatBytes(arguments.pool_bytes)
            << "; medians of " << arguments.runs << " pairs\n";
  PrintTable(std::cout, results);
  return Status::Ok();
}

}  // namespace
}  // namespace kvferry::bench

int main(int argc, char** argv) {
  const auto arguments = kvferry::bench::ParseArguments({argv, static_cast<std::size_t>(argc)});
  if (!arguments.ok()) {
    std::cerr << arguments.status().message() << '\n';
    return 2;
  }
  if (arguments->is_help) {
    std::cout << kvferry::bench::kUsage;
    return 0;
  }
  const kvferry::Status status = kvferry::bench::RunBench(*arguments);
  if (!status.ok()) {
    std::cerr << status.ToString() << '\n';
    return 1;
  }
  return 0;
}
