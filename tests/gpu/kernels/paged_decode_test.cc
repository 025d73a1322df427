// Decode attention over pages, against softmax in double precision.
#include "gpu/kernels/paged_decode.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <cuda_fp8.h>
#include <gtest/gtest.h>

#include "tests/gpu/kernels/kernel_bench.h"
#include "tests/support/sanitizers.h"

namespace kvferry::gpu {
namespace {

using kvferry::testing::As;
using kvferry::testing::KernelBench;
using kvferry::testing::RandomValues;
using kvferry::testing::Suffix;
using kvferry::testing::Value;

// The sizes of a run; drawn at random.
struct DecodeShape {
  std::size_t key_size = 64;
  std::size_t value_size = 64;
  std::size_t sequences = 1;
  std::size_t heads = 1;
  std::size_t kv_heads = 1;
  std::size_t page_tokens = 4;
  std::size_t page_count = 8;
  std::size_t splits = 1;
  bool is_heads_first = false;
  bool has_sink_logits = false;
  std::size_t rows() const { return page_count * page_tokens * kv_heads; }
};

// Rows of keys or values in the order [page][token][head], whatever the layout is, as what they
// stand for; and the bytes that the kernel is given.
struct StoredRows {
  std::vector<double> values;
  std::vector<unsigned char> bytes;
  std::vector<float> scales;
};

class DecodeRun {
 public:
  DecodeRun(std::uint64_t seed, DecodeShape shape) : random_(seed), shape_(shape) {}

  // The place of a row in the server's layout, in rows.
  std::size_t RowIndex(std::size_t page, std::size_t token, std::size_t head) const {
    return shape_.is_heads_first ? (page * shape_.kv_heads + head) * shape_.page_tokens + token
                                 : (page * shape_.page_tokens + token) * shape_.kv_heads + head;
  }

  template <class Element>
  StoredRows Store(std::size_t row_size, StoredFormat format, ScaleKind kind) {
    StoredRows stored;
    const std::size_t element_bytes = format == StoredFormat::kNative ? sizeof(Element) : 1;
    stored.values.resize(shape_.rows() * row_size);
    stored.bytes.resize(stored.values.size() * element_bytes);
    const std::size_t scale_count = kind == ScaleKind::kPerHead  ? shape_.kv_heads
                                    : kind == ScaleKind::kPerRow ? shape_.rows()
                                    : kind == ScaleKind::kNone
                                        ? 1
                                        : shape_.page_count * shape_.kv_heads * row_size;
    for (std::size_t i = 0; i < scale_count; ++i) {
      stored.scales.push_back(
          kind == ScaleKind::kNone ? 1.0F : static_cast<float>(0.01 + 0.01 * random_.Fraction()));
    }
    for (std::size_t page = 0; page < shape_.page_count; ++page) {
      for (std::size_t token = 0; token < shape_.page_tokens; ++token) {
        for (std::size_t head = 0; head < shape_.kv_heads; ++head) {
          for (std::size_t e = 0; e < row_size; ++e) {
            const std::size_t logical =
                ((page * shape_.page_tokens + token) * shape_.kv_heads + head) * row_size + e;
            const std::size_t place = RowIndex(page, token, head) * row_size + e;
            const std::size_t scale = kind == ScaleKind::kPerHead  ? head
                                      : kind == ScaleKind::kPerRow ? logical / row_size
                                      : kind == ScaleKind::kNone
                                          ? 0
                                          : (page * shape_.kv_heads + head) * row_size + e;
            StoreOne<Element>(stored, logical, place, format);
            stored.values[logical] *= stored.scales[scale];
          }
        }
      }
    }
    return stored;
  }

  template <class Element>
  void Check(StoredFormat format, ScaleKind key_kind, ScaleKind value_kind, std::string kernel);

