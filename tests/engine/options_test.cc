// What engine options are refused for, their text form, and the page that describes them.
#include "kvferry/options.h"

#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
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

NvmeTierOptions WithDrives(std::vector<std::string> paths) {
  NvmeTierOptions nvme;
  nvme.paths = std::move(paths);
  nvme.capacity_bytes = std::uint64_t{1} << 30;
  return nvme;
}

// Stops compiling when a struct gains a field, and says: add it to option_table.h, docs/options.md
// and the tests of this folder.
[[maybe_unused]] void NameEveryField() {
  [[maybe_unused]] const auto& [h1, h2, h3, h4, h5, h6, h7] = HostTierOptions();
  [[maybe_unused]] const auto& [n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11, n12, n13, n14] =
      NvmeTierOptions();
  [[maybe_unused]] const auto& [g1, g2, g3, g4] = HbmTierOptions();
  [[maybe_unused]] const auto& [d1] = HistoryOptions();
  [[maybe_unused]] const auto& [e1, e2, e3, e4, e5, e6, e7, e8, e9, e10, e11, e12, e13, e14] =
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
  least.nvme = WithDrives({"a"});
  least.nvme.capacity_bytes = 4 << 20;
  least.nvme.segment_bytes = least.nvme.write_bytes_per_day = 1 << 20;
  least.nvme.protected_percent = 0;
  least.nvme.commit_bytes = 4096;
  least.nvme.commit_ms = 1;
  least.nvme.in_flight_max = 2;
  least.nvme.probe_ms = 10;
  EXPECT_OK(least.Validate());

  EngineOptions greatest;
  greatest.host.bytes = std::uint64_t{16} << 40;
  greatest.host.numa_node = 1023;
  greatest.block_bytes = 64 << 20;
  greatest.host.held_percent = 100;
  greatest.namespaces_max = 65'526;
  greatest.requests_max = greatest.transfers_max = 65'536;
  greatest.blocks_per_request_max = 1 << 20;
  greatest.handles_max = 1 << 24;
  greatest.deadline_ms = greatest.close_deadline_ms = 3'600'000;
  greatest.copy_threads = 256;
  greatest.seed = ~std::uint64_t{0};
  greatest.nvme = WithDrives({std::string(480, 'a')});
  for (int i = 1; i < 64; ++i) {
    greatest.nvme.paths.push_back("/mnt/" + std::to_string(i));
  }
  greatest.nvme.manifest_path = "/mnt/manifest";
  greatest.nvme.capacity_bytes = greatest.nvme.write_bytes_per_day = std::uint64_t{1024} << 40;
  greatest.nvme.segment_bytes = greatest.nvme.commit_bytes = 1 << 30;
  greatest.nvme.protected_percent = 90;
  greatest.nvme.commit_ms = 60'000;
  greatest.nvme.in_flight_max = 4096;
  greatest.nvme.io = NvmeIo::kThreads;
  greatest.nvme.probe_ms = 3'600'000;
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

  EXPECT_EQ(refused.size(), 38U);
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

// A store over half of its drives, or over one drive twice, is found when its data is gone.
TEST(EngineOptionsTest, ChecksThePathsOfDrives) {
  EngineOptions options;
  options.nvme = WithDrives({"/mnt/a", "/mnt/b", "/mnt/c/../a/"});
  EXPECT_EQ(MessageOf(options),
            "nvme.paths[2] is \"/mnt/c/../a/\", which is nvme.paths[0] as well: name each drive "
            "once, and one folder a drive");
  options.nvme = WithDrives({"/mnt/a", ""});
  EXPECT_EQ(MessageOf(options), "nvme.paths[1] is empty: name a folder or a raw device");
  options.nvme = WithDrives({"/mnt/gr\xc3\xb6n\n"});
  EXPECT_EQ(MessageOf(options),
            "nvme.paths[0] is \"/mnt/gr??n?\": it must be of printable ASCII characters other than "
            "'?'; rename it, or bind-mount it (mount --bind) at such a name");
  options.nvme = WithDrives({std::string(481, 'a')});
  EXPECT_EQ(MessageOf(options), "nvme.paths[0] has 481 bytes: it may have at most 480");
  options.nvme = WithDrives(std::vector<std::string>(65, "/mnt/a"));
  EXPECT_EQ(MessageOf(options), "nvme.paths has 65 drives: it may have 64");

  options.nvme = WithDrives({"/mnt/a"});
  options.nvme.manifest_path = "/mnt/a/";
  EXPECT_EQ(
      MessageOf(options),
      "nvme.manifest_path is \"/mnt/a/\", which is a drive's path: the manifest needs a folder "
      "of its own, such as \"/mnt/a/manifest\"");
  options.nvme.manifest_path = "/mnt/?";
  EXPECT_THAT(MessageOf(options), StartsWith("nvme.manifest_path is \"/mnt/?\": it must be of"));
  options.nvme.manifest_path = "/mnt/a/manifest";
  EXPECT_OK(options.Validate());
}

TEST(EngineOptionsTest, ChecksTheGpu) {
  EngineOptions options;
  options.hbm.mode = static_cast<HbmMode>(7);
  EXPECT_EQ(MessageOf(options), "hbm.mode is 7: it must be off or attached");
  options.hbm.mode = HbmMode::kOff;
  options.hbm.runtime_path = "/opt/libcudart.so.13";
  EXPECT_EQ(MessageOf(options),
            "hbm.runtime_path is given and hbm.mode is \"off\": set hbm.mode to \"attached\", or "
            "leave both out");
  options.hbm.mode = HbmMode::kAttached;
  EXPECT_OK(options.Validate());
  options.hbm.runtime_path = "a?";
  EXPECT_THAT(MessageOf(options), StartsWith("hbm.runtime_path is \"a?\": it must be of"));
}

TEST(EngineOptionsTest, ChecksTheCapacityOfDrives) {
  EngineOptions options;
  options.nvme = WithDrives({"/mnt/a", "/mnt/b"});
  options.nvme.capacity_bytes = 0;
  EXPECT_THAT(MessageOf(options), StartsWith("nvme.capacity_bytes is 0 and nvme.paths has drives"));
  options.nvme.paths.clear();
  EXPECT_OK(options.Validate());
  options.nvme.capacity_bytes = 1 << 30;
  EXPECT_THAT(MessageOf(options),
              StartsWith("nvme.capacity_bytes is given and nvme.paths is empty"));
  options.nvme.capacity_bytes = 0;
  options.nvme.manifest_path = "/mnt/a";
  EXPECT_THAT(MessageOf(options),
              StartsWith("nvme.manifest_path is given and nvme.paths is empty"));

  options.nvme = WithDrives({"/mnt/a", "/mnt/b"});
  options.nvme.segment_bytes = (8 << 20) - 1;
  EXPECT_EQ(MessageOf(options),
            "nvme.segment_bytes is 8388607: it must be of whole MiB, such as 8MiB");
  options.nvme.segment_bytes = 4 << 20;
  EXPECT_EQ(MessageOf(options),
            "nvme.segment_bytes is 4MiB and block_bytes is 1MiB: a segment must hold four blocks; "
            "raise nvme.segment_bytes to 5MiB, or lower block_bytes");
  options.nvme.segment_bytes = 5 << 20;
  EXPECT_OK(options.Validate());
}

// Else an engine opens with drives that hold nothing.
TEST(EngineOptionsTest, SaysWhichCapacityWouldDo) {
  EngineOptions options;
  options.nvme = WithDrives({"/mnt/a", "/mnt/b"});
  options.nvme.capacity_bytes = 25 << 20;
  EXPECT_EQ(
      MessageOf(options),
      "nvme.capacity_bytes is 25MiB: beside the manifest it must hold two segments of 5MiB on "
      "each of 2 drives; raise nvme.capacity_bytes to 26MiB, or lower block_bytes");
  options.nvme.capacity_bytes = 26 << 20;
  EXPECT_OK(options.Validate());
  options.nvme.segment_bytes = 1 << 30;
  EXPECT_EQ(
      MessageOf(options),
      "nvme.capacity_bytes is 26MiB: beside the manifest it must hold two segments of 1GiB on "
      "each of 2 drives; raise nvme.capacity_bytes to 4162MiB, or lower nvme.segment_bytes");
  options.nvme.capacity_bytes = std::uint64_t{4162} << 20;
  EXPECT_OK(options.Validate());
}

TEST(EngineOptionsTest, PrintsOneLineAnOption) {
  EngineOptions options;
  options.host.bytes = std::uint64_t{64} << 30;
  options.host.policy = "a\"b\\c\n";
  options.seed = ~std::uint64_t{0};
  options.nvme = WithDrives({"/mnt/a", "b"});
  options.nvme.io = NvmeIo::kUring;
  options.hbm.mode = HbmMode::kAttached;

  EXPECT_EQ(ToString(options),
            "host.bytes = 68719476736\n"
            "host.huge_pages = \"transparent\"\n"
            "host.numa_node = -1\n"
            "host.is_populated = true\n"
            "host.verify_on_get = false\n"
            "host.policy = \"a\\\"b\\\\c\\u000A\"\n"
            "host.held_percent = 50\n"
            "hbm.mode = \"attached\"\n"
            "hbm.device = 0\n"
            "hbm.runtime_path = \"\"\n"
            "hbm.is_required = true\n"
            "nvme.paths = [\"/mnt/a\", \"b\"]\n"
            "nvme.manifest_path = \"\"\n"
            "nvme.capacity_bytes = 1073741824\n"
            "nvme.segment_bytes = 0\n"
            "nvme.write_bytes_per_day = 0\n"
            "nvme.admits_on_second_touch = false\n"
            "nvme.protected_percent = 50\n"
            "nvme.commit_bytes = 33554432\n"
            "nvme.commit_ms = 100\n"
            "nvme.in_flight_max = 128\n"
            "nvme.io = \"io_uring\"\n"
            "nvme.is_required = true\n"
            "nvme.probe_ms = 5000\n"
            "nvme.may_format = false\n"
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
