// Reads /proc/meminfo, finds the mounted control groups and walks up from the process's own.
#include "base/memory_limit.h"

#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"

namespace kvferry {
namespace {

constexpr int kGroupDepthMax = 64;  // Far above any nesting in use; the walk ends all the same.

// One hierarchy of control groups that can limit memory, as it is mounted here.
struct GroupMount {
  bool is_second_version = false;
  std::string top;    // The group that the mount point shows, "/" unless in a container.
  std::string point;  // Where.
};

std::vector<std::string> LinesOf(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    lines.push_back(line);
  }
  return lines;
}

std::vector<std::string> SplitAt(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream{std::string(text)};
  for (std::string part; std::getline(stream, part, separator);) {
    parts.push_back(part);
  }
  return parts;
}

bool Contains(const std::vector<std::string>& parts, std::string_view wanted) {
  for (const std::string& part : parts) {
    if (part == wanted) {
      return true;
    }
  }
  return false;
}

// The kernel writes a blank as \040 and so on.
std::string Unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned code = 0;
    if (text[i] == '\\' && i + 3 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 4, code, 8).ptr ==
            text.data() + i + 4) {
      plain.push_back(static_cast<char>(code));
      i += 3;
    } else {
      plain.push_back(text[i]);
    }
  }
  return plain;
}

std::optional<std::uint64_t> ParseNumber(std::string_view text) {
  std::uint64_t number = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), number).ec != std::errc()) {
    return std::nullopt;
  }
  return number;
}

// Of a line of mountinfo: numbers, root, mount point, options, optional fields, "-", type, source,
// options of the file system. Nothing for other file systems.
std::optional<GroupMount> ParseMount(const std::string& line) {
  constexpr std::string_view kSeparator = " - ";
  const std::size_t separator = line.find(kSeparator);
  if (separator == std::string::npos) {
    return std::nullopt;
  }
  const std::vector<std::string> before = SplitAt(line.substr(0, separator), ' ');
  const std::vector<std::string> after = SplitAt(line.substr(separator + kSeparator.size()), ' ');
  if (before.size() < 5 || after.size() < 3) {
    return std::nullopt;
  }
  const bool is_second = after[0] == "cgroup2";
  const bool is_first = after[0] == "cgroup" && Contains(SplitAt(after[2], ','), "memory");
  if (!is_first && !is_second) {
    return std::nullopt;
  }
  return GroupMount{is_second, Unescaped(before[3]), Unescaped(before[4])};
}

// The process's group in the hierarchy: "0::/a/b" in version 2, "4:cpu,memory:/a/b" in version 1.
std::optional<std::string> GroupOf(const std::vector<std::string>& lines, bool is_second_version) {
  for (const std::string& line : lines) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) {
      continue;
    }
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (is_second_version ? line.starts_with("0::")
                          : Contains(SplitAt(controllers, ','), "memory")) {
      return line.substr(second + 1);
    }
  }
  return std::nullopt;
}

// The group's path below the mount point: "" or "/a/b". A container may see its own group as the
// top of the mount while its /proc still names the whole path, or a path outside of it.
std::string BelowMount(const GroupMount& mount, std::string group) {
  if (mount.top != "/" && !mount.top.empty()) {
    if (group != mount.top && !group.starts_with(mount.top + "/")) {
      return "";
    }
    group.erase(0, mount.top.size());
  }
  return group == "/" || group.starts_with("/..") ? "" : group;
}

void LowerBy(const std::string& path, MemoryLimit& limit) {
  std::ifstream file(path);
  std::string text;
  if (!(file >> text)) {
    return;
  }
  // "max" and version 1's huge number mean no limit.
  const std::optional<std::uint64_t> bytes = ParseNumber(text);
  if (bytes && *bytes < limit.bytes) {
    limit = {*bytes, path};
  }
}

}  // namespace

Result<MemoryLimit> ReadMachineMemory(const std::string& root) {
  const std::string path = root + "/proc/meminfo";
  constexpr std::string_view kName = "MemTotal:";
  for (const std::string& line : LinesOf(path)) {
    if (!line.starts_with(kName)) {
      continue;
    }
    const std::size_t begin = line.find_first_not_of(' ', kName.size());
    if (begin != std::string::npos) {
      if (const auto kib = ParseNumber(std::string_view(line).substr(begin))) {
        return MemoryLimit{*kib * kKiB, path};
      }
    }
  }
  return Status::Error(StatusCode::kUnavailable,
                       "\"" + path +
                           "\" does not say how much memory there is; set the sizes of the "
                           "memory tiers in the options");
}

Result<MemoryLimit> ReadMemoryLimit(const std::string& root) {
  KVFERRY_ASSIGN_OR_RETURN(MemoryLimit limit, ReadMachineMemory(root));
  const std::vector<std::string> groups = LinesOf(root + "/proc/self/cgroup");
  for (const std::string& line : LinesOf(root + "/proc/self/mountinfo")) {
    const std::optional<GroupMount> mount = ParseMount(line);
    const std::optional<std::string> group =
        mount ? GroupOf(groups, mount->is_second_version) : std::nullopt;
    if (!group) {
      continue;
    }
    const char* name = mount->is_second_version ? "/memory.max" : "/memory.limit_in_bytes";
    std::string below = BelowMount(*mount, *group);
    for (int depth = 0; depth < kGroupDepthMax; ++depth) {
      std::string path = root;
      LowerBy(path.append(mount->point).append(below).append(name), limit);
      if (below.empty()) {
        break;
      }
      below.erase(below.find_last_of('/'));
    }
  }
  return limit;
}

}  // namespace kvferry
