// What people are told of a request that would keep more than it may.
#include "engine/refusals.h"

#include <string>

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace kvferry::engine {
namespace {

// Each must name the option that sets the limit, the limit, what is taken of it, and a way out.
TEST(RefusalsTest, NameTheOptionTheAmountsAndARemedy) {
  const RefusedPin pin{.index = 3, .blocks = 2'000, .block_bytes = 1 << 20};

  EXPECT_STATUS(HeldTooMuch(pin, 4 << 20, 5 << 20), StatusCode::kResourceExhausted);
  EXPECT_EQ(HeldTooMuch(pin, 4 << 20, 5 << 20).message(),
            "keys[3] of a Pin of 2,000 blocks of 1.00 MiB cannot be held: host.held_percent lets "
            "handles keep 5.00 MiB, and they keep 4.00 MiB, those of this Pin included; release "
            "handles, Discard pins that will not be collected, pin fewer blocks, or raise "
            "host.held_percent or host.bytes");
  EXPECT_EQ(HandlesUsedUp(pin, 65'536).message(),
            "keys[3] of a Pin of 2,000 blocks of 1.00 MiB cannot be held: all 65,536 handles are "
            "in use, those of this Pin included; release handles, Discard pins that will not be "
            "collected, pin fewer blocks, or raise handles_max");
  EXPECT_EQ(HeldTooOften({.index = 0, .blocks = 1, .block_bytes = 4096}).message(),
            "keys[0] of a Pin of 1 block of 4.00 KiB cannot be held: it has 65,535 handles "
            "already, more than anybody needs of one block; release some");
  EXPECT_EQ(PersistedTooMuch({.blocks = 1,
                              .more_bytes = 8 << 20,
                              .persisted_bytes = 1 << 20,
                              .persisted_bytes_max = 4 << 20})
                .message(),
            "a Persist of 1 block would keep 8.00 MiB more, but nvme.protected_percent lets "
            "persisted blocks take 4.00 MiB, and they take 1.00 MiB; Unpersist or Erase blocks, "
            "persist fewer, or raise nvme.protected_percent or nvme.capacity_bytes");
  EXPECT_EQ(PersistedOverQuota({.blocks = 5,
                                .more_bytes = 5 << 16,
                                .tenant = 7,
                                .tenant_bytes = 1 << 16,
                                .tenant_bytes_max = 4 << 16})
                .message(),
            "a Persist of 5 blocks would write 320 KiB more of tenant 7, but "
            "NamespaceOptions::nvme_quota_bytes lets its blocks take 256 KiB of the NVMe tier, and "
            "they take 64.0 KiB; Erase blocks of the tenant, persist fewer, or raise "
            "nvme_quota_bytes");
  EXPECT_EQ(CannotPersist(3, 4).message(),
            "the NVMe tier has 3 segments, and keeps persisted blocks only with 4 or more; lower "
            "nvme.segment_bytes, or raise nvme.capacity_bytes");
  EXPECT_EQ(TooLargeToPersist(2 << 20, 1016 << 10).message(),
            "blocks of 2.00 MiB are never written to NVMe: a segment of the tier takes up to 1016 "
            "KiB; make the store anew with larger nvme.segment_bytes, or store smaller blocks");
}

}  // namespace
}  // namespace kvferry::engine
