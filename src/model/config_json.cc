// Reading of config.json files.
#include "model/config_json.h"

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

namespace kvferry::model {
namespace {

using nlohmann::json;

constexpr std::size_t kFileBytesMax = std::size_t{16} << 20;  // The largest in public has 40 KB.
constexpr std::string_view kRemedy = "; give --bytes-per-token instead of --model";

// Where multimodal models keep the description of their decoder.
constexpr std::string_view kDecoderFields[] = {"text_config", "llm_config", "language_config"};

// Python writes these though JSON has no word for them. They are replaced outside of strings only.
std::string WithoutBareNumbers(std::string_view text) {
  static constexpr std::string_view kWords[] = {"-Infinity", "Infinity", "NaN"};
  std::string result;
  result.reserve(text.size());
  bool is_in_string = false;
  for (std::size_t i = 0; i < text.size();) {
    if (is_in_string && text[i] == '\\' && i + 1 < text.size()) {
      result.append(text.substr(i, 2));
      i += 2;
      continue;
    }
    is_in_string = is_in_string != (text[i] == '"');
    std::size_t skipped = 0;
    for (const std::string_view word : kWords) {
      if (!is_in_string && skipped == 0 && text.substr(i, word.size()) == word) {
        skipped = word.size();
      }
    }
    if (skipped > 0) {
      result.append("null");
      i += skipped;
      continue;
    }
    result.push_back(text[i]);
    ++i;
  }
  return result;
}

Status NotAConfig(const std::string& name, const std::string& reason) {
  return Status::Error(
      StatusCode::kInvalidArgument,
      name + ": " + reason + "; give a model's config.json" + std::string(kRemedy));
}

}  // namespace

Result<ConfigJson> ConfigJson::Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text;
  if (file) {
    text.resize(kFileBytesMax + 1);
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(file.gcount()));
  }
  if (file.bad() || (!file && !file.eof())) {
    const int error = errno;
    return Status::Error(StatusCode::kIoError, "cannot read " + path, error);
  }
  if (text.size() > kFileBytesMax) {
    return NotAConfig(path, "it has more than 16 MiB, which no config.json has");
  }
  return Parse(text, path);
}

Result<ConfigJson> ConfigJson::Parse(std::string_view text, std::string name) {
  if (text.starts_with("\xef\xbb\xbf")) {
    text.remove_prefix(3);
  }
  json fields;
  try {
    fields = json::parse(WithoutBareNumbers(text));
  } catch (const json::exception& error) {
    return NotAConfig(name, std::string("it is not JSON (") + error.what() + ")");
  }
  if (!fields.is_object()) {
    return NotAConfig(name, "it is JSON, but not an object");
  }
  for (const std::string_view nested : kDecoderFields) {
    const auto found = fields.find(std::string(nested));
    if (found != fields.end() && found->is_object()) {
      json decoder = std::move(*found);
      return ConfigJson(std::move(decoder), std::move(name));
    }
  }
  return ConfigJson(std::move(fields), std::move(name));
}

bool ConfigJson::Has(std::string_view field) const {
  const auto found = fields_.find(std::string(field));
  return found != fields_.end() && !found->is_null();
}

Result<std::optional<std::uint32_t>> ConfigJson::Number(
    std::initializer_list<std::string_view> names, std::uint32_t max) const {
  for (const std::string_view name : names) {
    if (!Has(name)) {
      continue;
    }
    const json& value = At(name);
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > max) {
      return Error(name, "is " + value.dump().substr(0, 60) + ", not a whole number in 0 .. " +
                             std::to_string(max));
    }
    return std::optional(static_cast<std::uint32_t>(value.get<std::uint64_t>()));
  }
  return std::optional<std::uint32_t>();
}

Result<std::uint32_t> ConfigJson::RequiredNumber(std::initializer_list<std::string_view> names,
                                                 std::uint32_t max) const {
  KVFERRY_ASSIGN_OR_RETURN(const std::optional<std::uint32_t> number, Number(names, max));
  if (!number) {
    return Error(*names.begin(), "is missing");
  }
  if (*number == 0) {
    return Error(*names.begin(), "is 0");
  }
  return *number;
}

bool ConfigJson::IsTrue(std::string_view field) const {
  return Has(field) && At(field) == true;
}

bool ConfigJson::IsFalse(std::string_view field) const {
  return Has(field) && At(field) == false;
}

std::string ConfigJson::Text(std::string_view field) const {
  return Has(field) && At(field).is_string() ? At(field).get<std::string>() : std::string();
}

Status ConfigJson::Error(std::string_view field, std::string_view reason) const {
  std::string text(name_);
  text.append(": field '").append(field).append("' ").append(reason).append(kRemedy);
  return Status::Error(StatusCode::kInvalidArgument, std::move(text));
}

}  // namespace kvferry::model
