// Checks and digests of namespaces.
#include "kvferry/namespace.h"

#include <cmath>
#include <string>
#include <utility>

#include "base/sha256.h"
#include "base/tagged_digest.h"

namespace kvferry {
namespace {

// Field tags. Part of the format (docs/block-keys.md): append, never renumber, never reuse.
enum class Tag : std::uint16_t {
  kDomain = 0x0000,
  kFormatVersion = 0x0001,
  kTenantKind = 0x0002,
  kTenantCode = 0x0003,
  kModelId = 0x0004,
  kModelRevision = 0x0005,
  kGroupKind = 0x0010,
  kGroupIndex = 0x0011,
  kGroupLayers = 0x0012,
  kGroupKvHeads = 0x0013,
  kGroupKeyWidth = 0x0014,
  kGroupValueWidth = 0x0015,
  kGroupWindow = 0x0016,
  kKeyType = 0x0020,
  kValueType = 0x0021,
  kScales = 0x0022,
  kLayout = 0x0030,
  kStrides = 0x0031,
  kBlockTokens = 0x0032,
  kRopeRotated = 0x0040,
  kRopeBase = 0x0041,
  kRopeWidth = 0x0042,
  kRopeScaling = 0x0043,
  kLayerRange = 0x0050,
  kKvHeadRange = 0x0051,
  kTokenStride = 0x0052,
  kTokenOffset = 0x0053,
  kLoraId = 0x0060,
  kLoraDigest = 0x0061,
  kExactness = 0x0070,
  kHashScheme = 0x0071,
};

constexpr std::string_view kNamespaceDomain = "kvferry namespace";
constexpr std::string_view kTenantDomain = "kvferry tenant";
constexpr std::size_t kTextBytesMax = 4096;  // Texts come from outside; no honest one is longer.
constexpr std::size_t kStridesMax = 16;
constexpr std::uint32_t kBlockTokensMax = std::uint32_t{1} << 20;

Status Bad(std::string_view field, std::string_view reason_and_remedy) {
  std::string text("namespace: ");
  text.append(field).append(" ").append(reason_and_remedy);
  return Status::Error(StatusCode::kInvalidArgument, std::move(text));
}

Status CheckTexts(const Namespace& n) {
  const std::pair<std::string_view, const std::string*> texts[] = {
      {"tenant", &n.tenant.secret()},
      {"model_id", &n.model_id},
      {"model_revision", &n.model_revision},
      {"scales", &n.scales},
      {"layout", &n.layout},
      {"rope.scaling", &n.rope.scaling},
      {"lora_id", &n.lora_id},
      {"lora_digest", &n.lora_digest},
      {"hash_scheme", &n.hash_scheme}};
  for (const auto& [field, text] : texts) {
    if (text->size() > kTextBytesMax) {
      return Bad(field, "is longer than 4,096 bytes: give a name or a digest");
    }
  }
  return Status::Ok();
}

Status CheckGroup(const LayerGroup& group, ElementType key_type, ElementType value_type) {
  if (group.kind < LayerGroupKind::kFullAttention || group.kind > LayerGroupKind::kAuxiliary) {
    return Bad("layer_group.kind", "is no LayerGroupKind");
  }
  if (group.layer_count == 0 || group.kv_head_count == 0 || group.key_width == 0) {
    return Bad("layer_group",
               "has no shape: set layer_count, kv_head_count (1 for a latent) and key_width");
  }
  if ((group.kind == LayerGroupKind::kSlidingWindow) != (group.window_tokens > 0) &&
      group.kind != LayerGroupKind::kAuxiliary) {
    return Bad("layer_group.window_tokens",
               "must be set for kSlidingWindow, and 0 for other kinds");
  }
  if (key_type <= ElementType::kNone || key_type > ElementType::kUInt8) {
    return Bad("key_type", "is no type of an element: say how K is stored");
  }
  if (value_type > ElementType::kUInt8 ||
      (value_type == ElementType::kNone) != (group.value_width == 0)) {
    return Bad("value_type", "must be kNone where layer_group.value_width is 0, and only there");
  }
  return Status::Ok();
}

// One side of the rectangle; `what` is "layer" or "kv_head".
Status CheckSide(std::string_view what,
                 std::uint32_t begin,
                 std::uint32_t end,
                 std::uint32_t count) {
  if (begin < end && end <= count) {
    return Status::Ok();
  }
  const std::string name(what);
  return Bad("rectangle", "has " + name + "_begin " + std::to_string(begin) + " and " + name +
                              "_end " + std::to_string(end) + ", but layer_group." + name +
                              "_count is " + std::to_string(count) + ": it must be " + name +
                              "_begin < " + name + "_end <= " + std::to_string(count) + " (0 and " +
                              std::to_string(count) + " for all of the group)");
}

Status CheckRectangle(const ParallelRectangle& rectangle, const LayerGroup& group) {
  KVFERRY_RETURN_IF_ERROR(
      CheckSide("layer", rectangle.layer_begin, rectangle.layer_end, group.layer_count));
  KVFERRY_RETURN_IF_ERROR(
      CheckSide("kv_head", rectangle.kv_head_begin, rectangle.kv_head_end, group.kv_head_count));
  if (rectangle.token_offset >= rectangle.token_stride) {
    return Bad("rectangle.token_stride",
               "is " + std::to_string(rectangle.token_stride) + " and token_offset is " +
                   std::to_string(rectangle.token_offset) +
                   ": the stride must be above the offset; 1 and 0 without context parallelism");
  }
  return Status::Ok();
}

Status Check(const Namespace& n) {
  if (n.format_version == 0) {
    return Bad("format_version", "is 0: versions count from 1");
  }
  if (!n.tenant.is_shared() && !n.tenant.is_private()) {
    return Bad("tenant",
               "is missing: give Tenant::Private(secret), or Tenant::Shared() to share with all");
  }
  if (n.model_id.empty()) {
    return Bad("model_id", "is empty: name the model");
  }
  if (n.model_revision.empty()) {
    return Bad("model_revision", "is empty: give a digest or commit of the weights");
  }
  if (n.layout.empty()) {
    return Bad("layout", "is empty: give the server's layout name");
  }
  if (n.block_tokens == 0 || n.block_tokens > kBlockTokensMax) {
    return Bad("block_tokens", "is not in 1 .. 1,048,576: give the tokens of a block");
  }
  if (n.strides.size() > kStridesMax) {
    return Bad("strides", "has more than 16 dimensions");
  }
  if (!std::isfinite(n.rope.base) || n.rope.base < 0 || std::signbit(n.rope.base)) {
    return Bad("rope.base", "is not a positive number or 0 for none");
  }
  if (n.lora_id.empty() != n.lora_digest.empty()) {
    return Bad("lora_id", "and lora_digest go together: set both, or none without an adapter");
  }
  if (n.exactness != ExactnessClass::kExact && n.exactness != ExactnessClass::kLossyStorage) {
    return Bad("exactness", "is no ExactnessClass");
  }
  KVFERRY_RETURN_IF_ERROR(CheckTexts(n));
  KVFERRY_RETURN_IF_ERROR(CheckGroup(n.layer_group, n.key_type, n.value_type));
  return CheckRectangle(n.rectangle, n.layer_group);
}

class FieldWriter {
 public:
  void Text(Tag tag, std::string_view text) { digest_.AddText(Number(tag), text); }
  void Byte(Tag tag, std::uint8_t value) { digest_.AddNumber(Number(tag), value); }
  void Count(Tag tag, std::uint32_t value) { digest_.AddNumber(Number(tag), value); }
  void Real(Tag tag, double value) { digest_.AddReal(Number(tag), value); }
  template <class Value>
  void List(Tag tag, std::span<const Value> values) {
    digest_.AddNumbers(Number(tag), values);
  }
  void Bytes(Tag tag, std::span<const std::byte> bytes) { digest_.AddBytes(Number(tag), bytes); }
  void Range(Tag tag, std::uint32_t begin, std::uint32_t end) {
    const std::array<std::uint32_t, 2> values = {begin, end};
    digest_.AddNumbers(Number(tag), std::span<const std::uint32_t>(values));
  }
  NamespaceId Finish() { return {digest_.Finish()}; }

