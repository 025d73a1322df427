// MemoryFiles: a folder of files in memory, what of it is durable, and what a power cut leaves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/random.h"

namespace kvferry::stress {

// Files only grow. What was appended, and which file a name stands for, is seen at once and is
// durable with the file's, or the folder's, next sync. Outlives the processes that use it, one
// after the other.
//
// Thread-safe but for Cut() and Keep(), which nobody may use a file beside.
class MemoryFiles {
 public:
  using FileId = std::uint32_t;
  static constexpr std::size_t kSectorBytes = 512;

  // A new, empty file under this name, which may have stood for another one.
  FileId Create(const std::string& name);
  std::optional<FileId> Find(const std::string& name) const;
  // False: there is no such file.
  bool Delete(const std::string& name);
  bool Rename(const std::string& from, const std::string& to);
  void SyncNames();
  std::vector<std::string> Names() const;

  void Append(FileId file, std::string_view bytes);
  void Sync(FileId file);
  std::uint64_t SizeOf(FileId file) const;
  // At most `size` bytes from `offset` on.
  std::string Read(FileId file, std::uint64_t offset, std::size_t size) const;
  // Changes one bit; for damage.
  void FlipBit(FileId file, std::uint64_t bit);

  // Changes so far: whatever is not a read counts.
  std::uint64_t change_count() const;
  // The power goes with the change that has this number, which does not happen. Whoever uses the
  // files sees nothing of it: it goes on, but what it does is lost.
  void LoseAt(std::uint64_t change);
  bool is_lost() const;
  // The process or the power goes now, unless LoseAt() came first.
  void LoseNow();
  // Afterwards: for the next process all is there that was there at that moment, ...
  void Keep();
  // ... or what a power cut leaves: of the changes of names since their last sync the first ones,
  // as file systems with a journal have it; of each file what was synced, and of the rest a part of
  // chance, sector by sector.
  void Cut(Random& random);

 private:
  struct File {
    std::string bytes;
    std::size_t synced_bytes = 0;
  };
  using NameMap = std::map<std::string, FileId>;
  // A name comes or stands for another file, or goes, or both at once.
  struct NameChange {
    std::optional<FileId> file;  // Nothing: no name comes.
    std::string comes;
    std::string goes;  // Empty: none does.
  };
  struct Image {
    NameMap names;
    NameMap durable_names;
    std::vector<NameChange> since;  // The changes between the two.
    std::vector<File> files;
  };

  // Before each change.
  void Count() KVFERRY_REQUIRES(mutex_);
  std::optional<FileId> FindLocked(const std::string& name) const KVFERRY_REQUIRES(mutex_);
  static void Tear(File& file, Random& random);
  static void Apply(const NameChange& change, NameMap& names);
  void Carry(const NameChange& change) KVFERRY_REQUIRES(mutex_);

  mutable Mutex mutex_;
  Image image_ KVFERRY_GUARDED_BY(mutex_);
  std::optional<Image> lost_ KVFERRY_GUARDED_BY(mutex_);  // As it was when the power went.
  std::uint64_t changes_ KVFERRY_GUARDED_BY(mutex_) = 0;
  std::uint64_t lose_at_ KVFERRY_GUARDED_BY(mutex_) = ~std::uint64_t{0};
};

}  // namespace kvferry::stress
