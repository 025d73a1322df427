// StoreDamage: what a drive, a file system or a hand may do to the files of a store that is closed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvferry/status.h"

#include "base/random.h"
#include "stress/folder_image.h"

namespace kvferry::stress {

enum class StorePart : std::uint8_t {
  kSuperblock,
  kHeader,
  kPayload,
  kFooter,
  kSegment,  // All of it.
  kDrive,    // Likewise.
  kManifest,
};
inline constexpr std::size_t kStorePartCount = 7;
std::string_view ToString(StorePart part) noexcept;

enum class DamageKind : std::uint8_t {
  kFlippedBit,
  kLostSector,  // 512 bytes of zeros.
  kGarbage,     // A sector of others.
  kSwapped,     // With another of the same part and length.
  kMisplaced,   // What another one of the same part and length has.
  kStale,       // As an older image of the store has it.
  kTruncated,   // The file ends there.
};
inline constexpr std::size_t kDamageKindCount = 7;
std::string_view ToString(DamageKind kind) noexcept;

// A stretch of one file of a FolderImage.
struct PartRange {
  StorePart part = StorePart::kPayload;
  std::string file;
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;
  bool operator==(const PartRange&) const = default;
};

// The parts of the store of one drive in `folder`, which nobody has open; those of its manifest
// from `image`, which was read from there. Errors as of DriveSet::OpenForReading.
Result<std::vector<PartRange>> MapStore(const std::string& folder, const FolderImage& image);

// Whether that part can meet it: a drive swapped with itself, say, cannot.
bool CanMeet(StorePart part, DamageKind kind) noexcept;
struct DamagePlan {
  StorePart part = StorePart::kPayload;
  DamageKind kind = DamageKind::kFlippedBit;
};
// All that can be.
std::vector<DamagePlan> AllDamagePlans();

struct Damage {
  std::string text;              // "flipped bit in payload, blocks.kvferry at 1052672".
  std::size_t payloads_hit = 0;  // Blocks that it may cost; where all_may_go is false.
  bool all_may_go = false;       // More than payloads may be lost with it.
};
// Changes a copy of the store as the plan says, at a place of chance. Nothing: the image has no
// such place, or would not be changed there.
std::optional<Damage> Inflict(const DamagePlan& plan,
                              const std::vector<PartRange>& map,
                              const FolderImage& older,
                              Random& random,
                              FolderImage& image);

}  // namespace kvferry::stress
