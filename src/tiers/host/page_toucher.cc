// Populates by advice, or by an atomic operation on one byte of each page that changes nothing.
#include "tiers/host/page_toucher.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace kvferry::tiers {
namespace {

constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, which older headers do not name.

// 0 or errno.
int Populate(std::span<std::byte> piece) {
  while (::madvise(piece.data(), piece.size(), kPopulateWrite) != 0) {
    if (errno != EINTR && errno != EAGAIN) {
      return errno;
    }
  }
  return 0;
}

// The owner may write the same byte at the same time. The operation adds nothing to whatever value
// it meets, in one step, so neither is lost; the thread sanitizer does not know that it is meant.
__attribute__((no_sanitize("thread"))) void Touch(std::span<std::byte> piece,
                                                  std::size_t page_bytes) {
  for (std::size_t at = 0; at < piece.size(); at += page_bytes) {
    __atomic_fetch_or(reinterpret_cast<unsigned char*>(piece.data() + at),
                      static_cast<unsigned char>(0), __ATOMIC_RELAXED);
  }
}

}  // namespace

Result<std::unique_ptr<PageToucher>> PageToucher::Start(std::span<std::byte> area,
                                                        const PageToucherOptions& options) {
  auto toucher = std::make_unique<PageToucher>(Token(), area, options);
  try {
    toucher->thread_ = std::thread([&target = *toucher] { target.Run(); });
  } catch (const std::system_error& error) {
    return Status::Error(StatusCode::kResourceExhausted,
                         "no thread to populate host memory can be started", error.code().value());
  }
  return toucher;
}

PageToucher::PageToucher(Token /*token*/,
                         std::span<std::byte> area,
                         const PageToucherOptions& options)
    : area_(area), may_populate_(options.may_populate) {}

PageToucher::~PageToucher() {
  Stop();
}

void PageToucher::Wait() {
  if (thread_.joinable()) {
    thread_.join();
  }
}

void PageToucher::Stop() {
  is_stopping_.store(true);
  Wait();
}

void PageToucher::Run() {
  const auto page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  for (std::size_t at = 0; at < area_.size() && !is_stopping_.load();) {
    const std::span<std::byte> piece = area_.subspan(at, std::min(kPieceBytes, area_.size() - at));
    const int error = may_populate_ ? Populate(piece) : EINVAL;
    if (error != 0 && error != EINVAL) {
      // No memory, or a faulty page: touching would end the process where a later, smaller need
      // may not.
      return;
    }
    if (error == EINVAL) {  // A kernel that does not know the advice.
      may_populate_ = false;
      Touch(piece, page_bytes);
    }
    at += piece.size();
    populated_bytes_.store(at);
  }
}

}  // namespace kvferry::tiers
