// EnsurePrivateFolder: a folder that only its owner can enter.
#pragma once

#include <string>

#include "kvferry/status.h"

namespace kvferry::tiers {

// Makes the folder with mode 0700, durably, unless it is there. One that is there must be a folder,
// no link to one, of the process's user, and closed to everyone else: kInvalidArgument otherwise.
// kIoError naming the path, the reason and what to do.
//
// Thread-safe.
Status EnsurePrivateFolder(const std::string& path);

}  // namespace kvferry::tiers
