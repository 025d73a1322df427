// The chain of block keys.
#include "kvferry/block_key.h"

#include <string>
#include <utility>

#include "base/sha256.h"
#include "base/tagged_digest.h"

namespace kvferry {
namespace {

// Field tags, apart from those of namespaces. Part of the format (docs/block-keys.md).
constexpr std::uint16_t kTagDomain = 0x0000;
constexpr std::uint16_t kTagNamespace = 0x0101;
constexpr std::uint16_t kTagParent = 0x0102;
constexpr std::uint16_t kTagTokens = 0x0103;
constexpr std::uint16_t kTagExtraKey = 0x0104;
constexpr std::uint16_t kTagCallerHash = 0x0105;

constexpr std::string_view kBlockDomain = "kvferry block";
constexpr std::size_t kCallerHashBytesMin = 8;
constexpr std::size_t kCallerHashBytesMax = 1024;
constexpr std::size_t kExtraKeyBytesMax = 65'536;  // A digest or a name, not the image itself.

}  // namespace

class BlockKeyHasher::Digester {
 public:
  TaggedDigest& Begin(const NamespaceId& id) {
    digest_.AddText(kTagDomain, kBlockDomain);
    digest_.AddBytes(kTagNamespace, id.bytes);
    return digest_;
  }

 private:
  TaggedDigest digest_;
};

Result<BlockKeyHasher> BlockKeyHasher::Create(const Namespace& description) {
  KVFERRY_ASSIGN_OR_RETURN(const NamespaceId id, IdentifyNamespace(description));
  BlockKeyHasher hasher(std::make_unique<Digester>(), description);
  hasher.id_ = id;
  return hasher;
}

BlockKeyHasher::BlockKeyHasher(std::unique_ptr<Digester> digester, const Namespace& description)
    : digester_(std::move(digester)),
      block_tokens_(description.block_tokens),
      has_hash_scheme_(!description.hash_scheme.empty()) {}
BlockKeyHasher::~BlockKeyHasher() = default;
BlockKeyHasher::BlockKeyHasher(BlockKeyHasher&&) noexcept = default;
BlockKeyHasher& BlockKeyHasher::operator=(BlockKeyHasher&&) noexcept = default;

Result<BlockKey> BlockKeyHasher::KeyOf(const BlockContent& content) {
  if (content.tokens.size() != block_tokens_) {
    return Status::Error(StatusCode::kInvalidArgument,
                         "a block of " + std::to_string(content.tokens.size()) +
                             " tokens has no key: only full blocks of " +
                             std::to_string(block_tokens_) + " do");
  }
  for (const std::span<const std::byte> extra_key : content.extra_keys) {
    if (extra_key.size() > kExtraKeyBytesMax) {
      return Status::Error(StatusCode::kInvalidArgument,
                           "an extra key of " + std::to_string(extra_key.size()) +
                               " bytes: give a digest, at most 65,536 bytes");
    }
  }
  TaggedDigest& digest = digester_->Begin(id_);
  digest.AddBytes(kTagParent,
                  content.parent == nullptr ? std::span<const std::byte>() : content.parent->bytes);
  digest.AddNumbers(kTagTokens, content.tokens);
  for (const std::span<const std::byte> extra_key : content.extra_keys) {
    digest.AddBytes(kTagExtraKey, extra_key);
  }
  return BlockKey{digest.Finish()};
}

Status BlockKeyHasher::KeysOf(std::span<const std::uint32_t> tokens,
                              const BlockKey* parent,
                              std::span<BlockKey> keys) {
  if (keys.size() != tokens.size() / block_tokens_) {
    return Status::Error(StatusCode::kInvalidArgument,
                         std::to_string(tokens.size()) + " tokens have " +
                             std::to_string(tokens.size() / block_tokens_) +
                             " full blocks, but there is place for " + std::to_string(keys.size()) +
                             " keys");
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const BlockContent content{.parent = parent,
                               .tokens = tokens.subspan(i * block_tokens_, block_tokens_),
                               .extra_keys = {}};
    KVFERRY_ASSIGN_OR_RETURN(keys[i], KeyOf(content));
    parent = &keys[i];
  }
  return Status::Ok();
}

Result<BlockKey> BlockKeyHasher::KeyOfCallerHash(std::span<const std::byte> hash) {
  if (!has_hash_scheme_) {
    return Status::Error(
        StatusCode::kInvalidArgument,
        "this namespace has no hash scheme: set Namespace::hash_scheme to the name and the "
        "seed of the caller's hash");
  }
  if (hash.size() < kCallerHashBytesMin || hash.size() > kCallerHashBytesMax) {
    return Status::Error(StatusCode::kInvalidArgument,
                         "a block hash of " + std::to_string(hash.size()) +
                             " bytes: give the whole hash, 8 to 1,024 bytes");
  }
  TaggedDigest& digest = digester_->Begin(id_);
  digest.AddBytes(kTagCallerHash, hash);
  return BlockKey{digest.Finish()};
}

std::string ToHex(const BlockKey& key) {
  return ToHex(std::span<const std::byte>(key.bytes));
}

Result<BlockKey> ParseBlockKey(std::string_view text) {
  BlockKey key;
  if (!ParseHex(text, key.bytes)) {
    return Status::Error(
        StatusCode::kInvalidArgument,
        "'" + std::string(text) + "' is not a block key: write 64 hexadecimal digits");
  }
  return key;
}

}  // namespace kvferry
