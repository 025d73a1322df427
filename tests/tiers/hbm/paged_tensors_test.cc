// A server's paged tensors: which runs a block is, against a naive walk over its rows.
#include "tiers/hbm/paged_tensors.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "gpu/memory.h"
#include "tests/support/sim_gpu.h"
#include "tests/support/status_matchers.h"

namespace kvferry::tiers {
namespace {

using kvferry::testing::Must;
using kvferry::testing::SimGpu;

enum class Layout { kNhd, kHnd, kPacked };

std::string NameOf(Layout layout) {
  return layout == Layout::kNhd ? "nhd" : layout == Layout::kHnd ? "hnd" : "packed";
}

class PagedTensorsTest : public ::testing::TestWithParam<Layout> {
 protected:
  PagedTensorsTest()
      : gpu_(sim::CudaSchedule::kEager),
        memory_(Must(gpu::DeviceBuffer::Create(gpu_.device(), kBytes))) {}

  // Two planes a layer in one allocation, in the layouts that servers have.
  DeviceTensors Described(std::byte* memory, std::uint32_t row_bytes) {
    const Layout layout = GetParam();
    DeviceTensors options;
    options.layers = 3;
    options.pages = 7;
    options.page_tokens = 4;
    options.heads = 2;
    options.row_bytes = row_bytes;
    options.block_tokens = 8;
    const std::uint64_t page = std::uint64_t{options.page_tokens} * options.heads * row_bytes;
    const std::uint64_t row = row_bytes;
    options.token_step_bytes = layout == Layout::kHnd ? row : options.heads * row;
    options.head_step_bytes = layout == Layout::kHnd ? options.page_tokens * row : row;
    options.page_step_bytes = layout == Layout::kPacked ? 2 * page : page;
    planes_.clear();
    for (std::uint64_t plane = 0; plane < 6; ++plane) {
      planes_.push_back(layout == Layout::kPacked
                            ? memory + plane / 2 * 2 * page * options.pages + plane % 2 * page
                            : memory + plane * page * options.pages);
    }
    options.planes = planes_;
    return options;
  }

  static constexpr std::uint32_t kRowBytes = 32;
  static constexpr std::uint64_t kBytes = std::uint64_t{6} * 7 * 4 * 2 * kRowBytes;

