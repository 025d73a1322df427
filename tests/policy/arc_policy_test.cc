// ARC against the paper's figure 4, written down as it stands.
#include "policy/arc_policy.h"

#include <algorithm>
#include <cstdint>
#include <list>
#include <set>

#include <gtest/gtest.h>

#include "tests/policy/live_owner.h"
#include "tests/policy/naive_comparison.h"

namespace kvferry::policy {
namespace {

// Figure 4, case by case, in its order. Fronts are the most recent ends.
class NaiveArc {
 public:
  explicit NaiveArc(std::size_t capacity) : c_(capacity) {}

  void Access(std::uint32_t x) {
    if (Take(t1_, x) || Take(t2_, x)) {  // Case I.
      t2_.push_front(x);
      return;
    }
    if (Contains(b1_, x)) {  // Case II.
      const double delta = b1_.size() >= b2_.size() ? 1.0 : Quotient(b2_.size(), b1_.size());
      p_ = std::min(p_ + delta, static_cast<double>(c_));
      ReplaceIfFull(false);
      Take(b1_, x);
      t2_.push_front(x);
      return;
    }
    if (Contains(b2_, x)) {  // Case III.
      const double delta = b2_.size() >= b1_.size() ? 1.0 : Quotient(b1_.size(), b2_.size());
      p_ = std::max(p_ - delta, 0.0);
      ReplaceIfFull(true);
      Take(b2_, x);
      t2_.push_front(x);
      return;
    }
    // Case IV.
    if (t1_.size() + b1_.size() == c_) {
      if (t1_.size() < c_) {
        b1_.pop_back();
        ReplaceIfFull(false);
      } else {
        t1_.pop_back();
      }
    } else {
      const std::size_t total = t1_.size() + t2_.size() + b1_.size() + b2_.size();
      if (total >= c_) {
        if (total == 2 * c_) {
          b2_.pop_back();
        }
        ReplaceIfFull(false);
      }
    }
    t1_.push_front(x);
  }

  std::set<std::uint32_t> residents() const {
    std::set<std::uint32_t> all(t1_.begin(), t1_.end());
    all.insert(t2_.begin(), t2_.end());
    return all;
  }

 private:
  using List = std::list<std::uint32_t>;

  static double Quotient(std::size_t a, std::size_t b) {
    return static_cast<double>(a) / static_cast<double>(b);
  }
  static bool Contains(const List& list, std::uint32_t x) {
    return std::find(list.begin(), list.end(), x) != list.end();
  }
  static bool Take(List& list, std::uint32_t x) {
    const bool is_there = Contains(list, x);
    list.remove(x);
    return is_there;
  }

  void ReplaceIfFull(bool is_in_b2) {
    ASSERT_EQ(t1_.size() + t2_.size(), c_);  // The figure's cache is full from its first ghost on.
    const auto t1_size = static_cast<double>(t1_.size());
    if (!t1_.empty() && (t1_size > p_ || (is_in_b2 && t1_size == p_))) {
      b1_.push_front(t1_.back());
      t1_.pop_back();
    } else {
      b2_.push_front(t2_.back());
      t2_.pop_back();
    }
  }

  std::size_t c_;
  double p_ = 0;
  List t1_;
  List t2_;
  List b1_;
  List b2_;
};

TEST(ArcPolicyTest, EqualsThePapersFigureOnRandomTraces) {
  testing::ExpectEqualToNaiveOnRandomTraces<ArcPolicy, NaiveArc>();
}

TEST(ArcPolicyTest, HandsOutNoHeldBlockAndEveryNumberBack) {
  testing::ExpectLiveUseIsSound<ArcPolicy>();
}

}  // namespace
}  // namespace kvferry::policy
