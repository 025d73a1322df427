// Fuzz target: gzip and zstd streams; at most a few MiB of what they claim to hold.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/assert.h"
#include "replay/readers/decompress.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using kvferry::Result;
  using kvferry::replay::PeekableStream;
  constexpr std::size_t kOutputMax = std::size_t{4} << 20;
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  Result<std::unique_ptr<PeekableStream>> stream =
      kvferry::replay::Decompress(std::make_unique<kvferry::replay::TextStream>(text));
  if (!stream.has_value()) {
    return 0;
  }
  std::vector<char> piece(4'099);
  for (std::size_t total = 0; total < kOutputMax;) {
    const Result<std::size_t> read = (*stream)->Read(piece);
    if (!read.has_value() || *read == 0) {
      break;
    }
    KVFERRY_CHECK(*read <= piece.size());
    total += *read;
  }
  return 0;
}
