// libarchive behind TarArchive; the C++ standard library behind FolderArchive.
#include "replay/readers/archive.h"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "replay/readers/decompress.h"

namespace kvferry::replay {
namespace {

constexpr std::size_t kInputBytes = std::size_t{64} << 10;

}  // namespace

// What libarchive's callback reads from; keeps the stream's own error, which says more.
class TarArchive::Input {
 public:
  explicit Input(ByteStream& stream) : stream_(stream), buffer_(kInputBytes) {}

  static la_ssize_t Read(::archive* tar, void* self, const void** buffer) {
    auto& input = *static_cast<Input*>(self);
    Result<std::size_t> read = input.stream_.Read(input.buffer_);
    if (!read.has_value()) {
      input.error_ = read.error();
      archive_set_error(tar, EIO, "cannot read");
      return ARCHIVE_FATAL;
    }
    *buffer = input.buffer_.data();
    return static_cast<la_ssize_t>(*read);
  }
  const Status& error() const { return error_; }

 private:
  ByteStream& stream_;
  std::vector<char> buffer_;
  Status error_;
};

class TarArchive::MemberStream final : public ByteStream {
 public:
  explicit MemberStream(TarArchive& archive) : archive_(archive) {}
  Result<std::size_t> Read(std::span<char> target) override {
    const la_ssize_t read = archive_read_data(archive_.tar_.get(), target.data(), target.size());
    if (read < 0) {
      return archive_.Error();
    }
    return static_cast<std::size_t>(read);
  }

 private:
  TarArchive& archive_;
};

void TarArchive::Free::operator()(::archive* tar) const noexcept {
  archive_read_free(tar);
}

TarArchive::TarArchive(ByteStream& stream) : input_(std::make_unique<Input>(stream)) {}
TarArchive::~TarArchive() = default;

Status TarArchive::Error() const {
  if (!input_->error().ok()) {
    return input_->error();
  }
  const char* reason = archive_error_string(tar_.get());
  return Status::Error(StatusCode::kDataLoss,
                       "tar archive is cut off or damaged at byte " +
                           std::to_string(archive_filter_bytes(tar_.get(), -1)) + ": " +
                           std::string(reason != nullptr ? reason : "unknown") +
                           "; nothing of it is used");
}

Result<bool> TarArchive::Next() {
  if (tar_ == nullptr) {
    tar_.reset(archive_read_new());
    if (tar_ == nullptr) {
      return Status::Error(StatusCode::kResourceExhausted, "no memory to read a tar archive");
    }
    if (archive_read_support_format_tar(tar_.get()) != ARCHIVE_OK ||
        archive_read_open(tar_.get(), input_.get(), nullptr, &Input::Read, nullptr) != ARCHIVE_OK) {
      return Error();
    }
  }
  member_.reset();
  while (true) {
    archive_entry* entry = nullptr;
    const int code = archive_read_next_header(tar_.get(), &entry);
    if (code == ARCHIVE_EOF) {
      return false;
    }
    if (code != ARCHIVE_OK && code != ARCHIVE_WARN) {
      return Error();
    }
    if (archive_entry_filetype(entry) != AE_IFREG) {
      continue;
    }
    const char* name = archive_entry_pathname(entry);
    name_ = name != nullptr ? name : "a file without a name";
    KVFERRY_ASSIGN_OR_RETURN(member_, Decompress(std::make_unique<MemberStream>(*this)));
    return true;
  }
}

Result<std::unique_ptr<FolderArchive>> FolderArchive::Open(const std::string& path,
                                                           ReadMeter& meter) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator entry(path, error);
  while (!error && entry != std::filesystem::directory_iterator()) {
    std::error_code ignored;  // A link to nowhere is no regular file either.
    if (entry->is_regular_file(ignored)) {
      names.push_back(entry->path().filename().string());
    }
    entry.increment(error);
  }
  if (error) {
    return Status::Error(StatusCode::kIoError, "cannot list " + path, error.value());
  }
  std::sort(names.begin(), names.end());
  return std::unique_ptr<FolderArchive>(new FolderArchive(path, std::move(names), meter));
}

Result<bool> FolderArchive::Next() {
  KVFERRY_RETURN_IF_ERROR(FinishMember());
  if (next_ == names_.size()) {
    return false;
  }
  const std::string& name = names_[next_++];
  KVFERRY_ASSIGN_OR_RETURN(file_, FileSource::Open(path_ + "/" + name, meter_));
  KVFERRY_ASSIGN_OR_RETURN(member_, Decompress(std::make_unique<BorrowedStream>(*file_)));
  return true;
}

Status FolderArchive::FinishMember() {
  if (file_ == nullptr) {
    return Status::Ok();
  }
  KVFERRY_RETURN_IF_ERROR(file_->Drain());
  const std::string line = file_->TakeSha256() + "  " + names_[next_ - 1] + "\n";
  sha256_.Update(std::as_bytes(std::span(line)));
  member_.reset();
  file_.reset();
  return Status::Ok();
}

std::string FolderArchive::TakeSha256() {
  return ToHex(sha256_.Finish());
}

}  // namespace kvferry::replay
