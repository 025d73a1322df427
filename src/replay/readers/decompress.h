// Decompress: gzip and zstd streams, recognised by their first bytes and never by a file's name.
#pragma once

#include <memory>

#include "replay/readers/byte_stream.h"

namespace kvferry::replay {

// The content of `source`: itself when it is not compressed, else decompressed, also where one
// compression is wrapped in another (at most three deep). Several gzip members or zstd frames end
// to end are one content; zstd windows up to 2^27 bytes.
//
// Reading fails with kDataLoss, naming the byte offset within the compressed bytes, where they end
// in the middle or are damaged.
Result<std::unique_ptr<PeekableStream>> Decompress(std::unique_ptr<ByteStream> source);

}  // namespace kvferry::replay
