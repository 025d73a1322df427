// Texts that name the option, what it allows, what is taken, and a way out.
#include "engine/refusals.h"

#include <new>
#include <string>

#include "base/bytes.h"
#include "engine/count_text.h"

namespace kvferry::engine {
namespace {

template <class MakeText>
Status Refusal(const MakeText& make_text) noexcept {
  try {
    return Status::Error(StatusCode::kResourceExhausted, make_text());
  } catch (const std::bad_alloc&) {
    return Status::Ok();
  }
}

std::string CannotBeHeld(const RefusedPin& pin) {
  return "keys[" + std::to_string(pin.index) + "] of a Pin of " + CountText(pin.blocks) +
         (pin.blocks == 1 ? " block" : " blocks") + " of " + FormatBytes(pin.block_bytes) +
         " cannot be held: ";
}

constexpr const char* kLetGo =
    "; release handles, Discard pins that will not be collected, pin fewer blocks";

}  // namespace

Status HeldTooMuch(const RefusedPin& pin,
                   std::uint64_t held_bytes,
                   std::uint64_t held_bytes_max) noexcept {
  return Refusal([&] {
    return CannotBeHeld(pin) + "host.held_percent lets handles keep " +
           FormatBytes(held_bytes_max) + ", and they keep " + FormatBytes(held_bytes) +
           ", those of this Pin included" + kLetGo + ", or raise host.held_percent or host.bytes";
  });
}

Status HandlesUsedUp(const RefusedPin& pin, std::uint32_t handles_max) noexcept {
  return Refusal([&] {
    return CannotBeHeld(pin) + "all " + CountText(handles_max) +
           " handles are in use, those of this Pin included" + kLetGo + ", or raise handles_max";
  });
}

Status HeldTooOften(const RefusedPin& pin) noexcept {
  return Refusal([&] {
    return CannotBeHeld(pin) +
           "it has 65,535 handles already, more than anybody needs of one "
           "block; release some";
  });
}

Status PersistedTooMuch(const RefusedPersist& persist) noexcept {
  return Refusal([&] {
    return "a Persist of " + CountText(persist.blocks) +
           (persist.blocks == 1 ? " block" : " blocks") + " would keep " +
           FormatBytes(persist.more_bytes) +
           " more, but nvme.protected_percent lets persisted "
           "blocks take " +
           FormatBytes(persist.persisted_bytes_max) + ", and they take " +
           FormatBytes(persist.persisted_bytes) +
           "; Unpersist or Erase blocks, persist fewer, or raise nvme.protected_percent or "
           "nvme.capacity_bytes";
  });
}

Status PersistedOverQuota(const PersistOverQuota& persist) noexcept {
  return Refusal([&] {
    return "a Persist of " + CountText(persist.blocks) +
           (persist.blocks == 1 ? " block" : " blocks") + " would write " +
           FormatBytes(persist.more_bytes) + " more of tenant " + std::to_string(persist.tenant) +
           ", but NamespaceOptions::nvme_quota_bytes lets its blocks take " +
           FormatBytes(persist.tenant_bytes_max) + " of the NVMe tier, and they take " +
           FormatBytes(persist.tenant_bytes) +
           "; Erase blocks of the tenant, persist fewer, or raise nvme_quota_bytes";
  });
}

Status CannotPersist(std::uint32_t segments, std::uint32_t segments_min) noexcept {
  return Refusal([&] {
    return "the NVMe tier has " + CountText(segments) +
           " segments, and keeps persisted blocks only with " + CountText(segments_min) +
           " or more; lower nvme.segment_bytes, or raise nvme.capacity_bytes";
  });
}

Status TooLargeToPersist(std::uint32_t block_bytes, std::uint64_t block_bytes_max) noexcept {
  return Refusal([&] {
    return "blocks of " + FormatBytes(block_bytes) +
           " are never written to NVMe: a segment of the tier takes up to " +
           FormatBytes(block_bytes_max) +
           "; make the store anew with larger nvme.segment_bytes, or store smaller blocks";
  });
}

}  // namespace kvferry::engine
