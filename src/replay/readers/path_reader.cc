// From a path to the reader of its format.
#include "replay/readers/path_reader.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "replay/readers/azure_reader.h"
#include "replay/readers/decompress.h"
#include "replay/readers/file_source.h"
#include "replay/readers/format.h"
#include "replay/readers/jsonl_reader.h"

namespace kvferry::replay {
namespace {

bool IsFolder(const std::string& path) {
  std::error_code error;
  return path != "-" && std::filesystem::is_directory(path, error);
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
  KVFERRY_ASSIGN_OR_RETURN(const std::string_view start, stream.Peek(kFormatBytes));
  if (start.empty()) {
    return Status::Error(StatusCode::kDataLoss, "is empty: no request in it");
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
                         "is one of RAGPulse's files: give the folder, or the tar archive, that "
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
  RagpulseReader ragpulse(context_);
  std::uint64_t sessions = 0;
  std::uint64_t ragpulse_files = 0;
  std::uint64_t others = 0;
  while (true) {
    KVFERRY_ASSIGN_OR_RETURN(const bool has_member, archive.Next());
    if (!has_member) {
      break;
    }
    PeekableStream& member = archive.member();
    Result<std::string_view> start = member.Peek(kFormatBytes);
    if (!start.has_value()) {
      return start.error().WithContext(archive.member_name());
    }
    const RagpulseReader::FileKind kind = RagpulseReader::Recognize(*start);
    Status status;
    if (kind == RagpulseReader::FileKind::kTrace && forced != "sessions") {
      ++ragpulse_files;
      status = ragpulse.ReadTraceFile(member);
    } else if (kind == RagpulseReader::FileKind::kLengths && forced != "sessions") {
      ++ragpulse_files;
      status = ragpulse.ReadLengths(member);
    } else if (LooksLikeSession(*start, forced == "sessions")) {
      ++sessions;
      status = Sessions().ReadSession(member);
    } else {
      ++others;
    }
    KVFERRY_RETURN_IF_ERROR(status.WithContext(archive.member_name()));
  }
  if (sessions > 0 && ragpulse_files > 0) {
    return Status::Error(StatusCode::kDataLoss,
                         "holds session files and RAGPulse files: give them apart");
  }
  if (sessions + ragpulse_files == 0) {
    return Status::Error(StatusCode::kDataLoss,
                         "holds neither session JSON nor RAGPulse files (" +
                             std::to_string(others) + " other files); known formats are " +
                             FormatNames() + ", and those of single files are given one by one");
  }
  if (others > 0) {
    context_.AddNote(std::to_string(others) + " files are in no known format and passed over");
  }
  return ragpulse_files > 0 ? ragpulse.AddRequests() : Sessions().facts();
}

SessionReader& PathReader::Sessions() {
  if (sessions_ == nullptr) {
    sessions_ = std::make_unique<SessionReader>(context_);
  }
  return *sessions_;
}

}  // namespace kvferry::replay
