// SimDisk: the medium of a simulated drive, what of it is durable, and what a power cut leaves.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <unordered_map>

#include "base/random.h"

namespace kvferry::sim {

// Sparse bytes by page, with a volatile cache in front: a write is seen at once and survives a
// power cut, sector by sector, only by chance until a sync covers it. Outlives the rings over it,
// so a store can be closed, or cut off, and opened again.
//
// Everything happens at once and exactly as asked; delays and faults are SimRing's. Offsets and
// lengths are multiples of kSectorBytes and lie within the disk; a broken one stops the process.
// Thread-compatible.
class SimDisk {
 public:
  static constexpr std::size_t kPageBytes = 4096;
  static constexpr std::size_t kSectorBytes = 512;
  // What the volatile cache holds; the oldest sectors beyond that are durable by themselves.
  static constexpr std::size_t kUnsyncedSectorsMax = std::size_t{128} * 1024;
  // Overwritten pages that a stale read can bring back.
  static constexpr std::size_t kStalePagesMax = 256;

  enum class Unwritten : std::uint8_t { kZeros, kGarbage };  // What reads of unwritten pages give.

  // A multiple of kPageBytes. `seed` decides the garbage.
  SimDisk(std::uint64_t size_bytes, std::uint64_t seed, Unwritten unwritten);
  explicit SimDisk(std::uint64_t size_bytes) : SimDisk(size_bytes, 0, Unwritten::kZeros) {}

  std::uint64_t size_bytes() const noexcept { return size_bytes_; }
  // Of the pages that were ever written.
  std::uint64_t allocated_bytes() const noexcept { return pages_.size() * kPageBytes; }
  std::uint64_t unsynced_sector_count() const noexcept { return unsynced_.size(); }

  void Read(std::uint64_t offset_bytes, std::span<std::byte> target) const;
  // What Read gave before the latest write to each page; unwritten content where that is not known.
  void ReadStale(std::uint64_t offset_bytes, std::span<std::byte> target) const;
  void Write(std::uint64_t offset_bytes, std::span<const std::byte> source);
  // Writes each sector with one chance in two.
  void WriteTorn(std::uint64_t offset_bytes, std::span<const std::byte> source, Random& random);
  // Changes one bit of the content, until its sector is written again.
  void FlipBit(std::uint64_t bit_index);

  // The sector cannot be read any more, until it is written again. Read does not care: who calls it
  // asks first.
  void MakeBad(std::uint64_t offset_bytes) { bad_.insert(offset_bytes / kSectorBytes); }
  bool IsReadable(std::uint64_t offset_bytes, std::size_t size_bytes) const;

  // A point in the order of writes, to be taken when a sync is asked for.
  std::uint64_t write_point() const noexcept { return unsynced_start_ + unsynced_.size(); }
  // Makes the writes before `point` durable.
  void Sync(std::uint64_t point);
  // A failed sync: of the sectors written before `point` some become durable, some lose their
  // content at once, and some keep it until the power cut, whatever later syncs say.
  void FailSync(std::uint64_t point, Random& random);

  // Leaves of each sector, by chance, one of the contents that it had since it was last durable.
  // Everything that is left is durable then.
  void PowerCut(Random& random);

 private:
  using Page = std::array<std::byte, kPageBytes>;
  using Sector = std::array<std::byte, kSectorBytes>;
  struct Overwritten {
    std::uint64_t sector;
    Sector before;
  };
  struct StalePage {
    std::uint64_t page;
    Page before;
  };

  void CheckRange(std::uint64_t offset_bytes, std::size_t size_bytes) const;
  Page UnwrittenPage(std::uint64_t page) const;
  Page& PageForWriting(std::uint64_t page);
  void KeepStale(std::uint64_t page);
  void WriteSector(std::uint64_t sector, std::span<const std::byte> source);
  std::span<std::byte> BytesOf(std::uint64_t sector);

  std::uint64_t size_bytes_;
  std::uint64_t seed_;
  Unwritten unwritten_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Page>> pages_;
  std::deque<Overwritten> unsynced_;  // Oldest first: what each write since the sync has replaced.
  std::uint64_t unsynced_start_ = 0;  // The point of the oldest.
  std::map<std::uint64_t, Sector> doomed_;  // What a power cut leaves where a failed sync was seen.
  std::deque<StalePage> stale_;             // Oldest first.
  std::set<std::uint64_t> bad_;             // Sectors.
};

}  // namespace kvferry::sim
