// Numbers, and the values that keep them.
#include "engine/durable_namespaces.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace kvferry::engine {
namespace {

constexpr std::string_view kPrefix = tiers::kNamespacePrefix;
// The value of the highest number that was ever given: the rows of one that was erased since may
// still be there, and must not become blocks of another namespace.
constexpr std::string_view kHighest = "namespaces";
constexpr std::size_t kHexDigits = 2 * sizeof(NamespaceId::bytes);

std::string NameOf(std::uint16_t number) {
  return std::string(kPrefix) + std::to_string(number);
}

template <class Number>
bool TakeNumber(std::string_view& text, int base, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc()) {
    return false;
  }
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

struct Value {
  NamespaceId id;
  std::uint32_t block_bytes = 0;
  std::uint32_t tenant = 0;
};

// "<id in hex> <block_bytes> <tenant>".
std::string Write(const Value& value) {
  return ToHex(value.id) + ' ' + std::to_string(value.block_bytes) + ' ' +
         std::to_string(value.tenant);
}

std::optional<Value> Read(std::string_view text) {
  Value value;
  if (text.size() <= kHexDigits) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < value.id.bytes.size(); ++i) {
    std::string_view digits = text.substr(2 * i, 2);
    std::uint8_t byte = 0;
    if (!TakeNumber(digits, 16, byte) || !digits.empty()) {
      return std::nullopt;
    }
    value.id.bytes[i] = std::byte{byte};
  }
  text.remove_prefix(kHexDigits);
  const auto take = [&](std::uint32_t& number) {
    if (text.empty() || text.front() != ' ') {
      return false;
    }
    text.remove_prefix(1);
    return TakeNumber(text, 10, number);
  };
  if (!take(value.block_bytes) || !take(value.tenant) || !text.empty()) {
    return std::nullopt;
  }
  return value;
}

}  // namespace

DurableNamespaces::DurableNamespaces(NamespaceTable& namespaces)
    : namespaces_(namespaces), current_(namespaces.indexes_max()) {}

void DurableNamespaces::Know(std::uint16_t number, Meaning meaning) {
  EntryOf(number) = {meaning, State::kKnown};
  current_[meaning.index] = std::max(current_[meaning.index], number);
}

DurableNamespaces::Entry& DurableNamespaces::EntryOf(std::uint16_t number) {
  if (entries_.size() <= number) {
    entries_.resize(std::size_t{number} + 1);
  }
  if (number <= kNumberMax) {
    next_ = std::max(next_, number + 1U);
  }
  return entries_[number];
}

// What a store does not tell of is forgotten: numbers that were given before the tier went off, and
// did not become durable.
Status DurableNamespaces::Load(tiers::Manifest& manifest, tiers::GroupCommit& commit) {
  KVFERRY_ASSIGN_OR_RETURN(const std::vector<tiers::MetaValue> stored, manifest.ReadMeta(kPrefix));
  const std::vector<Entry> before = std::exchange(entries_, {});
  std::fill(current_.begin(), current_.end(), std::uint16_t{0});
  KVFERRY_ASSIGN_OR_RETURN(const std::vector<tiers::MetaValue> given, manifest.ReadMeta(kHighest));
  for (const auto& [name, text] : given) {
    std::string_view digits = text;
    std::uint16_t highest = 0;
    if (name == kHighest && TakeNumber(digits, 10, highest)) {
      next_ = std::max(next_, highest + 1U);
    }
  }
  for (const auto& [name, text] : stored) {
    std::string_view digits = std::string_view(name).substr(kPrefix.size());
    std::uint16_t number = 0;
    if (!TakeNumber(digits, 10, number) || !digits.empty() || number == 0) {
      continue;  // Not ours to interpret; its rows are not served.
    }
    const Entry known = number < before.size() ? before[number] : Entry{};
    if (known.state == State::kErased) {
      EntryOf(number) = known;
      commit.DeleteMeta(name);
    } else if (known.state == State::kKnown && IsStill(known.meaning, number, text)) {
      Know(number, known.meaning);
    } else if (const auto meaning = Interpret(number, text)) {
      Know(number, *meaning);
    } else if (number > kNumberMax) {
      commit.DeleteMeta(name);  // Such blocks may have been erased.
    }
  }
  return Status::Ok();
}

// Only numbers of lost blocks may be given again, when a manifest is rebuilt another time.
bool DurableNamespaces::IsStill(const Meaning& meaning,
                                std::uint16_t number,
                                std::string_view text) const {
  return number <= kNumberMax ||
         (namespaces_.IsLost(meaning.index) &&
          tiers::ReadLostValue(text) == namespaces_.block_bytes(NamespaceHandle{meaning.index}));
}

std::optional<DurableNamespaces::Meaning> DurableNamespaces::Interpret(std::uint16_t number,
                                                                       std::string_view text) {
  if (number > kNumberMax) {
    const auto block_bytes = tiers::ReadLostValue(text);
    const auto lost = block_bytes ? namespaces_.AddLost(*block_bytes) : NamespaceHandle{};
    return block_bytes && lost.ok() ? std::optional(Meaning{lost->index, namespaces_.epoch(*lost)})
                                    : std::nullopt;
  }
  const std::optional<Value> value = Read(text);
  if (!value) {
    return std::nullopt;
  }
  const auto handle = namespaces_.Restore(value->id, value->block_bytes, value->tenant);
  return handle.ok() ? std::optional(Meaning{handle->index, namespaces_.epoch(*handle)})
                     : std::nullopt;
}

std::optional<std::uint16_t> DurableNamespaces::NumberOf(std::uint16_t index,
                                                         std::uint8_t epoch,
                                                         tiers::GroupCommit& commit) {
  const std::uint16_t current = current_[index];
  if (current != 0 && entries_[current].meaning.epoch == epoch) {
    return current;
  }
  if (next_ > kNumberMax || namespaces_.IsLost(index)) {
    return std::nullopt;
  }
  const auto number = static_cast<std::uint16_t>(next_);
  Know(number, {index, epoch});
  const NamespaceHandle in{index};
  commit.PutMeta(std::string(kHighest), std::to_string(number));
  commit.PutMeta(NameOf(number), Write({namespaces_.id(in), namespaces_.block_bytes(in),
                                        namespaces_.tenant_number(in)}));
  // Whoever finds a block of this epoch after a crash finds none of an earlier one.
  Forget(index, &commit);
  return number;
}

std::optional<DurableNamespaces::Meaning> DurableNamespaces::Find(std::uint16_t number) const {
  if (number >= entries_.size() || entries_[number].state != State::kKnown) {
    return std::nullopt;
  }
  return entries_[number].meaning;
}

void DurableNamespaces::Forget(std::uint16_t index, tiers::GroupCommit* commit) {
  const std::uint8_t epoch = namespaces_.epoch(NamespaceHandle{index});
  for (std::size_t number = 1; number < entries_.size(); ++number) {
    Entry& entry = entries_[number];
    // Lost blocks are erased with any namespace that may be theirs.
    const bool is_stale =
        entry.meaning.index == index
            ? entry.meaning.epoch != epoch
            : namespaces_.IsLost(entry.meaning.index) &&
                  entry.meaning.epoch != namespaces_.epoch(NamespaceHandle{entry.meaning.index});
    if (entry.state != State::kKnown || !is_stale) {
      continue;
    }
    entry.state = State::kErased;
    if (commit != nullptr) {
      commit->DeleteMeta(NameOf(static_cast<std::uint16_t>(number)));
    }
  }
  if (current_[index] != 0 && entries_[current_[index]].state != State::kKnown) {
    current_[index] = 0;
  }
}

}  // namespace kvferry::engine
