// KvShape against the published table of real models, the rules of configs, and bad configs.
#include "model/kv_shape.h"

#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/shared_traces.h"
#include "tests/support/status_matchers.h"

namespace kvferry::model {
namespace {

// "12,288" and such; commas are for people.
std::string Grouped(std::uint64_t value) {
  std::string digits = std::to_string(value);
  for (std::size_t i = digits.size(); i > 3; i -= 3) {
    digits.insert(i - 3, ",");
  }
  return digits;
}

std::vector<std::string> CellsOf(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream stream(line.substr(1));
  for (std::string cell; std::getline(stream, cell, '|');) {
    const std::size_t begin = cell.find_first_not_of(' ');
    cells.push_back(begin == std::string::npos
                        ? ""
                        : cell.substr(begin, cell.find_last_not_of(' ') - begin + 1));
  }
  return cells;
}

// The table's columns behind the first two, written from a shape.
std::vector<std::string> RowOf(const KvShape& shape) {
  std::string full = "-";
  std::string windowed = "-";
  for (const KvGroup& group : shape.groups) {
    std::string text =
        std::to_string(group.layer_count) + " x " + Grouped(group.elements_per_token);
    if (group.window_tokens > 0) {
      text += " (" + Grouped(group.window_tokens) + ")";
    }
    std::string& cell = group.window_tokens > 0 ? windowed : full;
    cell = cell == "-" ? text : cell + ", " + text;
  }
  std::string states = "-";
  for (const StateGroup& group : shape.states) {
    states = std::to_string(group.layer_count) + " x (" + Grouped(group.convolution_elements) +
             " + " + Grouped(group.recurrent_elements) + ")";
  }
  const std::uint64_t indexer = shape.indexer_elements_per_token;
  return {full,
          windowed,
          indexer == 0 ? "-" : Grouped(indexer),
          states,
          Grouped(FullBytesPerToken(shape)),
          Grouped(BytesPerToken(shape)),
          Grouped(BytesAt(shape, 4096)),
          Grouped(BytesAt(shape, 131072))};
}

// Every number of the table, for every model in it, as it is written there.
TEST(KvShapeTest, GivesTheTableOfRealModels) {
  KVFERRY_REQUIRE_SHARED("models/README.md");
  std::ifstream table(testing::SharedPath("models/README.md"));
  int models = 0;
  for (std::string line; std::getline(table, line);) {
    if (!line.starts_with("| ") || line.starts_with("| model |")) {
      continue;
    }
    const std::vector<std::string> cells = CellsOf(line);
    ASSERT_GE(cells.size(), 10U) << line;
    const std::string path = testing::SharedPath("models/" + cells[0] + "/config.json");
    const Result<KvShape> shape = ReadKvShape(path);
    ASSERT_OK(shape);
    EXPECT_EQ(RowOf(*shape), std::vector(cells.begin() + 2, cells.begin() + 10)) << cells[0];
    EXPECT_TRUE(shape->notes.empty()) << cells[0] << ": " << shape->notes.front();
    ++models;
  }
  EXPECT_GE(models, 33);
}

// A layout that no rule covers must not come out as a plain one.
TEST(KvShapeTest, RefusesALayoutThatItDoesNotKnow) {
  KVFERRY_REQUIRE_SHARED("models/deepseek-v4-flash/config.json");
  const Result<KvShape> shape =
      ReadKvShape(testing::SharedPath("models/deepseek-v4-flash/config.json"));
  EXPECT_STATUS(shape, StatusCode::kInvalidArgument);
  const std::string message(shape.status().message());
  EXPECT_NE(message.find("deepseek-v4-flash/config.json: field 'compress_ratios'"),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("--bytes-per-token"), std::string::npos) << message;
}

KvShape Parsed(std::string_view text) {
  Result<KvShape> shape = ParseKvShape(text, "test.json");
  KVFERRY_EXPECT_OK_AS(EXPECT, shape);
  return shape ? *shape : KvShape();
}

using Groups = std::vector<KvGroup>;

TEST(KvShapeTest, ReadsPlainAttention) {
  const KvShape shape =
      Parsed(R"({"model_type": "llama", "num_hidden_layers": 3, "num_attention_heads": 4,
                                   "hidden_size": 32, "num_key_value_heads": 2})");
  EXPECT_EQ(shape.groups, (Groups{{.layer_count = 3, .elements_per_token = 32}}));
  EXPECT_EQ(BytesPerToken(shape), 192U);
  EXPECT_EQ(BytesPerToken(shape, 8), 96U);
  EXPECT_EQ(BytesAt(shape, 10), 1920U);
  EXPECT_EQ(BytesAt(shape, 0), 0U);
  EXPECT_EQ(BytesAt(shape, UINT64_MAX), UINT64_MAX);
  EXPECT_TRUE(shape.notes.empty());
}

TEST(AttentionHeadsTest, ReadsHeadsOfLayersThatKeepEveryToken) {
  // A decoder with other heads than the model's would read other rows than it stored.
  const auto heads_of = [](std::string_view text) {
    const Result<AttentionHeads> heads = ParseAttentionHeads(text, "test.json");
    KVFERRY_EXPECT_OK_AS(EXPECT, heads);
    return heads ? *heads : AttentionHeads();
  };
  EXPECT_EQ(heads_of(R"({"num_hidden_layers": 3, "num_attention_heads": 4, "hidden_size": 32,
                         "num_key_value_heads": 2})"),
            (AttentionHeads{4, 2, 8, 8, false}));
  EXPECT_EQ(heads_of(R"({"model_type": "deepseek_v3", "num_hidden_layers": 2,
                         "num_attention_heads": 16, "hidden_size": 64, "kv_lora_rank": 512,
                         "qk_rope_head_dim": 64})"),
            (AttentionHeads{16, 1, 576, 512, true}));
}

