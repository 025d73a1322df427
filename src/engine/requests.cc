// The names of miss reasons.
#include "kvferry/requests.h"

namespace kvferry {

std::string_view ToString(MissReason reason) {
  static_assert(kMissReasonCount == 16, "name the added reason below");
  switch (reason) {
    case MissReason::kNone:
      return "none";
    case MissReason::kNeverStored:
      return "never stored";
    case MissReason::kNotAdmitted:
      return "not admitted";
    case MissReason::kDropped:
      return "dropped";
    case MissReason::kOverQuota:
      return "over quota";
    case MissReason::kEvicted:
      return "evicted";
    case MissReason::kErased:
      return "erased";
    case MissReason::kOtherNamespace:
      return "other namespace";
    case MissReason::kFailedCheck:
      return "failed check";
    case MissReason::kReadFailed:
      return "read failed";
    case MissReason::kTooLate:
      return "too late";
    case MissReason::kNotAllowed:
      return "not allowed";
    case MissReason::kEvictedByPrefetch:
      return "evicted by prefetch";
    case MissReason::kEvictedByQuota:
      return "evicted by quota";
    case MissReason::kTierOff:
      return "tier off";
    case MissReason::kEvictedByReuse:
      return "evicted by reuse";
  }
  return "unknown";
}

}  // namespace kvferry
