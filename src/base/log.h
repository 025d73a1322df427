// The log: four levels of one-line messages to standard error, and the level that is shown.
#pragma once

#include <cstdint>
#include <string_view>

namespace kvferry {

enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarning, kError, kNone };

// Messages below `level` are dropped from now on. kWarning until the first call. Thread-safe.
void SetLogLevel(LogLevel level);

// Writes "2026-11-29T20:15:42.123Z warning: message" and a line end, whole lines only. Characters
// that could forge a line or steer a terminal are written as \xNN. An error is logged once, where
// it is handled; low layers do not log. Never a token id, key or salt.
//
// Thread-safe. Cannot fail: a line that cannot be written is lost.
void LogDebug(std::string_view message) noexcept;
void LogInfo(std::string_view message) noexcept;
void LogWarning(std::string_view message) noexcept;
void LogError(std::string_view message) noexcept;

}  // namespace kvferry
