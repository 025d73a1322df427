// Status and Result<T>: how every call that can fail for reasons outside the program says so.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "kvferry/export.h"

namespace kvferry {

enum class StatusCode : std::uint8_t {
  kOk,
  kInvalidArgument,    // The caller broke a documented requirement it could not have asserted.
  kResourceExhausted,  // No slot, no ring entry, no memory. Retry after something completes.
  kUnavailable,        // Transient: device busy, file system read-only for now.
  kDeadlineExceeded,   // The operation's deadline passed; what it had not started, it has not done.
  kCancelled,          // The caller, or a closing engine, withdrew the operation.
  kDataLoss,           // A checksum or a record did not match what was written.
  kIoError,            // The kernel or the drive reported a failure. Native code attached.
  kDeviceError,        // The CUDA runtime reported a failure. Native code attached.
  kInternal,           // A bug on our side that is safe to report instead of crashing.
};

// "kIoError" and so on; never null.
KVFERRY_EXPORT std::string_view ToString(StatusCode code);

// Where an error was made. The builtins stand in for std::source_location (decision record 0009).
struct SourceLine {
  const char* file = "";
  int line = 0;
  static constexpr SourceLine Here(const char* file = __builtin_FILE(),
                                   int line = __builtin_LINE()) {
    return {file, line};
  }
};

// Success, or a code with a message for people, the native code and the line that made it.
//
// One pointer, null on success. Copies share one immutable text. Thread-compatible.
class [[nodiscard]] KVFERRY_EXPORT Status {
 public:
  Status() noexcept = default;  // Ok.

  static Status Ok() { return {}; }
  // `code` must not be kOk. `native_code`: as reported, 0 if none; a cudaError_t with kDeviceError,
  // an errno with any other code.
  static Status Error(StatusCode code,
                      std::string message,
                      int native_code = 0,
                      SourceLine where = SourceLine::Here());

  // kResourceExhausted for a failed allocation; allocates nothing itself.
  static Status OutOfMemory() noexcept;

  bool ok() const noexcept { return details_ == nullptr; }
  StatusCode code() const noexcept { return ok() ? StatusCode::kOk : details_->code; }
  std::string_view message() const noexcept {
    return ok() ? std::string_view() : std::string_view(details_->message);
  }
  int native_code() const noexcept { return ok() ? 0 : details_->native_code; }
  SourceLine where() const noexcept { return ok() ? SourceLine{} : details_->where; }

  // The same error with "`context`: " before its message; Ok stays Ok.
  Status WithContext(std::string_view context) const;
  // "kIoError: message (errno 5: Input/output error) [file:line]", or "kOk".
  std::string ToString() const;

  void IgnoreError() const {}  // The only way to drop one, and easy to search for.

 private:
  struct Details {
    StatusCode code;
    int native_code;
    SourceLine where;
    std::string message;
  };

  std::shared_ptr<const Details> details_;  // The one shared_ptr: immutable text, STYLE 4.3.
};

// Either a T or the Status that explains its absence; never an OK status. Observer names follow
// std::expected. Reading the value of an error, or the error of a value, stops the process.
template <class T>
class [[nodiscard]] Result {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): a value converts to its result.
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  // NOLINTNEXTLINE(google-explicit-constructor): and so does a reason.
  Result(Status error) : state_(std::in_place_index<1>, std::move(error)) {
    if (std::get<1>(state_).ok()) {
      std::abort();
    }
  }

  bool has_value() const noexcept { return state_.index() == 0; }
  bool ok() const noexcept { return has_value(); }
  explicit operator bool() const noexcept { return has_value(); }

  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(value()); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  T& value() & {
    if (!has_value()) {
      std::abort();
    }
    return *std::get_if<0>(&state_);
  }
  T&& value() && { return std::move(value()); }
  const T& value() const& {
    if (!has_value()) {
      std::abort();
    }
    return *std::get_if<0>(&state_);
  }

  // The reason of the absence; Ok while there is a value, so that both kinds can be reported alike.
  Status status() const { return has_value() ? Status::Ok() : *std::get_if<1>(&state_); }
  const Status& error() const {
    if (has_value()) {
      std::abort();
    }
    return *std::get_if<1>(&state_);
  }

 private:
  std::variant<T, Status> state_;
};

}  // namespace kvferry

// Propagation: the only two macros beside the checks.
#define KVFERRY_RETURN_IF_ERROR(expression)                                      \
  do                                                                             \
    if (::kvferry::Status kvferry_status_ = (expression); !kvferry_status_.ok()) \
      return kvferry_status_;                                                    \
  while (false)

#define KVFERRY_CONCAT_INNER(a, b) a##b
#define KVFERRY_CONCAT(a, b) KVFERRY_CONCAT_INNER(a, b)
// KVFERRY_ASSIGN_OR_RETURN(auto x, F()): declares or assigns `target` from a Result.
#define KVFERRY_ASSIGN_OR_RETURN(target, expression) \
  KVFERRY_ASSIGN_OR_RETURN_INNER(KVFERRY_CONCAT(kvferry_result_, __LINE__), target, expression)
#define KVFERRY_ASSIGN_OR_RETURN_INNER(result, target, expression) \
  auto result = (expression);                                      \
  if (!result.has_value()) {                                       \
    return result.error();                                         \
  }                                                                \
  target = std::move(*result)
