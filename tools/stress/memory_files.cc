// Names and bytes, each with what of it is durable.
#include "stress/memory_files.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace kvferry::stress {

void MemoryFiles::Count() {
  if (changes_++ == lose_at_ && !lost_) {
    lost_ = image_;
  }
}

void MemoryFiles::Apply(const NameChange& change, NameMap& names) {
  if (change.file) {
    names.insert_or_assign(change.comes, *change.file);
  }
  names.erase(change.goes);
}

void MemoryFiles::Carry(const NameChange& change) {
  Count();
  Apply(change, image_.names);
  image_.since.push_back(change);
}

std::optional<MemoryFiles::FileId> MemoryFiles::FindLocked(const std::string& name) const {
  const auto found = image_.names.find(name);
  return found == image_.names.end() ? std::nullopt : std::optional(found->second);
}

MemoryFiles::FileId MemoryFiles::Create(const std::string& name) {
  const MutexLock lock(mutex_);
  const auto file = static_cast<FileId>(image_.files.size());
  Carry({file, name, {}});
  image_.files.emplace_back();
  return file;
}

std::optional<MemoryFiles::FileId> MemoryFiles::Find(const std::string& name) const {
  const MutexLock lock(mutex_);
  return FindLocked(name);
}

bool MemoryFiles::Delete(const std::string& name) {
  const MutexLock lock(mutex_);
  if (!FindLocked(name)) {
    return false;
  }
  Carry({std::nullopt, {}, name});
  return true;
}

bool MemoryFiles::Rename(const std::string& from, const std::string& to) {
  const MutexLock lock(mutex_);
  const std::optional<FileId> file = FindLocked(from);
  if (!file) {
    return false;
  }
  Carry({file, to, from});
  return true;
}

void MemoryFiles::SyncNames() {
  const MutexLock lock(mutex_);
  Count();
  image_.durable_names = image_.names;
  image_.since.clear();
}

std::vector<std::string> MemoryFiles::Names() const {
  const MutexLock lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, file] : image_.names) {
    names.push_back(name);
  }
  return names;
}

void MemoryFiles::Append(FileId file, std::string_view bytes) {
  const MutexLock lock(mutex_);
  Count();
  image_.files.at(file).bytes.append(bytes);
}

void MemoryFiles::Sync(FileId file) {
  const MutexLock lock(mutex_);
  Count();
  image_.files.at(file).synced_bytes = image_.files.at(file).bytes.size();
}

std::uint64_t MemoryFiles::SizeOf(FileId file) const {
  const MutexLock lock(mutex_);
  return image_.files.at(file).bytes.size();
}

std::string MemoryFiles::Read(FileId file, std::uint64_t offset, std::size_t size) const {
  const MutexLock lock(mutex_);
  const std::string& bytes = image_.files.at(file).bytes;
  return offset >= bytes.size() ? std::string() : bytes.substr(offset, size);
}

void MemoryFiles::FlipBit(FileId file, std::uint64_t bit) {
  const MutexLock lock(mutex_);
  char& byte = image_.files.at(file).bytes.at(bit / 8);
  byte = static_cast<char>(static_cast<unsigned char>(byte) ^ (1U << (bit % 8)));
}

std::uint64_t MemoryFiles::change_count() const {
  const MutexLock lock(mutex_);
  return changes_;
}

void MemoryFiles::LoseAt(std::uint64_t change) {
  const MutexLock lock(mutex_);
  lose_at_ = change;
}

bool MemoryFiles::is_lost() const {
  const MutexLock lock(mutex_);
  return lost_.has_value();
}

void MemoryFiles::LoseNow() {
  const MutexLock lock(mutex_);
  if (!lost_) {
    lost_ = image_;
  }
}

void MemoryFiles::Keep() {
  const MutexLock lock(mutex_);
  KVFERRY_CHECK(lost_.has_value());
  // What the dead process had written is not durable by that, but the next one may be.
  image_ = *std::exchange(lost_, std::nullopt);
  lose_at_ = ~std::uint64_t{0};
}

void MemoryFiles::Tear(File& file, Random& random) {
  const std::size_t size = random.Between(file.synced_bytes, file.bytes.size());
  file.bytes.resize(size);
  for (std::size_t at = file.synced_bytes; at < size;) {
    const std::size_t end = std::min(size, (at / kSectorBytes + 1) * kSectorBytes);
    if (random.Chance(0.5)) {
      std::fill(file.bytes.begin() + static_cast<std::ptrdiff_t>(at),
                file.bytes.begin() + static_cast<std::ptrdiff_t>(end), '\0');
    }
    at = end;
  }
}

void MemoryFiles::Cut(Random& random) {
  const MutexLock lock(mutex_);
  KVFERRY_CHECK(lost_.has_value());
  const Image cut = *std::exchange(lost_, std::nullopt);
  lose_at_ = ~std::uint64_t{0};
  NameMap names = cut.durable_names;
  const std::size_t kept = random.Between(0, cut.since.size());
  for (std::size_t i = 0; i < kept; ++i) {
    Apply(cut.since[i], names);
  }
  image_ = Image();
  for (const auto& [name, file] : names) {
    image_.names[name] = static_cast<FileId>(image_.files.size());
    image_.files.push_back(cut.files.at(file));
    Tear(image_.files.back(), random);
    image_.files.back().synced_bytes = image_.files.back().bytes.size();
  }
  image_.durable_names = image_.names;
}

}  // namespace kvferry::stress
