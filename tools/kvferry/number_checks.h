// WholeNumber and AmountAbove0: what number options accept, with a range that a person can read.
#pragma once

#include <cstdint>

#include <CLI/CLI.hpp>

namespace kvferry::tool {

// Digits only, from `min` to `max`: a sign, a fraction or more than 64 bits would otherwise be read
// as some other number. The error names the value and the range.
CLI::Validator WholeNumber(std::uint64_t min, std::uint64_t max);

// A finite number above 0, at most `max`.
CLI::Validator AmountAbove0(double max);

}  // namespace kvferry::tool
