// Namespaces: golden digests, every field counts, bad ones are refused, secrets stay secret.
#include "kvferry/namespace.h"

#include <limits>
#include <map>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "tests/base/golden_keys.h"
#include "tests/base/namespaces.h"
#include "tests/support/status_matchers.h"

namespace kvferry {
namespace {

using testing::PrivateNamespace;
using testing::SharedNamespace;

NamespaceId IdOf(const Namespace& description) {
  const Result<NamespaceId> id = IdentifyNamespace(description);
  EXPECT_OK(id);
  return id ? *id : NamespaceId();
}

// Any difference would make every stored block a miss. The values come from another program.
TEST(NamespaceTest, GivesTheGoldenDigests) {
  EXPECT_EQ(ToHex(IdOf(SharedNamespace())), testing::kSharedNamespace);
  EXPECT_EQ(ToHex(IdOf(PrivateNamespace())), testing::kPrivateNamespace);
}

// A field that the digest forgets would give one tenant, model or layout the bytes of another.
TEST(NamespaceTest, EveryFieldChangesTheDigest) {
  Namespace base = PrivateNamespace();
  base.layer_group = {.kind = LayerGroupKind::kFullAttention,
                      .layer_count = 62,
                      .kv_head_count = 4,
                      .key_width = 192,
                      .value_width = 128};
  base.value_type = ElementType::kBFloat16;
  base.rectangle.kv_head_end = 3;
  base.rectangle.token_offset = 1;
  std::map<NamespaceId, std::string_view> seen = {{IdOf(base), "nothing"}};
  Namespace auxiliary = base;
  auxiliary.layer_group.kind = LayerGroupKind::kAuxiliary;
  seen.emplace(IdOf(auxiliary), "layer_group.kind to kAuxiliary");

  for (const testing::FieldChange& change : testing::kFieldChanges) {
    Namespace changed = base;
    change.apply(changed);
    const auto [place, is_new] = seen.emplace(IdOf(changed), change.field);
    EXPECT_TRUE(is_new) << change.field << " gives the digest of " << place->second;
  }
}

// Without length prefixes these pairs would be one namespace each.
TEST(NamespaceTest, TextsDoNotRunIntoEachOther) {
  Namespace one = SharedNamespace();
  Namespace other = one;
  one.model_id = "ab";
  one.model_revision = "c";
  other.model_id = "a";
  other.model_revision = "bc";
  EXPECT_NE(IdOf(one), IdOf(other));

  Namespace with_nul = SharedNamespace();
  with_nul.layout.push_back('\0');
  EXPECT_NE(IdOf(with_nul), IdOf(SharedNamespace()));
}

TEST(NamespaceTest, TenantsAreApartFromEachOtherAndFromShared) {
  Namespace shared = SharedNamespace();
  Namespace one = shared;
  one.tenant = Tenant::Private("one");
  Namespace named_shared = shared;
  named_shared.tenant = Tenant::Private("shared");

  EXPECT_NE(IdOf(one), IdOf(shared));
  EXPECT_NE(IdOf(named_shared), IdOf(shared));
  EXPECT_NE(IdOf(named_shared), IdOf(one));
}

TEST(NamespaceTest, NoTextShowsATenantsSecret) {
  Namespace n = SharedNamespace();
  EXPECT_NE(ToString(n).find("tenant shared"), std::string::npos);
  n.tenant = Tenant::Private("very-secret");
  EXPECT_EQ(ToString(n).find("very-secret"), std::string::npos);
  EXPECT_NE(ToString(n).find("tenant private"), std::string::npos);
  EXPECT_NE(ToString(n).find("llama-3.1-8b@0e9e39f249a16976"), std::string::npos);

  n.tenant = Tenant::Private("very-secret" + std::string(5000, 'x'));
  const Result<NamespaceId> id = IdentifyNamespace(n);
  EXPECT_STATUS(id, StatusCode::kInvalidArgument);
  EXPECT_EQ(id.status().ToString().find("very-secret"), std::string::npos);
}

struct BadField {
  std::string_view field;
  void (*break_it)(Namespace& n);
};

// A namespace that leaves something out would share bytes between things that differ in it.
TEST(NamespaceTest, RefusesWhatIsMissingOrContradictsItselfAndNamesIt) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const BadField bad_fields[] = {
      {"format_version",
       [](Namespace& n) {
         n.format_version = 0;
       }},
      {"tenant",
       [](Namespace& n) {
         n.tenant = Tenant();
       }},
      {"tenant",
       [](Namespace& n) {
         n.tenant = Tenant::Private("");
       }},
      {"model_id",
       [](Namespace& n) {
         n.model_id.clear();
       }},
      {"model_id",
       [](Namespace& n) {
         n.model_id.assign(4097, 'm');
       }},
      {"model_revision",
       [](Namespace& n) {
         n.model_revision.clear();
       }},
      {"layer_group.kind",
       [](Namespace& n) {
         n.layer_group.kind = LayerGroupKind{0};
       }},
      {"layer_group.kind",
       [](Namespace& n) {
         n.layer_group.kind = LayerGroupKind{7};
       }},
      {"layer_group has",
       [](Namespace& n) {
         n.layer_group.layer_count = 0;
       }},
      {"layer_group has",
       [](Namespace& n) {
         n.layer_group.kv_head_count = 0;
       }},
      {"layer_group has",
       [](Namespace& n) {
         n.layer_group.key_width = 0;
       }},
      {"window_tokens",
       [](Namespace& n) {
         n.layer_group.window_tokens = 128;
       }},
      {"window_tokens",
       [](Namespace& n) {
         n.layer_group.kind = LayerGroupKind::kSlidingWindow;
       }},
      {"key_type",
       [](Namespace& n) {
         n.key_type = ElementType::kNone;
       }},
      {"key_type",
       [](Namespace& n) {
         n.key_type = ElementType{9};
       }},
      {"value_type",
       [](Namespace& n) {
         n.value_type = ElementType::kNone;
       }},
      {"value_type",
       [](Namespace& n) {
         n.value_type = ElementType{9};
       }},
      {"value_type",
       [](Namespace& n) {
         n.layer_group.value_width = 0;
       }},
      {"layout",
       [](Namespace& n) {
         n.layout.clear();
       }},
      {"strides",
       [](Namespace& n) {
         n.strides.assign(17, 1);
       }},
      {"block_tokens",
       [](Namespace& n) {
         n.block_tokens = 0;
       }},
      {"block_tokens",
       [](Namespace& n) {
         n.block_tokens = (1U << 20) + 1;
       }},
      {"rope.base",
       [](Namespace& n) {
         n.rope.base = -1;
       }},
      {"rope.base",
       [](Namespace& n) {
         n.rope.base = -0.0;
       }},
      {"rope.base",
       [](Namespace& n) {
         n.rope.base = kInfinity;
       }},
      {"rope.base",
       [](Namespace& n) {
         n.rope.base = kInfinity - kInfinity;
       }},
      {"rectangle",
       [](Namespace& n) {
         n.rectangle.layer_end = 0;
       }},
      {"rectangle",
       [](Namespace& n) {
         n.rectangle.layer_end = 33;
       }},
      {"rectangle",
       [](Namespace& n) {
         n.rectangle.kv_head_begin = 8;
       }},
      {"rectangle",
       [](Namespace& n) {
         n.rectangle.kv_head_end = 9;
       }},
      {"token_stride",
       [](Namespace& n) {
         n.rectangle.token_stride = 0;
       }},
      {"token_stride",
       [](Namespace& n) {
         n.rectangle.token_offset = 1;
       }},
      {"lora_id",
       [](Namespace& n) {
         n.lora_id = "legal";
       }},
      {"lora_id",
       [](Namespace& n) {
         n.lora_digest = "77aa";
       }},
      {"exactness",
       [](Namespace& n) {
         n.exactness = ExactnessClass{0};
       }},
      {"hash_scheme",
       [](Namespace& n) {
         n.hash_scheme.assign(4097, 'h');
       }},
  };