 private:
  template <class Element>
  void StoreOne(StoredRows& stored, std::size_t logical, std::size_t place, StoredFormat format) {
    if (format == StoredFormat::kNative) {
      const Element value = RandomValues<Element>(random_, 1)[0];
      std::memcpy(&stored.bytes[place * sizeof(Element)], static_cast<const void*>(&value),
                  sizeof(Element));
      stored.values[logical] = Value(value);
    } else if (format == StoredFormat::kInt8) {
      const auto code = static_cast<std::int64_t>(random_.Between(0, 254)) - 127;
      stored.bytes[place] = static_cast<unsigned char>(code);
      stored.values[logical] = static_cast<double>(code);
    } else {
      const __nv_fp8_e4m3 code(static_cast<float>(random_.Fraction() * 200 - 100));
      stored.bytes[place] = code.__x;
      stored.values[logical] = static_cast<float>(code);
    }
  }

  PagedSide SideOf(KernelBench& bench,
                   const StoredRows& stored,
                   std::size_t row_size,
                   ScaleKind kind) const {
    PagedSide side;
    side.pages = bench.Upload(stored.bytes);
    const auto row = static_cast<std::int64_t>(row_size);
    const auto tokens = static_cast<std::int64_t>(shape_.page_tokens);
    const auto heads = static_cast<std::int64_t>(shape_.kv_heads);
    side.page_step = tokens * heads * row;
    side.token_step = shape_.is_heads_first ? row : heads * row;
    side.head_step = shape_.is_heads_first ? tokens * row : row;
    side.scales = kind == ScaleKind::kNone ? nullptr : bench.Upload(stored.scales);
    side.scale_kind = kind;
    return side;
  }

  template <class Element>
  std::vector<double> Reference(const std::vector<Element>& queries,
                                const StoredRows& keys,
                                const StoredRows& values) const;

