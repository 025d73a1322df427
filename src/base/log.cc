// The one logger, over spdlog.
#include "base/log.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>

#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>

namespace kvferry {
namespace {

bool IsPlain(char character) {
  const auto code = static_cast<unsigned char>(character);
  return code >= 0x20 && code != 0x7f;
}

std::string Escaped(std::string_view message) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(message.size() + 16);
  for (const char character : message) {
    if (IsPlain(character)) {
      text.push_back(character);
      continue;
    }
    const auto code = static_cast<unsigned char>(character);
    text.append("\\x").append(1, kDigits[code >> 4]).append(1, kDigits[code & 0xf]);
  }
  return text;
}

spdlog::logger& Logger() {
  static spdlog::logger logger = [] {
    auto formatter = std::make_unique<spdlog::pattern_formatter>(
        "%Y-%m-%dT%H:%M:%S.%eZ %l: %v", spdlog::pattern_time_type::utc, "\n");
    spdlog::logger made("kvferry", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made.set_formatter(std::move(formatter));
    made.set_level(spdlog::level::warn);
    made.flush_on(spdlog::level::debug);
    made.set_error_handler([](const std::string&) {});
    return made;
  }();
  return logger;
}

void Write(spdlog::level::level_enum level, std::string_view message) noexcept {
  try {
    spdlog::logger& logger = Logger();
    if (!logger.should_log(level)) {
      return;
    }
    if (std::all_of(message.begin(), message.end(), IsPlain)) {
      logger.log(level, spdlog::string_view_t(message.data(), message.size()));
    } else {
      const std::string text = Escaped(message);
      logger.log(level, spdlog::string_view_t(text.data(), text.size()));
    }
  } catch (const std::exception&) {
    std::fputs("kvferry: a log line was lost\n", stderr);
  }
}

}  // namespace

void SetLogLevel(LogLevel level) {
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                   spdlog::level::warn, spdlog::level::err,
                                                   spdlog::level::off};
  Logger().set_level(kLevels[static_cast<std::size_t>(level)]);
}

void LogDebug(std::string_view message) noexcept {
  Write(spdlog::level::debug, message);
}
void LogInfo(std::string_view message) noexcept {
  Write(spdlog::level::info, message);
}
void LogWarning(std::string_view message) noexcept {
  Write(spdlog::level::warn, message);
}
void LogError(std::string_view message) noexcept {
  Write(spdlog::level::err, message);
}

}  // namespace kvferry
