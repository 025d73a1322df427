// Finding libcudart, and saying why not.
#include "gpu/cuda_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpu/device.h"
#include "tests/support/status_matchers.h"

namespace kvferry::gpu {
namespace {

using ::testing::HasSubstr;

TEST(CudaLibraryTest, ListsWhatWasTried) {
  // Whoever reads it must see where the library was looked for.
  RuntimeSearch search;
  search.file = "/nowhere/libcudart.so.13";

  const auto library = CudaLibrary::Load(search);

  ASSERT_FALSE(library.ok());
  EXPECT_EQ(library.error().code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(library.error().message()), HasSubstr("option: /nowhere/libcudart"));
}

TEST(CudaLibraryTest, LooksIntoPythonPackagesAndTheToolkit) {
  // In this order, after what is loaded already.
  RuntimeSearch search;
  search.package_folders = {"/nowhere/site-packages"};
  search.toolkit_folder = "/nowhere/lib64";

  const auto library = CudaLibrary::Load(search);

  if (library.ok()) {
    // The loader's path has one: found before the folder that has none.
    EXPECT_EQ((*library)->origin(), "libcudart.so.13");
    EXPECT_EQ((*library)->version() / 1000, 13);
    return;
  }
  const std::string message(library.error().message());
  const auto loaded = message.find("already loaded");
  const auto package = message.find("/nowhere/site-packages/nvidia/cu13/lib/libcudart.so.13");
  const auto loader = message.find("loader's path");
  const auto toolkit = message.find("/nowhere/lib64/libcudart.so.13");
  EXPECT_LT(loaded, package);
  EXPECT_LT(package, loader);
  EXPECT_LT(loader, toolkit);
  EXPECT_NE(toolkit, std::string::npos) << message;
}

TEST(CudaLibraryTest, RefusesAnotherMajorVersion) {
  // Its batch copy takes other arguments: calling it would corrupt memory.
  RuntimeSearch search;
  search.file = KVFERRY_OTHER_CUDART;

  const auto library = CudaLibrary::Load(search);

  ASSERT_FALSE(library.ok());
  EXPECT_THAT(std::string(library.error().message()), HasSubstr("has major version 12"));
}

TEST(CudaLibraryTest, RefusesALibraryThatIsNoRuntime) {
  // Any shared object can be named in an option.
  RuntimeSearch search;
  search.file = "libm.so.6";

  const auto library = CudaLibrary::Load(search);

  ASSERT_FALSE(library.ok());
  EXPECT_THAT(std::string(library.error().message()), HasSubstr("libm.so.6 is no CUDA runtime"));
}

TEST(CudaLibraryTest, FillsTheTableFromTheRealRuntime) {
  // The shipped path: dlopen, every name, and a first call, with or without a GPU.
  const auto library = CudaLibrary::Load({});
  if (!library.ok()) {
    GTEST_SKIP() << library.error().message();
  }

  EXPECT_GE((*library)->version(), 13000);
  const auto devices = DiscoverDevices((*library)->api());

  if (devices.ok()) {
    EXPECT_FALSE(devices->empty());
  } else {
    EXPECT_EQ(devices.error().code(), StatusCode::kUnavailable) << devices.error().ToString();
    EXPECT_THAT(std::string(devices.error().message()), HasSubstr("no GPU is used: "));
  }
}

}  // namespace
}  // namespace kvferry::gpu
