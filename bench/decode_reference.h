// AttendInDouble: what one head of one token must get from attention, in double precision.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bench/decode_values.h"

namespace kvferry::bench {

struct DecodePoint {
  std::uint32_t session = 0;
  std::uint32_t layer = 0;
  std::uint32_t query_head = 0;
  std::uint32_t tokens = 0;  // That are attended to, the newest of which asks.
};

// Softmax over all tokens, from the values' own source and nothing that a device has held.
std::vector<double> AttendInDouble(const DecodeValues& values, const DecodePoint& point);

// The largest deviation of `made`, as a share of the largest expected output.
double RelativeError(std::span<const double> expected, std::span<const BFloat16> made);

}  // namespace kvferry::bench
