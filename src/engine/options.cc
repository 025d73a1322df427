// Checks and text form of engine options.
#include "kvferry/options.h"

#include <array>
#include <string>
#include <utility>

#include "kvferry/policy.h"

#include "engine/count_text.h"
#include "engine/option_table.h"

namespace kvferry::engine {
namespace {

struct NamedPages {
  std::string_view name;
  HugePages pages;
};
constexpr std::array<NamedPages, 3> kHugePages = {{{"none", HugePages::kNone},
                                                   {"transparent", HugePages::kTransparent},
                                                   {"reserved", HugePages::kReserved}}};

// In the largest binary unit that divides it, as a file may write it.
std::string SizeText(std::uint64_t bytes) {
  constexpr std::array<std::pair<std::uint64_t, std::string_view>, 4> kUnits = {
      {{kTiB, "TiB"}, {kGiB, "GiB"}, {kMiB, "MiB"}, {kKiB, "KiB"}}};
  for (const auto& [unit, name] : kUnits) {
    if (bytes != 0 && bytes % unit == 0) {
      return std::to_string(bytes / unit).append(name);
    }
  }
  return std::to_string(bytes);
}

std::string LimitText(const OptionFacts& facts, std::uint64_t limit) {
  return facts.unit == OptionUnit::kBytes ? SizeText(limit) : CountText(limit);
}

Status Invalid(std::string message) {
  return Status::Error(StatusCode::kInvalidArgument, std::move(message));
}

// Keeps the first error.
class RangeChecker {
 public:
  template <std::integral Number>
  void operator()(const OptionFacts& facts, Number value) {
    Keep(CheckRange(facts, value));
  }
  void operator()(const OptionFacts&, bool) {}
  void operator()(const OptionFacts& facts, HugePages pages) {
    if (NameOf(pages).empty()) {
      Keep(Invalid(std::string(facts.name) + " is " + std::to_string(static_cast<unsigned>(pages)) +
                   ": it must be " + std::string(HugePagesNames())));
    }
  }
  void operator()(const OptionFacts& facts, const std::string& policy) {
    const auto created = CreateEvictionPolicy(policy, {.entries_max = 2, .residents_max = 1});
    Keep(created.status().WithContext(facts.name));
  }

  const Status& first() const { return first_; }

 private:
  void Keep(const Status& status) {
    if (first_.ok()) {
      first_ = status;
    }
  }

  Status first_;
};

// A basic string of TOML.
std::string Quoted(std::string_view text) {
  static constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      quoted.append("\\u00").append(1, kDigits[byte >> 4U]).append(1, kDigits[byte & 0xfU]);
      continue;
    }
    if (c == '"' || c == '\\') {
      quoted.push_back('\\');
    }
    quoted.push_back(c);
  }
  return quoted.append("\"");
}

struct ValueText {
  template <std::integral Number>
  std::string operator()(Number value) const {
    // TOML's integers have 63 bits.
    return std::in_range<std::int64_t>(value) ? std::to_string(value)
                                              : Quoted(std::to_string(value));
  }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(HugePages pages) const { return Quoted(NameOf(pages)); }
  std::string operator()(const std::string& text) const { return Quoted(text); }
};

Status CheckTogether(const EngineOptions& options) {
  const std::uint64_t blocks = options.host.bytes / options.block_bytes;
  if (options.host.bytes != 0 && blocks < kHostBlocksMin) {
    return Invalid("host.bytes is " + SizeText(options.host.bytes) + " and block_bytes is " +
                   SizeText(options.block_bytes) + ": the host tier must hold at least " +
                   std::to_string(kHostBlocksMin) + " blocks; raise host.bytes to " +
                   SizeText(kHostBlocksMin * options.block_bytes) + ", or lower block_bytes");
  }
  if (blocks + options.history.blocks_max > kNumberedBlocksMax) {
    return Invalid("host.bytes / block_bytes is " + CountText(blocks) +
                   " blocks and history.blocks_max is " + CountText(options.history.blocks_max) +
                   ": together they may be at most " + CountText(kNumberedBlocksMax) +
                   "; raise block_bytes, or lower the other two");
  }
  return Status::Ok();
}

}  // namespace

Status OutOfRange(const OptionFacts& facts, std::string_view value) {
  std::string message(facts.name);
  message.append(" is ").append(value).append(": it must ");
  message.append(facts.is_zero_allowed ? "be 0 or lie between " : "lie between ");
  message.append(facts.min < 0 ? std::to_string(facts.min)
                               : LimitText(facts, static_cast<std::uint64_t>(facts.min)));
  message.append(" and ").append(LimitText(facts, facts.max));
  if (!facts.remedy.empty()) {
    message.append("; ").append(facts.remedy);
  }
  return Invalid(std::move(message));
}

std::string_view NameOf(HugePages pages) {
  for (const NamedPages& named : kHugePages) {
    if (named.pages == pages) {
      return named.name;
    }
  }
  return {};
}

bool ReadHugePages(std::string_view name, HugePages& pages) {
  for (const NamedPages& named : kHugePages) {
    if (named.name == name) {
      pages = named.pages;
      return true;
    }
  }
  return false;
}

std::string_view HugePagesNames() {
  return "none, transparent or reserved";
}

}  // namespace kvferry::engine

namespace kvferry {

Status EngineOptions::Validate() const {
  engine::RangeChecker checker;
  engine::VisitOptions(*this, checker);
  KVFERRY_RETURN_IF_ERROR(checker.first());
  return engine::CheckTogether(*this);
}

std::string ToString(const EngineOptions& options) {
  std::string text;
  engine::VisitOptions(options, [&](const engine::OptionFacts& facts, const auto& value) {
    text.append(facts.name).append(" = ").append(engine::ValueText()(value)).append("\n");
  });
  return text;
}

}  // namespace kvferry
