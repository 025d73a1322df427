// The report as lines for people and as JSON for programs. Keys of blocks are in neither.
#include "fsck_report.h"

#include <algorithm>
#include <array>

#include "base/bytes.h"

#include <nlohmann/json.hpp>

namespace kvferry::tool {
namespace {

using tiers::DamageKind;
using tiers::StoreDamage;

// Of damages, in lines; all are in the JSON.
constexpr std::size_t kLinesMax = 100;

constexpr std::array kKinds = {DamageKind::kPayload, DamageKind::kUnreadable, DamageKind::kRow,
                               DamageKind::kOrphan,  DamageKind::kOverlap,    DamageKind::kHeader,
                               DamageKind::kFooter};
static_assert(kKinds.size() == tiers::kDamageKinds);

void AddLine(std::string& text, std::string name, const std::string& value) {
  name.resize(std::max<std::size_t>(name.size() + 1, 12), ' ');
  text.append(name).append(value).append(1, '\n');
}

std::string RateOf(const FsckReport& report) {
  if (report.seconds <= 0) {
    return "";
  }
  const double rate = static_cast<double>(report.findings.block_bytes) / report.seconds;
  return ", " + FormatBytes(static_cast<std::uint64_t>(rate)) + " a second";
}

std::string DescribeDamages(const tiers::StoreFindings& findings) {
  std::string kinds;
  for (const DamageKind kind : kKinds) {
    if (findings.count(kind) > 0) {
      kinds.append(kinds.empty() ? "" : ", ").append(tiers::ToString(kind));
      kinds.append(1, ' ').append(std::to_string(findings.count(kind)));
    }
  }
  return kinds.empty() ? "none" : kinds;
}

void AddRepair(const FsckReport& report, std::string& text) {
  if (!report.repair) {
    AddLine(text, "repair", "nothing was changed; --repair deletes the rows of damaged blocks");
    return;
  }
  std::string quarantined;
  for (const std::uint32_t segment : report.repair->quarantined) {
    quarantined.append(quarantined.empty() ? "; out of use: segment " : ", ")
        .append(std::to_string(segment));
  }
  AddLine(text, "repair",
          "deleted " + Count(report.repair->deleted_rows, "row") + quarantined +
              (report.superblocks.empty() ? "" : "; superblocks were written anew"));
}

}  // namespace

std::string ToText(const FsckReport& report) {
  const tiers::StoreFindings& findings = report.findings;
  std::string text;
  AddLine(text, "store", report.store);
  AddLine(text, "checked",
          Count(findings.segments, "header") + ", " + Count(findings.footers, "footer") + ", " +
              Count(findings.blocks, "block") + " of " + FormatBytes(findings.block_bytes) +
              RateOf(report));
  if (findings.encoded_blocks > 0) {
    AddLine(text, "unchecked",
            Count(findings.encoded_blocks, "block") +
                ", encoded: their checksums are of what "
                "they decode to");
  }
  AddLine(text, "damage", DescribeDamages(findings));
  for (const std::string& line : report.superblocks) {
    AddLine(text, "superblock", line);
  }
  if (report.rebuild) {
    AddLine(text, "manifest",
            "was lost, and made anew from the footers of " +
                Count(report.rebuild->segments, "segment") + ", " +
                Count(report.rebuild->blocks, "block"));
  }
  if (findings.refused_rows > 0) {
    AddLine(text, "manifest",
            Count(findings.refused_rows, "row") +
                " cannot be understood: damaged, or of a later "
                "version");
  }
  for (std::size_t i = 0; i < std::min(kLinesMax, findings.damages.size()); ++i) {
    const StoreDamage& damage = findings.damages[i];
    AddLine(text, std::string(tiers::ToString(damage.kind)),
            "segment " + std::to_string(damage.place.life.segment) + ", generation " +
                std::to_string(damage.place.life.generation) + ", page " +
                std::to_string(damage.place.page) + ": " + damage.how);
  }
  if (findings.damages.size() > kLinesMax) {
    AddLine(
        text, "...",
        std::to_string(findings.damages.size() - kLinesMax) + " more are in the output of --json");
  }
  if (report.has_damage()) {
    AddRepair(report, text);
  }
  return text;
}

std::string ToJson(const FsckReport& report) {
  const tiers::StoreFindings& findings = report.findings;
  nlohmann::ordered_json json;
  json["store"] = report.store;
  json["is_sound"] = !report.has_damage();
  json["headers"] = findings.segments;
  json["footers"] = findings.footers;
  json["blocks"] = findings.blocks;
  json["block_bytes"] = findings.block_bytes;
  json["unchecked_blocks"] = findings.encoded_blocks;
  json["seconds"] = report.seconds;
  json["superblocks"] = report.superblocks;
  json["refused_rows"] = findings.refused_rows;
  for (const DamageKind kind : kKinds) {
    json["damage_counts"][std::string(tiers::ToString(kind))] = findings.count(kind);
  }
  json["damages"] = nlohmann::ordered_json::array();
  for (const StoreDamage& damage : findings.damages) {
    json["damages"].push_back({{"kind", tiers::ToString(damage.kind)},
                               {"segment", damage.place.life.segment},
                               {"generation", damage.place.life.generation},
                               {"page", damage.place.page},
                               {"how", damage.how}});
  }
  json["rebuild"] = nullptr;
  if (report.rebuild) {
    json["rebuild"] = {{"segments", report.rebuild->segments},
                       {"blocks", report.rebuild->blocks},
                       {"left_out", report.rebuild->left_out}};
  }
  json["repair"] = nullptr;
  if (report.repair) {
    json["repair"] = {{"deleted_rows", report.repair->deleted_rows},
                      {"quarantined", report.repair->quarantined}};
  }
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace kvferry::tool
