// The undo log behind durability: each sector write remembers what it replaced.
#include "sim/sim_disk.h"

#include <algorithm>
#include <set>

#include "base/assert.h"

namespace kvferry::sim {
namespace {

constexpr std::uint64_t kSectorsPerPage = SimDisk::kPageBytes / SimDisk::kSectorBytes;

void CopyTo(std::span<const std::byte> source, std::span<std::byte> target) {
  std::copy(source.begin(), source.end(), target.begin());
}

}  // namespace

SimDisk::SimDisk(std::uint64_t size_bytes, std::uint64_t seed, Unwritten unwritten)
    : size_bytes_(size_bytes), seed_(seed), unwritten_(unwritten) {
  KVFERRY_CHECK(size_bytes % kPageBytes == 0);
}

void SimDisk::CheckRange(std::uint64_t offset_bytes, std::size_t size_bytes) const {
  KVFERRY_CHECK(offset_bytes % kSectorBytes == 0);
  KVFERRY_CHECK(size_bytes % kSectorBytes == 0);
  KVFERRY_CHECK(offset_bytes <= size_bytes_ && size_bytes <= size_bytes_ - offset_bytes);
}

SimDisk::Page SimDisk::UnwrittenPage(std::uint64_t page) const {
  Page content{};
  if (unwritten_ == Unwritten::kZeros) {
    return content;
  }
  SplitMix64 garbage(seed_ ^ (page * 0x9e3779b97f4a7c15ULL));
  for (std::size_t i = 0; i < content.size(); i += sizeof(std::uint64_t)) {
    std::uint64_t word = garbage.Next();
    for (std::size_t j = 0; j < sizeof(word); ++j) {
      content.at(i + j) = static_cast<std::byte>(word & 0xff);
      word >>= 8;
    }
  }
  return content;
}

SimDisk::Page& SimDisk::PageForWriting(std::uint64_t page) {
  std::unique_ptr<Page>& owned = pages_[page];
  if (owned == nullptr) {
    owned = std::make_unique<Page>(UnwrittenPage(page));
  }
  return *owned;
}

std::span<std::byte> SimDisk::BytesOf(std::uint64_t sector) {
  Page& page = PageForWriting(sector / kSectorsPerPage);
  return std::span(page).subspan((sector % kSectorsPerPage) * kSectorBytes, kSectorBytes);
}

void SimDisk::Read(std::uint64_t offset_bytes, std::span<std::byte> target) const {
  CheckRange(offset_bytes, target.size());
  while (!target.empty()) {
    const std::uint64_t page = offset_bytes / kPageBytes;
    const std::size_t start = offset_bytes % kPageBytes;
    const std::size_t length = std::min(kPageBytes - start, target.size());
    const auto found = pages_.find(page);
    if (found != pages_.end()) {
      CopyTo(std::span(*found->second).subspan(start, length), target);
    } else {
      const Page content = UnwrittenPage(page);
      CopyTo(std::span(content).subspan(start, length), target);
    }
    offset_bytes += length;
    target = target.subspan(length);
  }
}

void SimDisk::ReadStale(std::uint64_t offset_bytes, std::span<std::byte> target) const {
  CheckRange(offset_bytes, target.size());
  while (!target.empty()) {
    const std::uint64_t page = offset_bytes / kPageBytes;
    const std::size_t start = offset_bytes % kPageBytes;
    const std::size_t length = std::min(kPageBytes - start, target.size());
    const auto found = std::find_if(stale_.rbegin(), stale_.rend(),
                                    [page](const StalePage& kept) { return kept.page == page; });
    const Page content = found != stale_.rend() ? found->before : UnwrittenPage(page);
    CopyTo(std::span(content).subspan(start, length), target);
    offset_bytes += length;
    target = target.subspan(length);
  }
}

void SimDisk::KeepStale(std::uint64_t page) {
  const auto found = pages_.find(page);
  if (found == pages_.end()) {
    return;
  }
  if (stale_.size() == kStalePagesMax) {
    stale_.pop_front();
  }
  stale_.push_back({page, *found->second});
}

void SimDisk::WriteSector(std::uint64_t sector, std::span<const std::byte> source) {
  const std::span<std::byte> bytes = BytesOf(sector);
  Overwritten& overwritten = unsynced_.emplace_back();
  overwritten.sector = sector;
  const auto doomed = doomed_.find(sector);
  if (doomed != doomed_.end()) {
    overwritten.before = doomed->second;
    doomed_.erase(doomed);
  } else {
    CopyTo(bytes, overwritten.before);
  }
  CopyTo(source, bytes);
  bad_.erase(sector);
  if (unsynced_.size() > kUnsyncedSectorsMax) {
    unsynced_.pop_front();
    ++unsynced_start_;
  }
}

void SimDisk::Write(std::uint64_t offset_bytes, std::span<const std::byte> source) {
  CheckRange(offset_bytes, source.size());
  for (std::size_t done = 0; done < source.size(); done += kSectorBytes) {
    const std::uint64_t sector = (offset_bytes + done) / kSectorBytes;
    if (done == 0 || sector % kSectorsPerPage == 0) {
      KeepStale(sector / kSectorsPerPage);
    }
    WriteSector(sector, source.subspan(done, kSectorBytes));
  }
}

void SimDisk::WriteTorn(std::uint64_t offset_bytes,
                        std::span<const std::byte> source,
                        Random& random) {
  CheckRange(offset_bytes, source.size());
  for (std::size_t done = 0; done < source.size(); done += kSectorBytes) {
    if (random.Chance(0.5)) {
      WriteSector((offset_bytes + done) / kSectorBytes, source.subspan(done, kSectorBytes));
    }
  }
}

bool SimDisk::IsReadable(std::uint64_t offset_bytes, std::size_t size_bytes) const {
  const auto first = bad_.lower_bound(offset_bytes / kSectorBytes);
  return first == bad_.end() || *first >= (offset_bytes + size_bytes) / kSectorBytes;
}

void SimDisk::FlipBit(std::uint64_t bit_index) {
  const std::uint64_t byte_index = bit_index / 8;
  KVFERRY_CHECK(byte_index < size_bytes_);
  const auto mask = static_cast<std::byte>(1U << (bit_index % 8));
  PageForWriting(byte_index / kPageBytes).at(byte_index % kPageBytes) ^= mask;
}

void SimDisk::Sync(std::uint64_t point) {
  while (unsynced_start_ < point && !unsynced_.empty()) {
    unsynced_.pop_front();
    ++unsynced_start_;
  }
}

void SimDisk::FailSync(std::uint64_t point, Random& random) {
  std::map<std::uint64_t, Sector> durable;
  while (unsynced_start_ < point && !unsynced_.empty()) {
    durable.try_emplace(unsynced_.front().sector, unsynced_.front().before);
    unsynced_.pop_front();
    ++unsynced_start_;
  }
  std::map<std::uint64_t, Overwritten*> rewritten;
  for (Overwritten& later : unsynced_) {
    rewritten.try_emplace(later.sector, &later);
  }
  for (const auto& [sector, before] : durable) {
    const std::uint64_t fate = random.Below(4);
    if (fate < 2) {
      continue;
    }
    const auto later = rewritten.find(sector);
    if (later != rewritten.end()) {
      later->second->before = before;
    } else if (fate == 2) {
      CopyTo(before, BytesOf(sector));
    } else {
      doomed_[sector] = before;
    }
  }
}

void SimDisk::PowerCut(Random& random) {
  // Some cuts lose nearly everything and some nearly nothing, so that whole groups go or stay too.
  constexpr std::array<double, 3> kLossOdds = {0.02, 0.5, 0.98};
  const double loss_odds = kLossOdds.at(random.Below(kLossOdds.size()));
  std::set<std::uint64_t> settled;
  while (!unsynced_.empty()) {
    const Overwritten& latest = unsynced_.back();
    if (!settled.contains(latest.sector)) {
      if (random.Chance(loss_odds)) {
        CopyTo(latest.before, BytesOf(latest.sector));
      } else {
        settled.insert(latest.sector);
      }
    }
    unsynced_.pop_back();
    ++unsynced_start_;
  }
  for (const auto& [sector, before] : doomed_) {
    CopyTo(before, BytesOf(sector));
  }
  doomed_.clear();
  stale_.clear();
}

}  // namespace kvferry::sim
