// Recursion over values, and simdjson's reasons in our words.
#include "replay/readers/json_walk.h"

#include "replay/readers/json_number.h"
#include "replay/readers/trace_line.h"

namespace kvferry::replay {

Status JsonStatus(simdjson::error_code code) {
  if (code == simdjson::SUCCESS) {
    return Status::Ok();
  }
  if (code == simdjson::MEMALLOC) {
    return Status::Error(StatusCode::kResourceExhausted, "no memory to parse JSON");
  }
  return Status::Error(StatusCode::kDataLoss,
                       std::string("is no valid JSON: ") + simdjson::error_message(code));
}

std::string_view TokenOf(ondemand::value& value) {
  std::string_view token = value.raw_json_token();
  token = token.substr(0, token.find_last_not_of(" \t\r\n") + 1);
  return token;
}

Status WalkValue(ondemand::value value, int depth) {
  if (depth > kJsonDepthMax) {
    return Status::Error(StatusCode::kDataLoss, "JSON is nested too deep");
  }
  ondemand::json_type type{};
  KVFERRY_RETURN_IF_JSON_ERROR(value.type().get(type));
  switch (type) {
    case ondemand::json_type::array: {
      ondemand::array array;
      KVFERRY_RETURN_IF_JSON_ERROR(value.get_array().get(array));
      for (auto element : array) {
        ondemand::value child;
        KVFERRY_RETURN_IF_JSON_ERROR(std::move(element).get(child));
        KVFERRY_RETURN_IF_ERROR(WalkValue(child, depth + 1));
      }
      return Status::Ok();
    }
    case ondemand::json_type::object: {
      ondemand::object object;
      KVFERRY_RETURN_IF_JSON_ERROR(value.get_object().get(object));
      for (auto element : object) {
        ondemand::field field;
        KVFERRY_RETURN_IF_JSON_ERROR(std::move(element).get(field));
        std::string_view key;
        KVFERRY_RETURN_IF_JSON_ERROR(field.unescaped_key().get(key));
        KVFERRY_RETURN_IF_ERROR(WalkValue(field.value(), depth + 1));
      }
      return Status::Ok();
    }
    case ondemand::json_type::number:
      // Numbers of any size are JSON; simdjson would refuse those that no double holds.
      if (!IsJsonNumber(TokenOf(value))) {
        return JsonStatus(simdjson::NUMBER_ERROR);
      }
      return Status::Ok();
    case ondemand::json_type::string: {
      std::string_view text;
      return JsonStatus(value.get_string().get(text));
    }
    case ondemand::json_type::boolean: {
      bool is_true = false;
      return JsonStatus(value.get_bool().get(is_true));
    }
    case ondemand::json_type::null: {
      bool is_null = false;
      KVFERRY_RETURN_IF_JSON_ERROR(value.is_null().get(is_null));
      return is_null ? Status::Ok() : JsonStatus(simdjson::N_ATOM_ERROR);
    }
  }
  return JsonStatus(simdjson::TAPE_ERROR);
}

Status ReadIds(ondemand::value value, std::string_view field, std::vector<std::uint64_t>& ids) {
  const IdsStatus status = ReadIdsOrProblem(value, field, ids);
  return status.json.ok() ? status.problem : status.json;
}

IdsStatus ReadIdsOrProblem(ondemand::value value,
                           std::string_view field,
                           std::vector<std::uint64_t>& ids) {
  ondemand::json_type type{};
  IdsStatus status;
  status.json = JsonStatus(value.type().get(type));
  if (!status.json.ok()) {
    return status;
  }
  if (type != ondemand::json_type::array) {
    status.problem = BadField(field, "is no list of integers");
    status.json = WalkValue(value, 1);
    return status;
  }
  ondemand::array array;
  status.json = JsonStatus(value.get_array().get(array));
  if (!status.json.ok()) {
    return status;
  }
  std::size_t index = 0;
  for (auto element : array) {
    ondemand::value id;
    status.json = JsonStatus(std::move(element).get(id));
    if (!status.json.ok()) {
      return status;
    }
    const IntegerOrReason parsed = ParseUnsigned(TokenOf(id));
    if (!parsed.reason.empty() && status.problem.ok()) {
      status.problem =
          BadField(std::string(field) + "[" + std::to_string(index) + "]", parsed.reason);
    }
    if (!parsed.reason.empty()) {
      status.json = WalkValue(id, 1);
      if (!status.json.ok()) {
        return status;
      }
    }
    ids.push_back(parsed.value);
    ++index;
  }
  return status;
}

Status CheckAtEnd(ondemand::document& document) {
  // There is no place left to stand on when all of the text was read.
  return document.current_location().error() == simdjson::OUT_OF_BOUNDS
             ? Status::Ok()
             : JsonStatus(simdjson::TRAILING_CONTENT);
}

Status CheckNoNul(std::string_view text) {
  const std::size_t found = text.find('\0');
  if (found == std::string_view::npos) {
    return Status::Ok();
  }
  return Status::Error(StatusCode::kDataLoss,
                       "byte " + std::to_string(found + 1) + " of it is NUL: this is no text");
}

}  // namespace kvferry::replay
