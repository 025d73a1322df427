// What `bench decode` refuses, how it reads a model, and when its results are a failure.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/bytes.h"
#include "bench/decode_bench.h"
#include "tests/support/status_matchers.h"

#include <nlohmann/json.hpp>

namespace kvferry::bench {
namespace {

using ::testing::HasSubstr;

class DecodeOptionsTest : public ::testing::Test {
 public:
  DecodeOptionsTest() {
    std::string pattern = ::testing::TempDir() + "kvferry_decode_XXXXXX";
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  ~DecodeOptionsTest() override { std::filesystem::remove_all(folder_); }
  DecodeOptionsTest(const DecodeOptionsTest&) = delete;
  DecodeOptionsTest& operator=(const DecodeOptionsTest&) = delete;

 protected:
  std::string ConfigOf(const std::string& text) const {
    std::ofstream(folder_ + "/config.json") << text;
    return folder_ + "/config.json";
  }

 private:
  std::string folder_;
};

TEST_F(DecodeOptionsTest, TakesItsDefaults) {
  const DecodeBenchOptions options;
  const Result<DecodeShape> shape = options.Shape();
  ASSERT_OK(shape);
  EXPECT_EQ(shape->block_bytes(), 16 * kKiB);
  const Result<DecodePlan> plan = options.Plan(*shape);
  ASSERT_OK(plan);
  EXPECT_GT(plan->total_blocks(), 3U * plan->hbm_blocks);
  EXPECT_EQ(options.HostBlocks(*shape, *plan), 260U);
  EXPECT_EQ(options.HostBytes(*shape, *plan), 6 * kMiB);  // Slabs of 2 MiB have 128 each.
}

TEST_F(DecodeOptionsTest, ReadsAModelAndSaysWhatItLeavesOut) {
  DecodeBenchOptions options;
  options.model = ConfigOf(R"({"model_type": "llama", "num_hidden_layers": 6, "head_dim": 128,
                              "num_attention_heads": 8, "num_key_value_heads": 2,
                              "hidden_size": 1024})");
  options.layers = 4;
  const Result<DecodeShape> shape = options.Shape();
  ASSERT_OK(shape);
  EXPECT_EQ(shape->layers, 4U);
  EXPECT_EQ(shape->block_bytes(), std::uint64_t{4} * 2 * 16 * 2 * 128 * 2);
  ASSERT_EQ(shape->notes.size(), 1U);
  EXPECT_THAT(shape->notes[0], HasSubstr("4 of 6 layers"));
}

TEST_F(DecodeOptionsTest, ReadsALatentAsOnePlane) {
  DecodeBenchOptions options;
  options.model = ConfigOf(R"({"model_type": "deepseek_v3", "num_hidden_layers": 2,
                              "num_attention_heads": 16, "hidden_size": 64, "kv_lora_rank": 512,
                              "qk_rope_head_dim": 64})");
  const Result<DecodeShape> shape = options.Shape();
  ASSERT_OK(shape);
  EXPECT_EQ(shape->planes(), 2U);
  EXPECT_EQ(shape->block_bytes(), std::uint64_t{2} * 16 * 1152);
}

TEST_F(DecodeOptionsTest, RefusesModelsThatNoKernelIsFor) {
  DecodeBenchOptions options;
  options.model = ConfigOf(R"({"model_type": "llama", "num_hidden_layers": 2, "head_dim": 96,
                              "num_attention_heads": 8, "hidden_size": 768})");
  const Result<DecodeShape> odd = options.Shape();
  EXPECT_STATUS(odd, StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(odd.status().message()), HasSubstr("64, 128 and 256"));
  options.model = ConfigOf("{}");
  const Result<DecodeShape> empty = options.Shape();
  EXPECT_STATUS(empty, StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(empty.status().message()), HasSubstr("choose another model"));
}

TEST_F(DecodeOptionsTest, SaysWhatIsWrongAndWhatMayBe) {
  const auto refusal = [](const DecodeBenchOptions& options) {
    const Result<DecodeShape> shape = options.Shape();
    const Status status = shape.ok() ? options.Plan(*shape).status() : shape.status();
    EXPECT_STATUS(status, StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  DecodeBenchOptions options;
  options.block_tokens = 1;
  EXPECT_THAT(refusal(options), HasSubstr("--block-tokens 1: a block of this model has 1.00 KiB"));
  options = {};
  options.host_blocks = 10;
  EXPECT_THAT(refusal(options), HasSubstr("give 128 or more"));
  options.host_blocks = 150;
  EXPECT_THAT(refusal(options), HasSubstr("without --nvme-dir there is no other place"));
  options = {};
  options.sessions = 60'000;
  options.hbm_blocks = 1'024;
  options.steps = 1U << 20;
  options.turn_steps = 1;
  EXPECT_THAT(refusal(options), HasSubstr("--steps 1048576"));
}

DecodeReport GoodReport() {
  DecodeReport report;
  report.device = "a \"device\"";
  report.notes = {"one", "two"};
  report.sha256_resident = "ab";
  report.sha256_staged = "ab";
  BenchResult error;
  error.name = "max_relative_error";
  error.value = 0.003;
  error.bound = "what is allowed";
  error.bound_value = 0.01;
  report.results = {error};
  return report;
}

TEST(DecodeReportTest, FailsForOtherOutputsAndForWrongOnes) {
  EXPECT_OK(GoodReport().Verdict());
  DecodeReport other = GoodReport();
  other.sha256_staged = "ac";
  EXPECT_STATUS(other.Verdict(), StatusCode::kDataLoss);
  DecodeReport wrong = GoodReport();
  wrong.results[0].value = 0.02;
  EXPECT_STATUS(wrong.Verdict(), StatusCode::kDataLoss);
}

TEST(DecodeReportTest, PrintsOneJsonObjectWithBothDigests) {
  std::ostringstream text;
  PrintJson(text, GoodReport());
  const auto json = nlohmann::json::parse(text.str());
  EXPECT_EQ(json["bench"], "decode");
  EXPECT_EQ(json["device"], "a \"device\"");
  EXPECT_EQ(json["notes"].size(), 2U);
  EXPECT_EQ(json["output_sha256"]["resident"], "ab");
  EXPECT_EQ(json["output_sha256"]["staged"], "ab");
  EXPECT_EQ(json["results"][0]["case"], "max_relative_error");
}

}  // namespace
}  // namespace kvferry::bench
