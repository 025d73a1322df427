// PageToucher: takes an area's pages from the system in the background, so that opening returns at
// once.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>

#include "kvferry/status.h"

namespace kvferry::tiers {

struct PageToucherOptions {
  // Ask the kernel for whole pieces (since Linux 5.14) rather than touch page by page, which is the
  // way where it refuses.
  bool may_populate = true;
};

// A thread that walks the area from its start, a piece at a time, and ends with it. No byte
// changes, whoever writes them meanwhile; a page that someone has touched before costs little.
//
// Thread-compatible, but for populated_bytes(), which is for any thread.
class PageToucher {
  struct Token {};  // Only Start can name it.

 public:
  // The largest piece, and so what Stop may have to wait for: 2 ms of zeroing, and 40 where a
  // hypervisor finds the memory only now.
  static constexpr std::size_t kPieceBytes = std::size_t{16} << 20;

  // `area` stays until the toucher is destroyed. kResourceExhausted when no thread can be started.
  static Result<std::unique_ptr<PageToucher>> Start(std::span<std::byte> area,
                                                    const PageToucherOptions& options = {});

  PageToucher(Token token, std::span<std::byte> area, const PageToucherOptions& options);
  PageToucher(const PageToucher&) = delete;
  PageToucher& operator=(const PageToucher&) = delete;
  // Stops.
  ~PageToucher();

  // How much, from the area's start, has its pages.
  std::uint64_t populated_bytes() const noexcept { return populated_bytes_.load(); }
  // Waits until the whole area has been walked, or until the system had no more pages to give.
  void Wait();
  // Ends after the piece at hand and waits for that.
  void Stop();

 private:
  void Run();

  std::span<std::byte> area_;
  bool may_populate_;  // The thread's own once it runs.
  std::atomic<bool> is_stopping_ = false;
  std::atomic<std::uint64_t> populated_bytes_ = 0;
  std::thread thread_;
};

}  // namespace kvferry::tiers
