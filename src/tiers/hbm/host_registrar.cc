// Host memory, registered in the background.
#include "tiers/hbm/host_registrar.h"

#include <algorithm>
#include <functional>
#include <string>
#include <system_error>
#include <utility>

namespace kvferry::tiers {

Result<std::unique_ptr<HostRegistrar>> HostRegistrar::Start(gpu::Device& device,
                                                            std::span<std::byte> area,
                                                            const HostRegistrarOptions& options) {
  if (options.piece_bytes == 0 || options.piece_bytes > kPieceBytesMax ||
      options.piece_bytes % kPieceAlignmentBytes != 0) {
    return Status::Error(StatusCode::kInvalidArgument,
                         "host memory is registered in pieces of 2 MiB to 64 GiB, not of " +
                             std::to_string(options.piece_bytes) + " bytes");
  }
  auto registrar = std::make_unique<HostRegistrar>(Token(), device, area, options);
  if (device.facts().uses_host_page_tables) {
    registrar->piece_bytes_ = std::max<std::uint64_t>(area.size(), 1);
    registrar->registered_bytes_.store(area.size());
    return registrar;
  }
  registrar->pieces_.reserve(area.size() / options.piece_bytes + 1);
  try {
    registrar->thread_ = std::thread([&target = *registrar] { target.Run(); });
  } catch (const std::system_error& error) {
    return Status::Error(StatusCode::kResourceExhausted,
                         "no thread to register host memory can be started", error.code().value());
  }
  return registrar;
}

HostRegistrar::HostRegistrar(Token /*token*/,
                             gpu::Device& device,
                             std::span<std::byte> area,
                             const HostRegistrarOptions& options)
    : device_(device), area_(area), piece_bytes_(options.piece_bytes) {}

HostRegistrar::~HostRegistrar() {
  Stop();
}

bool HostRegistrar::IsPinned(std::span<const std::byte> bytes) const noexcept {
  const std::byte* const end = area_.data() + registered_bytes_.load();
  if (std::less<>()(bytes.data(), area_.data()) ||
      std::less<>()(end, bytes.data() + bytes.size()) || bytes.empty()) {
    return false;
  }
  const auto first = static_cast<std::uint64_t>(bytes.data() - area_.data());
  return first / piece_bytes_ == (first + bytes.size() - 1) / piece_bytes_;
}

Status HostRegistrar::status() const {
  const MutexLock lock(mutex_);
  return status_;
}

void HostRegistrar::Wait() {
  if (thread_.joinable()) {
    thread_.join();
  }
}

void HostRegistrar::Stop() {
  is_stopping_.store(true);
  Wait();
}

void HostRegistrar::Run() {
  Status status = device_.EnterThread();
  for (std::uint64_t at = 0; status.ok() && at < area_.size() && !is_stopping_.load();) {
    const auto piece = area_.subspan(at, std::min<std::uint64_t>(piece_bytes_, area_.size() - at));
    auto registration = gpu::HostRegistration::Create(device_, piece);
    status = registration.status();
    if (registration.ok()) {
      pieces_.push_back(std::move(*registration));
      at += piece.size();
      registered_bytes_.store(at);
    }
  }
  if (!status.ok()) {
    const MutexLock lock(mutex_);
    status_ = status.WithContext(std::to_string(area_.size() - registered_bytes_.load()) + " of " +
                                 std::to_string(area_.size()) +
                                 " bytes of host memory are not pinned, and are copied twice");
  }
}

}  // namespace kvferry::tiers
