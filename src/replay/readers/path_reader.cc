// From a path to the reader of its format.
#include "replay/readers/path_reader.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "replay/readers/azure_reader.h"
#include "replay/readers/decompress.h"
#include "replay/readers/file_source.h"
#include "replay/readers/format.h"
#include "replay/readers/jsonl_reader.h"
#include "replay/text_format.h"

namespace kvferry::replay {
namespace {

bool IsFolder(const std::string& path) {
  std::error_code error;
  return path != "-" && std::filesystem::is_directory(path, error);
}

// Whether a file says by its name that it is JSON, compressed or not.
bool IsJsonName(std::string_view name) {
  for (const std::string_view end : {".gz", ".zst"}) {
    name.remove_suffix(name.ends_with(end) ? end.size() : 0);
  }
  return name.ends_with(".json");
}

// The beginning of a text, so much that kFormatBytes of it are behind blank lines at its front.
Result<std::string_view> PeekText(PeekableStream& stream) {
  constexpr std::size_t kBlankBytesMax = std::size_t{64} << 20;
  std::size_t wanted = kFormatBytes;
  while (true) {
    KVFERRY_ASSIGN_OR_RETURN(const std::string_view start, stream.Peek(wanted));
    const std::size_t blank = start.size() - WithoutMarkAndSpaces(start).size();
    if (start.size() < wanted || wanted - blank >= kFormatBytes) {
      return start;
    }
    if (blank > kBlankBytesMax) {
      return Status::Error(StatusCode::kDataLoss,
                           "begins with more than 64 MiB of blank lines: remove them");
    }
    wanted = blank < start.size() ? blank + kFormatBytes : wanted * 2;
  }
}

}  // namespace

std::uint64_t TotalBytes(const std::vector<std::string>& paths) {
  std::uint64_t total = 0;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!IsFolder(path)) {
      if (path == "-" || !std::filesystem::is_regular_file(path, error)) {
        return 0;
      }
      total += std::filesystem::file_size(path, error);
      continue;
    }
    std::filesystem::directory_iterator entry(path, error);
    while (!error && entry != std::filesystem::directory_iterator()) {
      std::error_code unreadable;
      if (entry->is_regular_file(unreadable)) {
        const std::uint64_t size = entry->file_size(unreadable);
        total += unreadable ? 0 : size;
      }
      entry.increment(error);
    }
  }
  return total;
}

Status PathReader::Read(const std::string& path) {
  if (IsFolder(path)) {
    return ReadFolder(path);
  }
  KVFERRY_ASSIGN_OR_RETURN(const std::unique_ptr<FileSource> file,
                           FileSource::Open(path, context_.meter()));
  KVFERRY_ASSIGN_OR_RETURN(const FileFacts facts,
                           ReadContent(std::make_unique<BorrowedStream>(*file)));
  KVFERRY_RETURN_IF_ERROR(file->Drain());
  context_.AddFile(path, file->TakeSha256(), facts);
  return Status::Ok();
}

Status PathReader::ReadFolder(const std::string& path) {
  KVFERRY_ASSIGN_OR_RETURN(const std::unique_ptr<FolderArchive> folder,
                           FolderArchive::Open(path, context_.meter()));
  KVFERRY_ASSIGN_OR_RETURN(const FileFacts facts, ReadArchive(*folder));
  context_.AddFile(path, folder->TakeSha256(), facts);
  return Status::Ok();
}

Result<FileFacts> PathReader::ReadContent(std::unique_ptr<ByteStream> content) {
  KVFERRY_ASSIGN_OR_RETURN(const std::unique_ptr<PeekableStream> stream,
                           Decompress(std::move(content)));
  KVFERRY_ASSIGN_OR_RETURN(const std::string_view start, stream->Peek(kTarBytes));
  if (IsTar(start)) {
    TarArchive tar(*stream);
    return ReadArchive(tar);
  }
  return ReadText(*stream);
}

Result<FileFacts> PathReader::ReadText(PeekableStream& stream) {
  std::string_view format = context_.options().format;
  KVFERRY_ASSIGN_OR_RETURN(const std::string_view start, PeekText(stream));
  if (start.empty()) {
    return Status::Error(StatusCode::kDataLoss,
                         "is empty: no request in it; give a file that holds some");
  }
  if (format.empty()) {
    KVFERRY_ASSIGN_OR_RETURN(format, RecognizeFormat(start));
  }
  if (format == "sessions") {
    KVFERRY_RETURN_IF_ERROR(Sessions().ReadSession(stream));
    return Sessions().facts();
  }
  if (format == "ragpulse") {
    return Status::Error(StatusCode::kInvalidArgument,
                         std::string(context_.options().format.empty()
                                         ? "is one of RAGPulse's files"
                                         : "is one file, and --format ragpulse reads several") +
                             ": give the folder, or the tar archive, that "
                             "holds the trace and the five files of chunk lengths");
  }
  return ReadJsonl(stream, format);
}

