// BlockKeyHasher: from tokens, or a caller's own block hashes, to the keys of blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "kvferry/export.h"
#include "kvferry/namespace.h"
#include "kvferry/status.h"
#include "kvferry/types.h"

namespace kvferry {

// One block of a prefix. Everything is borrowed for the length of the call that takes it.
struct BlockContent {
  const BlockKey* parent = nullptr;  // The key of the block before it; null for the first.
  std::span<const std::uint32_t> tokens = {};
  // What else decides the bytes, in a fixed order: digests of images that reach into the block and
  // their places, prompt embeddings.
  std::span<const std::span<const std::byte>> extra_keys = {};
};

// Makes keys within one namespace:
//   key(i) = SHA-256(namespace, key(i-1) or none, tokens of block i, extra keys of block i)
// over tagged, length-prefixed fields (docs/block-keys.md), so a key names a whole prefix, and
// equal keys come from equal input only. The same on every machine and in every process; no seed.
//
// Only full blocks have keys. Allocates at creation, and for errors. Move-only; a moved-from one
// may only be assigned to or destroyed. Thread-compatible.
class KVFERRY_EXPORT BlockKeyHasher {
 public:
  // Errors as IdentifyNamespace.
  static Result<BlockKeyHasher> Create(const Namespace& description);

  ~BlockKeyHasher();
  BlockKeyHasher(BlockKeyHasher&&) noexcept;
  BlockKeyHasher& operator=(BlockKeyHasher&&) noexcept;
  BlockKeyHasher(const BlockKeyHasher&) = delete;
  BlockKeyHasher& operator=(const BlockKeyHasher&) = delete;

  const NamespaceId& namespace_id() const noexcept { return id_; }
  std::uint32_t block_tokens() const noexcept { return block_tokens_; }

  // kInvalidArgument unless content.tokens has block_tokens() of them and no extra key is longer
  // than 64 KiB.
  Result<BlockKey> KeyOf(const BlockContent& content);

  // The keys of a prompt's full blocks, none with extra keys: writes tokens.size() / block_tokens()
  // of them, and kInvalidArgument unless `keys` has exactly that size. `parent` as in BlockContent,
  // for tokens that continue a prefix.
  Status KeysOf(std::span<const std::uint32_t> tokens,
                const BlockKey* parent,
                std::span<BlockKey> keys);

  // For callers whose own hash of a block already stands for the whole prefix up to it: the hash
  // takes the place of parent, tokens and extra keys; the namespace is mixed in all the same.
  // kInvalidArgument for less than 8 bytes or where Namespace::hash_scheme is empty: two schemes
  // could give the same hash to different tokens.
  Result<BlockKey> KeyOfCallerHash(std::span<const std::byte> hash);

 private:
  class Digester;

  BlockKeyHasher(std::unique_ptr<Digester> digester, const Namespace& description);

  std::unique_ptr<Digester> digester_;
  NamespaceId id_;
  std::uint32_t block_tokens_ = 0;
  bool has_hash_scheme_ = false;
};

// 64 lower-case hexadecimal digits, first byte first.
KVFERRY_EXPORT std::string ToHex(const BlockKey& key);
// Reads what ToHex wrote, in either case. kInvalidArgument, naming `text`, for anything else.
KVFERRY_EXPORT Result<BlockKey> ParseBlockKey(std::string_view text);

}  // namespace kvferry
