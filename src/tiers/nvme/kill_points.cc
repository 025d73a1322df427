// Names of the kill points.
#include "tiers/nvme/kill_points.h"

namespace kvferry::tiers {

std::string_view ToString(KillPoint point) noexcept {
  switch (point) {
    case KillPoint::kStoreWritten:
      return "store written";
    case KillPoint::kStorePublished:
      return "store published";
    case KillPoint::kStoreExtended:
      return "store extended";
    case KillPoint::kBlankWritten:
      return "blank written";
    case KillPoint::kBlankSynced:
      return "blank synced";
    case KillPoint::kReuseBegun:
      return "reuse begun";
    case KillPoint::kReuseRecorded:
      return "reuse recorded";
    case KillPoint::kHeaderWritten:
      return "header written";
    case KillPoint::kHeaderSynced:
      return "header synced";
    case KillPoint::kPayloadWritten:
      return "payload written";
    case KillPoint::kSyncBegun:
      return "sync begun";
    case KillPoint::kSyncEnded:
      return "sync ended";
    case KillPoint::kBatchBegun:
      return "batch begun";
    case KillPoint::kBatchWriting:
      return "batch writing";
    case KillPoint::kBatchWritten:
      return "batch written";
    case KillPoint::kBatchEnded:
      return "batch ended";
    case KillPoint::kFooterBegun:
      return "footer begun";
    case KillPoint::kFooterWritten:
      return "footer written";
    case KillPoint::kFooterRewritten:
      return "footer rewritten";
  }
  return "unknown";
}

std::array<KillPoint, kKillPointCount> AllKillPoints() {
  std::array<KillPoint, kKillPointCount> all{};
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = static_cast<KillPoint>(i);
  }
  return all;
}

}  // namespace kvferry::tiers
