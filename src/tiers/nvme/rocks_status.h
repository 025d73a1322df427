// FromRocks: what an error of RocksDB means to us.
#pragma once

#include <string>

#include "kvferry/status.h"

namespace rocksdb {
class Status;
}  // namespace rocksdb

namespace kvferry::tiers {

// `what` names the operation. ENOSPC or EIO as native code where the drive has failed, since
// RocksDB does not say more; kDataLoss for files that are missing or not as they were written, and
// for whatever RocksDB can only report about those.
Status FromRocks(const rocksdb::Status& status,
                 const std::string& what,
                 SourceLine where = SourceLine::Here());

}  // namespace kvferry::tiers
