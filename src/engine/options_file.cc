// Engine options from TOML; toml++'s only home.

// toml++ 3.3 asserts (and with NDEBUG lets clang assume) that a key begins like one, which garbled
// text does not; its next lines refuse that as they should.
#pragma push_macro("NDEBUG")
#undef NDEBUG
// NOLINTNEXTLINE(readability-identifier-naming): the name is toml++'s.
#define TOML_ASSERT(condition) static_assert(true)
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvferry/options.h"

#include "base/bytes.h"
#include "engine/option_table.h"

namespace kvferry {
namespace {

using engine::OptionFacts;
using engine::OptionUnit;

// No honest file is larger. Long lines and deep values could nest deeper than a stack: each dot of
// a key is a table in a table.
constexpr std::size_t kFileBytesMax = kMiB;
constexpr std::size_t kLineBytesMax = 1024;

Status Invalid(std::string message) {
  return Status::Error(StatusCode::kInvalidArgument, std::move(message));
}

std::string At(std::string_view origin, std::size_t line) {
  return std::string(origin).append(":").append(std::to_string(line));
}

Status CheckSize(std::string_view toml, std::string_view origin) {
  if (toml.size() > kFileBytesMax) {
    return Invalid(std::string(origin) + ": it has more than " + FormatBytes(kFileBytesMax) +
                   ", which no options have; is it another file?");
  }
  std::size_t line = 1;
  while (!toml.empty()) {
    const std::size_t size = std::min(toml.find('\n'), toml.size());
    if (size > kLineBytesMax) {
      return Invalid(At(origin, line) + ": the line has " + std::to_string(size) +
                     " bytes; write at most " + std::to_string(kLineBytesMax));
    }
    toml.remove_prefix(std::min(size + 1, toml.size()));
    ++line;
  }
  return Status::Ok();
}

// The text with a '?' for each byte that is not ASCII. No name and no value has any (a path with
// '?' is refused for that), so they matter in comments only; and toml++ 3.3 asks of characters such
// as U+00E9 whether they are blanks in a way that has no defined answer.
std::string WithAsciiOnly(std::string_view toml) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  std::string text(toml.substr(toml.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0x80U) != 0; },
      '?');
  return text;
}

// Insertions, deletions and replacements between two texts.
std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) {
    row[j] = j;
  }
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
    }
  }
  return row[b.size()];
}

bool IsOption(std::string_view key) {
  bool is_option = false;
  const EngineOptions options;
  engine::VisitOptions(options, [&](const OptionFacts& facts, const auto&) {
    is_option = is_option || facts.name == key;
  });
  return is_option;
}

// Whether options are in a table of that name.
bool IsSection(std::string_view name) {
  bool is_section = false;
  const EngineOptions options;
  engine::VisitOptions(options, [&](const OptionFacts& facts, const auto&) {
    is_section = is_section ||
                 facts.name.substr(0, facts.name.find('.') + 1) == std::string(name).append(".");
  });
  return is_section;
}

// The option whose name, or whose name without its table, is the least work to get from `key`;
// empty where that would be more than a slip or a few.
std::string_view NearestOption(std::string_view key) {
  std::string_view nearest;
  // Work that would write most of a name anew finds one for any key.
  std::size_t least = 2 + key.size() / 3;
  const EngineOptions options;
  engine::VisitOptions(options, [&](const OptionFacts& facts, const auto&) {
    const std::string_view last = facts.name.substr(facts.name.rfind('.') + 1);
    const std::size_t work = std::min(EditDistance(key, facts.name), EditDistance(key, last) + 1);
    if (work < least) {
      least = work;
      nearest = facts.name;
    }
  });
  return nearest;
}

// Text as it may be shown: nobody's terminal is steered by a file.
std::string Shown(std::string_view text) {
  std::string shown(text);
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  return shown;
}

// The same of a key or a value, which may have nearly a line's length.
std::string ShownBeginning(std::string_view text) {
  constexpr std::size_t kShownMax = 64;
  constexpr std::string_view kCut = "...";
  return text.size() <= kShownMax ? Shown(text)
                                  : Shown(text.substr(0, kShownMax - kCut.size())).append(kCut);
}

