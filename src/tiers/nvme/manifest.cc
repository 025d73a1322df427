// Reuse of batches.
#include "tiers/nvme/manifest.h"

namespace kvferry::tiers {

void ManifestBatch::Clear() {
  life_deletes.clear();
  block_deletes.clear();
  meta_deletes.clear();
  segment_puts.clear();
  block_puts.clear();
  meta_puts.clear();
  is_synced = false;
  status = Status::Ok();
}

}  // namespace kvferry::tiers