TEST(AttentionHeadsTest, RefusesModelsWithoutSuchLayers) {
  EXPECT_STATUS(ParseAttentionHeads(R"({"model_type": "mistral", "num_hidden_layers": 2,
                                        "num_attention_heads": 4, "hidden_size": 32,
                                        "sliding_window": 16})",
                                    "test.json"),
                StatusCode::kInvalidArgument);
}

TEST(KvShapeTest, RoundsHalfBytesUpOnce) {
  KvShape shape;
  shape.groups = {{.layer_count = 1, .elements_per_token = 3}};
  EXPECT_EQ(BytesPerToken(shape, 4), 2U);
  EXPECT_EQ(BytesAt(shape, 2, 4), 3U);
}

constexpr std::string_view kHeads =
    R"("num_attention_heads": 4, "hidden_size": 32, "num_key_value_heads": 2,
       "num_hidden_layers": )";

// What configs say in ways that no model of the table uses.
TEST(KvShapeTest, FollowsTheOtherRules) {
  const struct {
    std::string_view name;
    std::string fields;
    Groups groups;
  } cases[] = {
      {"cohere2's fourth layer",
       R"(6, "model_type": "cohere2", "sliding_window": 8)",
       {{1, 32, 0}, {5, 32, 8}}},
      {"qwen2's request",
       R"(4, "model_type": "qwen2", "sliding_window": 8, "use_sliding_window": true,
                               "max_window_layers": 3)",
       {{3, 32, 0}, {1, 32, 8}}},
      {"qwen2 unasked", R"(4, "model_type": "qwen2", "sliding_window": 8)", {{4, 32, 0}}},
      {"gemma3n's shared layers",
       R"(3, "model_type": "gemma3n_text", "num_kv_shared_layers": 1,
         "sliding_window": 8, "layer_types": ["sliding_attention", "full_attention",
            "full_attention"])",
       {{1, 32, 0}, {1, 32, 8}}},
      {"llama4's chunks",
       R"(5, "model_type": "llama4_text", "attention_chunk_size": 16)",
       {{1, 32, 0}, {4, 32, 16}}},
      {"llama4's list",
       R"(2, "model_type": "llama4_text", "attention_chunk_size": 16, "no_rope_layers": [0, 1])",
       {{1, 32, 0}, {1, 32, 16}}},
      {"qwen3-next's interval",
       R"(4, "model_type": "qwen3_next", "full_attention_interval": 4,
         "linear_num_key_heads": 1, "linear_key_head_dim": 2, "linear_num_value_heads": 3,
         "linear_value_head_dim": 4, "linear_conv_kernel_dim": 4)",
       {{1, 32, 0}}},
      {"bamba's indices",
       R"(3, "model_type": "bamba", "attn_layer_indices": [1], "mamba_expand": 2,
         "mamba_n_heads": 2, "mamba_d_head": 4, "mamba_d_state": 3, "mamba_n_groups": 1,
            "mamba_d_conv": 4)",
       {{1, 32, 0}}},
      {"a searched model's window",
       R"(2, "model_type": "nemotron-nas", "block_configs": [
         {"attention": {"n_heads_in_group": 4, "window_length": 8}},
         {"attention": {"n_heads_in_group": 1, "no_op": false}}])",
       {{1, 64, 0}, {1, 16, 8}}},
  };
  for (const auto& example : cases) {
    const KvShape shape = Parsed("{" + std::string(kHeads) + example.fields + "}");
    EXPECT_EQ(shape.groups, example.groups) << example.name;
  }
}

