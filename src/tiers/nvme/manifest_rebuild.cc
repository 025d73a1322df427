// Segment by segment; a batch for some of them.
#include "tiers/nvme/manifest_rebuild.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>
#include <vector>

namespace kvferry::tiers {
namespace {

constexpr std::string_view kAsideSuffix = ".damaged";
constexpr std::string_view kLostPrefix = "lost ";
// Rows that one batch takes along, and no more than a segment's beyond.
constexpr std::size_t kRowsPerBatch = 4'096;

class Rebuilding {
 public:
  Rebuilding(const StoreReader& reader, BatchWriter write) : reader_(reader), write_(write) {}

  Result<ManifestRebuild> Run() {
    for (std::uint32_t segment = 0; segment < reader_.segment_count(); ++segment) {
      Add(segment);
      if (batch_.block_puts.size() >= kRowsPerBatch) {
        KVFERRY_RETURN_IF_ERROR(Write());
      }
    }
    KVFERRY_RETURN_IF_ERROR(Write());
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      batch_.meta_puts.push_back(
          {std::string(kNamespacePrefix) + std::to_string(kLostNumberMin + i),
           WriteLostValue(sizes_[i])});
    }
    batch_.meta_puts.push_back({std::string(kStoreValueName), ToString(reader_.store())});
    KVFERRY_RETURN_IF_ERROR(Write());
    return rebuild_;
  }

 private:
  void Add(std::uint32_t segment) {
    const SegmentHeaderRead header = reader_.ReadHeader(segment);
    if (header.finding != PageFinding::kGood) {
      Note(reader_.FooterGenerationOf(segment));
      return;
    }
    Note(header.header.generation);
    SegmentRow row;
    row.life = {segment, header.header.generation};
    row.state = SegmentState::kClean;
    row.stream = header.header.stream;
    row.used_pages = 1;
    row.opened_unix_ms = header.header.opened_unix_ms;
    const FooterRead footer = reader_.ReadFooterOf(row.life);
    if (footer.finding == PageFinding::kGood) {
      row.state = SegmentState::kSealed;
      ++rebuild_.segments;
      rebuild_.left_out += footer.refused_rows;
      for (const BlockRow& block : footer.rows) {
        AddBlock(row, block);
      }
    } else {
      Note(reader_.FooterGenerationOf(segment));
    }
    batch_.segment_puts.push_back(row);
  }

  void AddBlock(SegmentRow& segment, const BlockRow& block) {
    auto size = std::find(sizes_.begin(), sizes_.end(), block.raw_bytes);
    if (size == sizes_.end()) {
      if (sizes_.size() == kLostSizesMax) {
        ++rebuild_.left_out;
        return;
      }
      size = sizes_.insert(sizes_.end(), block.raw_bytes);
    }
    PlacedRow placed{.life = segment.life, .row = block};
    placed.row.tenant = static_cast<std::uint16_t>(kLostNumberMin + (size - sizes_.begin()));
    batch_.block_puts.push_back(placed);
    segment.used_pages = block.page + PayloadPages(block.stored_bytes);
    segment.live_bytes += block.stored_bytes;
    ++rebuild_.blocks;
  }

  void Note(std::uint64_t generation) {
    rebuild_.newest_generation = std::max(rebuild_.newest_generation, generation);
  }

  Status Write() {
    batch_.is_synced = true;
    KVFERRY_RETURN_IF_ERROR(write_(batch_));
    batch_.Clear();
    return Status::Ok();
  }

  const StoreReader& reader_;
  BatchWriter write_;
  ManifestBatch batch_;
  std::vector<std::uint32_t> sizes_;  // By number, from kLostNumberMin.
  ManifestRebuild rebuild_;
};

}  // namespace

std::string WriteLostValue(std::uint32_t block_bytes) {
  return std::string(kLostPrefix) + std::to_string(block_bytes);
}

std::optional<std::uint32_t> ReadLostValue(std::string_view text) {
  if (!text.starts_with(kLostPrefix)) {
    return std::nullopt;
  }
  text.remove_prefix(kLostPrefix.size());
  std::uint32_t block_bytes = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), block_bytes, 10);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return block_bytes;
}

Result<ManifestRebuild> RebuildManifest(const StoreReader& reader, BatchWriter write) {
  return Rebuilding(reader, write).Run();
}

Status SetManifestAside(const std::string& folder) {
  const std::string aside = folder + std::string(kAsideSuffix);
  std::error_code error;
  std::filesystem::remove_all(aside, error);
  std::filesystem::rename(folder, aside, error);
  return error ? Status::Error(StatusCode::kIoError, "the manifest in '" + folder +
                                                         "' cannot be put aside as '" + aside +
                                                         "': " + error.message())
               : Status::Ok();
}

std::uint64_t NewestGeneration(const StoreReader& reader) {
  std::uint64_t newest = 0;
  for (std::uint32_t segment = 0; segment < reader.segment_count(); ++segment) {
    const SegmentHeaderRead read = reader.ReadHeader(segment);
    if (read.finding == PageFinding::kGood) {
      newest = std::max(newest, read.header.generation);
    }
  }
  return newest;
}

}  // namespace kvferry::tiers
