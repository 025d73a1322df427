// StoreDamage: each kind changes the bytes it names and no others; FolderImage brings them to disk.
#include "stress/store_damage.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "stress/folder_image.h"
#include "tests/support/status_matchers.h"

namespace kvferry::stress {
namespace {

constexpr std::size_t kFileBytes = 1 << 16;

std::string Letters(char first, std::size_t size) {
  std::string bytes(size, first);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<char>(first + static_cast<int>(i / 512 % 23));
  }
  return bytes;
}

// Two of each part, all of one length.
std::vector<PartRange> TwoOfEach() {
  std::vector<PartRange> map;
  std::uint64_t offset = 0;
  for (const StorePart part : {StorePart::kSuperblock, StorePart::kHeader, StorePart::kPayload,
                               StorePart::kFooter, StorePart::kSegment, StorePart::kDrive}) {
    for (int i = 0; i < 2; ++i) {
      map.push_back({part, "blocks.kvferry", offset, 4'096});
      offset += 4'096;
    }
  }
  map.push_back({StorePart::kManifest, "manifest/CURRENT", 0, 600});
  return map;
}

// All that the part may have lost.
void PutBack(StorePart part,
             const std::vector<PartRange>& map,
             const FolderImage& sound,
             FolderImage& image) {
  for (const PartRange& range : map) {
    if (range.part == part) {
      image.at(range.file)
          .replace(range.offset_bytes, range.size_bytes,
                   sound.at(range.file).substr(range.offset_bytes, range.size_bytes));
    }
  }
}

TEST(StoreDamageTest, ChangesTheNamedPartAndNothingElse) {
  const FolderImage sound = {{"blocks.kvferry", Letters('A', kFileBytes)},
                             {"manifest/CURRENT", Letters('a', 600)}};
  const FolderImage older = {{"blocks.kvferry", Letters('B', kFileBytes)}};
  const std::vector<PartRange> map = TwoOfEach();
  Random random(1);
  for (const DamagePlan& plan : AllDamagePlans()) {
    FolderImage image = sound;
    const auto damage = Inflict(plan, map, older, random, image);
    ASSERT_TRUE(damage.has_value()) << ToString(plan.kind) << ToString(plan.part);
    EXPECT_NE(image, sound) << damage->text;
    if (plan.kind == DamageKind::kTruncated) {
      continue;
    }
    PutBack(plan.part, map, sound, image);
    EXPECT_EQ(image, sound) << damage->text;
  }
}

TEST(StoreDamageTest, SaysHowManyBlocksItMayCost) {
  const FolderImage sound = {{"blocks.kvferry", Letters('A', kFileBytes)},
                             {"manifest/CURRENT", Letters('a', 600)}};
  Random random(1);
  const auto cost = [&](StorePart part, DamageKind kind) {
    FolderImage image = sound;
    return Inflict({part, kind}, TwoOfEach(), {}, random, image)->payloads_hit;
  };
  EXPECT_EQ(cost(StorePart::kPayload, DamageKind::kSwapped), 2U);
  EXPECT_EQ(cost(StorePart::kPayload, DamageKind::kMisplaced), 1U);
  EXPECT_EQ(cost(StorePart::kPayload, DamageKind::kFlippedBit), 1U);
  EXPECT_EQ(cost(StorePart::kFooter, DamageKind::kGarbage), 0U);
}

TEST(StoreDamageTest, HasNothingToSwapWhereThereIsOneOnly) {
  FolderImage image = {{"blocks.kvferry", Letters('A', kFileBytes)}};
  const std::vector<PartRange> map = {{StorePart::kPayload, "blocks.kvferry", 0, 4'096},
                                      {StorePart::kPayload, "blocks.kvferry", 4'096, 8'192}};
  Random random(1);
  EXPECT_FALSE(
      Inflict({StorePart::kPayload, DamageKind::kSwapped}, map, {}, random, image).has_value());
}

TEST(FolderImageTest, WritesWhatDiffersAndRemovesTheRest) {
  std::string pattern = ::testing::TempDir() + "kvferry_image_XXXXXX";
  ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
  const std::string folder = pattern + "/store";
  const FolderImage before = {{"long", Letters('A', 300'000)}, {"sub/short", "text"}};
  ASSERT_OK(WriteFolderImage(before, folder));
  EXPECT_EQ(*ReadFolderImage(folder), before);
  std::ofstream(folder + "/other") << "mine";
  FolderImage after = {{"long", before.at("long").substr(0, 200'000)}, {"sub/new", ""}};
  after["long"][100'000] = '!';
  ASSERT_OK(WriteFolderImage(after, folder));
  EXPECT_EQ(*ReadFolderImage(folder), after);
  EXPECT_EQ(ReadFolderImage(folder + "/absent").status().code(), StatusCode::kIoError);
  std::filesystem::remove_all(pattern);
}

}  // namespace
}  // namespace kvferry::stress