TEST(KvShapeTest, ReadsTheOlderNamesOfHeads) {
  const struct {
    std::string_view fields;
    std::uint32_t elements_per_token;
  } cases[] = {
      {R"("model_type": "gpt2", "n_layer": 1, "n_head": 4, "n_embd": 32)", 64},
      {R"("model_type": "mpt", "n_layers": 1, "n_heads": 4, "d_model": 32)", 64},
      {R"("model_type": "dbrx", "n_layers": 1, "n_heads": 4, "d_model": 32,
         "attn_config": {"kv_n_heads": 2})",
       32},
      {R"("model_type": "gpt_bigcode", "n_layer": 1, "n_head": 4, "n_embd": 32,
         "multi_query": true)",
       16},
      {R"("model_type": "chatglm", "num_layers": 1, "num_attention_heads": 4, "hidden_size": 32,
          "multi_query_attention": true, "multi_query_group_num": 2, "kv_channels": 8)",
       32},
      {R"("model_type": "falcon", "num_hidden_layers": 1, "num_attention_heads": 4,
         "hidden_size": 32,
          "new_decoder_architecture": true, "num_kv_heads": 2)",
       32},
      {R"("model_type": "falcon", "num_hidden_layers": 1, "num_attention_heads": 4,
         "hidden_size": 32,
          "multi_query": false, "num_kv_heads": 1)",
       64},
  };
  for (const auto& example : cases) {
    const KvShape shape = Parsed("{" + std::string(example.fields) + "}");
    EXPECT_EQ(shape.groups, (Groups{{1, example.elements_per_token, 0}})) << example.fields;
  }
}

TEST(KvShapeTest, ReadsPythonsNumbersAndAByteOrderMark) {
  const KvShape shape = Parsed(
      "\xef\xbb\xbf{\"a\": [Infinity, -Infinity, NaN], \"b\": \"Infinity \\\" NaN\", "
      "\"model_type\": \"opt\", "
      "\"num_hidden_layers\": 1, \"num_attention_heads\": 4, \"hidden_size\": 32}");
  EXPECT_EQ(BytesPerToken(shape), 128U);
}

// A type that nobody has checked is read, and the report says so.
TEST(KvShapeTest, NotesATypeThatItDoesNotKnow) {
  const KvShape shape = Parsed("{" + std::string(kHeads) + R"(1, "model_type": "brand_new"})");
  ASSERT_EQ(shape.notes.size(), 1U);
  EXPECT_NE(shape.notes[0].find("brand_new"), std::string::npos);
}

