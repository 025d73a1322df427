// StoreCheck: whether all that the manifest says of a store is so on its drives, and its repair.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvferry/status.h"

#include "tiers/nvme/manifest_rows.h"
#include "tiers/nvme/payload_check.h"
#include "tiers/nvme/rocks_database.h"
#include "tiers/nvme/store_layout.h"
#include "tiers/nvme/store_reader.h"

namespace kvferry::tiers {

enum class DamageKind : std::uint8_t {
  kPayload,     // Its bytes are not what was written.
  kUnreadable,  // The drive does not give its bytes.
  kRow,         // The row cannot be true: its place or lengths.
  kOrphan,      // The row is of no present life of a segment; never a hit.
  kOverlap,     // Two rows claim a page. Which one is wrong its payload tells.
  kHeader,      // Of a segment that holds blocks; they can still be hits.
  kFooter,      // Of a sealed segment; missed when the manifest is lost.
};
inline constexpr std::size_t kDamageKinds = 7;
std::string_view ToString(DamageKind kind) noexcept;

struct StoreDamage {
  DamageKind kind = DamageKind::kPayload;
  BlockPlace place;  // Of headers and footers with the page where they begin.
  std::string how;

  // The row is deleted by a repair: what it tells of cannot be a hit.
  bool costs_row() const noexcept {
    return kind == DamageKind::kPayload || kind == DamageKind::kUnreadable ||
           kind == DamageKind::kRow || kind == DamageKind::kOrphan;
  }
};

struct StoreFindings {
  std::uint64_t segments = 0;  // With a header that was looked at.
  std::uint64_t footers = 0;
  std::uint64_t blocks = 0;  // Whose payload was looked at.
  std::uint64_t block_bytes = 0;
  std::uint64_t encoded_blocks = 0;  // Whose checksum is of decoded bytes, so that it was not.
  std::uint64_t refused_rows = 0;    // That cannot be understood.
  std::array<std::uint64_t, kDamageKinds> damage_counts{};
  // In the order of places, the first kDamageMax.
  std::vector<StoreDamage> damages;
  static constexpr std::size_t kDamageMax = 1'000'000;

  std::uint64_t count(DamageKind kind) const {
    return damage_counts[static_cast<std::size_t>(kind)];
  }
  std::uint64_t damage_total() const noexcept;
};

// Thread-compatible; its calls block.
class StoreCheck {
 public:
  // A segment with that many damaged payloads is not to be used any more.
  static constexpr std::uint32_t kQuarantineAt = 3;

  // `payloads` is of the same reader. All is borrowed until it is gone.
  struct Parts {
    const StoreReader& reader;
    StoreLayout layout;
    RocksDatabase& database;
    PayloadCheck& payloads;
  };
  explicit StoreCheck(const Parts& parts) : parts_(parts) {}

  // Adds the bytes of payloads to `done_bytes` as it comes along. An error only where the manifest
  // cannot be read.
  Result<StoreFindings> Run(std::atomic<std::uint64_t>& done_bytes);

  struct Repair {
    std::uint64_t deleted_rows = 0;
    std::vector<std::uint32_t> quarantined;
  };
  // After Run, with what it found: deletes the rows that a damage costs, and quarantines. The data
  // stay as they are. Needs a database that is not read-only.
  Result<Repair> Mend(const StoreFindings& findings);

 private:
  void Note(DamageKind kind, const BlockPlace& place, std::string how);
  void CheckGroup(std::span<const PlacedRow> rows, std::atomic<std::uint64_t>& done_bytes);
  bool CheckRowItself(const PlacedRow& placed);
  void CheckSegment(const SegmentRow& row, std::span<const PlacedRow> blocks);
  void CheckFooter(const SegmentRow& row, std::span<const PlacedRow> blocks);

  Parts parts_;
  std::map<std::uint32_t, SegmentRow> segments_;
  StoreFindings findings_;
};

}  // namespace kvferry::tiers
