// Making, opening and measuring files and the room for them.
#include "bench/bench_file.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>

#include "base/assert.h"
#include "base/bytes.h"
#include "bench/nvme_plain_loop.h"
#include "tiers/nvme/superblock.h"

namespace kvferry::bench {
namespace {

constexpr mode_t kOwnerOnly = 0600;

Status Refusal(const std::string& what, const std::string& path, int error) {
  if (error == EINVAL) {
    return Status::Error(
        StatusCode::kInvalidArgument,
        "'" + path + "': its file system has no direct I/O; choose a folder on a drive", error);
  }
  const bool is_full = error == ENOSPC || error == EDQUOT;
  return Status::Error(is_full ? StatusCode::kResourceExhausted : StatusCode::kIoError,
                       what + " '" + path + "'", error);
}

Result<FileDescriptor> OpenWith(const std::string& path, int flags) {
  FileDescriptor file(::open(path.c_str(), flags | O_DIRECT | O_CLOEXEC | O_NOFOLLOW, kOwnerOnly));
  if (!file.is_open()) {
    return Refusal("open", path, errno);
  }
  return file;
}

}  // namespace

Result<FileDescriptor> OpenDirect(const std::string& path, FileUse use) {
  return OpenWith(path, use == FileUse::kRead ? O_RDONLY : O_RDWR);
}

Result<FileDescriptor> MakeBenchFile(const std::string& path,
                                     std::uint64_t bytes,
                                     std::span<std::byte> memory) {
  KVFERRY_ASSIGN_OR_RETURN(FileDescriptor file, OpenWith(path, O_RDWR | O_CREAT | O_EXCL));
  // Some file systems cannot; the writes then take the room themselves.
  const int error = ::posix_fallocate(file.fd(), 0, Narrow<off_t>(bytes));
  if (error != 0 && error != EOPNOTSUPP && error != EINVAL) {
    return Refusal("take room for", path, error);
  }
  PlainLoop::Options options;
  options.file = file.fd();
  options.memory = memory;
  options.block_bytes = Narrow<std::uint32_t>(kMiB);
  for (std::uint64_t at = 0; at < bytes; at += kMiB) {
    options.offsets.push_back(at);
  }
  const std::uint64_t blocks = options.offsets.size();
  KVFERRY_ASSIGN_OR_RETURN(const auto loop, PlainLoop::Open(options));
  KVFERRY_RETURN_IF_ERROR(
      loop->Run(tiers::IoOp::Kind::kWrite, {.blocks_max = blocks}).status().WithContext(path));
  return file;
}

Result<tiers::StoreLayout> LayoutOf(const FileDescriptor& file, std::span<std::byte> memory) {
  tiers::SuperblockCopies copies;
  for (std::size_t copy = 0; copy < copies.size(); ++copy) {
    const std::span<std::byte> page =
        memory.subspan(copy * tiers::kDiskPageBytes, tiers::kDiskPageBytes);
    const ssize_t size =
        ::pread(file.fd(), page.data(), page.size(), Narrow<off_t>(tiers::SuperblockOffset(copy)));
    if (size != static_cast<ssize_t>(page.size())) {
      return Status::Error(StatusCode::kIoError, "read a superblock", size < 0 ? errno : 0);
    }
    copies[copy] = page;
  }
  const tiers::SuperblockChoice choice = tiers::ChooseSuperblock(copies);
  KVFERRY_RETURN_IF_ERROR(choice.status);
  return choice.superblock.layout;
}

std::vector<std::uint64_t> PlacesOf(const tiers::StoreLayout& layout, std::uint32_t block_bytes) {
  const std::uint32_t pages = tiers::PayloadPages(block_bytes);
  const std::uint32_t per_segment = layout.pages_per_segment();
  std::vector<std::uint64_t> places;
  for (std::uint32_t segment = 0; segment < layout.segment_count; ++segment) {
    std::uint32_t rows = 0;
    for (std::uint32_t page = 1; page + pages + tiers::FooterPages(rows + 1) <= per_segment;
         page += pages) {
      places.push_back(layout.PageOffset(segment, page));
      ++rows;
    }
  }
  return places;
}

Result<std::uint64_t> FreeBytes(const std::string& path) {
  struct statvfs state {};
  if (::statvfs(path.c_str(), &state) != 0) {
    return Status::Error(StatusCode::kInvalidArgument, "look at '" + path + "'", errno);
  }
  return std::uint64_t{state.f_bavail} * state.f_frsize;
}

}  // namespace kvferry::bench
