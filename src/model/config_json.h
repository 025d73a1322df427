// ConfigJson: a model's config.json, and its fields with errors that name file, field and remedy.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvferry/status.h"

#include <nlohmann/json.hpp>

namespace kvferry::model {

// The object that describes the decoder: the file's top level, or where that is a model of several
// parts, its text_config. Python's bare Infinity and NaN are read as null.
//
// Thread-compatible.
class ConfigJson {
 public:
  // kIoError for a file that cannot be read, kInvalidArgument for one that is no JSON object.
  static Result<ConfigJson> Read(const std::string& path);
  // The same from a text; `name` stands for the path in errors.
  static Result<ConfigJson> Parse(std::string_view text, std::string name);

  // Whether the field is there and not null.
  bool Has(std::string_view field) const;
  const nlohmann::json& At(std::string_view field) const { return fields_.at(std::string(field)); }

  // The first of `names` that is there, as a whole number in 0 .. max; nothing if none is.
  // kInvalidArgument where it is something else.
  Result<std::optional<std::uint32_t>> Number(std::initializer_list<std::string_view> names,
                                              std::uint32_t max) const;
  // The same for what must be there and above 0.
  Result<std::uint32_t> RequiredNumber(std::initializer_list<std::string_view> names,
                                       std::uint32_t max) const;
  bool IsTrue(std::string_view field) const;
  bool IsFalse(std::string_view field) const;
  std::string Text(std::string_view field) const;  // Empty where there is none.
  // kInvalidArgument: "PATH: field 'FIELD' REASON" and what to do instead.
  Status Error(std::string_view field, std::string_view reason) const;

 private:
  ConfigJson(nlohmann::json fields, std::string name)
      : fields_(std::move(fields)), name_(std::move(name)) {}

  nlohmann::json fields_;
  std::string name_;
};

}  // namespace kvferry::model
