// Files are compared piece by piece: those of a store are long, and little of them changes.
#include "stress/folder_image.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/bytes.h"

namespace kvferry::stress {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPieceBytes = 64 * kKiB;

Status FileError(const char* what, const fs::path& path) {
  return Status::Error(StatusCode::kIoError, std::string(what) + " '" + path.string() + "'");
}

// Relative to the folder.
Result<std::vector<std::string>> FilesOf(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    if (at->is_regular_file()) {
      files.push_back(fs::path(at->path()).lexically_relative(folder).string());
    }
  }
  if (error) {
    return Status::Error(StatusCode::kIoError, "read the folder '" + folder + "'", error.value());
  }
  return files;
}

Status WriteDifferences(const std::string& content, const fs::path& path) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (!fs::exists(path, error)) {
    std::ofstream(path, std::ios::binary).flush();
  }
  fs::resize_file(path, content.size(), error);
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  std::string piece(kPieceBytes, '\0');
  for (std::size_t at = 0; !error && file && at < content.size(); at += kPieceBytes) {
    const std::string_view wanted = std::string_view(content).substr(at, kPieceBytes);
    file.seekg(static_cast<std::streamoff>(at));
    file.read(piece.data(), static_cast<std::streamsize>(wanted.size()));
    if (std::string_view(piece).substr(0, wanted.size()) != wanted) {
      file.seekp(static_cast<std::streamoff>(at));
      file.write(wanted.data(), static_cast<std::streamsize>(wanted.size()));
    }
  }
  file.flush();
  return error || !file ? FileError("write", path) : Status::Ok();
}

}  // namespace

Result<FolderImage> ReadFolderImage(const std::string& folder) {
  FolderImage image;
  KVFERRY_ASSIGN_OR_RETURN(const std::vector<std::string> files, FilesOf(folder));
  for (const std::string& name : files) {
    const fs::path path = fs::path(folder) / name;
    std::error_code error;
    std::string content(fs::file_size(path, error), '\0');
    std::ifstream file(path, std::ios::binary);
    file.read(content.data(), static_cast<std::streamsize>(content.size()));
    if (error || !file) {
      return FileError("read", path);
    }
    image.emplace(name, std::move(content));
  }
  return image;
}

Status WriteFolderImage(const FolderImage& image, const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  KVFERRY_ASSIGN_OR_RETURN(const std::vector<std::string> files, FilesOf(folder));
  for (const std::string& name : files) {
    if (!image.contains(name)) {
      fs::remove(fs::path(folder) / name, error);
    }
  }
  for (const auto& [name, content] : image) {
    KVFERRY_RETURN_IF_ERROR(WriteDifferences(content, fs::path(folder) / name));
  }
  return Status::Ok();
}

}  // namespace kvferry::stress
