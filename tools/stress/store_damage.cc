// The map of a store, and changes of its bytes that leave all else as it is.
#include "stress/store_damage.h"

#include <algorithm>
#include <memory>

#include "tiers/nvme/drive_set.h"
#include "tiers/nvme/store_reader.h"

namespace kvferry::stress {
namespace {

constexpr std::string_view kDriveFile = "blocks.kvferry";
constexpr std::size_t kSectorBytes = 512;
constexpr std::array kAllParts = {StorePart::kSuperblock, StorePart::kHeader,  StorePart::kPayload,
                                  StorePart::kFooter,     StorePart::kSegment, StorePart::kDrive,
                                  StorePart::kManifest};
constexpr std::array kAllKinds = {
    DamageKind::kFlippedBit, DamageKind::kLostSector, DamageKind::kGarbage,  DamageKind::kSwapped,
    DamageKind::kMisplaced,  DamageKind::kStale,      DamageKind::kTruncated};
static_assert(kAllParts.size() == kStorePartCount && kAllKinds.size() == kDamageKindCount);

std::string Describe(const DamagePlan& plan, const PartRange& range, std::uint64_t at) {
  return std::string(ToString(plan.kind)) + " in " + std::string(ToString(plan.part)) + ", " +
         range.file + " at " + std::to_string(at);
}

void MapSegment(const tiers::StoreReader& reader,
                std::uint32_t segment,
                std::vector<PartRange>& map) {
  const tiers::SegmentHeaderRead header = reader.ReadHeader(segment);
  if (header.finding != tiers::PageFinding::kGood) {
    return;
  }
  const auto add = [&](StorePart part, std::uint32_t page, std::uint64_t pages) {
    map.push_back({part, std::string(kDriveFile), reader.OffsetOf(segment, page),
                   pages * tiers::kDiskPageBytes});
  };
  const std::uint32_t pages = reader.pages_per_segment();
  add(StorePart::kSegment, 0, pages);
  add(StorePart::kHeader, 0, 1);
  const tiers::FooterRead footer = reader.ReadFooterOf({segment, header.header.generation});
  if (footer.finding != tiers::PageFinding::kGood) {
    return;
  }
  const std::uint32_t footer_pages =
      tiers::FooterPages(static_cast<std::uint32_t>(footer.rows.size()));
  add(StorePart::kFooter, pages - footer_pages, footer_pages);
  for (const tiers::BlockRow& row : footer.rows) {
    add(StorePart::kPayload, row.page, tiers::PayloadPages(row.stored_bytes));
  }
}

// Another one of the same part and length.
const PartRange* OtherOf(const std::vector<PartRange>& map,
                         const PartRange& range,
                         Random& random) {
  std::vector<const PartRange*> others;
  for (const PartRange& other : map) {
    if (other.part == range.part && other.size_bytes == range.size_bytes && other != range) {
      others.push_back(&other);
    }
  }
  return others.empty() ? nullptr : others[random.Below(others.size())];
}

void Replace(std::string& bytes, const PartRange& range, const std::string& by) {
  std::copy(by.begin(), by.end(), bytes.begin() + static_cast<std::ptrdiff_t>(range.offset_bytes));
}

std::string BytesAt(const std::string& bytes, const PartRange& range) {
  return range.offset_bytes < bytes.size() ? bytes.substr(range.offset_bytes, range.size_bytes)
                                           : std::string();
}

// A bit or a sector of the range; where it is.
std::uint64_t ChangeWithin(DamageKind kind,
                           const PartRange& range,
                           Random& random,
                           std::string& bytes) {
  if (kind == DamageKind::kFlippedBit) {
    const std::uint64_t at = range.offset_bytes + random.Below(range.size_bytes);
    bytes[at] = static_cast<char>(static_cast<unsigned char>(bytes[at]) ^ 1U << random.Below(8));
    return at;
  }
  const std::uint64_t sectors = (range.size_bytes + kSectorBytes - 1) / kSectorBytes;
  const std::uint64_t at = range.offset_bytes + random.Below(sectors) * kSectorBytes;
  const std::uint64_t end = std::min(at + kSectorBytes, range.offset_bytes + range.size_bytes);
  for (std::uint64_t i = at; i < end; ++i) {
    bytes[i] = kind == DamageKind::kGarbage ? static_cast<char>(random.Below(256)) : '\0';
  }
  return at;
}

}  // namespace

std::string_view ToString(StorePart part) noexcept {
  switch (part) {
    case StorePart::kSuperblock:
      return "superblock";
    case StorePart::kHeader:
      return "header";
    case StorePart::kPayload:
      return "payload";
    case StorePart::kFooter:
      return "footer";
    case StorePart::kSegment:
      return "segment";
    case StorePart::kDrive:
      return "drive";
    case StorePart::kManifest:
      return "manifest";
  }
  return "unknown";
}

std::string_view ToString(DamageKind kind) noexcept {
  switch (kind) {
    case DamageKind::kFlippedBit:
      return "flipped bit";
    case DamageKind::kLostSector:
      return "lost sector";
    case DamageKind::kGarbage:
      return "garbage";
    case DamageKind::kSwapped:
      return "swapped";
    case DamageKind::kMisplaced:
      return "misplaced";
    case DamageKind::kStale:
      return "stale";
    case DamageKind::kTruncated:
      return "truncated";
  }
  return "unknown";
}

Result<std::vector<PartRange>> MapStore(const std::string& folder, const FolderImage& image) {
  KVFERRY_ASSIGN_OR_RETURN(const std::unique_ptr<tiers::DriveSet> drives,
                           tiers::DriveSet::OpenForReading({folder}));
  const tiers::StoreReader reader(*drives);
  std::vector<PartRange> map;
  map.push_back({StorePart::kDrive, std::string(kDriveFile), 0, drives->layout().end_bytes()});
  for (std::size_t copy = 0; copy < tiers::kSuperblockCopies; ++copy) {
    map.push_back({StorePart::kSuperblock, std::string(kDriveFile), tiers::SuperblockOffset(copy),
                   tiers::kDiskPageBytes});
  }
  for (std::uint32_t segment = 0; segment < reader.segment_count(); ++segment) {
    MapSegment(reader, segment, map);
  }
  for (const auto& [name, content] : image) {
    if (name != kDriveFile && !content.empty()) {
      map.push_back({StorePart::kManifest, name, 0, content.size()});
    }
  }
  return map;
}

// An old manifest over new drives is no damage that can be seen: docs/decisions/0012.
bool CanMeet(StorePart part, DamageKind kind) noexcept {
  switch (kind) {
    case DamageKind::kFlippedBit:
    case DamageKind::kLostSector:
    case DamageKind::kGarbage:
      return part != StorePart::kSegment && part != StorePart::kDrive;
    case DamageKind::kSwapped:
    case DamageKind::kMisplaced:
    case DamageKind::kStale:  // The copies of a superblock are all alike.
      return part != StorePart::kSuperblock && part != StorePart::kManifest &&
             (part != StorePart::kDrive || kind == DamageKind::kStale);
    case DamageKind::kTruncated:
      return part == StorePart::kDrive || part == StorePart::kManifest;
  }
  return false;
}

std::vector<DamagePlan> AllDamagePlans() {
  std::vector<DamagePlan> plans;
  for (const StorePart part : kAllParts) {
    for (const DamageKind kind : kAllKinds) {
      if (CanMeet(part, kind)) {
        plans.push_back({part, kind});
      }
    }
  }
  return plans;
}

std::optional<Damage> Inflict(const DamagePlan& plan,
                              const std::vector<PartRange>& map,
                              const FolderImage& older,
                              Random& random,
                              FolderImage& image) {
  std::vector<const PartRange*> candidates;
  for (const PartRange& range : map) {
    if (range.part == plan.part) {
      candidates.push_back(&range);
    }
  }
  if (candidates.empty()) {
    return std::nullopt;
  }
  const PartRange& range = *candidates[random.Below(candidates.size())];
  std::string& bytes = image.at(range.file);
  const std::string before = bytes;
  std::uint64_t at = range.offset_bytes;
  Damage damage;
  damage.payloads_hit = plan.part == StorePart::kPayload ? 1 : 0;
  damage.all_may_go = plan.part != StorePart::kPayload && plan.part != StorePart::kSuperblock &&
                      plan.part != StorePart::kFooter;
  if (plan.kind == DamageKind::kTruncated) {
    at = random.Below(bytes.size());
    bytes.resize(at);
  } else if (plan.kind == DamageKind::kStale) {
    const auto old = older.find(range.file);
    if (old == older.end()) {
      return std::nullopt;
    }
    Replace(bytes, range, BytesAt(old->second, range));
  } else if (plan.kind == DamageKind::kSwapped || plan.kind == DamageKind::kMisplaced) {
    const PartRange* const other = OtherOf(map, range, random);
    if (other == nullptr) {
      return std::nullopt;
    }
    Replace(bytes, range, BytesAt(before, *other));
    if (plan.kind == DamageKind::kSwapped) {
      Replace(bytes, *other, BytesAt(before, range));
      damage.payloads_hit *= 2;
    }
  } else {
    at = ChangeWithin(plan.kind, range, random, bytes);
  }
  if (bytes == before) {
    return std::nullopt;
  }
  damage.text = Describe(plan, range, at);
  return damage;
}

}  // namespace kvferry::stress