  for (const BadField& bad : bad_fields) {
    Namespace n = SharedNamespace();
    bad.break_it(n);
    const Result<NamespaceId> id = IdentifyNamespace(n);
    EXPECT_STATUS(id, StatusCode::kInvalidArgument);
    EXPECT_NE(id.status().message().find(bad.field), std::string_view::npos)
        << bad.field << ": " << id.status().ToString();
  }
}

// Four numbers and two bounds: whoever mixed them up must see which.
TEST(NamespaceTest, SaysHowTheRectangleMissesItsGroup) {
  Namespace n = SharedNamespace();
  n.rectangle.layer_end = 33;

  EXPECT_EQ(IdentifyNamespace(n).status().message(),
            "namespace: rectangle has layer_begin 0 and layer_end 33, but layer_group.layer_count "
            "is 32: it must be layer_begin < layer_end <= 32 (0 and 32 for all of the group)");

  n = SharedNamespace();
  n.rectangle.kv_head_begin = 8;
  EXPECT_EQ(IdentifyNamespace(n).status().message(),
            "namespace: rectangle has kv_head_begin 8 and kv_head_end 8, but "
            "layer_group.kv_head_count is 8: it must be kv_head_begin < kv_head_end <= 8 (0 and 8 "
            "for all of the group)");

  n = SharedNamespace();
  n.rectangle.token_offset = 1;
  EXPECT_EQ(
      IdentifyNamespace(n).status().message(),
      "namespace: rectangle.token_stride is 1 and token_offset is 1: the stride must be above "
      "the offset; 1 and 0 without context parallelism");
}

}  // namespace
}  // namespace kvferry
