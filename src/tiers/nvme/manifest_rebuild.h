// RebuildManifest: a manifest made from the headers and footers of the segments, where it is lost.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kvferry/function_ref.h"
#include "kvferry/status.h"

#include "tiers/nvme/manifest.h"
#include "tiers/nvme/store_reader.h"

namespace kvferry::tiers {

// The manifest's value that names the store; written last, so that a manifest without it is none.
inline constexpr std::string_view kStoreValueName = "store";
// The value that is there while nobody has the store open, and who had it last has closed it.
inline constexpr std::string_view kCleanValueName = "clean";
// Values "namespace/<number>" say what the namespace numbers in rows stand for.
inline constexpr std::string_view kNamespacePrefix = "namespace/";

// With the manifest the namespaces are lost: rows do not tell them. Rebuilt rows have a number from
// here on, one for each block size, whose value says that size and nothing else.
inline constexpr std::uint16_t kLostNumberMin = 0xff00;
inline constexpr std::uint32_t kLostSizesMax = 8;
std::string WriteLostValue(std::uint32_t block_bytes);
// The block size; nothing for what is no such value.
std::optional<std::uint32_t> ReadLostValue(std::string_view text);

// Carries out a batch, synced; returns when it is durable.
using BatchWriter = FunctionRef<Status(ManifestBatch&)>;

struct ManifestRebuild {
  std::uint64_t segments = 0;  // With a footer of the header's generation.
  std::uint64_t blocks = 0;
  std::uint64_t left_out = 0;  // Rows of other sizes, of later versions or on damaged pages.
  std::uint64_t newest_generation = 0;
};
// Writes rows for all that headers and footers tell, into a manifest that has none or some of them;
// kStoreValueName goes last. Segments without a footer of their header's generation are empty: what
// was in them only the manifest knew. Every generation that is seen anywhere counts for the newest.
//
// Erased blocks are in no footer (FooterWriter), and a segment whose life is over has no header
// (SegmentCleaner). Waits for the drives; what cannot be read is left out. The writer's error.
Result<ManifestRebuild> RebuildManifest(const StoreReader& reader, BatchWriter write);

// Moves a manifest's folder to "<folder>.damaged", in the place of an earlier one. kIoError.
Status SetManifestAside(const std::string& folder);

// The highest generation that a good header of the store has; 0: there is none. A manifest that
// knows none as high is older than the segments, as lives are recorded before they are headed.
// Reads one page a segment, and waits for the drives; what cannot be read is left out.
std::uint64_t NewestGeneration(const StoreReader& reader);

}  // namespace kvferry::tiers
