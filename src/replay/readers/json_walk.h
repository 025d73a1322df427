// JsonWalk: what every simdjson-based reader does alike: checking what it passes over, and reasons.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvferry/status.h"

namespace kvferry::replay {

namespace ondemand = simdjson::ondemand;

// Nested deeper than this is no trace; bounds the recursion below.
inline constexpr int kJsonDepthMax = 64;

// Reads a value that nobody wants to its end: on-demand parsing checks only what is read.
Status WalkValue(ondemand::value value, int depth);

// A scalar as it stands in the text, without the white space behind it.
std::string_view TokenOf(ondemand::value& value);

// kDataLoss "is no valid JSON: REASON" for anything but success.
Status JsonStatus(simdjson::error_code code);

// Appends the array's integers to `ids`. kDataLoss, naming `field` and the first wrong element.
Status ReadIds(ondemand::value value, std::string_view field, std::vector<std::uint64_t>& ids);

// The same, telling the two apart: `json` where the text is no JSON, so that nothing more can be
// read of it, `problem` where an element is no id.
struct IdsStatus {
  Status json;
  Status problem;
};
IdsStatus ReadIdsOrProblem(ondemand::value value,
                           std::string_view field,
                           std::vector<std::uint64_t>& ids);

// Nothing but white space may follow the document. `text` is as simdjson was given it.
Status CheckAtEnd(ondemand::document& document);

// "column N holds a NUL byte" where there is one: simdjson's own reason would be vaguer.
Status CheckNoNul(std::string_view text);

}  // namespace kvferry::replay

// Returns from the function at hand with the reason when a simdjson call failed.
#define KVFERRY_RETURN_IF_JSON_ERROR(expression)                                     \
  do                                                                                 \
    if (const simdjson::error_code kvferry_code_ = (expression); kvferry_code_ != 0) \
      return ::kvferry::replay::JsonStatus(kvferry_code_);                           \
  while (false)
