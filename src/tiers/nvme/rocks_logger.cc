// The logger: a bounded line a message.
#include "tiers/nvme/rocks_logger.h"

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

#include <rocksdb/env.h>

#include "base/log.h"

namespace kvferry::tiers {
namespace {

constexpr std::size_t kLineBytesMax = 1024;

class RocksLogger final : public rocksdb::Logger {
 public:
  RocksLogger() : Logger(rocksdb::InfoLogLevel::WARN_LEVEL) {}
  RocksLogger(const RocksLogger&) = delete;
  RocksLogger& operator=(const RocksLogger&) = delete;
  ~RocksLogger() override = default;

  void LogHeader(const char* /*format*/, va_list /*arguments*/) override {}
  void Logv(const char* /*format*/, va_list /*arguments*/) override {}
  void Logv(rocksdb::InfoLogLevel level, const char* format, va_list arguments) override {
    if (level < rocksdb::InfoLogLevel::WARN_LEVEL || level == rocksdb::InfoLogLevel::HEADER_LEVEL) {
      return;
    }
    std::array<char, kLineBytesMax> line{};
    std::vsnprintf(line.data(), line.size(), format, arguments);
    std::string_view text(line.data());
    while (text.ends_with('\n')) {
      text.remove_suffix(1);
    }
    LogWarning(text);
  }

 protected:
  rocksdb::Status CloseImpl() override { return rocksdb::Status::OK(); }
};

}  // namespace

std::unique_ptr<rocksdb::Logger> MakeRocksLogger() {
  return std::make_unique<RocksLogger>();
}

}  // namespace kvferry::tiers
