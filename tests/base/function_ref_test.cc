// FunctionRef calls what it borrows, with its arguments and results intact.
#include "kvferry/function_ref.h"

#include <memory>

#include <gtest/gtest.h>

namespace kvferry {
namespace {

int CallTwice(FunctionRef<int(int)> callable) {
  return callable(1) + callable(10);
}

TEST(FunctionRefTest, CallsTheBorrowedObjectItself) {
  int sum = 0;
  auto add = [&sum](int value) mutable {
    return sum += value;
  };
  EXPECT_EQ(CallTwice(add), 12);
  EXPECT_EQ(sum, 11);
  const auto twice = [](int value) {
    return 2 * value;
  };
  EXPECT_EQ(CallTwice(twice), 22);
}

TEST(FunctionRefTest, PassesMoveOnlyArgumentsAndResults) {
  const auto increment = [](std::unique_ptr<int> box) {
    ++*box;
    return box;
  };
  const FunctionRef<std::unique_ptr<int>(std::unique_ptr<int>)> reference = increment;
  EXPECT_EQ(*reference(std::make_unique<int>(4)), 5);
}

TEST(FunctionRefTest, ACopyRefersToTheSameObject) {
  int calls = 0;
  auto count = [&calls] {
    ++calls;
  };
  const FunctionRef<void()> first = count;
  const FunctionRef<void()> second = first;
  first();
  second();
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace kvferry
