// Token by token, without a thought for speed.
#include "bench/decode_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/assert.h"

namespace kvferry::bench {

std::vector<double> AttendInDouble(const DecodeValues& values, const DecodePoint& point) {
  const DecodeShape& shape = values.shape();
  const std::size_t width = shape.key_width;
  const std::size_t kv_head = point.query_head / (shape.query_heads / shape.kv_heads);
  std::vector<BFloat16> queries(std::size_t{shape.query_heads} * width);
  values.WriteQuery(point.session, point.tokens - 1, queries);
  const std::span<const BFloat16> query = std::span(queries).subspan(point.query_head * width);

  std::vector<BFloat16> keys(shape.token_bytes() / sizeof(BFloat16));
  std::vector<BFloat16> rows(keys.size());
  std::vector<double> sums(shape.value_width);
  double weight_sum = 0;
  for (std::uint32_t token = 0; token < point.tokens; ++token) {
    const DecodeValues::Place place{
        .session = point.session, .layer = point.layer, .plane = 0, .token = token};
    values.WriteToken(place, keys);
    if (!shape.is_latent) {
      DecodeValues::Place beside = place;
      beside.plane = 1;
      values.WriteToken(beside, rows);
    }
    const BFloat16* const key = &keys[kv_head * width];
    const BFloat16* const value = shape.is_latent ? key : &rows[kv_head * width];
    double logit = 0;
    for (std::size_t e = 0; e < width; ++e) {
      logit += double{ToFloat(query[e])} * double{ToFloat(key[e])};
    }
    const double weight = std::exp(logit / std::sqrt(static_cast<double>(width)));
    weight_sum += weight;
    for (std::size_t e = 0; e < sums.size(); ++e) {
      sums[e] += weight * double{ToFloat(value[e])};
    }
  }
  for (double& sum : sums) {
    sum /= weight_sum;
  }
  return sums;
}

double RelativeError(std::span<const double> expected, std::span<const BFloat16> made) {
  KVFERRY_CHECK(expected.size() == made.size());
  double largest = 0;
  double deviation = 0;
  for (std::size_t e = 0; e < expected.size(); ++e) {
    const double difference = std::fabs(double{ToFloat(made[e])} - expected[e]);
    if (!std::isfinite(difference)) {
      return std::numeric_limits<double>::infinity();
    }
    largest = std::max(largest, std::fabs(expected[e]));
    deviation = std::max(deviation, difference);
  }
  return largest > 0 ? deviation / largest : deviation;
}

}  // namespace kvferry::bench
