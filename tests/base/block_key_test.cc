// Block keys: golden vectors, the chain property, caller hashes, agreement between processes.
#include "kvferry/block_key.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/base/golden_keys.h"
#include "tests/base/namespaces.h"
#include "tests/support/status_matchers.h"

namespace kvferry {
namespace {

using testing::PrivateNamespace;
using testing::SharedNamespace;

BlockKeyHasher HasherFor(const Namespace& description) {
  Result<BlockKeyHasher> hasher = BlockKeyHasher::Create(description);
  KVFERRY_EXPECT_OK_AS(EXPECT, hasher);
  return *std::move(hasher);
}

std::vector<BlockKey> KeysOf(BlockKeyHasher& hasher, std::span<const std::uint32_t> tokens) {
  std::vector<BlockKey> keys(tokens.size() / hasher.block_tokens());
  EXPECT_OK(hasher.KeysOf(tokens, nullptr, keys));
  return keys;
}

// Three blocks of 16: 1,000 x block + position, and the greatest token at the very end.
std::vector<std::uint32_t> GoldenTokens() {
  std::vector<std::uint32_t> tokens;
  for (std::uint32_t i = 0; i < 48; ++i) {
    tokens.push_back(1000 * (i / 16) + i % 16);
  }
  tokens.back() = 0xffffffff;
  return tokens;
}

std::span<const std::byte> BytesOf(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Any difference would make every stored block a miss. The values come from another program.
TEST(BlockKeyTest, GivesTheGoldenKeys) {
  BlockKeyHasher hasher = HasherFor(SharedNamespace());
  const std::vector<BlockKey> keys = KeysOf(hasher, GoldenTokens());
  EXPECT_EQ(ToHex(hasher.namespace_id()), testing::kSharedNamespace);
  ASSERT_EQ(keys.size(), 3U);
  EXPECT_EQ(ToHex(keys[0]), testing::kSharedKey0);
  EXPECT_EQ(ToHex(keys[1]), testing::kSharedKey1);
  EXPECT_EQ(ToHex(keys[2]), testing::kSharedKey2);

  const std::span<const std::byte> extra_keys[] = {BytesOf("image"), {}, BytesOf("\x01\x02")};
  const std::vector<std::uint32_t> tokens = GoldenTokens();
  const Result<BlockKey> with_extra = hasher.KeyOf(
      {.parent = &keys[0], .tokens = std::span(tokens).first(16), .extra_keys = extra_keys});
  ASSERT_OK(with_extra);
  EXPECT_EQ(ToHex(*with_extra), testing::kExtraKey);
}

TEST(BlockKeyTest, GivesTheGoldenKeysOfAPrivateTenantAndOfACallersHash) {
  BlockKeyHasher hasher = HasherFor(PrivateNamespace());
  std::vector<std::uint32_t> tokens(64);
  std::vector<std::byte> hash(32);
  for (std::uint32_t i = 0; i < 64; ++i) {
    tokens[i] = i;
    hash[i % 32] = static_cast<std::byte>(i % 32);
  }
  EXPECT_EQ(ToHex(KeysOf(hasher, tokens).front()), testing::kPrivateKey0);
  const Result<BlockKey> key = hasher.KeyOfCallerHash(hash);
  ASSERT_OK(key);
  EXPECT_EQ(ToHex(*key), testing::kCallerKey);
}

// The promise of the chain: a key names the whole prefix, and nothing behind it.
RC_GTEST_PROP(BlockKeyTest, OneTokenChangesExactlyTheKeysFromItsBlockOn, (std::uint32_t token)) {
  const auto block_tokens = *rc::gen::inRange<std::uint32_t>(1, 9);
  auto tokens = *rc::gen::container<std::vector<std::uint32_t>>(
      std::size_t{block_tokens} * *rc::gen::inRange<std::size_t>(1, 6),
      rc::gen::arbitrary<std::uint32_t>());
  const auto position = *rc::gen::inRange<std::size_t>(0, tokens.size());
  RC_PRE(tokens[position] != token);
  Namespace n = SharedNamespace();
  n.block_tokens = block_tokens;
  BlockKeyHasher hasher = HasherFor(n);
  const std::vector<BlockKey> before = KeysOf(hasher, tokens);
  tokens[position] = token;
  const std::vector<BlockKey> after = KeysOf(hasher, tokens);

  for (std::size_t block = 0; block < before.size(); ++block) {
    RC_ASSERT((before[block] == after[block]) == (block < position / block_tokens));
  }
}

// One changed field of the namespace must change every key of a prompt, by tokens and by hash.
RC_GTEST_PROP(BlockKeyTest, OneFieldChangesEveryKey, (std::string text, std::uint16_t number)) {
  Namespace base = PrivateNamespace();
  base.model_id += text;
  base.layer_group = {.kind = LayerGroupKind::kFullAttention,
                      .index = number,
                      .layer_count = 62U + number,
                      .kv_head_count = 4U + number,
                      .key_width = 1U + number,
                      .value_width = 1U + number};
  base.value_type = ElementType::kInt8;
  base.strides.assign(number % 9U, number);
  base.rope.base = number;
  base.rectangle.token_offset = 1;
  base.rectangle.kv_head_end = 3;
  const auto tokens =
      *rc::gen::container<std::vector<std::uint32_t>>(3 * 65, rc::gen::arbitrary<std::uint32_t>());
  BlockKeyHasher hasher = HasherFor(base);
  const std::vector<BlockKey> keys = KeysOf(hasher, tokens);
  const Result<BlockKey> caller_key =
      hasher.KeyOfCallerHash(std::as_bytes(std::span(tokens).first(8)));
  RC_ASSERT(caller_key.ok());

  for (const testing::FieldChange& change : testing::kFieldChanges) {
    Namespace changed = base;
    change.apply(changed);
    BlockKeyHasher other = HasherFor(changed);
    const std::vector<BlockKey> other_keys = KeysOf(other, tokens);
    for (const BlockKey& key : other_keys) {
      RC_ASSERT(std::find(keys.begin(), keys.end(), key) == keys.end());
    }
    const Result<BlockKey> other_key =
        other.KeyOfCallerHash(std::as_bytes(std::span(tokens).first(8)));
    RC_ASSERT(other_key.ok());
    RC_ASSERT(*other_key != *caller_key);
  }
}

// Continuing a prefix by its last key is the same as hashing it from the start.
TEST(BlockKeyTest, APrefixCanBeContinued) {
  BlockKeyHasher hasher = HasherFor(SharedNamespace());
  const std::vector<std::uint32_t> tokens = GoldenTokens();
  const std::vector<BlockKey> whole = KeysOf(hasher, tokens);
  std::vector<BlockKey> rest(2);
  ASSERT_OK(hasher.KeysOf(std::span(tokens).subspan(16), &whole[0], rest));
  EXPECT_EQ(rest[0], whole[1]);
  EXPECT_EQ(rest[1], whole[2]);

  std::vector<BlockKey> as_root(2);
  ASSERT_OK(hasher.KeysOf(std::span(tokens).subspan(16), nullptr, as_root));
  EXPECT_NE(as_root[0], whole[1]);
}

// Where one extra key ends and the next begins is part of the key, and so are empty ones.
TEST(BlockKeyTest, ExtraKeysDoNotRunIntoEachOther) {
  BlockKeyHasher hasher = HasherFor(SharedNamespace());
  const std::vector<std::uint32_t> tokens(16, 5);
  const auto key_of = [&](const std::vector<std::span<const std::byte>>& extra_keys) {
    const Result<BlockKey> key = hasher.KeyOf({.tokens = tokens, .extra_keys = extra_keys});
    EXPECT_OK(key);
    return key ? *key : BlockKey();
  };
  const std::vector<BlockKey> keys = {key_of({}),
                                      key_of({BytesOf("")}),
                                      key_of({BytesOf("ab")}),
                                      key_of({BytesOf("a"), BytesOf("b")}),
                                      key_of({BytesOf("b"), BytesOf("a")}),
                                      key_of({BytesOf("ab"), BytesOf("")})};
  for (std::size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(std::count(keys.begin(), keys.end(), keys[i]), 1) << i;
  }
}

// A hash that equals a key's input bytes must still be something else than those tokens.
TEST(BlockKeyTest, ACallersHashIsNeverATokenBlock) {
  BlockKeyHasher hasher = HasherFor(PrivateNamespace());
  const std::vector<std::uint32_t> tokens(64, 0x01010101);
  const Result<BlockKey> by_hash = hasher.KeyOfCallerHash(std::as_bytes(std::span(tokens)));
  ASSERT_OK(by_hash);
  EXPECT_NE(*by_hash, KeysOf(hasher, tokens).front());
}

TEST(BlockKeyTest, RefusesWhatHasNoKey) {
  BlockKeyHasher hasher = HasherFor(SharedNamespace());
  const std::vector<std::uint32_t> tokens(40);
  std::vector<BlockKey> keys(3);
  EXPECT_STATUS(hasher.KeyOf({.tokens = std::span(tokens).first(15)}),
                StatusCode::kInvalidArgument);
  EXPECT_STATUS(hasher.KeyOf({.tokens = {}}), StatusCode::kInvalidArgument);
  EXPECT_STATUS(hasher.KeysOf(tokens, nullptr, keys), StatusCode::kInvalidArgument);
  EXPECT_STATUS(hasher.KeysOf(tokens, nullptr, std::span(keys).first(1)),
                StatusCode::kInvalidArgument);
  EXPECT_OK(hasher.KeysOf(tokens, nullptr, std::span(keys).first(2)));
  const std::vector<std::byte> image(65'537);
  const std::span<const std::byte> extra_keys[] = {image};
  EXPECT_STATUS(hasher.KeyOf({.tokens = std::span(tokens).first(16), .extra_keys = extra_keys}),
                StatusCode::kInvalidArgument);
  // Without a scheme's name two callers' hashes could mean each other's tokens.
  EXPECT_STATUS(hasher.KeyOfCallerHash(std::span(image).first(32)), StatusCode::kInvalidArgument);
  BlockKeyHasher with_scheme = HasherFor(PrivateNamespace());
  EXPECT_STATUS(with_scheme.KeyOfCallerHash(std::span(image).first(7)),
                StatusCode::kInvalidArgument);
  EXPECT_STATUS(with_scheme.KeyOfCallerHash(image), StatusCode::kInvalidArgument);
  EXPECT_OK(with_scheme.KeyOfCallerHash(std::span(image).first(8)));
  EXPECT_STATUS(BlockKeyHasher::Create(Namespace()), StatusCode::kInvalidArgument);
}

TEST(BlockKeyTest, HexReadsBack) {
  BlockKeyHasher hasher = HasherFor(SharedNamespace());
  const BlockKey key = KeysOf(hasher, GoldenTokens()).front();
  std::string text = ToHex(key);
  EXPECT_EQ(*ParseBlockKey(text), key);
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(c >= 'a' ? c - 'a' + 'A' : c); });
  EXPECT_EQ(*ParseBlockKey(text), key);
  text.pop_back();
  EXPECT_STATUS(ParseBlockKey(text), StatusCode::kInvalidArgument);
  EXPECT_NE(ParseBlockKey("zz").error().message().find("'zz'"), std::string_view::npos);
}

// Run by the test below in processes of its own.
TEST(BlockKeyProcessTest, PrintsItsKeys) {
  BlockKeyHasher hasher = HasherFor(PrivateNamespace());
  std::vector<std::uint32_t> tokens(640);
  for (std::uint32_t i = 0; i < 640; ++i) {
    tokens[i] = i * i;
  }
  const std::vector<BlockKey> keys = KeysOf(hasher, tokens);
  ASSERT_EQ(keys.size(), 10U);
  std::printf("last key: %s\n", ToHex(keys.back()).c_str());
}

// A process-wide seed anywhere would empty a persistent cache at every restart.
TEST(BlockKeyProcessTest, TwentyProcessesAgree) {
  struct Close {
    void operator()(std::FILE* stream) const { ::pclose(stream); }
  };
  std::string first;
  for (int process = 0; process < 20; ++process) {
    const std::unique_ptr<std::FILE, Close> output(
        ::popen("exec /proc/$PPID/exe --gtest_filter=BlockKeyProcessTest.PrintsItsKeys", "r"));
    ASSERT_NE(output, nullptr);
    std::string text;
    for (int character = std::fgetc(output.get()); character != EOF;
         character = std::fgetc(output.get())) {
      text.push_back(static_cast<char>(character));
    }
    const std::size_t begin = text.find("last key: ");
    ASSERT_NE(begin, std::string::npos) << text;
    const std::string key = text.substr(begin + 10, 64);
    first = process == 0 ? key : first;
    EXPECT_EQ(key, first);
  }
  EXPECT_OK(ParseBlockKey(first));
}

}  // namespace
}  // namespace kvferry
