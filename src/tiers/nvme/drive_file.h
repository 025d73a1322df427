// What a drive of the NVMe tier is opened from: a file in a private folder, or a raw block device.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kvferry/status.h"

#include "base/file.h"

namespace kvferry::tiers {

// In a drive's folder. The second one is a file that is being made: it gets the first name once its
// superblocks are written, so that a crash leaves a store or none.
inline constexpr std::string_view kBlocksFileName = "blocks.kvferry";
inline constexpr std::string_view kHalfMadeFileName = "blocks.kvferry.part";

enum class DriveAccess : std::uint8_t {
  kOwn,        // Read and write, alone.
  kReadAlone,  // Nothing is changed, by anyone else either.
  kRead,       // Nothing is changed, beside whoever has it open.
};

enum class PathKind : std::uint8_t { kNothing, kFolder, kDevice };

// Links are followed to devices, never to folders. kInvalidArgument for what is neither.
Result<PathKind> LookAtDrivePath(const std::string& path);

// The folder, locked unless access is kRead. With kOwn it is made where it is missing, and must be
// private to this user. kUnavailable: someone else, named if that can be told, has the lock, which
// is held as long as the descriptor is open.
Result<FileDescriptor> OpenDriveFolder(const std::string& path, DriveAccess access);

// A file in an open folder; `folder_path` is for messages.
struct FolderFile {
  int folder = -1;
  std::string folder_path;
  std::string_view name;

  std::string path() const { return folder_path + "/" + std::string(name); }
};
// The file; with kOwn it must be one of this user's own, closed to others and under one name.
// kInvalidArgument if it is anything else. An empty descriptor where there is none.
Result<FileDescriptor> OpenBlocksFile(const FolderFile& file, DriveAccess access);
// A new file of mode 0600.
Result<FileDescriptor> CreateBlocksFile(const FolderFile& file);
// Makes new, renamed and removed names of the folder durable.
Status SyncDriveFolder(const FolderFile& file);

// kUnavailable: it is mounted or someone else has it open.
Result<FileDescriptor> OpenBlockDevice(const std::string& path, DriveAccess access);

// Of a file or a device.
Result<std::uint64_t> SizeOfDrive(int fd, const std::string& path);

// What is wrong with keeping blocks on the file system of `fd`, as a sentence; empty if nothing is.
std::string FileSystemWarning(int fd, const std::string& path);

// What was not possible on a path, why, and what to do about it.
struct PathProblem {
  std::string path;
  std::string what;
  std::string remedy;
};
// kIoError with the errno, in words too.
Status PathError(const PathProblem& problem, int error_number, SourceLine at = SourceLine::Here());

}  // namespace kvferry::tiers