TEST(KvShapeTest, RefusesBadConfigsAndNamesFileFieldAndRemedy) {
  const struct {
    std::string text;
    std::string_view expected;
  } cases[] = {
      {"", "not JSON"},
      {"{", "not JSON"},
      {"[]", "not an object"},
      {"{\"a\": \"\xff\"}", "not JSON"},
      {std::string(100'000, '['), "not JSON"},
      {"{}", "'num_hidden_layers' is missing"},
      {R"({"num_hidden_layers": 0})", "'num_hidden_layers' is 0"},
      {R"({"num_hidden_layers": -1})", "'num_hidden_layers' is -1"},
      {R"({"num_hidden_layers": 1e3})", "'num_hidden_layers' is 1000.0"},
      {R"({"num_hidden_layers": "32"})", "'num_hidden_layers' is \"32\""},
      {R"({"num_hidden_layers": 9223372036854775808})",
       "'num_hidden_layers' is 9223372036854775808"},
      {R"({"num_hidden_layers": 2})", "'num_attention_heads' is missing"},
      {R"({"num_hidden_layers": 2, "num_attention_heads": 3, "hidden_size": 32})",
       "not a multiple of 3 heads"},
      {R"({"num_hidden_layers": 2, "num_attention_heads": 3, "hidden_size": 33,
         "num_key_value_heads": 0})",
       "'num_key_value_heads' is 0"},
      {R"({"num_hidden_layers": 2, "num_attention_heads": 65536, "head_dim": 1048576})",
       "which no model has"},
      {R"({"num_hidden_layers": 2, "kv_lora_rank": 512})", "'qk_rope_head_dim' is missing"},
      {R"({"num_hidden_layers": 2, "is_encoder_decoder": true})", "'is_encoder_decoder'"},
      {"{" + std::string(kHeads) + R"(2, "layer_types": ["full_attention"]})",
       "'layer_types' is not a list of 2"},
      {"{" + std::string(kHeads) + R"(1, "layer_types": ["moon_attention"]})",
       "unknown kind \"moon_attention\""},
      {"{" + std::string(kHeads) + R"(1, "layer_types": ["sliding_attention"]})",
       "'sliding_window' is missing"},
      {"{" + std::string(kHeads) + R"(2, "hybrid_override_pattern": "*"})",
       "1 letters for 2 layers"},
      {"{" + std::string(kHeads) + R"(1, "hybrid_override_pattern": "x"})", "unknown kind 'x'"},
      {"{" + std::string(kHeads) + R"(1, "hybrid_layer_pattern": [2]})", "neither 0 (full) nor 1"},
      {"{" + std::string(kHeads) + R"(4, "attn_layer_period": 2})",
       "'attn_layer_offset' is missing"},
      {"{" + std::string(kHeads) + R"(4, "attn_layer_period": 2, "attn_layer_offset": 2})",
       "'attn_layer_offset' is 2"},
      {"{" + std::string(kHeads) + R"(2, "attn_layer_indices": [2]})", "no layer: 2"},
      {"{" + std::string(kHeads) + R"(1, "full_attention_interval": 0})",
       "'full_attention_interval' is 0"},
      {"{" + std::string(kHeads) + R"(1, "block_configs": [{}]})", "no 'attention' for layer 0"},
      {"{" + std::string(kHeads) + R"(1, "block_configs": [{"attention": {}}]})",
       "no n_heads_in_group for layer 0"},
      {"{" + std::string(kHeads) +
           R"(1, "block_configs": [{"attention": {"n_heads_in_group": 3}}]})",
       "does not divide the heads"},
      {"{" + std::string(kHeads) + R"(1, "sliding_window": 8, "model_type": "brand_new"})",
       "'sliding_window' is set, but model_type 'brand_new'"},
      {"{" + std::string(kHeads) + R"(1, "mamba_d_state": 8})", "nothing says which"},
      {"{" + std::string(kHeads) + R"(1, "index_head_dim": 8})", "covered for MLA only"},
  };
  for (const auto& bad : cases) {
    const Result<KvShape> shape = ParseKvShape(bad.text, "dir/config.json");
    EXPECT_STATUS(shape, StatusCode::kInvalidArgument);
    const std::string message(shape.status().message());
    EXPECT_TRUE(message.starts_with("dir/config.json: ")) << message;
    EXPECT_NE(message.find(bad.expected), std::string::npos) << bad.expected << " in: " << message;
    EXPECT_NE(message.find("--bytes-per-token"), std::string::npos) << message;
  }
}

TEST(KvShapeTest, RefusesAFileThatIsNotThere) {
  const Result<KvShape> shape = ReadKvShape("/nowhere/config.json");
  EXPECT_STATUS(shape, StatusCode::kIoError);
  EXPECT_NE(shape.status().message().find("/nowhere/config.json"), std::string_view::npos);
}

}  // namespace
}  // namespace kvferry::model
