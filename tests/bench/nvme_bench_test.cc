// What `bench nvme` refuses, what it asks of the drive, and how it prints.
#include "bench/nvme_bench.h"

#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

#include <nlohmann/json.hpp>

namespace kvferry::bench {
namespace {

using ::testing::HasSubstr;

std::string Refusal(const NvmeBenchOptions& options) {
  const Status status = options.Validate();
  EXPECT_STATUS(status, StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(NvmeBenchOptionsTest, TakesItsDefaultsAndSmallOnes) {
  EXPECT_OK(NvmeBenchOptions().Validate());
  NvmeBenchOptions small;
  small.host_bytes = 8 * kMiB;
  small.store_bytes = 32 * kMiB;
  small.block_bytes = {4 * kKiB, 256 * kKiB};
  small.seconds = 0.001;
  EXPECT_OK(small.Validate());
}

TEST(NvmeBenchOptionsTest, SaysWhatIsWrongAndWhatMayBe) {
  NvmeBenchOptions options;
  options.cases = {"onbord"};
  EXPECT_THAT(Refusal(options), HasSubstr("'onbord' is none of the cases, which are offload, "
                                          "onboard, mixed, mixed_unlimited"));
  options = {};
  options.block_bytes = {};
  EXPECT_THAT(Refusal(options), HasSubstr("--block names no size"));
  for (const std::uint64_t size : {std::uint64_t{0}, 2 * kKiB, 5'000 * kKiB + 1, 65 * kMiB}) {
    options.block_bytes = {size};
    EXPECT_THAT(Refusal(options), HasSubstr("4.00 KiB to 64.0 MiB"));
  }
  options.block_bytes = {32 * kMiB};
  EXPECT_THAT(Refusal(options), HasSubstr("less than 32 blocks of 32.0 MiB"));
  options = {};
  options.store_bytes = 4 * options.host_bytes - 1;
  EXPECT_THAT(Refusal(options), HasSubstr("less than four times 512 MiB"));
  options = {};
  options.seconds = 0;
  EXPECT_THAT(Refusal(options), HasSubstr("--seconds"));
}

TEST(NvmeBenchOptionsTest, AsksForASecondFileOnlyWhereItWritesToIt) {
  NvmeBenchOptions options;
  EXPECT_EQ(options.DiskBytes(), 8 * kGiB);
  options.cases = {"onboard", "mixed"};
  EXPECT_EQ(options.DiskBytes(), 4 * kGiB);
  options.cases = {"offload"};
  EXPECT_EQ(options.DiskBytes(), 8 * kGiB);
}

TEST(NvmeBenchTest, SaysTheRoomThatItNeedsBeforeItTakesAny) {
  NvmeBenchOptions options;
  options.dir = ::testing::TempDir();
  options.store_bytes = std::uint64_t{1000} * kTiB;
  std::string first;
  const auto report = RunNvmeBench(
      options, [&](std::string_view step) { first = first.empty() ? std::string(step) : first; });
  EXPECT_STATUS(report, StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(report.status().message()), HasSubstr("lower --store-bytes"));
  EXPECT_THAT(first, HasSubstr("files of 1.95 PiB in " + options.dir));

  options = {};
  options.dir = "/no/such/folder";
  EXPECT_STATUS(RunNvmeBench(options, [](std::string_view) {}), StatusCode::kInvalidArgument);
}

NvmeBenchReport ExampleReport() {
  NvmeBenchReport report;
  report.io = "io_uring";
  report.store_bytes = 4 * kGiB;
  report.host_bytes = 512 * kMiB;
  report.request_bytes = 8 * kMiB;
  report.cases.push_back({.name = "onboard",
                          .block_bytes = kMiB,
                          .pairs = 41,
                          .gbps = 2.75,
                          .bound_gbps = 3,
                          .ratio = 0.921,
                          .p50_us = 1234.5,
                          .p99_us = 9876.5,
                          .cpu_us_per_mib = 45.5,
                          .bound_cpu_us_per_mib = 8.25,
                          .hash_us_per_mib = 35,
                          .write_gbps = 0,
                          .blocks_skipped = 0});
  return report;
}

TEST(NvmeBenchReportTest, PrintsALineACaseAndWarnsOfFewPairs) {
  NvmeBenchReport report = ExampleReport();
  std::ostringstream text;
  PrintTable(text, report);
  EXPECT_EQ(text.str(),
            "case                 GB/s   bound   ratio   p50 us   p99 us  CPU us/MiB  bound's  "
            "checksum  written  pairs\n"
            "onboard, 1.00 MiB    2.75    3.00   0.921     1234     9876        45.5      8.2      "
            "35.0     0.00     41\n");

  report.cases.front().pairs = 3;
  report.cases.front().blocks_skipped = 12;
  std::ostringstream few;
  PrintTable(few, report);
  EXPECT_THAT(few.str(), HasSubstr("onboard, 1.00 MiB: 12 blocks left host memory before"));
  EXPECT_THAT(few.str(), HasSubstr("Only 3 pairs of slices"));
}

TEST(NvmeBenchReportTest, PrintsOneJsonObjectWithEveryNumber) {
  std::ostringstream text;
  PrintJson(text, ExampleReport());
  const auto json = nlohmann::json::parse(text.str());
  EXPECT_EQ(json["bench"], "nvme");
  EXPECT_EQ(json["io"], "io_uring");
  EXPECT_TRUE(json["machine"].contains("kernel"));
  EXPECT_EQ(json["store_bytes"], 4 * kGiB);
  ASSERT_EQ(json["cases"].size(), 1U);
  EXPECT_EQ(json["cases"][0], nlohmann::json::parse(R"({
    "name": "onboard", "block_bytes": 1048576, "pairs": 41, "gbps": 2.75, "bound_gbps": 3,
    "ratio": 0.921, "p50_us": 1234.5, "p99_us": 9876.5, "cpu_us_per_mib": 45.5,
    "bound_cpu_us_per_mib": 8.25, "hash_us_per_mib": 35, "write_gbps": 0,
    "blocks_skipped": 0})"));
}

}  // namespace
}  // namespace kvferry::bench
