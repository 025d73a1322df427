// Gather and scatter, byte by byte, over random layouts, sizes, page lists and holes.
#include "gpu/kernels/block_copy.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/gpu/kernels/kernel_bench.h"
#include "tests/support/sanitizers.h"

namespace kvferry::gpu {
namespace {

using kvferry::testing::KernelBench;

constexpr std::size_t kVector = kVectorBytes;

// A server's tensors and what a block of ours holds of them, computed one byte at a time.
struct Scene {
  PagedLayout layout;
  std::int32_t planes = 0;
  std::int32_t page_count = 0;
  std::int32_t block_tokens = 0;
  bool is_packed = false;           // All planes in one tensor.
  std::vector<std::int32_t> pages;  // Negative: a hole.
  std::vector<BlockPlace> places;
  std::vector<unsigned char> tensors;  // One after the other, or packed.

  std::size_t plane_start(std::int32_t plane) const {
    const std::int64_t plane_bytes =
        is_packed ? std::int64_t{layout.page_tokens} * layout.heads * layout.row_vectors
                  : layout.page_step * page_count;
    return static_cast<std::size_t>(plane * plane_bytes) * kVector;
  }
  std::size_t block_bytes() const {
    return static_cast<std::size_t>(planes) * static_cast<std::size_t>(block_tokens) *
           static_cast<std::size_t>(layout.heads) * static_cast<std::size_t>(layout.row_vectors) *
           kVector;
  }
};

// The layouts of servers: K and V apart or packed, tokens or heads first, MLA's single row, with
// and without room between pages.
Scene RandomScene(Random& random) {
  Scene scene;
  const bool is_mla = random.Chance(0.2);
  const auto small = [&random](std::uint64_t low, std::uint64_t high) {
    return static_cast<std::int32_t>(random.Between(low, high));
  };
  PagedLayout& layout = scene.layout;
  layout.heads = is_mla ? 1 : small(1, 4);
  layout.row_vectors = is_mla ? 9 : small(1, 5);
  layout.page_tokens = small(1, 9);
  scene.planes = is_mla ? small(1, 3) : 2 * small(1, 2);
  scene.is_packed = random.Chance(0.5);
  scene.page_count = small(3, 8);
  scene.block_tokens = small(1, 12);
  const bool is_heads_first = random.Chance(0.5);
  layout.head_step =
      is_heads_first ? std::int64_t{layout.page_tokens} * layout.row_vectors : layout.row_vectors;
  layout.token_step =
      is_heads_first ? layout.row_vectors : std::int64_t{layout.heads} * layout.row_vectors;
  layout.page_step = std::int64_t{layout.page_tokens} * layout.heads * layout.row_vectors *
                         (scene.is_packed ? scene.planes : 1) +
                     small(0, 3);
  const std::size_t vectors = static_cast<std::size_t>(layout.page_step) *
                              static_cast<std::size_t>(scene.page_count) *
                              static_cast<std::size_t>(scene.is_packed ? 1 : scene.planes);
  scene.tensors.resize(vectors * kVector);
  for (unsigned char& byte : scene.tensors) {
    byte = static_cast<unsigned char>(random.Next());
  }

  // Every page is named once at most, so that blocks do not overlap.
  std::vector<std::int32_t> free;
  free.reserve(static_cast<std::size_t>(scene.page_count));
  for (std::int32_t page = 0; page < scene.page_count; ++page) {
    free.insert(free.begin() + small(0, free.size()), page);
  }
  while (true) {
    BlockPlace place;
    place.first_page = static_cast<std::int32_t>(scene.pages.size());
    place.first_token = small(0, static_cast<std::uint64_t>(layout.page_tokens - 1));
    place.tokens = random.Chance(0.7) ? scene.block_tokens
                                      : small(0, static_cast<std::uint64_t>(scene.block_tokens));
    const std::int32_t end = place.first_token + scene.block_tokens;
    const auto need = static_cast<std::size_t>((end + layout.page_tokens - 1) / layout.page_tokens);
    if (need > free.size()) {
      break;
    }
    for (std::size_t i = 0; i < need; ++i) {
      scene.pages.push_back(random.Chance(0.15) ? -1 : free.back());
      free.pop_back();
    }
    scene.places.push_back(place);
  }
  return scene;
}

// Calls `with(byte of the tensors or SIZE_MAX, byte of the block)` for each byte of block `index`.
template <class F>
void ForEachByte(const Scene& scene, std::size_t index, F with) {
  const BlockPlace& place = scene.places[index];
  const PagedLayout& layout = scene.layout;
  const std::size_t row_bytes = static_cast<std::size_t>(layout.row_vectors) * kVector;
  const std::int32_t rows = scene.planes * scene.block_tokens * layout.heads;
  for (std::int32_t row = 0; row < rows; ++row) {
    const std::int32_t head = row % layout.heads;
    const std::int32_t token = row / layout.heads % scene.block_tokens;
    const std::int32_t plane = row / layout.heads / scene.block_tokens;
    const std::int32_t position = place.first_token + token;
    const std::int32_t page_place = place.first_page + position / layout.page_tokens;
    const std::int32_t page = scene.pages[static_cast<std::size_t>(page_place)];
    const std::int64_t start = page * layout.page_step +
                               position % layout.page_tokens * layout.token_step +
                               head * layout.head_step;
    const bool is_there = page >= 0 && token < place.tokens;
    for (std::size_t byte = 0; byte < row_bytes; ++byte) {
      with(is_there ? scene.plane_start(plane) + static_cast<std::size_t>(start) * kVector + byte
                    : SIZE_MAX,
           static_cast<std::size_t>(row) * row_bytes + byte);
    }
  }
}

std::vector<unsigned char> Gathered(const Scene& scene) {
  std::vector<unsigned char> blocks(scene.places.size() * scene.block_bytes());
  for (std::size_t i = 0; i < scene.places.size(); ++i) {
    ForEachByte(scene, i, [&](std::size_t source, std::size_t target) {
      blocks[i * scene.block_bytes() + target] = source == SIZE_MAX ? 0 : scene.tensors[source];
    });
  }
  return blocks;
}

std::vector<unsigned char> Scattered(const Scene& scene, const std::vector<unsigned char>& blocks) {
  std::vector<unsigned char> tensors = scene.tensors;
  for (std::size_t i = 0; i < scene.places.size(); ++i) {
    ForEachByte(scene, i, [&](std::size_t target, std::size_t source) {
      if (target != SIZE_MAX) {
        tensors[target] = blocks[i * scene.block_bytes() + source];
      }
    });
  }
  return tensors;
}

BlockCopy ArgumentOf(const Scene& scene,
                     KernelBench& bench,
                     unsigned char* tensors,
                     unsigned char* blocks) {
  std::vector<unsigned char*> planes;
  planes.reserve(static_cast<std::size_t>(scene.planes));
  for (std::int32_t plane = 0; plane < scene.planes; ++plane) {
    planes.push_back(tensors + scene.plane_start(plane));
  }
  BlockCopy copy;
  copy.layout = scene.layout;
  copy.planes = bench.Upload(planes);
  copy.pages = bench.Upload(scene.pages);
  copy.places = bench.Upload(scene.places);
  copy.blocks = blocks;
  copy.plane_count = scene.planes;
  copy.block_tokens = scene.block_tokens;
  EXPECT_OK(CheckBlockCopy(copy));
  return copy;
}

TEST(GpuBlockCopyTest, GathersEveryByteOfRandomLayouts) {
  // Any mistake in the index arithmetic moves some byte.
  for (std::uint64_t seed = 1; seed <= testing::Rounds(60); ++seed) {
    Random random(seed);
    const Scene scene = RandomScene(random);
    if (scene.places.empty()) {
      continue;
    }
    KernelBench bench;
    const std::size_t blocks = scene.places.size();
    const std::vector<unsigned char> expected = Gathered(scene);
    unsigned char* const tensors = bench.Upload(scene.tensors);
    unsigned char* const target = bench.Upload(std::vector<unsigned char>(expected.size(), 0xEE));
    const BlockCopy copy = ArgumentOf(scene, bench, tensors, target);

    bench.Run("kvferry_gather_blocks", ShapeOf(copy, static_cast<std::uint32_t>(blocks)), copy);

    ASSERT_EQ(bench.Download(target, expected.size()), expected) << "seed " << seed;
  }
}

TEST(GpuBlockCopyTest, ScattersEveryByteAndTouchesNoOther) {
  // A byte between the pages, or of a token that is not there, must keep its content.
  for (std::uint64_t seed = 1; seed <= testing::Rounds(60); ++seed) {
    Random random(1000 + seed);
    const Scene scene = RandomScene(random);
    if (scene.places.empty()) {
      continue;
    }
    KernelBench bench;
    const std::size_t blocks = scene.places.size();
    std::vector<unsigned char> source(blocks * scene.block_bytes());
    for (unsigned char& byte : source) {
      byte = static_cast<unsigned char>(random.Next());
    }
    const std::vector<unsigned char> expected = Scattered(scene, source);
    unsigned char* const tensors = bench.Upload(scene.tensors);
    const BlockCopy copy = ArgumentOf(scene, bench, tensors, bench.Upload(source));

    bench.Run("kvferry_scatter_blocks", ShapeOf(copy, static_cast<std::uint32_t>(blocks)), copy);

    ASSERT_EQ(bench.Download(tensors, expected.size()), expected) << "seed " << seed;
  }
}

TEST(GpuBlockCopyTest, IndexesPoolsBeyondFourGigabytes) {
  // 32-bit arithmetic would wrap; no memory is needed to see where a vector lies.
  BlockCopy copy;
  copy.layout = {std::int64_t{1} << 30, 8, 1, 16, 8, 1};
  copy.plane_count = 1 << 12;
  copy.block_tokens = 1 << 16;
  const BlockPlace block{0, 0, 1 << 16};

  const std::int64_t last = BlockVectors(copy) - 1;
  const VectorPlace place = PlaceOf(copy, block, last);

  EXPECT_EQ(BlockVectors(copy), std::int64_t{1} << 31);
  EXPECT_EQ(place.plane, (1 << 12) - 1);
  EXPECT_EQ(place.page_place, (1 << 12) - 1);
  EXPECT_EQ(place.offset, 15 * 8 + 7);
}

TEST(GpuBlockCopyTest, RefusesWhatTheKernelCannotCopy) {
  // A misaligned access stops the context.
  BlockCopy copy;
  copy.layout = {8, 2, 1, 4, 2, 1};
  copy.plane_count = 1;
  copy.block_tokens = 4;
  EXPECT_OK(CheckBlockCopy(copy));

  BlockCopy misaligned = copy;
  alignas(16) static unsigned char memory[32];
  misaligned.blocks = memory + 8;
  BlockCopy empty = copy;
  empty.layout.heads = 0;
  BlockCopy backwards = copy;
  backwards.layout.page_step = -8;

  EXPECT_STATUS(CheckBlockCopy(misaligned), StatusCode::kInvalidArgument);
  EXPECT_STATUS(CheckBlockCopy(empty), StatusCode::kInvalidArgument);
  EXPECT_STATUS(CheckBlockCopy(backwards), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace kvferry::gpu
