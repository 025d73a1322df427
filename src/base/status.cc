// Text forms of statuses.
#include "kvferry/status.h"

#include <array>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "base/assert.h"

namespace kvferry {

std::string_view ToString(StatusCode code) {
  static constexpr std::array<std::string_view, 10> kNames = {
      "kOk",        "kInvalidArgument", "kResourceExhausted", "kUnavailable", "kDeadlineExceeded",
      "kCancelled", "kDataLoss",        "kIoError",           "kDeviceError", "kInternal"};
  const auto index = static_cast<std::size_t>(code);
  return index < kNames.size() ? kNames[index] : "unknown";
}

Status Status::Error(StatusCode code, std::string message, int native_code, SourceLine where) {
  KVFERRY_CHECK(code != StatusCode::kOk);
  Status status;
  status.details_ =
      std::make_shared<const Details>(Details{code, native_code, where, std::move(message)});
  return status;
}

Status Status::OutOfMemory() noexcept {
  // Short enough to lie inside the string; without an owner, copies count no references.
  static const Details details{StatusCode::kResourceExhausted, ENOMEM, SourceLine::Here(),
                               "out of memory"};
  Status status;
  status.details_ = std::shared_ptr<const Details>(std::shared_ptr<const Details>(), &details);
  return status;
}

Status Status::WithContext(std::string_view context) const {
  if (ok()) {
    return *this;
  }
  std::string text(context);
  text.append(": ").append(details_->message);
  return Error(details_->code, std::move(text), details_->native_code, details_->where);
}

std::string Status::ToString() const {
  std::string text(kvferry::ToString(code()));
  if (ok()) {
    return text;
  }
  text.append(": ").append(details_->message);
  if (details_->native_code != 0) {
    const std::string number = std::to_string(details_->native_code);
    if (details_->code == StatusCode::kDeviceError) {
      text.append(" (cudaError_t ").append(number).append(1, ')');
    } else {
      text.append(" (errno ").append(number).append(": ");
      text.append(std::generic_category().message(details_->native_code)).append(1, ')');
    }
  }
  text.append(" [").append(details_->where.file).append(1, ':');
  text.append(std::to_string(details_->where.line)).append(1, ']');
  return text;
}

}  // namespace kvferry