Result<FileFacts> PathReader::ReadJsonl(PeekableStream& stream, std::string_view format) {
  const bool sorts_by_time = format == "aiperf";
  context_.BeginStream({.scope = context_.NewFileScope(),
                        .ids_are_single = format == "bailian",
                        .sorts_by_time = sorts_by_time});
  if (context_.options().paths.size() == 1 && !sorts_by_time) {
    context_.SelectWhileReading();
  }
  if (format == "azure") {
    return AzureReader(context_).Read(stream);
  }
  const JsonlFormat jsonl = format == "bailian"  ? JsonlFormat::kBailian
                            : format == "aiperf" ? JsonlFormat::kAiperf
                                                 : JsonlFormat::kMooncake;
  return JsonlReader(context_, jsonl).Read(stream);
}

Result<FileFacts> PathReader::ReadArchive(Archive& archive) {
  const std::string& forced = context_.options().format;
  if (!forced.empty() && forced != "sessions" && forced != "ragpulse") {
    return Status::Error(StatusCode::kInvalidArgument,
                         "is a folder or an archive, which --format " + forced +
                             " does not read, only sessions and ragpulse: give its files one by "
                             "one");
  }
  RagpulseReader ragpulse(context_);
  Members members;
  while (true) {
    KVFERRY_ASSIGN_OR_RETURN(const bool has_member, archive.Next());
    if (!has_member) {
      break;
    }
    KVFERRY_RETURN_IF_ERROR(
        ReadMember(archive, ragpulse, members).WithContext(archive.member_name()));
  }
  if (members.sessions > 0 && members.ragpulse_files > 0) {
    return Status::Error(StatusCode::kDataLoss,
                         "holds session files and RAGPulse files: give them apart");
  }
  if (members.sessions + members.ragpulse_files == 0) {
    return Status::Error(StatusCode::kDataLoss,
                         "holds neither session JSON nor RAGPulse files (" +
                             FormatCounted(members.others, "other file", "other files") +
                             "); known formats are " + FormatNames() +
                             ", and those of single files are given one by one");
  }
  if (members.others > 0) {
    context_.AddNote(FormatCounted(members.others, "file is", "files are") +
                     " in no known format and passed over (" + members.other_names + ")");
  }
  return members.ragpulse_files > 0 ? ragpulse.AddRequests() : Sessions().facts();
}

Status PathReader::ReadMember(Archive& archive, RagpulseReader& ragpulse, Members& members) {
  const std::string& forced = context_.options().format;
  PeekableStream& member = archive.member();
  KVFERRY_ASSIGN_OR_RETURN(const std::string_view start, member.Peek(kFormatBytes));
  const RagpulseReader::FileKind kind =
      forced == "sessions" ? RagpulseReader::FileKind::kNone : RagpulseReader::Recognize(start);
  if (kind == RagpulseReader::FileKind::kTrace) {
    ++members.ragpulse_files;
    return ragpulse.ReadTraceFile(member);
  }
  if (kind == RagpulseReader::FileKind::kLengths) {
    ++members.ragpulse_files;
    return ragpulse.ReadLengths(member);
  }
  if (forced != "ragpulse" && LooksLikeSession(start, forced == "sessions")) {
    ++members.sessions;
    return Sessions().ReadSession(member);
  }
  return PassOver(archive, start, members);
}

Status PathReader::PassOver(Archive& archive, std::string_view start, Members& members) {
  constexpr std::uint64_t kNamedMax = 3;
  ++members.others;
  if (members.others <= kNamedMax) {
    members.other_names += (members.others > 1 ? ", " : "") + archive.member_name();
  } else if (members.others == kNamedMax + 1) {
    members.other_names += ", ...";
  }
  if (context_.options().format == "ragpulse" ||
      (!WithoutMarkAndSpaces(start).starts_with('{') && !IsJsonName(archive.member_name()))) {
    return Status::Ok();
  }
  return CheckIsJson(context_, archive.member());
}

SessionReader& PathReader::Sessions() {
  if (sessions_ == nullptr) {
    sessions_ = std::make_unique<SessionReader>(context_);
  }
  return *sessions_;
}

}  // namespace kvferry::replay
