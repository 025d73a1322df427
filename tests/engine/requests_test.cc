// The names of miss reasons.
#include "kvferry/requests.h"

#include <set>
#include <string_view>

#include <gtest/gtest.h>

namespace kvferry {
namespace {

// A reason without a name of its own would make two causes look like one in every report.
TEST(MissReasonTest, EachHasItsOwnName) {
  std::set<std::string_view> names;
  for (std::size_t number = 0; number < kMissReasonCount; ++number) {
    names.insert(ToString(static_cast<MissReason>(number)));
  }

  EXPECT_EQ(names.size(), kMissReasonCount);
  EXPECT_EQ(names.count("unknown"), 0U);
  EXPECT_EQ(names.count(""), 0U);
  EXPECT_EQ(ToString(MissReason::kNone), "none");
  EXPECT_EQ(ToString(MissReason::kNeverStored), "never stored");
  EXPECT_EQ(ToString(MissReason::kEvictedByReuse), "evicted by reuse");
  EXPECT_EQ(ToString(static_cast<MissReason>(200)), "unknown");
}

}  // namespace
}  // namespace kvferry