  SimGpu gpu_;
  gpu::DeviceBuffer memory_;
  std::vector<std::byte*> planes_;  // Of what was described last.
};

INSTANTIATE_TEST_SUITE_P(AllLayouts,
                         PagedTensorsTest,
                         ::testing::Values(Layout::kNhd, Layout::kHnd, Layout::kPacked),
                         [](const auto& layout) { return NameOf(layout.param); });

TEST_P(PagedTensorsTest, RunsAreTheRowsOfTheBlock) {
  // Each row of the host form comes from exactly the place that the kernels' arithmetic names.
  const DeviceTensors options = Described(memory_.data(), kRowBytes);
  const auto tensors = Must(PagedTensors::Register(gpu_.device(), options));
  const std::vector<std::int32_t> pages = {5, 0, 6};
  const DeviceBlock block{pages, 3};
  ASSERT_OK(tensors->Check(block));
  const LayerRange layers{1, 2};
  std::vector<std::byte> host(tensors->BytesOf(layers));

  std::map<std::size_t, const std::byte*> row_at;  // By its offset in the host form.
  tensors->ForEachRun(block, layers, host.data(),
                      [&](std::byte* device, std::byte* to, std::size_t bytes) {
                        ASSERT_EQ(bytes % kRowBytes, 0U);
                        ASSERT_GE(bytes, kRowBytes);
                        for (std::size_t at = 0; at < bytes; at += kRowBytes) {
                          const auto offset = static_cast<std::size_t>(to - host.data()) + at;
                          ASSERT_TRUE(row_at.emplace(offset, device + at).second);
                        }
                      });

  ASSERT_EQ(row_at.size(), host.size() / kRowBytes);
  const gpu::PagedLayout layout = tensors->kernel_layout();
  gpu::BlockCopy copy;
  copy.layout = layout;
  copy.plane_count = 4;
  copy.block_tokens = 8;
  for (const auto& [offset, device] : row_at) {
    const gpu::VectorPlace place =
        gpu::PlaceOf(copy, {0, 3, 8}, static_cast<std::int64_t>(offset) / gpu::kVectorBytes);
    const std::byte* const expected =
        tensors->PlanesOf(layers)[static_cast<std::size_t>(place.plane)] +
        (pages[static_cast<std::size_t>(place.page_place)] * layout.page_step + place.offset) *
            gpu::kVectorBytes;
    ASSERT_EQ(device, expected) << "row at " << offset;
  }
}

TEST_P(PagedTensorsTest, LayersAreContiguousInTheHostForm) {
  const auto tensors =
      Must(PagedTensors::Register(gpu_.device(), Described(memory_.data(), kRowBytes)));

  EXPECT_EQ(tensors->block_bytes(), 6U * 8 * 2 * kRowBytes);
  EXPECT_EQ(tensors->OffsetOf({0, 1}), 0U);
  EXPECT_EQ(tensors->OffsetOf({2, 1}), tensors->BytesOf({0, 2}));
  EXPECT_EQ(tensors->BytesOf({0, 3}), tensors->block_bytes());
  EXPECT_EQ(tensors->run_bytes(), GetParam() == Layout::kHnd ? kRowBytes : 4U * 2 * kRowBytes);
}

TEST_P(PagedTensorsTest, RefusesPagesThatAreNotThere) {
  // They would be another process's memory, or a fault that loses the device.
  const auto tensors =
      Must(PagedTensors::Register(gpu_.device(), Described(memory_.data(), kRowBytes)));
  const auto check = [&](std::vector<std::int32_t> pages, std::uint32_t first_token) {
    return tensors->Check({pages, first_token});
  };

  EXPECT_OK(check({0, 6}, 0));
  EXPECT_OK(check({0, 6, 1}, 1));
  EXPECT_STATUS(check({0, 7}, 0), StatusCode::kInvalidArgument);
  EXPECT_STATUS(check({0, -1}, 0), StatusCode::kInvalidArgument);
  EXPECT_STATUS(check({0}, 0), StatusCode::kInvalidArgument);
  EXPECT_STATUS(check({0, 1, 2}, 0), StatusCode::kInvalidArgument);
  EXPECT_STATUS(check({0, 1}, 1), StatusCode::kInvalidArgument);
  EXPECT_STATUS(check({0, 1}, 4), StatusCode::kInvalidArgument);
}

TEST_P(PagedTensorsTest, RefusesTensorsThatCannotBe) {
  // Each wrong number, and the reason's word.
  const auto refuse = [&](auto change, const char* word) {
    DeviceTensors options = Described(memory_.data(), kRowBytes);
    change(options);
    const auto tensors = PagedTensors::Register(gpu_.device(), options);
    EXPECT_STATUS(tensors, StatusCode::kInvalidArgument);
    EXPECT_NE(tensors.status().message().find(word), std::string_view::npos)
        << tensors.status().ToString();
  };

  refuse([](auto& options) { options.layers = 0; }, "layers");
  refuse([](auto& options) { options.layers = 4; }, "planes");
  refuse([](auto& options) { options.planes = {}; }, "planes");
  refuse([](auto& options) { options.heads = 0; }, "heads");
  refuse([](auto& options) { options.row_bytes = 0; }, "row_bytes");
  refuse([](auto& options) { options.page_tokens = 1U << 30; }, "page_tokens");
  refuse([](auto& options) { options.pages = 0; }, "pages");
  refuse([](auto& options) { options.token_step_bytes = 16; }, "overlap");
  refuse([](auto& options) { options.page_step_bytes = 64; }, "overlap");
  refuse([](auto& options) { options.page_step_bytes = ~std::uint64_t{0}; }, "step");
  refuse([](auto& options) { options.pages = 70; }, "end");
  std::vector<std::byte> host(kBytes);
  refuse([&](auto& /*options*/) { planes_[5] = host.data(); }, "plane 5 does not begin");
}

TEST_P(PagedTensorsTest, SaysWhetherKernelsCanCopyIt) {
  // A kernel that copies 128 bits at a time loses the device at a misaligned address.
  const auto fits = [&](std::byte* memory, std::uint32_t row_bytes) {
    return Must(PagedTensors::Register(gpu_.device(), Described(memory, row_bytes)))
        ->fits_kernels();
  };

  EXPECT_TRUE(fits(memory_.data(), 32));
  EXPECT_FALSE(fits(memory_.data(), 24));
  EXPECT_FALSE(fits(memory_.data() + 8, 16));
}

}  // namespace
}  // namespace kvferry::tiers
