// SHA-256 and its keyed form by OpenSSL's EVP interface.
#include "base/sha256.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <utility>

#include "base/assert.h"

namespace kvferry {
namespace {

// Only a lack of memory or a broken installation can make OpenSSL refuse: nothing a caller could
// react to, and a key made without a digest would be a wrong key.
void Begin(evp_md_ctx_st* context) {
  KVFERRY_CHECK(context != nullptr);
  KVFERRY_CHECK(::EVP_DigestInit_ex(context, ::EVP_sha256(), nullptr) == 1);
}

int DigitValue(char digit) {
  if (digit >= '0' && digit <= '9') {
    return digit - '0';
  }
  if (digit >= 'a' && digit <= 'f') {
    return digit - 'a' + 10;
  }
  if (digit >= 'A' && digit <= 'F') {
    return digit - 'A' + 10;
  }
  return -1;
}

}  // namespace

void Sha256::FreeContext::operator()(evp_md_ctx_st* context) const noexcept {
  ::EVP_MD_CTX_free(context);
}

Sha256::Sha256() : context_(::EVP_MD_CTX_new()) {
  Begin(context_.get());
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::Update(std::span<const std::byte> bytes) {
  KVFERRY_CHECK(::EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
}

Sha256Digest Sha256::Finish() {
  Sha256Digest digest;
  unsigned int size = 0;
  auto* target = reinterpret_cast<unsigned char*>(digest.data());
  KVFERRY_CHECK(::EVP_DigestFinal_ex(context_.get(), target, &size) == 1);
  KVFERRY_CHECK(size == digest.size());
  Begin(context_.get());
  return digest;
}

Sha256Digest HmacSha256(std::span<const std::byte> secret, std::span<const std::byte> message) {
  KVFERRY_CHECK(std::in_range<int>(secret.size()));
  // OpenSSL takes a null key for "the key of the call before".
  static constexpr unsigned char kNothing = 0;
  const void* key = secret.empty() ? static_cast<const void*>(&kNothing) : secret.data();
  Sha256Digest digest;
  unsigned int size = 0;
  const unsigned char* made =
      ::HMAC(::EVP_sha256(), key, static_cast<int>(secret.size()),
             reinterpret_cast<const unsigned char*>(message.data()), message.size(),
             reinterpret_cast<unsigned char*>(digest.data()), &size);
  KVFERRY_CHECK(made != nullptr);
  KVFERRY_CHECK(size == digest.size());
  return digest;
}

std::string ToHex(std::span<const std::byte> bytes) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const std::byte byte : bytes) {
    text.push_back(kDigits[std::to_integer<std::size_t>(byte >> 4)]);
    text.push_back(kDigits[std::to_integer<std::size_t>(byte & std::byte{0xf})]);
  }
  return text;
}

bool ParseHex(std::string_view text, std::span<std::byte> bytes) {
  if (text.size() != bytes.size() * 2) {
    return false;
  }
  for (const char digit : text) {
    if (DigitValue(digit) < 0) {
      return false;
    }
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(DigitValue(text[2 * i]) * 16 + DigitValue(text[2 * i + 1]));
  }
  return true;
}

}  // namespace kvferry
