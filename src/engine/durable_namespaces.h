// DurableNamespaces: the numbers under which the NVMe tier's rows name namespaces, over restarts.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "kvferry/requests.h"
#include "kvferry/status.h"

#include "engine/namespace_table.h"
#include "tiers/nvme/group_commit.h"
#include "tiers/nvme/manifest.h"
#include "tiers/nvme/manifest_rebuild.h"

namespace kvferry::engine {

// A number stands for a namespace between two of its erasures, and no store gives it twice. So the
// erasure of any number of blocks is durable with one deletion: rows whose number nobody knows are
// not blocks any more. The manifest keeps each as a value "namespace/<number>".
//
// A manifest that was rebuilt knows no namespaces: it has numbers of lost blocks
// (tiers/nvme/manifest_rebuild.h), which stand for the table's namespaces of such.
//
// Outlives the tier, which may go off and come back. For the mover thread.
class DurableNamespaces {
 public:
  static constexpr std::uint16_t kNumberMax = tiers::kLostNumberMin - 1;

  explicit DurableNamespaces(NamespaceTable& namespaces);

  // Reads the numbers of a store that has been opened, adds their namespaces to the table, and has
  // those deleted that were erased while the tier was off. Numbers whose namespace does not fit the
  // table are left alone, and unknown. The manifest's error.
  Status Load(tiers::Manifest& manifest, tiers::GroupCommit& commit);

  // The number of a namespace's blocks of `epoch`; a new one is recorded with the next commit, and
  // with it the erasure of the earlier epochs.
  // Nothing once all numbers were given.
  std::optional<std::uint16_t> NumberOf(std::uint16_t index,
                                        std::uint8_t epoch,
                                        tiers::GroupCommit& commit);

  struct Meaning {
    std::uint16_t index = 0;
    std::uint8_t epoch = 0;
  };
  // What a row's number stands for; nothing: its blocks are erased, or not for this process.
  std::optional<Meaning> Find(std::uint16_t number) const;

  // The namespace was erased: what is not of its current epoch is forgotten. `commit` is null while
  // the tier is off.
  void Forget(std::uint16_t index, tiers::GroupCommit* commit);

 private:
  enum class State : std::uint8_t { kUnknown, kKnown, kErased };
  struct Entry {
    Meaning meaning;
    State state = State::kUnknown;
  };

  Entry& EntryOf(std::uint16_t number);
  // Whether a number that is known stands for the same in the store.
  bool IsStill(const Meaning& meaning, std::uint16_t number, std::string_view text) const;
  // What a stored number stands for; adds its namespace to the table.
  std::optional<Meaning> Interpret(std::uint16_t number, std::string_view text);
  void Know(std::uint16_t number, Meaning meaning);

  NamespaceTable& namespaces_;
  std::vector<Entry> entries_;          // By number.
  std::vector<std::uint16_t> current_;  // By namespace; 0: none.
  std::uint32_t next_ = 1;
};

}  // namespace kvferry::engine