  Random random_;
  DecodeShape shape_;
  std::vector<std::int32_t> tables_;
  std::vector<std::int32_t> lengths_;
  std::size_t table_step_ = 0;
  std::int32_t window_ = 0;
  std::int32_t sink_tokens_ = 0;
  double scale_ = 0;
  std::vector<float> sink_logits_;
};

// Token by token, without a thought for speed.
template <class Element>
std::vector<double> DecodeRun::Reference(const std::vector<Element>& queries,
                                         const StoredRows& keys,
                                         const StoredRows& values) const {
  std::vector<double> outputs;
  for (std::size_t row = 0; row < shape_.sequences * shape_.heads; ++row) {
    const std::size_t sequence = row / shape_.heads;
    const std::size_t head = row % shape_.heads;
    const std::size_t kv_head = head / (shape_.heads / shape_.kv_heads);
    std::vector<double> sums(shape_.value_size);
    double weight_sum = shape_.has_sink_logits ? std::exp(double{sink_logits_[head]}) : 0;
    for (std::int32_t token = 0; token < lengths_[sequence]; ++token) {
      const bool is_seen =
          window_ == 0 || token >= lengths_[sequence] - window_ || token < sink_tokens_;
      const auto page_place = static_cast<std::size_t>(token) / shape_.page_tokens;
      const std::int32_t page = tables_[sequence * table_step_ + page_place];
      if (!is_seen || page < 0) {
        continue;
      }
      const std::size_t stored = (static_cast<std::size_t>(page) * shape_.page_tokens +
                                  static_cast<std::size_t>(token) % shape_.page_tokens) *
                                     shape_.kv_heads +
                                 kv_head;
      double logit = 0;
      for (std::size_t e = 0; e < shape_.key_size; ++e) {
        logit += double{Value(queries[row * shape_.key_size + e])} *
                 keys.values[stored * shape_.key_size + e];
      }
      const double weight = std::exp(logit * scale_);
      weight_sum += weight;
      for (std::size_t e = 0; e < shape_.value_size; ++e) {
        sums[e] += weight * values.values[stored * shape_.value_size + e];
      }
    }
    for (const double sum : sums) {
      outputs.push_back(weight_sum == 0 ? 0 : sum / weight_sum);
    }
  }
  return outputs;
}

template <class Element>
void DecodeRun::Check(StoredFormat format,
                      ScaleKind key_kind,
                      ScaleKind value_kind,
                      std::string kernel) {
  const bool is_mla = shape_.key_size != shape_.value_size;
  const StoredRows keys = Store<Element>(shape_.key_size, format, key_kind);
  StoredRows values;
  if (is_mla) {
    for (std::size_t i = 0; i < keys.values.size(); ++i) {
      if (i % shape_.key_size < shape_.value_size) {
        values.values.push_back(keys.values[i]);
      }
    }
  } else {
    values = Store<Element>(shape_.value_size, format, value_kind);
  }
  table_step_ = static_cast<std::size_t>(random_.Between(1, 6));
  const std::size_t token_max = table_step_ * shape_.page_tokens;
  for (std::size_t i = 0; i < shape_.sequences; ++i) {
    lengths_.push_back(static_cast<std::int32_t>(random_.Between(0, token_max)));
    for (std::size_t page = 0; page < table_step_; ++page) {
      tables_.push_back(
          random_.Chance(0.1) ? -1 : static_cast<std::int32_t>(random_.Below(shape_.page_count)));
    }
  }
  window_ = random_.Chance(0.5) ? static_cast<std::int32_t>(random_.Between(1, 12)) : 0;
  sink_tokens_ = random_.Chance(0.5) ? static_cast<std::int32_t>(random_.Between(0, 4)) : 0;
  scale_ = 1 / std::sqrt(static_cast<double>(shape_.key_size));
  for (std::size_t head = 0; head < shape_.heads; ++head) {
    sink_logits_.push_back(static_cast<float>(random_.Fraction() * 2 - 1));
  }
  const std::size_t rows = shape_.sequences * shape_.heads;
  const auto queries = RandomValues<Element>(random_, rows * shape_.key_size);

  KernelBench bench;
  PagedDecode decode;
  decode.queries = bench.Upload(queries);
  decode.keys = SideOf(bench, keys, shape_.key_size, key_kind);
  decode.values = is_mla ? decode.keys : SideOf(bench, values, shape_.value_size, value_kind);
  decode.tables = bench.Upload(tables_);
  decode.lengths = bench.Upload(lengths_);
  decode.partial_outputs =
      bench.Upload(std::vector<float>(rows * shape_.splits * shape_.value_size));
  decode.partial_stats = bench.Upload(std::vector<float>(rows * shape_.splits * 2));
  decode.table_step = static_cast<std::int64_t>(table_step_);
  decode.heads = static_cast<std::int32_t>(shape_.heads);
  decode.kv_heads = static_cast<std::int32_t>(shape_.kv_heads);
  decode.page_tokens = static_cast<std::int32_t>(shape_.page_tokens);
  decode.window = window_;
  decode.sink_tokens = sink_tokens_;
  decode.format = format;
  decode.scale_log2 = static_cast<float>(scale_ * 1.4426950408889634);
  const auto sequences = static_cast<std::uint32_t>(shape_.sequences);
  bench.Run("kvferry_decode_" + kernel + "_" + Suffix<Element>(),
            ShapeOf(decode, sequences, static_cast<std::uint32_t>(shape_.splits)), decode);

  PartialMerge merge;
  merge.partial_outputs = decode.partial_outputs;
  merge.partial_stats = decode.partial_stats;
  merge.sink_logits = shape_.has_sink_logits ? bench.Upload(sink_logits_) : nullptr;
  auto* const outputs = bench.Upload(std::vector<Element>(rows * shape_.value_size));
  merge.outputs = outputs;
  merge.heads = decode.heads;
  merge.splits = static_cast<std::int32_t>(shape_.splits);
  merge.value_size = static_cast<std::int32_t>(shape_.value_size);
  bench.Run("kvferry_merge_partials_" + Suffix<Element>(), ShapeOf(merge, sequences), merge);

  const auto made = bench.Download(outputs, rows * shape_.value_size);
  const auto expected = Reference(queries, keys, values);
  for (std::size_t row = 0; row < rows; ++row) {
    double largest = 0;
    for (std::size_t e = 0; e < shape_.value_size; ++e) {
      largest = std::max(largest, std::fabs(expected[row * shape_.value_size + e]));
    }
    for (std::size_t e = 0; e < shape_.value_size; ++e) {
      const std::size_t i = row * shape_.value_size + e;
      ASSERT_NEAR(Value(made[i]), expected[i], 1e-2 * largest) << "row " << row << " at " << e;
    }
  }
}

DecodeShape RandomShape(std::uint64_t seed) {
  Random random(seed);
  DecodeShape shape;
  const auto small = [&random](std::uint64_t low, std::uint64_t high) {
    return static_cast<std::size_t>(random.Between(low, high));
  };
  shape.sequences = small(1, 3);
  shape.kv_heads = small(1, 2);
  shape.heads = shape.kv_heads * small(1, 3);
  shape.page_tokens = small(1, 6);
  shape.page_count = small(2, 8);
  shape.splits = small(1, 4);
  shape.is_heads_first = random.Chance(0.5);
  shape.has_sink_logits = random.Chance(0.5);
  return shape;
}

template <class Element>
class GpuPagedDecodeTest : public ::testing::Test {};
using Elements = ::testing::Types<__nv_bfloat16, __half>;
TYPED_TEST_SUITE(GpuPagedDecodeTest, Elements);

TYPED_TEST(GpuPagedDecodeTest, AttendsToNativePages) {
  // Grouped heads, holes, windows, sinks, splits without a token, and empty sequences.
  for (std::uint64_t seed = 1; seed <= testing::Rounds(30); ++seed) {
    SCOPED_TRACE(seed);
    DecodeRun run(seed, RandomShape(seed));
    run.Check<TypeParam>(StoredFormat::kNative, ScaleKind::kNone, ScaleKind::kNone, "64");
  }
}

TYPED_TEST(GpuPagedDecodeTest, AttendsToWiderHeads) {
  // Each size is a kernel of its own.
  for (const std::size_t size : {std::size_t{128}, std::size_t{256}}) {
    for (std::uint64_t seed = 1; seed <= testing::Rounds(5); ++seed) {
      SCOPED_TRACE(seed);
      DecodeShape shape = RandomShape(100 + seed);
      shape.key_size = size;
      shape.value_size = size;
      DecodeRun run(seed, shape);
      run.Check<TypeParam>(StoredFormat::kNative, ScaleKind::kNone, ScaleKind::kNone,
                           std::to_string(size));
    }
  }
}

TYPED_TEST(GpuPagedDecodeTest, AttendsToLatents) {
  // MLA: values are the first part of the keys, and all heads share one row.
  for (std::uint64_t seed = 1; seed <= testing::Rounds(5); ++seed) {
    SCOPED_TRACE(seed);
    DecodeShape shape = RandomShape(200 + seed);
    shape.heads *= 2;
    shape.kv_heads = 1;
    shape.key_size = 576;
    shape.value_size = 512;
    DecodeRun run(seed, shape);
    run.Check<TypeParam>(StoredFormat::kNative, ScaleKind::kNone, ScaleKind::kNone, "mla");
  }
}

TYPED_TEST(GpuPagedDecodeTest, ReadsFp8AndInt8WithTheirScales) {
  // A scale of the wrong row or channel shows at once.
  for (std::uint64_t seed = 1; seed <= testing::Rounds(10); ++seed) {
    SCOPED_TRACE(seed);
    DecodeRun fp8(seed, RandomShape(300 + seed));
    fp8.Check<TypeParam>(StoredFormat::kE4m3, ScaleKind::kPerHead, ScaleKind::kPerHead, "64");
    DecodeRun int8(seed, RandomShape(400 + seed));
    int8.Check<TypeParam>(StoredFormat::kInt8, ScaleKind::kPerChannel, ScaleKind::kPerRow, "64");
  }
}

TEST(GpuVisibleTokensTest, CountsAndNamesEachVisibleTokenOnce) {
  // Sinks and window must neither overlap nor leave a gap where they meet.
  for (std::int32_t length = 0; length < 20; ++length) {
    for (std::int32_t window = 0; window < 12; ++window) {
      for (std::int32_t sinks = 0; sinks < 12; ++sinks) {
        std::vector<std::int32_t> expected;
        for (std::int32_t token = 0; token < length; ++token) {
          if (window == 0 || token >= length - window || token < sinks) {
            expected.push_back(token);
          }
        }
        const std::int32_t visible = VisibleTokens(length, window, sinks);
        std::vector<std::int32_t> named;
        for (std::int32_t i = 0; i < visible; ++i) {
          named.push_back(VisibleToken(i, length, visible, sinks));
        }
        ASSERT_EQ(named, expected) << length << " " << window << " " << sinks;
      }
    }
  }
}

}  // namespace
}  // namespace kvferry::gpu
