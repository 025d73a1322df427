// Options from TOML: what reads back, what is refused and where, and text that is none.
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvferry/options.h"

#include "base/random.h"
#include "tests/support/status_matchers.h"

namespace kvferry {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::string_view kExample = R"(# An example.
block_bytes = 262144
seed = 7

[host]
bytes = "64GiB"          # Half of the machine.
huge_pages = "reserved"
numa_node = 1
is_populated = false
policy = "adaptive:s3-fifo"

[nvme]
paths = [
  "/mnt/nvme0",  # A drive each.
  '/mnt/nvme1'
]
capacity_bytes = "6TiB"
io = "io_uring"
may_format = true

[history]
blocks_max = 1_000_000
)";

// A value other than the default for every option.
EngineOptions Unusual() {
  EngineOptions options;
  options.host.bytes = std::uint64_t{3} << 30;
  options.host.huge_pages = HugePages::kNone;
  options.host.numa_node = 3;
  options.host.is_populated = false;
  options.host.verify_on_get = true;
  options.host.policy = "second-sight:gdsf";
  options.host.held_percent = 7;
  options.nvme.paths = {"/mnt/a b", "c\"\\"};
  options.nvme.manifest_path = "/var/lib/kvferry";
  options.nvme.capacity_bytes = std::uint64_t{5} << 40;
  options.nvme.segment_bytes = std::uint64_t{17} << 20;
  options.nvme.write_bytes_per_day = std::uint64_t{1} << 40;
  options.nvme.admits_on_second_touch = true;
  options.nvme.protected_percent = 18;
  options.nvme.commit_bytes = 19'000;
  options.nvme.commit_ms = 20;
  options.nvme.in_flight_max = 21;
  options.nvme.io = NvmeIo::kThreads;
  options.nvme.is_required = false;
  options.nvme.probe_ms = 22;
  options.nvme.may_format = true;
  options.history.blocks_max = 8;
  options.block_bytes = 5'000;
  options.namespaces_max = 9;
  options.requests_max = 10;
  options.blocks_per_request_max = 11;
  options.handles_max = 12;
  options.transfers_max = 13;
  options.deadline_ms = 14;
  options.close_deadline_ms = 15;
  options.copy_threads = 16;
  options.seed = ~std::uint64_t{0};
  return options;
}

std::string Refusal(std::string_view toml) {
  const auto parsed = ParseEngineOptions(toml, "engine.toml");
  EXPECT_STATUS(parsed, StatusCode::kInvalidArgument);
  return std::string(parsed.status().message());
}

// What an engine logs must be usable as its next configuration.
TEST(OptionsFileTest, ReadsBackWhatIsPrinted) {
  for (const EngineOptions& options : {EngineOptions(), Unusual()}) {
    const std::string text = ToString(options);
    const auto parsed = ParseEngineOptions(text, "printed");
    ASSERT_OK(parsed);
    EXPECT_EQ(ToString(*parsed), text);
  }
  EXPECT_EQ(ParseEngineOptions(ToString(Unusual()), "printed")->seed, ~std::uint64_t{0});
}

// As many drives as there may be, with names as long as they may be: no line may be too long.
TEST(OptionsFileTest, ReadsBackALongListOfDrives) {
  EngineOptions options;
  options.nvme.capacity_bytes = std::uint64_t{1} << 40;
  for (int i = 0; i < 64; ++i) {
    const std::string name = "/mnt/" + std::to_string(i);
    options.nvme.paths.push_back(name + std::string(i % 2 == 0 ? 0 : 480 - name.size(), '"'));
  }
  ASSERT_OK(options.Validate());

  const auto parsed = ParseEngineOptions(ToString(options), "printed");

  ASSERT_OK(parsed);
  EXPECT_EQ(parsed->nvme.paths, options.nvme.paths);
}

// '?' stands for what is not ASCII in a file that is read: another folder must not be taken for it.
TEST(OptionsFileTest, RefusesPathsBeyondAscii) {
  for (const std::string_view name : {"/mnt/gr\xc3\xb6n", "/mnt/gr\\u00f6n", "/mnt/a?"}) {
    EXPECT_THAT(
        Refusal("nvme.capacity_bytes = \"1TiB\"\nnvme.paths = [\"" + std::string(name) + "\"]\n"),
        HasSubstr("must be of printable ASCII characters"));
  }
}