Status NotAnOption(const std::string& name, const std::string& place) {
  const std::string_view nearest = NearestOption(name);
  std::string message = std::string(place).append(": '").append(ShownBeginning(name));
  message.append("' is no option; ");
  if (nearest.empty()) {
    return Invalid(message.append("docs/options.md has all of them"));
  }
  return Invalid(message.append("did you mean '").append(nearest).append("'?"));
}

Status NotATable(const std::string& name, const std::string& place) {
  return Invalid(std::string(place)
                     .append(": '")
                     .append(name)
                     .append("' holds options: write [")
                     .append(name)
                     .append("], and them below it"));
}

// kInvalidArgument for the first key that is no option. Tables nest at most as deep as CheckSize
// and toml++ let them.
Status RefuseUnknown(const toml::table& table, const std::string& path, std::string_view origin) {
  for (const auto& [key, node] : table) {
    std::string name = path;
    name.append(path.empty() ? "" : ".").append(key.str());
    if (IsOption(name)) {
      continue;
    }
    const toml::table* inner = node.as_table();
    const bool is_section = IsSection(name);
    const std::string place = At(origin, key.source().begin.line);
    if (inner == nullptr) {
      return is_section ? NotATable(name, place) : NotAnOption(name, place);
    }
    if (inner->empty() && !is_section) {
      return NotAnOption(name, place);
    }
    KVFERRY_RETURN_IF_ERROR(RefuseUnknown(*inner, name, origin));
  }
  return Status::Ok();
}

const toml::node* Find(const toml::table& root, std::string_view name) {
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos) {
    return root.get(name);
  }
  const toml::node* section = root.get(name.substr(0, dot));
  const toml::table* table = section == nullptr ? nullptr : section->as_table();
  return table == nullptr ? nullptr : table->get(name.substr(dot + 1));
}

// Where `name` stands in `text` as a whole: "seed", but not in "seeds" or "a_seed".
std::size_t FindName(std::string_view text, std::string_view name) {
  const auto is_of_name = [&](std::size_t at) {
    return at < text.size() && ((text[at] >= 'a' && text[at] <= 'z') || text[at] == '_');
  };
  std::size_t at = text.find(name);
  while (
      at != std::string_view::npos &&
      (is_of_name(at + name.size()) || (at > 0 && (is_of_name(at - 1) || text[at - 1] == '.')))) {
    at = text.find(name, at + 1);
  }
  return at;
}

// The item that "[3]" at the beginning of `text` names; `list` where there is none.
const toml::node& ItemOf(const toml::node& list, std::string_view text) {
  std::size_t index = 0;
  if (!text.starts_with('[') ||
      std::from_chars(text.data() + 1, text.data() + text.size(), index).ec != std::errc()) {
    return list;
  }
  const toml::array* const items = list.as_array();
  return items != nullptr && index < items->size() ? (*items)[index] : list;
}

// Where to look for what Validate() refuses: at the first of the options that it names and the file
// sets. Defaults have no line, but each alone is in order.
std::string PlaceOf(std::string_view refusal, const toml::table& root, std::string_view origin) {
  std::size_t first = std::string_view::npos;
  std::string place(origin);
  const EngineOptions options;
  engine::VisitOptions(options, [&](const OptionFacts& facts, const auto&) {
    const toml::node* const node = Find(root, facts.name);
    const std::size_t at = node == nullptr ? first : FindName(refusal, facts.name);
    if (at < first) {
      first = at;
      const std::string_view behind = refusal.substr(at + facts.name.size());
      place = At(origin, ItemOf(*node, behind).source().begin.line);
    }
  });
  return place;
}

std::optional<std::uint64_t> ParseWhole(std::string_view text) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  return parsed.ec == std::errc() && parsed.ptr == end ? std::optional(value) : std::nullopt;
}

// Sets the fields that a file names, and keeps the first error.
class FileReader {
 public:
  FileReader(const toml::table& root, std::string_view origin) : root_(root), origin_(origin) {}

  template <class Field>
  void operator()(const OptionFacts& facts, Field& field) {
    const toml::node* node = Find(root_, facts.name);
    if (node != nullptr && first_.ok()) {
      first_ = Read(facts, *node, field).WithContext(At(origin_, node->source().begin.line));
    }
  }

  const Status& first() const { return first_; }

