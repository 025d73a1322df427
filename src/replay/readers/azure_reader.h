// AzureReader: Azure's LLM inference CSV: arrivals and lengths, no block ids.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "kvferry/status.h"

#include "replay/readers/byte_stream.h"
#include "replay/readers/read_context.h"

namespace kvferry::replay {

// "2023-11-16 18:17:03.9799600", with "T" for the space, a fraction of any length or none, and a
// time zone ("Z", "+01:00") or none, as milliseconds of the era, cut. Nothing for any other text.
std::optional<std::int64_t> ParseTimestamp(std::string_view text);

// Whether a line names the columns TIMESTAMP, ContextTokens and GeneratedTokens, in any order and
// case, quoted or not.
bool IsAzureHeader(std::string_view line);

// Columns TIMESTAMP, ContextTokens, GeneratedTokens in any order and case; others are passed over.
//
// Thread-compatible; the context must outlive it.
class AzureReader {
 public:
  explicit AzureReader(ReadContext& context) : context_(context) {}

  // kDataLoss for a header without these columns or a bad line that may not be skipped.
  Result<FileFacts> Read(ByteStream& stream);

 private:
  static constexpr std::size_t kColumns = 3;

  Status ReadHeader(std::string_view line);
  Result<RawRequest> Decode(std::string_view line) const;

  ReadContext& context_;
  std::array<std::size_t, kColumns> columns_{};  // Where each of them stands.
};

}  // namespace kvferry::replay
