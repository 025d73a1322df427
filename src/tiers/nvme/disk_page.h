// DiskPage: the frame of every page of the NVMe format: what it is, whose it is, and a checksum.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "kvferry/status.h"

#include "tiers/nvme/store_layout.h"

namespace kvferry::tiers {

// Chosen at random when a store is made; all its drives have it. All zero is no store.
struct StoreUuid {
  std::array<std::byte, 16> bytes{};
  auto operator<=>(const StoreUuid&) const = default;
};
// "00112233-4455-6677-8899-aabbccddeeff".
std::string ToString(const StoreUuid& uuid);

enum class PageKind : std::uint8_t { kSuperblock, kSegmentHeader, kSegmentFooter };

// What a page turned out to be.
enum class PageFinding : std::uint8_t {
  kGood,
  kBlank,    // All zero: never written.
  kForeign,  // Something else's, or of another store, drive or segment.
  kStale,    // Ours, of an earlier or later life of the segment.
  kNewer,    // Whole, of a later version of the format or with features of one.
  kDamaged,  // Ours or not, its bytes are not what was written, or cannot be true.
};

inline constexpr std::uint32_t kFormatVersion = 1;
// Sequences and generations count from 1 and never get here.
inline constexpr std::uint64_t kPageNumberMax = std::uint64_t{1} << 62;

// The fields that stay where they are in every version of the format, beside the checksum.
struct PageFrame {
  std::uint32_t version = kFormatVersion;
  std::uint32_t features = 0;  // Bits of what a reader must know; there are none so far.
  StoreUuid store;
  std::uint64_t number = 0;  // The superblock's sequence, a segment's generation.
  bool operator==(const PageFrame&) const = default;
};
inline constexpr std::size_t kPageBodyAt = 40;
inline constexpr std::size_t kPageChecksumAt = 4080;

// Memory of one page, where reads and writes past the page cache can use it.
struct alignas(kDiskPageBytes) DiskPageMemory {
  std::array<std::byte, kDiskPageBytes> bytes{};
};
using DiskPage = std::span<std::byte, kDiskPageBytes>;
using ConstDiskPage = std::span<const std::byte, kDiskPageBytes>;

// What lies between frame and checksum.
inline std::span<std::byte> BodyOf(DiskPage page) {
  return page.subspan(kPageBodyAt, kPageChecksumAt - kPageBodyAt);
}
inline std::span<const std::byte> BodyOf(ConstDiskPage page) {
  return page.subspan(kPageBodyAt, kPageChecksumAt - kPageBodyAt);
}

// The frame must be one that ReadFrame finds good.
void WriteFrame(DiskPage page, PageKind kind, const PageFrame& frame);
// The last thing to be done to a page: the checksum over all that is before it.
void SealPage(DiskPage page);

struct FrameRead {
  PageFinding finding = PageFinding::kDamaged;
  Status status;    // Ok for kGood, else the reason.
  PageFrame frame;  // True for kGood and kNewer.
};
// `bytes` may be anything of any length.
FrameRead ReadFrame(std::span<const std::byte> bytes, PageKind kind);

// Reasons that several kinds of page have.
Status BlankPage(PageKind kind);
Status DamagedPage(PageKind kind, const std::string& how);
Status NewerPage(PageKind kind, const std::string& how);
Status ForeignPage(PageKind kind, const std::string& how);

}  // namespace kvferry::tiers
