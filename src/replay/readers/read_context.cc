// Requests on their way from a reader to the builder.
#include "replay/readers/read_context.h"

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "replay/text_format.h"

namespace kvferry::replay {
namespace {

std::string Joined(const std::string& joined, std::string_view next) {
  return joined.empty() ? std::string(next) : joined + " + " + std::string(next);
}

}  // namespace

ReadContext::ReadContext(const ReadOptions& options, ReadMeter& meter)
    : options_(options), meter_(meter), builder_(options.memory_max_bytes) {}

std::uint32_t ReadContext::NewFileScope() {
  if (!file_scope_.has_value() || !options_.shares_ids) {
    file_scope_ = next_scope_++;
  }
  return *file_scope_;
}

void ReadContext::BeginStream(const StreamKind& kind) {
  kind_ = kind;
  is_new_stream_ = true;
  builder_.BeginStream(kind.scope);
}

void ReadContext::SelectWhileReading() {
  selects_while_reading_ = true;
  is_satisfied_ = options_.selection.requests_max == 0;
}

Status ReadContext::Add(const RawRequest& request) {
  ++requests_;
  meter_.AddRequest();
  if (requests_ == 1) {
    first_time_ms_ = request.time_ms;
  }
  if (!is_new_stream_ && request.time_ms < last_time_ms_) {
    if (kind_.sorts_by_time) {
      builder_.BeginStream(kind_.scope);  // Runs are merged by time, stable.
    } else {
      ++unsorted_;
    }
  }
  is_new_stream_ = false;
  last_time_ms_ = request.time_ms;
  if (selects_while_reading_) {
    const TraceSelection& selection = options_.selection;
    const std::int64_t offset_ms = request.time_ms - first_time_ms_;
    if (!selection.Takes(offset_ms) || is_satisfied_) {
      return Status::Ok();
    }
    is_satisfied_ = ++kept_requests_ == selection.requests_max;
  }
  const bool was_chained = builder_.is_chained();
  const Status added =
      kind_.ids_are_single ? builder_.AddUnchainedIds(request) : builder_.Add(request);
  if (added.code() == StatusCode::kResourceExhausted) {
    return MemoryError(std::string(added.message()));
  }
  if (was_chained && !builder_.is_chained()) {
    first_unchained_ = requests_;
  }
  return held_bytes_ == 0 ? added : HoldBytes(0);
}

Status ReadContext::HoldBytes(std::uint64_t bytes) {
  held_bytes_ += bytes;
  return CheckRoom(0);
}

Status ReadContext::CheckRoom(std::uint64_t bytes) const {
  const std::uint64_t needed_bytes = builder_.memory_bytes() + held_bytes_ + bytes;
  if (needed_bytes <= options_.memory_max_bytes) {
    return Status::Ok();
  }
  return MemoryError("the trace needs " + FormatBytes(needed_bytes) + " of at most " +
                     FormatBytes(options_.memory_max_bytes) + " for its first " +
                     FormatCounted(requests_, "request", "requests") + "; raise --memory");
}

Status ReadContext::MemoryError(const std::string& reason) const {
  const ReadProgress& progress = meter_.progress();
  std::string text = reason + ", or read less of one file by --limit or --to";
  // Files are read ahead of their requests: in less than this the share read says too little.
  constexpr std::uint64_t kForecastBytesMin = std::uint64_t{16} << 20;
  if (progress.bytes_total > 0 && progress.bytes_read >= kForecastBytesMin) {
    const auto read = static_cast<double>(progress.bytes_read);
    const double share = read / static_cast<double>(progress.bytes_total);
    const auto held = static_cast<double>(builder_.memory_bytes() + held_bytes_);
    constexpr double kPercent = 100;
    text += " (" + std::to_string(static_cast<int>(share * kPercent)) +
            "% of the input is read: all of it needs about " +
            FormatBytes(static_cast<std::uint64_t>(held / share)) + ")";
  }
  return Status::Error(StatusCode::kResourceExhausted, text);
}

Status ReadContext::BadLine(std::string_view what, std::uint64_t number, const Status& why) {
  if (why.code() != StatusCode::kDataLoss) {
    return why;
  }
  const Status named = why.WithContext(std::string(what) + " " + std::to_string(number));
  if (skipped_lines_ < options_.skip_bad_lines_max) {
    ++skipped_lines_;
    return Status::Ok();
  }
  const std::string_view remedy = options_.skip_bad_lines_max == 0
                                      ? " (--skip-bad-lines N passes over up to N such lines)"
                                      : " (and as many bad lines before it as may be skipped)";
  return Status::Error(why.code(), std::string(named.message()) + std::string(remedy));
}

void ReadContext::AddNote(std::string note) {
  if (std::find(notes_.begin(), notes_.end(), note) == notes_.end()) {
    notes_.push_back(std::move(note));
  }
}

void ReadContext::AddFile(const std::string& path, std::string sha256, const FileFacts& facts) {
  files_.push_back({path, std::move(sha256), facts});
}

Status ReadContext::CheckFilesAgree() const {
  const File& first = files_.front();
  for (const File& file : files_) {
    if (file.facts.has_blocks != first.facts.has_blocks) {
      return Status::Error(StatusCode::kInvalidArgument,
                           "of " + first.path + " and " + file.path +
                               " one has block ids and the other has none: read them apart");
    }
    if (file.facts.block_tokens != first.facts.block_tokens) {
      return Status::Error(StatusCode::kInvalidArgument,
                           first.path + " has blocks of " +
                               std::to_string(first.facts.block_tokens) + " tokens and " +
                               file.path + " of " + std::to_string(file.facts.block_tokens) +
                               ": read them apart");
    }
  }
  return Status::Ok();
}

Result<Trace> ReadContext::Finish() {
  KVFERRY_RETURN_IF_ERROR(CheckFilesAgree());
  TraceOrigin origin;
  std::vector<std::string_view> formats;
  for (const File& file : files_) {
    origin.name = Joined(origin.name, file.path);
    origin.sha256 = Joined(origin.sha256, file.sha256);
    if (std::find(formats.begin(), formats.end(), file.facts.format) == formats.end()) {
      formats.push_back(file.facts.format);
      origin.format = Joined(origin.format, file.facts.format);
    }
    origin.has_sessions = origin.has_sessions || file.facts.has_sessions;
  }
  origin.block_tokens = files_.front().facts.block_tokens;
  origin.has_blocks = files_.front().facts.has_blocks;
  origin.skipped_lines = skipped_lines_;
  if (requests_ == 0 && !is_satisfied_) {
    return Status::Error(
        StatusCode::kDataLoss,
        origin.name + ": no request in it" + (skipped_lines_ > 0 ? " beside skipped lines" : ""));
  }
  if (unsorted_ > 0) {
    AddNote(FormatCounted(unsorted_, "request is earlier than the one before it",
                          "requests are earlier than the one before them") +
            "; file order stands and gaps below zero count as zero");
  }
  if (!builder_.is_chained()) {
    AddNote("ids are not prefix-chained (request " + std::to_string(first_unchained_) +
            " gives a block another predecessor than before): each id is taken as it stands");
  }
  origin.notes = notes_;
  meter_.Finish();
  return builder_.Finish(std::move(origin),
                         selects_while_reading_ ? TraceSelection{} : options_.selection, true);
}

}  // namespace kvferry::replay
