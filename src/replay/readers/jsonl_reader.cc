// Lines to requests, and the block size that the first lines agree on.
#include "replay/readers/jsonl_reader.h"

#include <string>
#include <utility>

#include "base/assert.h"
#include "replay/readers/line_reader.h"

namespace kvferry::replay {
namespace {

// So many lines, or ids in them, wait for the vote on the block size. After it a line that fits no
// size left is a bad one.
constexpr std::size_t kVoters = 64;
constexpr std::size_t kVoterIdsMax = std::size_t{1} << 20;
constexpr std::uint32_t kBailianBlockTokens = 16;  // By the data set's description.
constexpr std::string_view kNoParent = "-1";
// Roughly what a map entry with two short strings takes.
constexpr std::uint64_t kMapEntryBytes = 160;

}  // namespace

JsonlReader::JsonlReader(ReadContext& context, JsonlFormat format)
    : context_(context), format_(format), block_tokens_(context.options().block_tokens) {
  block_tokens_are_given_ = block_tokens_ != 0;
  is_decided_ = block_tokens_are_given_;
}

Result<FileFacts> JsonlReader::Read(ByteStream& stream) {
  LineReader lines(stream);
  TextLine text;
  Record record;
  while (!context_.is_satisfied()) {
    KVFERRY_ASSIGN_OR_RETURN(const bool has_line, lines.Next(text));
    if (!has_line) {
      break;
    }
    record.line = text.number;
    Status status = text.is_too_long ? Status::Error(StatusCode::kDataLoss, "is longer than 16 MiB")
                                     : Decode(text.text, record);
    if (!status.ok()) {
      KVFERRY_RETURN_IF_ERROR(context_.BadLine("line", text.number, status));
      continue;
    }
    KVFERRY_RETURN_IF_ERROR(Take(record));
  }
  KVFERRY_RETURN_IF_ERROR(DecideBlockSize());
  KVFERRY_ASSIGN_OR_RETURN(const std::uint32_t block_tokens, FinalBlockTokens());
  constexpr std::string_view kNames[] = {"mooncake", "aiperf", "bailian"};
  return FileFacts{.format = kNames[static_cast<std::size_t>(format_)],
                   .block_tokens = block_tokens,
                   .has_sessions = has_sessions_};
}

Status JsonlReader::Decode(std::string_view text, Record& record) {
  KVFERRY_RETURN_IF_ERROR(parser_.Parse(text, line_));
  record.session.clear();
  record.parent_session.clear();
  KVFERRY_RETURN_IF_ERROR(DecodeTime(record));
  KVFERRY_ASSIGN_OR_RETURN(const std::uint64_t input_tokens,
                           ReadInteger(line_, LineField::kInputLength, UINT32_MAX));
  KVFERRY_ASSIGN_OR_RETURN(const std::uint64_t output_tokens,
                           ReadInteger(line_, LineField::kOutputLength, UINT32_MAX));
  record.input_tokens = static_cast<std::uint32_t>(input_tokens);
  record.output_tokens = static_cast<std::uint32_t>(output_tokens);
  if (!line_.has_ids) {
    return BadField("hash_ids", "is missing");
  }
  record.ids.swap(line_.ids);
  if (format_ == JsonlFormat::kBailian) {
    return DecodeChat(record);
  }
  if (line_.has(LineField::kSessionId)) {
    record.session = line_.value(LineField::kSessionId);
  } else if (format_ == JsonlFormat::kAiperf) {
    return BadField("session_id", "is missing");
  }
  return DecodeBlockSize();
}

Status JsonlReader::DecodeTime(Record& record) {
  record.is_delay = false;
  LineField field = LineField::kTimestamp;
  if (!line_.has(LineField::kTimestamp) && line_.has(LineField::kDelay)) {
    if (format_ == JsonlFormat::kMooncake) {
      return BadField("timestamp",
                      "is missing, but there is a delay: --format aiperf reads such files");
    }
    if (format_ == JsonlFormat::kAiperf) {
      record.is_delay = true;
      field = LineField::kDelay;
    }
  }
  KVFERRY_ASSIGN_OR_RETURN(record.time_ms,
                           ReadTime(line_, field, format_ == JsonlFormat::kBailian ? 3 : 0));
  if (record.is_delay && record.time_ms < 0) {
    return BadField("delay", "is negative");
  }
  return Status::Ok();
}

Status JsonlReader::DecodeChat(Record& record) {
  for (const LineField field : {LineField::kChatId, LineField::kParentChatId}) {
    if (!line_.has(field)) {
      return BadField(FieldName(field), "is missing");
    }
  }
  record.session = line_.value(LineField::kChatId);
  if (line_.value(LineField::kParentChatId) != kNoParent) {
    record.parent_session = line_.value(LineField::kParentChatId);
  }
  return DecodeBlockSize();
}

Status JsonlReader::DecodeBlockSize() {
  if (!line_.has(LineField::kBlockSize) || context_.options().block_tokens != 0) {
    return Status::Ok();
  }
  KVFERRY_ASSIGN_OR_RETURN(const std::uint64_t size,
                           ReadInteger(line_, LineField::kBlockSize, UINT32_MAX));
  if (size == 0) {
    return BadField("block_size", "is zero");
  }
  if (block_tokens_are_given_ && size != block_tokens_) {
    return BadField("block_size", "is another one than before, " + std::to_string(block_tokens_));
  }
  block_tokens_ = static_cast<std::uint32_t>(size);
  block_tokens_are_given_ = true;
  return Status::Ok();
}

Status JsonlReader::Take(Record& record) {
  has_records_ = true;
  if (!is_decided_ && !block_tokens_are_given_) {
    vote_.Add(record.input_tokens, record.ids.size());
    undecided_ids_ += record.ids.size();
    undecided_.push_back(record);
    if (undecided_.size() < kVoters && undecided_ids_ < kVoterIdsMax) {
      return Status::Ok();
    }
    return DecideBlockSize();
  }
  KVFERRY_RETURN_IF_ERROR(DecideBlockSize());
  return Interpret(record);
}

Status JsonlReader::DecideBlockSize() {
  if (is_decided_ && undecided_.empty()) {
    return Status::Ok();
  }
  is_decided_ = true;
  if (!block_tokens_are_given_ && !undecided_.empty() && !vote_.Decide()) {
    return Status::Error(
        StatusCode::kInvalidArgument,
        "no block size fits: for no power of two have lines 1 to " +
            std::to_string(undecided_.back().line) +
            " as many hash_ids as their input_length has blocks; say it by --block-tokens N");
  }
  std::vector<Record> records = std::move(undecided_);
  undecided_.clear();
  for (Record& record : records) {
    if (!context_.is_satisfied()) {
      KVFERRY_RETURN_IF_ERROR(Interpret(record));
    }
  }
  return Status::Ok();
}

Status JsonlReader::CheckBlockCount(const Record& record) {
  if (!block_tokens_are_given_ && vote_.winner() == 0) {
    if (vote_.Narrow(record.input_tokens, record.ids.size())) {
      return Status::Ok();
    }
  } else {
    const std::uint32_t size = block_tokens_are_given_ ? block_tokens_ : vote_.winner();
    if (FitsBlockSize(record.input_tokens, record.ids.size(), size)) {
      return Status::Ok();
    }
  }
  const std::string size =
      block_tokens_are_given_ ? std::to_string(block_tokens_) : vote_.Candidates();
  return BadField("hash_ids",
                  "has " + std::to_string(record.ids.size()) + " ids where an input_length of " +
                      std::to_string(record.input_tokens) + " has another number of blocks of " +
                      size + " tokens" +
                      (block_tokens_are_given_ ? ""
                                               : ", the size told from the lines before it; "
                                                 "--block-tokens N says another"));
}

Status JsonlReader::Interpret(Record& record) {
  if (Status status = CheckBlockCount(record); !status.ok()) {
    return context_.BadLine("line", record.line, status);
  }
  if (format_ == JsonlFormat::kAiperf) {
    has_sessions_ = true;
    return InterpretTurn(record);
  }
  RawRequest request{.time_ms = record.time_ms,
                     .input_tokens = record.input_tokens,
                     .output_tokens = record.output_tokens,
                     .session = record.session,
                     .ids = record.ids};
  if (format_ == JsonlFormat::kBailian) {
    // A parent that is not in the file stands for its own root.
    std::string root = record.session;
    if (!record.parent_session.empty()) {
      const auto parent = roots_.find(record.parent_session);
      root = parent != roots_.end() ? parent->second : record.parent_session;
    }
    const auto [entry, is_new] = roots_.try_emplace(record.session, std::move(root));
    if (is_new) {
      KVFERRY_RETURN_IF_ERROR(context_.HoldBytes(kMapEntryBytes));
    }
    request.session = entry->second;
  }
  has_sessions_ = has_sessions_ || !request.session.empty();
  return context_.Add(request);
}

Status JsonlReader::InterpretTurn(Record& record) {
  const auto found = turns_.find(record.session);
  if (found == turns_.end()) {
    if (record.is_delay) {
      return context_.BadLine(
          "line", record.line,
          BadField("timestamp", "is missing in the first turn of session " + record.session));
    }
    KVFERRY_RETURN_IF_ERROR(context_.HoldBytes(kMapEntryBytes));
  }
  Turn& turn = found == turns_.end() ? turns_[record.session] : found->second;
  const std::uint64_t input_tokens = turn.input_tokens + record.input_tokens;
  const std::int64_t time_ms = record.is_delay ? turn.time_ms + record.time_ms : record.time_ms;
  if (input_tokens > UINT32_MAX || time_ms > kTimeMsMax) {
    return context_.BadLine(
        "line", record.line,
        BadField(input_tokens > UINT32_MAX ? "input_length" : "delay",
                 "takes session " + record.session + " beyond what can be counted"));
  }
  turn.input_tokens = input_tokens;
  turn.time_ms = time_ms;
  turn.ids.insert(turn.ids.end(), record.ids.begin(), record.ids.end());
  KVFERRY_RETURN_IF_ERROR(context_.HoldBytes(record.ids.size() * sizeof(record.ids[0])));
  return context_.Add({.time_ms = turn.time_ms,
                       .input_tokens = static_cast<std::uint32_t>(turn.input_tokens),
                       .output_tokens = record.output_tokens,
                       .session = record.session,
                       .ids = turn.ids});
}

Result<std::uint32_t> JsonlReader::FinalBlockTokens() {
  if (block_tokens_are_given_ || !has_records_) {
    return block_tokens_;  // Without any good line the size is the smaller problem.
  }
  if (vote_.winner() != 0) {
    return vote_.winner();
  }
  if (format_ == JsonlFormat::kBailian && vote_.IsCandidate(kBailianBlockTokens)) {
    return kBailianBlockTokens;
  }
  return Status::Error(StatusCode::kInvalidArgument, "several block sizes fit all lines (" +
                                                         vote_.Candidates() +
                                                         "); say which by --block-tokens N");
}

}  // namespace kvferry::replay
