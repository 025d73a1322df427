// Numbers by day and by drive, and their text.
#include "engine/nvme_report.h"

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace kvferry::engine {
namespace {

constexpr std::string_view kPrefix = "stats/";
constexpr std::string_view kWrites = "stats/writes";
constexpr std::string_view kDrives = "stats/drives";
constexpr std::int64_t kDayMs = std::int64_t{24} * 60 * 60 * 1'000;

// The number behind `"name":` in a text that this file has written.
std::optional<std::uint64_t> NumberIn(std::string_view text, std::string_view name) {
  const std::string key = '"' + std::string(name) + "\":";
  const std::size_t at = text.find(key);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  text.remove_prefix(at + key.size());
  std::uint64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number, 10);
  return read.ec == std::errc() ? std::optional(number) : std::nullopt;
}

void Add(std::string& text, std::string_view name, std::uint64_t number) {
  text.append(text.back() == '{' ? "\"" : ",\"").append(name).append("\":");
  text.append(std::to_string(number));
}

}  // namespace

NvmeReport::NvmeReport(const Options& options) : options_(options), reads_(options.drive_count) {}

Status NvmeReport::Load(tiers::Manifest& manifest) {
  KVFERRY_ASSIGN_OR_RETURN(const auto values, manifest.ReadMeta(kPrefix));
  for (const auto& [name, text] : values) {
    if (name != kWrites) {
      continue;
    }
    const auto day = NumberIn(text, "unix_day");
    const auto bytes = NumberIn(text, "bytes");
    if (day && bytes) {
      day_ = static_cast<std::int64_t>(*day);
      bytes_of_day_ = *bytes;
    }
  }
  return Status::Ok();
}

void NvmeReport::NoteRead(std::uint32_t drive, Duration time) {
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(time).count();
  reads_[drive].Record(static_cast<std::uint64_t>(us));
  has_changed_ = true;
}

void NvmeReport::NoteWritten(Instant now, std::uint64_t bytes) {
  const std::int64_t unix_ms =
      options_.unix_ms_minus_now +
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
  if (const std::int64_t day = unix_ms / kDayMs; day != day_) {
    day_ = day;
    bytes_of_day_ = 0;
  }
  bytes_of_day_ += bytes;
  has_changed_ = true;
}

void NvmeReport::Tell(Instant now, bool is_last, tiers::GroupCommit& commit) {
  if (!has_changed_ || (now < tell_at_ && !is_last)) {
    return;
  }
  has_changed_ = false;
  tell_at_ = now + kPause;
  commit.PutMeta(std::string(kWrites), WritesText());
  commit.PutMeta(std::string(kDrives), DrivesText());
}

std::string NvmeReport::WritesText() const {
  std::string text = "{";
  Add(text, "unix_day", static_cast<std::uint64_t>(day_));
  Add(text, "bytes", bytes_of_day_);
  Add(text, "budget_bytes_per_day", options_.write_bytes_per_day);
  return text + "}";
}

std::string NvmeReport::DrivesText() const {
  std::string text = "[";
  for (const Histogram& reads : reads_) {
    text.append(text.size() == 1 ? "{" : ",{");
    Add(text, "reads", reads.count());
    Add(text, "p50_us", reads.Percentile(50));
    Add(text, "p99_us", reads.Percentile(99));
    Add(text, "max_us", reads.max());
    text.append("}");
  }
  return text + "]";
}

}  // namespace kvferry::engine
