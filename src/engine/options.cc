// Checks and text form of engine options.
#include "kvferry/options.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kvferry/policy.h"

#include "engine/count_text.h"
#include "engine/option_table.h"
#include "tiers/nvme/store_layout.h"
#include "tiers/nvme/superblock.h"

namespace kvferry::engine {
namespace {

template <Choice Field>
struct Named {
  std::string_view name;
  Field value;
};
constexpr std::array<Named<HugePages>, 3> kHugePages = {{{"none", HugePages::kNone},
                                                         {"transparent", HugePages::kTransparent},
                                                         {"reserved", HugePages::kReserved}}};
constexpr std::array<Named<HbmMode>, 2> kHbmModes = {
    {{"off", HbmMode::kOff}, {"attached", HbmMode::kAttached}}};
constexpr std::array<Named<NvmeIo>, 3> kNvmeIo = {
    {{"auto", NvmeIo::kAuto}, {"io_uring", NvmeIo::kUring}, {"threads", NvmeIo::kThreads}}};

template <Choice Field>
std::string_view NameIn(std::span<const Named<Field>> table, Field value) {
  for (const Named<Field>& named : table) {
    if (named.value == value) {
      return named.name;
    }
  }
  return {};
}

template <Choice Field>
bool ReadFrom(std::span<const Named<Field>> table, std::string_view name, Field& value) {
  for (const Named<Field>& named : table) {
    if (named.name == name) {
      value = named.value;
      return true;
    }
  }
  return false;
}

// A printed list goes on in the next line before it has so many bytes, so that it reads back: a
// file's lines have at most 1 KiB. A path fits one if each of its characters takes two.
constexpr std::size_t kListLineBytes = 1000;
constexpr std::size_t kPathBytesMax = 480;

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
  template <Choice Field>
  void operator()(const OptionFacts& facts, Field value) {
    if (NameOf(value).empty()) {
      Keep(Invalid(std::string(facts.name) + " is " + std::to_string(static_cast<unsigned>(value)) +
                   ": it must be " + std::string(NamesLike(value))));
    }
  }
  void operator()(const OptionFacts&, const std::vector<std::string>&) {}  // In CheckNvme.
  void operator()(const OptionFacts& facts, const std::string& policy) {
    if (facts.unit == OptionUnit::kPath) {
      return;  // In CheckNvme and CheckHbm.
    }
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
  template <Choice Field>
  std::string operator()(Field value) const {
    return Quoted(NameOf(value));
  }
  std::string operator()(const std::string& text) const { return Quoted(text); }
  std::string operator()(const std::vector<std::string>& texts) const {
    std::string list = "[";
    std::size_t line_begin = 0;
    for (const std::string& text : texts) {
      const std::string quoted = Quoted(text);
      if (list.size() - line_begin + quoted.size() > kListLineBytes) {
        line_begin = list.size() + 1;
        list.append(",\n ");
      } else {
        list.append(list.size() > 1 ? ", " : "");
      }
      list.append(quoted);
    }
    return list.append("]");
  }
};

bool IsPathCharacter(char c) {
  return c >= 0x20 && c <= 0x7e && c != '?';
}

// Whether a file can name it and a message can show it; the file's reader puts '?' for what is not
// ASCII.
Status CheckPath(const std::string& name, const std::string& path) {
  if (path.empty()) {
    return Invalid(name + " is empty: name a folder or a raw device");
  }
  if (path.size() > kPathBytesMax) {
    return Invalid(name + " has " + CountText(path.size()) + " bytes: it may have at most " +
                   CountText(kPathBytesMax));
  }
  if (!std::all_of(path.begin(), path.end(), IsPathCharacter)) {
    std::string shown = path;
    std::replace_if(
        shown.begin(), shown.end(), [](char c) { return !IsPathCharacter(c); }, '?');
    return Invalid(name + " is " + Quoted(shown) +
                   ": it must be of printable ASCII characters other than '?'; rename it, or "
                   "bind-mount it (mount --bind) at such a name");
  }
  return Status::Ok();
}

// The same for "/a", "/a/" and "/b/../a"; links are not followed.
std::string PlainPath(const std::string& path) {
  std::string plain = std::filesystem::path(path).lexically_normal().string();
  if (plain.size() > 1 && plain.back() == '/') {
    plain.pop_back();
  }
  return plain;
}

Status CheckNvmePaths(const NvmeTierOptions& nvme) {
  if (nvme.paths.size() > tiers::kDriveCountMax) {
    return Invalid("nvme.paths has " + CountText(nvme.paths.size()) + " drives: it may have " +
                   CountText(tiers::kDriveCountMax));
  }
  std::vector<std::string> plain;
  for (std::size_t i = 0; i < nvme.paths.size(); ++i) {
    const std::string name = "nvme.paths[" + std::to_string(i) + "]";
    KVFERRY_RETURN_IF_ERROR(CheckPath(name, nvme.paths[i]));
    const auto found = std::find(plain.begin(), plain.end(), PlainPath(nvme.paths[i]));
    if (found != plain.end()) {
      return Invalid(name + " is " + Quoted(nvme.paths[i]) + ", which is nvme.paths[" +
                     std::to_string(found - plain.begin()) +
                     "] as well: name each drive once, and one folder a drive");
    }
    plain.push_back(PlainPath(nvme.paths[i]));
  }
  if (nvme.manifest_path.empty()) {
    return Status::Ok();
  }
  KVFERRY_RETURN_IF_ERROR(CheckPath("nvme.manifest_path", nvme.manifest_path));
  if (std::find(plain.begin(), plain.end(), PlainPath(nvme.manifest_path)) != plain.end()) {
    return Invalid("nvme.manifest_path is " + Quoted(nvme.manifest_path) +
                   ", which is a drive's path: the manifest needs a folder of its own, such as " +
                   Quoted(PlainPath(nvme.manifest_path) + "/manifest"));
  }
  return Status::Ok();
}

Status CheckNvmeSegments(const NvmeTierOptions& nvme, std::uint64_t block_bytes) {
  if (nvme.segment_bytes % tiers::kSegmentBytesUnit != 0) {
    return Invalid("nvme.segment_bytes is " + SizeText(nvme.segment_bytes) +
                   ": it must be of whole MiB, such as " +
                   SizeText(AlignUp(nvme.segment_bytes, tiers::kSegmentBytesUnit)));
  }
  const std::uint64_t least_bytes = tiers::SegmentBytesFor(block_bytes);
  if (nvme.segment_bytes != 0 && nvme.segment_bytes < least_bytes) {
    return Invalid("nvme.segment_bytes is " + SizeText(nvme.segment_bytes) +
                   " and block_bytes is " + SizeText(block_bytes) +
                   ": a segment must hold four blocks; raise nvme.segment_bytes to " +
                   SizeText(least_bytes) + ", or lower block_bytes");
  }
  const std::uint64_t segment_bytes = std::max(nvme.segment_bytes, least_bytes);
  const std::uint64_t drive_bytes =
      tiers::kSegmentsAtBytes + tiers::kSegmentCountMin * segment_bytes;
  if (tiers::DataBytesOf(nvme.capacity_bytes) / nvme.paths.size() < drive_bytes) {
    return Invalid("nvme.capacity_bytes is " + SizeText(nvme.capacity_bytes) +
                   ": beside the manifest it must hold two segments of " + SizeText(segment_bytes) +
                   " on each of " + CountText(nvme.paths.size()) +
                   " drives; raise nvme.capacity_bytes to " +
                   SizeText(tiers::CapacityFor(nvme.paths.size() * drive_bytes)) +
                   (nvme.segment_bytes > least_bytes ? ", or lower nvme.segment_bytes"
                                                     : ", or lower block_bytes"));
  }
  return Status::Ok();
}

Status CheckNvme(const NvmeTierOptions& nvme, std::uint64_t block_bytes) {
  KVFERRY_RETURN_IF_ERROR(CheckNvmePaths(nvme));
  if (!nvme.paths.empty()) {
    if (nvme.capacity_bytes == 0) {
      return Invalid(
          "nvme.capacity_bytes is 0 and nvme.paths has drives: say what the tier's files may take "
          "together");
    }
    return CheckNvmeSegments(nvme, block_bytes);
  }
  if (nvme.capacity_bytes != 0 || !nvme.manifest_path.empty()) {
    return Invalid(
        std::string(nvme.capacity_bytes != 0 ? "nvme.capacity_bytes" : "nvme.manifest_path") +
        " is given and nvme.paths is empty: name a folder or a raw device a drive, or leave both "
        "out");
  }
  return Status::Ok();
}

Status CheckHbm(const HbmTierOptions& hbm) {
  if (hbm.runtime_path.empty()) {
    return Status::Ok();
  }
  KVFERRY_RETURN_IF_ERROR(CheckPath("hbm.runtime_path", hbm.runtime_path));
  return hbm.mode != HbmMode::kOff
             ? Status::Ok()
             : Invalid(
                   "hbm.runtime_path is given and hbm.mode is \"off\": set hbm.mode to "
                   "\"attached\", or leave both out");
}

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
  KVFERRY_RETURN_IF_ERROR(CheckHbm(options.hbm));
  return CheckNvme(options.nvme, options.block_bytes);
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

std::string_view NameOf(HugePages value) {
  return NameIn<HugePages>(kHugePages, value);
}
std::string_view NameOf(HbmMode value) {
  return NameIn<HbmMode>(kHbmModes, value);
}
std::string_view NameOf(NvmeIo value) {
  return NameIn<NvmeIo>(kNvmeIo, value);
}

bool ReadChoice(std::string_view name, HugePages& value) {
  return ReadFrom<HugePages>(kHugePages, name, value);
}
bool ReadChoice(std::string_view name, HbmMode& value) {
  return ReadFrom<HbmMode>(kHbmModes, name, value);
}
bool ReadChoice(std::string_view name, NvmeIo& value) {
  return ReadFrom<NvmeIo>(kNvmeIo, name, value);
}

std::string_view NamesLike(HugePages /*any*/) {
  return "none, transparent or reserved";
}
std::string_view NamesLike(HbmMode /*any*/) {
  return "off or attached";
}
std::string_view NamesLike(NvmeIo /*any*/) {
  return "auto, io_uring or threads";
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
