// The numbers of an engine as tables for people.
#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>

#include "kvferry/stats.h"

#include "base/bytes.h"
#include "engine/count_text.h"

namespace kvferry {
namespace {

using engine::CountText;

constexpr std::size_t kLabelColumns = 22;
constexpr std::size_t kCellColumns = 13;

// The label to the left, the cells to the right of columns of one width.
void AddRow(std::string& table, std::string label, std::initializer_list<std::string_view> cells) {
  label.resize(std::max(label.size(), kLabelColumns), ' ');
  table.append(label);
  for (const std::string_view cell : cells) {
    table.append(kCellColumns - std::min(kCellColumns - 1, cell.size()), ' ').append(cell);
  }
  table.push_back('\n');
}

void AddCount(std::string& table, std::string_view label, std::uint64_t count) {
  AddRow(table, std::string(label), {CountText(count)});
}

// What follows from the row above, and only where there is any.
void AddPart(std::string& table, std::string_view label, std::uint64_t count) {
  if (count != 0) {
    AddRow(table, "  " + std::string(label), {CountText(count)});
  }
}

void AddCauses(std::string& table,
               std::string_view what,
               const std::array<std::uint64_t, kMissReasonCount>& counts) {
  for (std::size_t number = 0; number < counts.size(); ++number) {
    AddPart(table, std::string(what).append(": ").append(ToString(static_cast<MissReason>(number))),
            counts[number]);
  }
}

void AddTier(std::string& table, std::string_view label, const TierStats& tier) {
  AddRow(table, std::string(label),
         {FormatBytes(tier.bytes_total), FormatBytes(tier.bytes_resident),
          FormatBytes(tier.bytes_filling), FormatBytes(tier.bytes_draining),
          FormatBytes(tier.bytes_free), CountText(tier.blocks_resident),
          CountText(tier.blocks_held), CountText(tier.evictions)});
}

void AddArrow(std::string& table, std::string_view label, const ArrowStats& arrow) {
  AddRow(table, std::string(label),
         {FormatBytes(arrow.bytes), FormatBytes(arrow.bytes_in_flight), CountText(arrow.blocks),
          CountText(arrow.failures)});
}

}  // namespace

std::string ToString(const EngineStats& stats) {
  std::string table;
  AddRow(table, "tier",
         {"total", "resident", "filling", "draining", "free", "blocks", "held", "evictions"});
  AddTier(table, "host", stats.host);
  AddTier(table, "NVMe", stats.nvme);
  if (!stats.nvme_store.off_reason.empty()) {
    table.append("the NVMe tier is off: ").append(stats.nvme_store.off_reason).push_back('\n');
  }
  if (!stats.nvme_store.commit_error.empty()) {
    table.append("the NVMe tier can record nothing: ")
        .append(stats.nvme_store.commit_error)
        .push_back('\n');
  }
  table.push_back('\n');
  AddRow(table, "arrow", {"moved", "in flight", "blocks", "failures"});
  if (stats.hbm.is_on || stats.offload_hbm_to_host.blocks + stats.onboard_host_to_hbm.blocks > 0) {
    AddArrow(table, "offload HBM to host", stats.offload_hbm_to_host);
    AddArrow(table, "onboard host to HBM", stats.onboard_host_to_hbm);
  }
  AddArrow(table, "offload host to NVMe", stats.offload_host_to_nvme);
  AddArrow(table, "onboard NVMe to host", stats.onboard_nvme_to_host);

  table.push_back('\n');
  AddCount(table, "blocks asked for", stats.lookups);
  AddPart(table, "hits in host", stats.hits_host);
  AddPart(table, "hits in NVMe", stats.hits_nvme);
  AddCauses(table, "missing", stats.misses);
  AddCount(table, "blocks put", stats.puts);
  AddPart(table, "stored", stats.puts_stored);
  AddPart(table, "were there", stats.puts_present);
  AddCauses(table, "refused", stats.puts_refused);
  AddCount(table, "requests started", stats.requests_started);
  AddPart(table, "ended", stats.requests_ended);
  AddPart(table, "deadlines missed", stats.deadlines_missed);
  AddPart(table, "cancelled", stats.cancelled);
  AddCount(table, "requests refused", stats.requests_refused);

  table.push_back('\n');
  AddCount(table, "offloads skipped", stats.offloads_skipped);
  AddCount(table, "coalesced reads", stats.coalesced_reads);
  AddCount(table, "prefetches used", stats.prefetches_used);
  AddCount(table, "prefetches wasted", stats.prefetches_wasted);
  AddCount(table, "failed checks", stats.failed_checks);
  AddRow(table, "index", {FormatBytes(stats.index_bytes)});
  AddRow(table, "history",
         {FormatBytes(stats.history_bytes), CountText(stats.history_blocks) + " blocks"});
  return table;
}

}  // namespace kvferry
