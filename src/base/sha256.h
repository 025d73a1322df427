// Sha256: the digest of a stream of bytes; OpenSSL's only home is the file behind it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace kvferry {

using Sha256Digest = std::array<std::byte, 32>;

// Takes bytes in any number of pieces. Memory is taken at construction only, and a context can be
// used again after Finish, so one instance serves any number of digests.
//
// Move-only; a moved-from one may only be assigned to or destroyed. Thread-compatible.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Update(std::span<const std::byte> bytes);
  // The digest of everything since construction or the last Finish; starts over.
  Sha256Digest Finish();

 private:
  struct FreeContext {
    void operator()(evp_md_ctx_st* context) const noexcept;
  };
  std::unique_ptr<evp_md_ctx_st, FreeContext> context_;
};

// HMAC-SHA-256: a digest that only the holder of `secret` can make or recognise.
Sha256Digest HmacSha256(std::span<const std::byte> secret, std::span<const std::byte> message);

// Lower-case hexadecimal, two digits a byte, first byte first.
std::string ToHex(std::span<const std::byte> bytes);
// Whether `text` was exactly 2 x bytes.size() hexadecimal digits of either case; writes `bytes` if
// so.
bool ParseHex(std::string_view text, std::span<std::byte> bytes);

}  // namespace kvferry
