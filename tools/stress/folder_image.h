// FolderImage: the files of a folder in memory, to be changed there and written back.
#pragma once

#include <map>
#include <string>

#include "kvferry/status.h"

namespace kvferry::stress {

// Relative path to content. Folders without a file are not part of it.
using FolderImage = std::map<std::string, std::string>;

// kIoError names the file that cannot be read.
Result<FolderImage> ReadFolderImage(const std::string& folder);

// Makes the folder hold these files and no other ones. Where a file is there already only the parts
// that differ are written. kIoError names the file that cannot be written.
Status WriteFolderImage(const FolderImage& image, const std::string& folder);

}  // namespace kvferry::stress