 private:
  template <std::integral Number>
  static Status Set(const OptionFacts& facts, Number& field, auto value) {
    KVFERRY_RETURN_IF_ERROR(engine::CheckRange(facts, value));
    field = Narrow<Number>(value);
    return Status::Ok();
  }

  static Status WrongType(const OptionFacts& facts, std::string_view wanted) {
    return Invalid(std::string(facts.name) + " must be " + std::string(wanted));
  }

  template <std::integral Number>
  static Status Read(const OptionFacts& facts, const toml::node& node, Number& field) {
    if (const auto* integer = node.as_integer()) {
      return Set(facts, field, integer->get());
    }
    const auto* text = node.as_string();
    if (facts.unit == OptionUnit::kBytes) {
      if (text == nullptr) {
        return WrongType(facts, "a size, such as 4096 or \"64GiB\"");
      }
      const auto bytes = ParseBytes(ShownBeginning(text->get()));
      return bytes.has_value() ? Set(facts, field, *bytes) : bytes.status().WithContext(facts.name);
    }
    const auto whole =
        facts.unit == OptionUnit::kSeed && text != nullptr ? ParseWhole(text->get()) : std::nullopt;
    return whole ? Set(facts, field, *whole) : WrongType(facts, "a whole number");
  }

  static Status Read(const OptionFacts& facts, const toml::node& node, bool& field) {
    const auto* boolean = node.as_boolean();
    if (boolean == nullptr) {
      return WrongType(facts, "true or false");
    }
    field = boolean->get();
    return Status::Ok();
  }

  template <engine::Choice Field>
  static Status Read(const OptionFacts& facts, const toml::node& node, Field& field) {
    const auto* text = node.as_string();
    if (text == nullptr) {
      return WrongType(facts, std::string(engine::NamesLike(field)).append(", in quotes"));
    }
    if (!engine::ReadChoice(text->get(), field)) {
      return Invalid(std::string(facts.name)
                         .append(" is \"")
                         .append(ShownBeginning(text->get()))
                         .append("\": it must be ")
                         .append(engine::NamesLike(field)));
    }
    return Status::Ok();
  }

  static Status Read(const OptionFacts& facts, const toml::node& node, std::string& field) {
    const auto* text = node.as_string();
    if (text == nullptr) {
      return WrongType(facts, "text, in quotes");
    }
    field = facts.unit == OptionUnit::kPath ? text->get() : ShownBeginning(text->get());
    return Status::Ok();
  }

  static Status Read(const OptionFacts& facts,
                     const toml::node& node,
                     std::vector<std::string>& field) {
    const toml::array* array = node.as_array();
    if (array == nullptr) {
      return WrongType(facts, "a list of texts, such as [\"/mnt/a\", \"/mnt/b\"]");
    }
    field.clear();
    for (const toml::node& item : *array) {
      KVFERRY_RETURN_IF_ERROR(Read(facts, item, field.emplace_back()));
    }
    return Status::Ok();
  }

  const toml::table& root_;
  std::string_view origin_;
  Status first_;
};

}  // namespace

Result<EngineOptions> ParseEngineOptions(std::string_view toml, std::string_view origin) {
  KVFERRY_RETURN_IF_ERROR(CheckSize(toml, origin));
  const std::string text = WithAsciiOnly(toml);
  const toml::parse_result parsed = toml::parse(std::string_view(text), origin);
  if (parsed.failed()) {
    return Invalid(At(origin, parsed.error().source().begin.line) +
                   ": it is not TOML: " + Shown(parsed.error().description()));
  }
  const toml::table& root = parsed.table();
  KVFERRY_RETURN_IF_ERROR(RefuseUnknown(root, "", origin));
  EngineOptions options;
  FileReader reader(root, origin);
  engine::VisitOptions(options, reader);
  KVFERRY_RETURN_IF_ERROR(reader.first());
  if (const Status valid = options.Validate(); !valid.ok()) {
    return valid.WithContext(PlaceOf(valid.message(), root, origin));
  }
  return options;
}

Result<EngineOptions> ReadEngineOptions(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text;
  if (file) {
    text.resize(kFileBytesMax + 1);
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(file.gcount()));
  }
  if (file.bad() || (!file && !file.eof())) {
    const int error = errno;
    return Status::Error(StatusCode::kIoError, "cannot read options from " + path, error);
  }
  return ParseEngineOptions(text, path);
}

}  // namespace kvferry
