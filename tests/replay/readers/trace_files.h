// Trace files for tests: a folder that goes away, compressed and archived texts, traces as text.
#pragma once

#include <archive.h>
#include <archive_entry.h>
#include <zlib.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <zstd.h>

#include "kvferry/status.h"

#include "replay/read_trace.h"
#include "replay/trace.h"

namespace kvferry::testing {

// A folder of its own for each instance, removed with everything in it.
class TraceFolder {
 public:
  TraceFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "kvferry-trace-XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~TraceFolder() { std::filesystem::remove_all(path_); }
  TraceFolder(const TraceFolder&) = delete;
  TraceFolder& operator=(const TraceFolder&) = delete;

  std::string path() const { return path_.string(); }
  std::string Write(const std::string& name, std::string_view content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
    return (path_ / name).string();
  }

 private:
  std::filesystem::path path_;
};

inline std::string Gzip(std::string_view text) {
  z_stream stream{};
  constexpr int kGzipHeader = 16;
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, MAX_WBITS + kGzipHeader, 8, Z_DEFAULT_STRATEGY),
            Z_OK);
  std::string packed(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

inline std::string Zstd(std::string_view text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3));
  return packed;
}

inline std::string Tar(const std::vector<std::pair<std::string, std::string>>& files) {
  struct archive* tar = archive_write_new();
  archive_write_set_format_ustar(tar);
  std::string bytes;
  std::size_t room = 16384;
  for (const auto& [name, content] : files) {
    room += content.size() + 2048;
  }
  bytes.resize(room);
  std::size_t used = 0;
  archive_write_open_memory(tar, bytes.data(), bytes.size(), &used);
  for (const auto& [name, content] : files) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, name.c_str());
    archive_entry_set_size(entry, static_cast<la_int64_t>(content.size()));
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    EXPECT_EQ(archive_write_header(tar, entry), ARCHIVE_OK);
    archive_write_data(tar, content.data(), content.size());
    archive_entry_free(entry);
  }
  archive_write_close(tar);
  archive_write_free(tar);
  bytes.resize(used);
  return bytes;
}

inline Result<replay::Trace> Read(const replay::ReadOptions& options) {
  return replay::ReadTrace(options, [](const replay::ReadProgress&) {});
}
inline Result<replay::Trace> Read(const std::string& path) {
  replay::ReadOptions options;
  options.paths = {path};
  return Read(options);
}

// Everything that a replay sees of a trace; blocks numbered as they come, since what number they
// have depends on the order of reading.
inline std::string Content(const replay::Trace& trace) {
  std::ostringstream text;
  text << trace.origin().block_tokens << " tokens a block, " << trace.distinct_blocks()
       << " distinct, " << trace.block_refs() << " references, " << trace.session_count()
       << " sessions, chained " << trace.is_chained() << '\n';
  std::map<EntryIndex, std::size_t> numbers;
  std::vector<EntryIndex> path;
  for (const replay::TraceRequest& request : trace.requests()) {
    path.resize(request.block_count);
    trace.ReadPath(request, path);
    text << request.time_ms << ' ' << request.input_tokens << ' ' << request.output_tokens << ' '
         << request.session << ':';
    for (const EntryIndex entry : path) {
      text << ' ' << numbers.try_emplace(entry, numbers.size()).first->second;
    }
    text << '\n';
  }
  return text.str();
}

inline std::string ContentOf(const Result<replay::Trace>& trace) {
  return trace.has_value() ? Content(*trace) : trace.status().ToString();
}

}  // namespace kvferry::testing
