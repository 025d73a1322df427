// Where the public traces lie, and the one helper that skips a test without them.
#pragma once

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

namespace kvferry::testing {

inline std::filesystem::path SharedPath(const std::string& relative) {
  return std::filesystem::path(KVFERRY_SHARED_DIR) / relative;
}

}  // namespace kvferry::testing

// Skips the test at hand, saying which file is missing.
#define KVFERRY_REQUIRE_SHARED(relative)                                             \
  do {                                                                               \
    if (!std::filesystem::exists(::kvferry::testing::SharedPath(relative))) {        \
      GTEST_SKIP() << "no " << ::kvferry::testing::SharedPath(relative)              \
                   << ": set KVFERRY_SHARED_DIR to a folder with the public traces"; \
    }                                                                                \
  } while (false)
