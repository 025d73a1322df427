// MakeRocksLogger: RocksDB's messages in our log, never in a file of its own.
#pragma once

#include <memory>

namespace rocksdb {
class Logger;
}  // namespace rocksdb

namespace kvferry::tiers {

// Warnings and errors of RocksDB become warnings of the log, one line each; the rest is dropped. A
// failed write to a log file of its own would end the process.
//
// Thread-safe.
std::unique_ptr<rocksdb::Logger> MakeRocksLogger();

}  // namespace kvferry::tiers
