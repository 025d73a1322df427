// PagesOf: the input of fuzz targets over pages of the NVMe format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tiers/nvme/disk_page.h"

namespace kvferry::fuzz {

// All but the first byte, which chooses whether the whole pages get checksums that match: no fuzzer
// finds those, and what is checked behind them is most of what there is.
inline std::vector<std::byte> PagesOf(const std::uint8_t* bytes, std::size_t size) {
  if (size == 0) {
    return {};
  }
  const auto input = std::as_bytes(std::span(bytes, size)).subspan(1);
  std::vector<std::byte> pages(input.begin(), input.end());
  const std::span<std::byte> all(pages);
  for (std::size_t at = 0; at + tiers::kDiskPageBytes <= all.size() && bytes[0] % 2 == 1;
       at += tiers::kDiskPageBytes) {
    tiers::SealPage(all.subspan(at).first<tiers::kDiskPageBytes>());
  }
  return pages;
}

// The golden images' store.
inline tiers::StoreUuid FuzzStore() {
  tiers::StoreUuid store;
  for (std::size_t i = 0; i < store.bytes.size(); ++i) {
    store.bytes.at(i) = static_cast<std::byte>(0x11 * i);
  }
  return store;
}

}  // namespace kvferry::fuzz
