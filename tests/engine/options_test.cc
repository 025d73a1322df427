// What engine options are refused for, their text form, and the page that describes them.
#include "kvferry/options.h"

#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/option_table.h"
#include "tests/support/status_matchers.h"

namespace kvferry {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string MessageOf(const EngineOptions& options) {
  const Status status = options.Validate();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
  return std::string(status.message());
}

// Stops compiling when a struct gains a field, and says: add it to option_table.h, docs/options.md
// and the tests of this folder.
[[maybe_unused]] void NameEveryField() {
  [[maybe_unused]] const auto& [h1, h2, h3, h4, h5, h6, h7] = HostTierOptions();
  [[maybe_unused]] const auto& [d1] = HistoryOptions();
  [[maybe_unused]] const auto& [e1, e2, e3, e4, e5, e6, e7, e8, e9, e10, e11, e12] =
      EngineOptions();
}

TEST(EngineOptionsTest, AcceptsItsDefaultsAndItsBounds) {
  EXPECT_OK(EngineOptions().Validate());

  EngineOptions least;
  least.host.bytes = 2 << 20;
  least.block_bytes = 4096;
  least.host.held_percent = 1;
  least.history.blocks_max = 0;
  least.namespaces_max = least.requests_max = least.blocks_per_request_max = 1;
  least.handles_max = least.deadline_ms = 1;
  least.close_deadline_ms = 0;
  least.transfers_max = 2;
  EXPECT_OK(least.Validate());

  EngineOptions greatest;
  greatest.host.bytes = std::uint64_t{16} << 40;
  greatest.host.numa_node = 1023;
  greatest.block_bytes = 64 << 20;
  greatest.host.held_percent = 100;
  greatest.namespaces_max = 65'534;
  greatest.requests_max = greatest.transfers_max = 65'536;
  greatest.blocks_per_request_max = 1 << 20;
  greatest.handles_max = 1 << 24;
  greatest.deadline_ms = greatest.close_deadline_ms = 3'600'000;
  greatest.copy_threads = 256;
  greatest.seed = ~std::uint64_t{0};
  EXPECT_OK(greatest.Validate());
}

// Whoever reads the message must not have to look anything up.
TEST(EngineOptionsTest, SaysWhichOptionWhatItIsAndWhatItMayBe) {
  EngineOptions options;
  options.host.held_percent = 101;
  EXPECT_EQ(MessageOf(options),
            "host.held_percent is 101: it must lie between 1 and 100; it is the part of host.bytes "
            "that handles may keep");

  options = {};
  options.host.bytes = 5000;
  EXPECT_EQ(MessageOf(options),
            "host.bytes is 5000: it must be 0 or lie between 2MiB and 16TiB; 0 takes half of the "
            "memory that the process may use");

  options = {};
  options.host.numa_node = -2;
  EXPECT_EQ(MessageOf(options),
            "host.numa_node is -2: it must lie between -1 and 1,023; -1 binds to no node");

  options = {};
  options.host.huge_pages = static_cast<HugePages>(9);
  EXPECT_EQ(MessageOf(options), "host.huge_pages is 9: it must be none, transparent or reserved");

  options = {};
  options.host.policy = "lru";
  EXPECT_THAT(MessageOf(options), StartsWith("host.policy: 'lru' is not a policy; known are"));
}

// One too small or one too large of each number, so that no bound is missing.
TEST(EngineOptionsTest, RefusesEachNumberBeyondItsBounds) {
  EngineOptions options;
  std::vector<std::string> refused;
  const auto expect_refused = [&](std::string_view name) {
    EXPECT_THAT(MessageOf(options), StartsWith(std::string(name) + " is "));
    refused.emplace_back(name);
  };
  const auto try_bounds = [&](const engine::OptionFacts& facts, auto& field) {
    using Field = std::remove_cvref_t<decltype(field)>;
    if constexpr (std::is_integral_v<Field> && !std::is_same_v<Field, bool>) {
      const Field kept = field;
      if (facts.min >= 1) {
        field = static_cast<Field>(facts.min - 1);
        expect_refused(facts.name);
      }
      if (facts.max < static_cast<std::uint64_t>(std::numeric_limits<Field>::max())) {
        field = static_cast<Field>(facts.max + 1);
        expect_refused(facts.name);
      }
      field = kept;
    }
  };

  engine::VisitOptions(options, try_bounds);

  EXPECT_EQ(refused.size(), 22U);
  EXPECT_OK(options.Validate());
}

TEST(EngineOptionsTest, AcceptsEveryPolicyAlsoBehindAdmission) {
  EngineOptions options;
  for (const char* name : {"auto", "s3-fifo", "adaptive:leaf-lru", "second-sight:arc"}) {
    options.host.policy = name;
    EXPECT_OK(options.Validate());
  }
}

// A tier of fewer blocks than a transfer window, or more than numbers, fails long after Open.
TEST(EngineOptionsTest, ChecksOptionsTogether) {
  EngineOptions options;
  options.host.bytes = 7 << 20;
  EXPECT_EQ(MessageOf(options),
            "host.bytes is 7MiB and block_bytes is 1MiB: the host tier must hold at least 8 "
            "blocks; raise host.bytes to 8MiB, or lower block_bytes");
  options.host.bytes = 8 << 20;
  EXPECT_OK(options.Validate());

  options.host.bytes = std::uint64_t{16} << 40;
  options.block_bytes = 64 << 10;
  EXPECT_EQ(MessageOf(options),
            "host.bytes / block_bytes is 268,435,456 blocks and history.blocks_max is 65,536: "
            "together they may be at most 268,434,432; raise block_bytes, or lower the other two");
}

TEST(EngineOptionsTest, PrintsOneLineAnOption) {
  EngineOptions options;
  options.host.bytes = std::uint64_t{64} << 30;
  options.host.policy = "a\"b\\c\n";
  options.seed = ~std::uint64_t{0};

  EXPECT_EQ(ToString(options),
            "host.bytes = 68719476736\n"
            "host.huge_pages = \"transparent\"\n"
            "host.numa_node = -1\n"
            "host.is_populated = true\n"
            "host.verify_on_get = false\n"
            "host.policy = \"a\\\"b\\\\c\\u000A\"\n"
            "host.held_percent = 50\n"
            "history.blocks_max = 65536\n"
            "block_bytes = 1048576\n"
            "namespaces_max = 256\n"
            "requests_max = 1024\n"
            "blocks_per_request_max = 65536\n"
            "handles_max = 65536\n"
            "transfers_max = 256\n"
            "deadline_ms = 30000\n"
            "close_deadline_ms = 5000\n"
            "copy_threads = 0\n"
            "seed = \"18446744073709551615\"\n");
}

// An option nobody can look up, or whose default is told wrong.
TEST(EngineOptionsTest, EachIsInThePageWithItsDefault) {
  std::ifstream file(KVFERRY_SOURCE_DIR "/docs/options.md");
  const std::string page{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const std::string defaults = ToString(EngineOptions());
  for (std::size_t begin = 0; begin < defaults.size();) {
    const std::size_t end = defaults.find('\n', begin);
    const std::size_t equals = defaults.find(" = ", begin);
    EXPECT_THAT(page, HasSubstr("\n| `" + defaults.substr(begin, equals - begin) + "` | `" +
                                defaults.substr(equals + 3, end - equals - 3) + "` |"));
    begin = end + 1;
  }
}

}  // namespace
}  // namespace kvferry
