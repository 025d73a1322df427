// BenchFile: a file for direct I/O that was written once, and the places of blocks in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kvferry/status.h"

#include "base/file.h"
#include "tiers/nvme/store_layout.h"

namespace kvferry::bench {

// Opens for direct reads, and writes where asked for. kInvalidArgument, errno attached, where the
// file system has no direct I/O; kIoError for other refusals. Both name the path.
enum class FileUse : std::uint8_t { kRead, kReadAndWrite };
Result<FileDescriptor> OpenDirect(const std::string& path, FileUse use);

// Makes a file of that many bytes (whole MiB) and writes all of it: what has never been written is
// slower to write and faster to read. `memory`, a MiB at least, is what it writes. Errors as
// OpenDirect and PlainLoop::Run; kResourceExhausted where the drive is full.
Result<FileDescriptor> MakeBenchFile(const std::string& path,
                                     std::uint64_t bytes,
                                     std::span<std::byte> memory);

// The layout that the superblocks of a drive of the tier tell. kDataLoss or kIoError where they
// tell none. `memory`, a MiB at least and aligned for direct I/O, is what they are read into.
Result<tiers::StoreLayout> LayoutOf(const FileDescriptor& file, std::span<std::byte> memory);

// Where the tier's log puts blocks of that size, in its order: after each segment's header, one
// beside the other, as many as leave its footer room.
std::vector<std::uint64_t> PlacesOf(const tiers::StoreLayout& layout, std::uint32_t block_bytes);

// What may still be written to the file system of `path`. kInvalidArgument, errno attached, if
// there is no such path.
Result<std::uint64_t> FreeBytes(const std::string& path);

}  // namespace kvferry::bench
