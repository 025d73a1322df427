// ASSERT_OK, EXPECT_OK and EXPECT_STATUS: they print the whole status.
#pragma once

#include <gtest/gtest.h>

#include "kvferry/status.h"

namespace kvferry::testing {

inline Status StatusOf(const Status& status) {
  return status;
}
template <class T>
Status StatusOf(const Result<T>& result) {
  return result.status();
}

}  // namespace kvferry::testing

#define KVFERRY_EXPECT_OK_AS(kind, expression)                                         \
  do {                                                                                 \
    const ::kvferry::Status kvferry_status = ::kvferry::testing::StatusOf(expression); \
    kind##_TRUE(kvferry_status.ok()) << kvferry_status.ToString();                     \
  } while (false)
// NOLINTBEGIN(readability-identifier-naming): named like GoogleTest's own.
#define ASSERT_OK(expression) KVFERRY_EXPECT_OK_AS(ASSERT, expression)
#define EXPECT_OK(expression) KVFERRY_EXPECT_OK_AS(EXPECT, expression)
#define EXPECT_STATUS(expression, expected_code)                                       \
  do {                                                                                 \
    const ::kvferry::Status kvferry_status = ::kvferry::testing::StatusOf(expression); \
    EXPECT_EQ(kvferry_status.code(), expected_code) << kvferry_status.ToString();      \
  } while (false)
// NOLINTEND(readability-identifier-naming)
