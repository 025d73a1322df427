// Tests of gzip and zstd streams: members, frames, damage and truncation at every byte.
#include "replay/readers/decompress.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/replay/readers/trace_files.h"
#include "tests/support/status_matchers.h"

namespace kvferry::replay {
namespace {

using testing::Gzip;
using testing::Zstd;

// Everything behind `bytes`, read in small pieces, or the error.
Result<std::string> Unpack(std::string_view bytes) {
  KVFERRY_ASSIGN_OR_RETURN(const std::unique_ptr<PeekableStream> stream,
                           Decompress(std::make_unique<TextStream>(bytes)));
  std::string text;
  std::vector<char> piece(1000);
  while (true) {
    KVFERRY_ASSIGN_OR_RETURN(const std::size_t read, stream->Read(piece));
    if (read == 0) {
      return text;
    }
    text.append(piece.data(), read);
  }
}

std::string Sample() {
  std::string text;
  for (int i = 0; i < 3'000; ++i) {
    text += std::to_string(i * 7919) + "\n";
  }
  return text;
}

// Concatenated members and frames are how logs get rotated and how pzstd writes.
TEST(DecompressTest, JoinsMembersAndFrames) {
  const std::string text = Sample();
  const std::string half = text.substr(0, 500);
  // A frame of other content in between, which decoders pass over: magic, size 3, three bytes.
  const std::string skippable("\x50\x2a\x4d\x18\x03\x00\x00\x00zzz", 11);

  EXPECT_EQ(*Unpack(text), text);
  EXPECT_EQ(*Unpack(Gzip(text)), text);
  EXPECT_EQ(*Unpack(Zstd(text)), text);
  EXPECT_EQ(*Unpack(Gzip(half) + Gzip("") + Gzip(text.substr(500))), text);
  EXPECT_EQ(*Unpack(Zstd(half) + Zstd("") + Zstd(text.substr(500))), text);
  EXPECT_EQ(*Unpack(skippable + Zstd(half) + skippable + Zstd(text.substr(500))), text);
  EXPECT_EQ(*Unpack(Gzip(text) + std::string(700, '\0')), text);
  EXPECT_EQ(*Unpack(Zstd(Gzip(text))), text);
  EXPECT_EQ(*Unpack(""), "");
}

// Made by zstd --long=28: not damaged, and there is a way to read it.
TEST(DecompressTest, NamesTheRemedyForALargeWindow) {
  const std::string window_of_256_mib("\x28\xb5\x2f\xfd\x00\x90\x09\x00\x00z", 10);
  const std::string window_of_1_mib("\x28\xb5\x2f\xfd\x00\x50\x09\x00\x00z", 10);

  EXPECT_EQ(*Unpack(window_of_1_mib), "z");
  const Result<std::string> text = Unpack(window_of_256_mib);
  EXPECT_STATUS(text, StatusCode::kDataLoss);
  EXPECT_NE(text.status().message().find("zstd -d --long=31"), std::string_view::npos)
      << text.status().message();
}

// A cut file must never look like a shorter whole one.
TEST(DecompressTest, RefusesACutAtAnyByte) {
  const std::string text = Sample().substr(0, 2'000);
  for (const std::string& whole : {Gzip(text), Zstd(text), Zstd(text) + Zstd(text)}) {
    for (std::size_t size = 4; size < whole.size(); ++size) {
      if (size * 2 == whole.size()) {
        continue;  // Between two frames.
      }
      const Result<std::string> unpacked = Unpack(whole.substr(0, size));
      ASSERT_FALSE(unpacked.has_value()) << size << " of " << whole.size();
      EXPECT_STATUS(unpacked, StatusCode::kDataLoss);
      const std::string offset = "at byte " + std::to_string(size);
      EXPECT_NE(unpacked.status().message().find(offset), std::string::npos)
          << unpacked.status().ToString();
    }
  }
}

// Checksums of both formats are on by way of the tools; what follows the end is no content either.
TEST(DecompressTest, RefusesDamageAndWhatFollowsTheEnd) {
  const std::string text = Sample();
  std::string damaged = Gzip(text);
  damaged[damaged.size() / 2] = static_cast<char>(damaged[damaged.size() / 2] ^ 0x55);

  EXPECT_STATUS(Unpack(damaged), StatusCode::kDataLoss);
  EXPECT_STATUS(Unpack(Gzip(text) + "and more"), StatusCode::kDataLoss);
  EXPECT_STATUS(Unpack(Gzip(text) + std::string(5, '\0') + Gzip(text)), StatusCode::kDataLoss);
  EXPECT_STATUS(Unpack(Zstd(text) + "and more"), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace kvferry::replay