TEST(OptionsFileTest, ReadsTablesSizesAndKeepsDefaults) {
  const auto parsed = ParseEngineOptions(kExample, "engine.toml");

  ASSERT_OK(parsed);
  EXPECT_EQ(parsed->block_bytes, 262'144U);
  EXPECT_EQ(parsed->seed, 7U);
  EXPECT_EQ(parsed->host.bytes, std::uint64_t{64} << 30);
  EXPECT_EQ(parsed->host.huge_pages, HugePages::kReserved);
  EXPECT_EQ(parsed->host.numa_node, 1);
  EXPECT_FALSE(parsed->host.is_populated);
  EXPECT_EQ(parsed->host.policy, "adaptive:s3-fifo");
  EXPECT_EQ(parsed->host.held_percent, EngineOptions().host.held_percent);
  EXPECT_EQ(parsed->nvme.paths, (std::vector<std::string>{"/mnt/nvme0", "/mnt/nvme1"}));
  EXPECT_EQ(parsed->nvme.capacity_bytes, std::uint64_t{6} << 40);
  EXPECT_EQ(parsed->nvme.io, NvmeIo::kUring);
  EXPECT_TRUE(parsed->nvme.may_format);
  EXPECT_TRUE(parsed->nvme.is_required);
  EXPECT_EQ(parsed->nvme.commit_bytes, EngineOptions().nvme.commit_bytes);
  EXPECT_EQ(parsed->history.blocks_max, 1'000'000U);
  EXPECT_EQ(parsed->requests_max, EngineOptions().requests_max);
}

TEST(OptionsFileTest, TakesAnEmptyFileAndEmptySections) {
  for (const std::string_view toml :
       {"", "\n# Nothing.\n", "[host]\n[nvme]\npaths = []\n[history]\n"}) {
    const auto parsed = ParseEngineOptions(toml, "engine.toml");
    ASSERT_OK(parsed);
    EXPECT_EQ(ToString(*parsed), ToString(EngineOptions()));
  }
}

// Comments are in whatever language their author thinks, and an editor may add a mark in front.
TEST(OptionsFileTest, TakesCommentsInAnyLanguage) {
  const auto parsed = ParseEngineOptions(
      "\xef\xbb\xbf# Gr\xc3\xb6\xc3\x9f"
      "e\nseed = 2  # \xc2\xa0\xff\n",
      "engine.toml");
  ASSERT_OK(parsed);
  EXPECT_EQ(parsed->seed, 2U);
}

// A misspelt option that is passed over is a default in production.
TEST(OptionsFileTest, RefusesUnknownKeysWithTheNearestOne) {
  EXPECT_EQ(Refusal("\n[host]\nbyts = 1\n"),
            "engine.toml:3: 'host.byts' is no option; did you mean 'host.bytes'?");
  EXPECT_EQ(Refusal("request_max = 1\n"),
            "engine.toml:1: 'request_max' is no option; did you mean 'requests_max'?");
  EXPECT_EQ(Refusal("[hots]\npolicy = \"auto\"\n"),
            "engine.toml:2: 'hots.policy' is no option; did you mean 'host.policy'?");
  EXPECT_EQ(Refusal("policy = \"auto\"\n"),
            "engine.toml:1: 'policy' is no option; did you mean 'host.policy'?");
  EXPECT_THAT(Refusal("[gpu]\n"), StartsWith("engine.toml:1: 'gpu' is no option"));
  EXPECT_EQ(Refusal("[nvme]\npath = \"/mnt/a\"\n"),
            "engine.toml:2: 'nvme.path' is no option; did you mean 'nvme.paths'?");
  EXPECT_THAT(Refusal("\"a\\u001bb\" = 1\n"), StartsWith("engine.toml:1: 'a?b' is no option"));
  for (const std::string_view key : {"a.a.a.a.a.a", "x", "compression_level"}) {
    EXPECT_EQ(
        Refusal(std::string(key) + " = 1\n"),
        "engine.toml:1: '" + std::string(key) + "' is no option; docs/options.md has all of them");
  }
}

TEST(OptionsFileTest, RefusesWrongTypesWithTheirLine) {
  EXPECT_EQ(Refusal("host.bytes = 1.5\n"),
            "engine.toml:1: host.bytes must be a size, such as 4096 or \"64GiB\"");
  EXPECT_THAT(Refusal("host.bytes = \"many\"\n"),
              StartsWith("engine.toml:1: host.bytes: 'many' is not a size"));
  EXPECT_EQ(Refusal("\nhost.is_populated = 1\n"),
            "engine.toml:2: host.is_populated must be true or false");
  EXPECT_EQ(Refusal("host.huge_pages = \"big\"\n"),
            "engine.toml:1: host.huge_pages is \"big\": it must be none, transparent or reserved");
  EXPECT_EQ(Refusal("hbm.mode = true\n"),
            "engine.toml:1: hbm.mode must be off or attached, in quotes");
  EXPECT_EQ(Refusal("host.policy = 3\n"), "engine.toml:1: host.policy must be text, in quotes");
  EXPECT_EQ(Refusal("requests_max = \"5\"\n"),
            "engine.toml:1: requests_max must be a whole number");
  EXPECT_EQ(Refusal("seed = \"5x\"\n"), "engine.toml:1: seed must be a whole number");
  EXPECT_EQ(Refusal("requests_max = { a = 1 }\n"),
            "engine.toml:1: requests_max must be a whole number");
  for (const std::string_view paths : {"\"/mnt/a\"", "{ a = 1 }", "3"}) {
    EXPECT_EQ(
        Refusal("nvme.paths = " + std::string(paths) + "\n"),
        "engine.toml:1: nvme.paths must be a list of texts, such as [\"/mnt/a\", \"/mnt/b\"]");
  }
  EXPECT_EQ(Refusal("nvme.paths = [\"/mnt/a\", 3]\n"),
            "engine.toml:1: nvme.paths must be text, in quotes");
  EXPECT_EQ(Refusal("nvme.io = \"uring\"\n"),
            "engine.toml:1: nvme.io is \"uring\": it must be auto, io_uring or threads");
  EXPECT_EQ(Refusal("host = 5\n"),
            "engine.toml:1: 'host' holds options: write [host], and them below it");
}

TEST(OptionsFileTest, RefusesNumbersOutOfRangeWithTheirLine) {
  EXPECT_THAT(Refusal("\n\nrequests_max = 70000\n"),
              StartsWith("engine.toml:3: requests_max is 70000: it must lie between 1 and 65,536"));
  EXPECT_THAT(Refusal("requests_max = -1\n"), HasSubstr("requests_max is -1: it must lie between"));
  EXPECT_THAT(Refusal("seed = -1\n"), HasSubstr("seed is -1: it must lie between 0 and"));
  EXPECT_THAT(Refusal("block_bytes = \"8EiB\"\n"), HasSubstr("is not a size"));
  EXPECT_EQ(Refusal("nvme.capacity_bytes = \"99999999999TiB\"\n"),
            "engine.toml:1: nvme.capacity_bytes: '99999999999TiB' is out of range: a size is at "
            "most 8192 PiB");
}

// What single values do not show has a line as well: that of the option that the message names, or
// of the other one where that is not in the file.
TEST(OptionsFileTest, RefusesWhatDoesNotGoTogetherWithItsLine) {
  EXPECT_THAT(Refusal("seed = 1\nhost.policy = \"lru\"\n"),
              StartsWith("engine.toml:2: host.policy: 'lru' is not a policy"));
  EXPECT_THAT(Refusal("block_bytes = 4096\n\n[host]\npolicy = \"min\"\n"),
              StartsWith("engine.toml:4: host.policy: 'min' is no policy"));
  EXPECT_THAT(Refusal("block_bytes = \"2MiB\"\n[host]\nbytes = \"7MiB\"\n"),
              StartsWith("engine.toml:3: host.bytes is 7MiB and block_bytes is 2MiB"));
  EXPECT_THAT(Refusal("[history]\nblocks_max = 268000000\n[host]\nbytes = \"16TiB\"\n"),
              StartsWith("engine.toml:4: host.bytes / block_bytes is"));
  EXPECT_THAT(Refusal("[nvme]\n\npaths = [\"/a\"]\n"),
              StartsWith("engine.toml:3: nvme.capacity_bytes is 0 and nvme.paths has drives"));
  EXPECT_THAT(
      Refusal("[nvme]\ncapacity_bytes = \"1TiB\"\npaths = [\n  \"/a\",\n  \"/b/../a\",\n]\n"),
      StartsWith("engine.toml:5: nvme.paths[1] is \"/b/../a\", which is nvme.paths[0]"));
  EXPECT_THAT(Refusal("nvme.manifest_path = \"/seed\"\nseed = 2\n"),
              StartsWith("engine.toml:1: nvme.manifest_path is given and nvme.paths is empty"));
}

TEST(OptionsFileTest, RefusesWhatIsNoToml) {
  EXPECT_THAT(Refusal("seed = 1\nseed = 2\n"), StartsWith("engine.toml:2: it is not TOML: "));
  EXPECT_THAT(Refusal("{\"host\": {}}"), StartsWith("engine.toml:1: it is not TOML: "));
  EXPECT_THAT(Refusal(std::string_view("a\0b = 1", 7)),
              StartsWith("engine.toml:1: it is not TOML"));
  EXPECT_THAT(Refusal("gr\xc3\xb6\xc3\x9f"
                      "e = 1\n"),
              StartsWith("engine.toml:1: it is not TOML"));
  EXPECT_THAT(Refusal("seed = 1 \xc3\xb6\n"), StartsWith("engine.toml:1: it is not TOML"));
  EXPECT_THAT(Refusal("host.policy = \"\xff\xfe\"\n"),
              StartsWith("engine.toml:1: host.policy: '?\?' is not a policy"));
}

// What stands behind the 64th character used to be lost, words and all.
TEST(OptionsFileTest, SaysTheWholeOfWhatTheParserFound) {
  EXPECT_THAT(Refusal("seed = 1\nseed = 2\n"), ::testing::EndsWith("'seed'"));
  EXPECT_THAT(Refusal("host = 1\n[host]\nbytes = 1\n"), HasSubstr("cannot redefine existing"));
  EXPECT_THAT(Refusal("host = 1\n[host]\nbytes = 1\n"), ::testing::Not(::testing::EndsWith(" ")));
}

TEST(OptionsFileTest, ShowsThatALongNameWasCut) {
  const std::string name(70, 'x');
  EXPECT_THAT(Refusal(name + " = 1\n"),
              StartsWith("engine.toml:1: '" + name.substr(0, 61) + "...' is no option"));
  EXPECT_THAT(Refusal("host.policy = \"" + name + "\"\n"),
              HasSubstr("'" + name.substr(0, 61) + "...'"));
}

// Each dot of a key, each bracket of a value is one more call on the stack.
TEST(OptionsFileTest, RefusesTextThatNestsOrGrowsWithoutBound) {
  std::string dots = "a";
  for (int i = 0; i < 100'000; ++i) {
    dots.append(".a");
  }
  EXPECT_EQ(Refusal("seed = 1\n" + dots + " = 1\n"),
            "engine.toml:2: the line has 200005 bytes; write at most 1024");
  EXPECT_THAT(Refusal(dots.substr(0, 1'019) + " = 1"), HasSubstr("is no option"));
  EXPECT_THAT(Refusal("a = " + std::string(1'000, '[') + "\n"), HasSubstr("it is not TOML"));
  std::string nested;
  for (int i = 0; i < 100; ++i) {
    nested.append("a = [{").append(dots.substr(0, 999)).append(" = [\n");
  }
  EXPECT_THAT(Refusal(nested), HasSubstr("it is not TOML"));
  EXPECT_THAT(Refusal(std::string((1 << 20) + 1, '\n')), HasSubstr("more than 1.00 MiB"));
}

// Whatever a half-written or damaged file says, the answer is options that hold or a reason.
TEST(OptionsFileTest, SurvivesTruncatedAndGarbledText) {
  const std::string whole(kExample);
  const auto expect_answer = [](const std::string& toml) {
    const auto parsed = ParseEngineOptions(toml, "engine.toml");
    if (parsed.ok()) {
      EXPECT_OK(parsed->Validate());
    } else {
      EXPECT_STATUS(parsed, StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(parsed.status().message()), ContainsRegex("^engine.toml:[0-9]+: "))
          << toml;
    }
  };
  for (const std::string& text : {whole, ToString(Unusual())}) {
    for (std::size_t size = 0; size < text.size(); ++size) {
      expect_answer(text.substr(0, size));
    }
    Random random(20);
    for (int round = 0; round < 1'000; ++round) {
      std::string garbled = text;
      for (std::uint64_t changes = random.Between(1, 4); changes > 0; --changes) {
        garbled[random.Below(garbled.size())] = static_cast<char>(random.Below(256));
      }
      expect_answer(garbled);
    }
  }
}

TEST(OptionsFileTest, ReadsAFileAndNamesOneThatItCannotRead) {
  const std::string path = ::testing::TempDir() + "kvferry_options_file_test.toml";
  std::ofstream(path) << kExample;
  const auto read = ReadEngineOptions(path);
  ASSERT_OK(read);
  EXPECT_EQ(read->host.numa_node, 1);

  std::ofstream(path) << "bogus = 1\n";
  EXPECT_THAT(std::string(ReadEngineOptions(path).status().message()),
              StartsWith(path + ":1: 'bogus' is no option"));
  std::filesystem::remove(path);

  for (const std::string& missing : {path, ::testing::TempDir()}) {
    const auto refused = ReadEngineOptions(missing);
    EXPECT_STATUS(refused, StatusCode::kIoError);
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr(missing));
    EXPECT_NE(refused.status().native_code(), 0);
  }
}

}  // namespace
}  // namespace kvferry
