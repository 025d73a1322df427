// The byte layout of the frame, and the order in which a hostile page is checked.
#include "tiers/nvme/disk_page.h"

#include <algorithm>
#include <string_view>

#include "base/assert.h"
#include "base/checksum.h"
#include "tiers/nvme/disk_fields.h"

namespace kvferry::tiers {
namespace {

constexpr std::size_t kMagicBytes = 8;

std::string_view MagicOf(PageKind kind) {
  switch (kind) {
    case PageKind::kSuperblock:
      return "kvfstore";
    case PageKind::kSegmentHeader:
      return "kvfsegmt";
    case PageKind::kSegmentFooter:
      return "kvffootr";
  }
  KVFERRY_CHECK(false);
}

std::string NameOf(PageKind kind) {
  switch (kind) {
    case PageKind::kSuperblock:
      return "superblock";
    case PageKind::kSegmentHeader:
      return "segment header";
    case PageKind::kSegmentFooter:
      return "segment footer";
  }
  KVFERRY_CHECK(false);
}

// Seeded by the magic, so that a page of one kind whose magic is overwritten is none of another.
Checksum ChecksumOfPage(ConstDiskPage page) {
  const auto seed = FieldReader(page.first(kMagicBytes)).Take<std::uint64_t>();
  return ChecksumOf(page.first(kPageChecksumAt), seed);
}

bool HasMagic(ConstDiskPage page, PageKind kind) {
  const auto magic = std::as_bytes(std::span(MagicOf(kind)));
  return std::equal(magic.begin(), magic.end(), page.begin());
}

PageFrame DecodeFrame(ConstDiskPage page) {
  FieldReader reader(page.subspan(kMagicBytes));
  PageFrame frame;
  frame.version = reader.Take<std::uint32_t>();
  frame.features = reader.Take<std::uint32_t>();
  reader.TakeBytes(frame.store.bytes);
  frame.number = reader.Take<std::uint64_t>();
  return frame;
}

FrameRead Damaged(PageKind kind, const std::string& how) {
  return {.finding = PageFinding::kDamaged, .status = DamagedPage(kind, how), .frame = {}};
}

FrameRead CheckFrame(const PageFrame& frame, PageKind kind) {
  if (frame.version == 0 || frame.store == StoreUuid{} || frame.number == 0 ||
      frame.number >= kPageNumberMax) {
    return Damaged(kind, "its version, store or number cannot be");
  }
  if (frame.version > kFormatVersion) {
    return {.finding = PageFinding::kNewer,
            .status = NewerPage(kind, "has format version " + std::to_string(frame.version)),
            .frame = frame};
  }
  if (frame.features != 0) {
    return {.finding = PageFinding::kNewer,
            .status = NewerPage(kind, "has unknown features " + std::to_string(frame.features)),
            .frame = frame};
  }
  return {.finding = PageFinding::kGood, .status = Status::Ok(), .frame = frame};
}

}  // namespace

std::string ToString(const StoreUuid& uuid) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < uuid.bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) {
      text += '-';
    }
    const auto value = std::to_integer<std::size_t>(uuid.bytes[i]);
    text += kDigits[value / 16];
    text += kDigits[value % 16];
  }
  return text;
}

void WriteFrame(DiskPage page, PageKind kind, const PageFrame& frame) {
  KVFERRY_CHECK(CheckFrame(frame, kind).finding == PageFinding::kGood);
  FieldWriter writer(page.first(kPageBodyAt));
  writer.PutBytes(std::as_bytes(std::span(MagicOf(kind))));
  writer.Put(frame.version);
  writer.Put(frame.features);
  writer.PutBytes(frame.store.bytes);
  writer.Put(frame.number);
}

void SealPage(DiskPage page) {
  FieldWriter(page.subspan(kPageChecksumAt)).PutBytes(ChecksumOfPage(page).bytes);
}

FrameRead ReadFrame(std::span<const std::byte> bytes, PageKind kind) {
  if (bytes.size() != kDiskPageBytes) {
    return Damaged(kind, "only " + std::to_string(bytes.size()) + " bytes of it are there");
  }
  const ConstDiskPage page = bytes.first<kDiskPageBytes>();
  if (FieldReader(page).TakeZeros()) {
    return {.finding = PageFinding::kBlank, .status = BlankPage(kind), .frame = {}};
  }
  if (!HasMagic(page, kind)) {
    return {.finding = PageFinding::kForeign,
            .status = ForeignPage(kind, "its first bytes are something else's"),
            .frame = {}};
  }
  const Checksum found = ChecksumOfPage(page);
  if (!std::equal(found.bytes.begin(), found.bytes.end(), page.begin() + kPageChecksumAt)) {
    return Damaged(kind, "its checksum does not match: it is torn or has rotted");
  }
  return CheckFrame(DecodeFrame(page), kind);
}

Status BlankPage(PageKind kind) {
  return Status::Error(StatusCode::kDataLoss, "no " + NameOf(kind) + " was ever written here");
}

Status DamagedPage(PageKind kind, const std::string& how) {
  return Status::Error(StatusCode::kDataLoss, "the " + NameOf(kind) + " is damaged: " + how);
}

Status NewerPage(PageKind kind, const std::string& how) {
  return Status::Error(StatusCode::kInvalidArgument,
                       "the " + NameOf(kind) + " " + how + ", this version knows up to " +
                           std::to_string(kFormatVersion) +
                           " and no features: use the kvferry that wrote it, or a later one");
}

Status ForeignPage(PageKind kind, const std::string& how) {
  return Status::Error(StatusCode::kInvalidArgument,
                       "this is not our " + NameOf(kind) + ": " + how);
}

}  // namespace kvferry::tiers