 private:
  static std::uint16_t Number(Tag tag) { return static_cast<std::uint16_t>(tag); }

  TaggedDigest digest_;
};

void WriteTenant(FieldWriter& writer, const Tenant& tenant) {
  if (tenant.is_shared()) {
    writer.Byte(Tag::kTenantKind, 0);
    writer.Bytes(Tag::kTenantCode, {});
    return;
  }
  const std::string& secret = tenant.secret();
  const Sha256Digest code =
      HmacSha256(std::as_bytes(std::span(secret.data(), secret.size())),
                 std::as_bytes(std::span(kTenantDomain.data(), kTenantDomain.size())));
  writer.Byte(Tag::kTenantKind, 1);
  writer.Bytes(Tag::kTenantCode, code);
}

void WriteGroup(FieldWriter& writer, const LayerGroup& group) {
  writer.Byte(Tag::kGroupKind, static_cast<std::uint8_t>(group.kind));
  writer.Count(Tag::kGroupIndex, group.index);
  writer.Count(Tag::kGroupLayers, group.layer_count);
  writer.Count(Tag::kGroupKvHeads, group.kv_head_count);
  writer.Count(Tag::kGroupKeyWidth, group.key_width);
  writer.Count(Tag::kGroupValueWidth, group.value_width);
  writer.Count(Tag::kGroupWindow, group.window_tokens);
}

std::string_view TenantText(const Tenant& tenant) {
  return tenant.is_shared() ? "shared" : tenant.is_private() ? "private" : "none";
}

}  // namespace

Tenant Tenant::Shared() {
  Tenant tenant;
  tenant.is_shared_ = true;
  return tenant;
}

Tenant Tenant::Private(std::string secret) {
  Tenant tenant;
  tenant.secret_ = std::move(secret);
  return tenant;
}

Result<NamespaceId> IdentifyNamespace(const Namespace& description) {
  KVFERRY_RETURN_IF_ERROR(Check(description));
  FieldWriter writer;
  writer.Text(Tag::kDomain, kNamespaceDomain);
  writer.Count(Tag::kFormatVersion, description.format_version);
  WriteTenant(writer, description.tenant);
  writer.Text(Tag::kModelId, description.model_id);
  writer.Text(Tag::kModelRevision, description.model_revision);
  WriteGroup(writer, description.layer_group);
  writer.Byte(Tag::kKeyType, static_cast<std::uint8_t>(description.key_type));
  writer.Byte(Tag::kValueType, static_cast<std::uint8_t>(description.value_type));
  writer.Text(Tag::kScales, description.scales);
  writer.Text(Tag::kLayout, description.layout);
  writer.List(Tag::kStrides, std::span<const std::uint64_t>(description.strides));
  writer.Count(Tag::kBlockTokens, description.block_tokens);
  writer.Byte(Tag::kRopeRotated, description.rope.is_rotated ? 1 : 0);
  writer.Real(Tag::kRopeBase, description.rope.base);
  writer.Count(Tag::kRopeWidth, description.rope.width);
  writer.Text(Tag::kRopeScaling, description.rope.scaling);
  const ParallelRectangle& rectangle = description.rectangle;
  writer.Range(Tag::kLayerRange, rectangle.layer_begin, rectangle.layer_end);
  writer.Range(Tag::kKvHeadRange, rectangle.kv_head_begin, rectangle.kv_head_end);
  writer.Count(Tag::kTokenStride, rectangle.token_stride);
  writer.Count(Tag::kTokenOffset, rectangle.token_offset);
  writer.Text(Tag::kLoraId, description.lora_id);
  writer.Text(Tag::kLoraDigest, description.lora_digest);
  writer.Byte(Tag::kExactness, static_cast<std::uint8_t>(description.exactness));
  writer.Text(Tag::kHashScheme, description.hash_scheme);
  return writer.Finish();
}

std::string ToString(const Namespace& description) {
  const ParallelRectangle& rectangle = description.rectangle;
  std::string text(description.model_id);
  text.append(1, '@').append(description.model_revision);
  text.append(" group ").append(std::to_string(description.layer_group.index));
  text.append(" layers ").append(std::to_string(rectangle.layer_begin)).append(1, '-');
  text.append(std::to_string(rectangle.layer_end));
  text.append(" heads ").append(std::to_string(rectangle.kv_head_begin)).append(1, '-');
  text.append(std::to_string(rectangle.kv_head_end));
  text.append(" layout ").append(description.layout);
  text.append(" block ").append(std::to_string(description.block_tokens)).append(" tokens");
  if (!description.lora_id.empty()) {
    text.append(" lora ").append(description.lora_id);
  }
  text.append(" tenant ").append(TenantText(description.tenant));
  return text;
}

std::string ToHex(const NamespaceId& id) {
  return ToHex(std::span<const std::byte>(id.bytes));
}

}  // namespace kvferry
