// One table says of each fault what it is called, what it befalls and how often it is drawn.
#include "sim/sim_faults.h"

namespace kvferry::sim {
namespace {

constexpr std::uint8_t kOnRead = 1;
constexpr std::uint8_t kOnWrite = 2;
constexpr std::uint8_t kOnSync = 4;
constexpr std::uint8_t kOnBatch = 8;
constexpr std::uint8_t kOnData = kOnRead | kOnWrite;
constexpr std::uint8_t kOnDrive = kOnData | kOnSync;

// Faults that cost many operations are drawn less often.
constexpr std::uint32_t kUsualWeight = 4;
constexpr std::uint32_t kLowWeight = 1;

struct FaultKind {
  std::string_view name;
  std::uint8_t targets;
  std::uint32_t weight;
};

// In the order of SimFault.
constexpr std::array<FaultKind, kSimFaultCount> kKinds = {{
    {"read error", kOnRead, kUsualWeight},     {"write error", kOnWrite, kUsualWeight},
    {"no space", kOnWrite, kUsualWeight},      {"read-only", kOnWrite, kUsualWeight},
    {"submit full", kOnDrive, kUsualWeight},   {"submit unavailable", kOnDrive, kUsualWeight},
    {"transient", kOnDrive, kUsualWeight},     {"cancelled", kOnDrive, kUsualWeight},
    {"short transfer", kOnData, kUsualWeight}, {"truncated read", kOnRead, kUsualWeight},
    {"torn write", kOnWrite, kUsualWeight},    {"torn write unseen", kOnWrite, kUsualWeight},
    {"late", kOnDrive, kUsualWeight},          {"held", kOnDrive, kLowWeight},
    {"bit rot", kOnRead, kUsualWeight},        {"misdirected read", kOnRead, kUsualWeight},
    {"stale read", kOnRead, kUsualWeight},     {"misdirected write", kOnWrite, kUsualWeight},
    {"lost write", kOnWrite, kUsualWeight},    {"sync error", kOnSync, kUsualWeight},
    {"device window", kOnDrive, kLowWeight},   {"bad place", kOnRead, kUsualWeight},
    {"batch error", kOnBatch, kLowWeight},     {"batch late", kOnBatch, kUsualWeight},
}};

const FaultKind& KindOf(SimFault fault) {
  return kKinds.at(static_cast<std::size_t>(fault));
}

SimFaults AllKinds(double odds) {
  SimFaults faults;
  faults.odds = odds;
  for (const SimFault fault : AllSimFaults()) {
    faults.weights.at(static_cast<std::size_t>(fault)) = KindOf(fault).weight;
  }
  return faults;
}

}  // namespace

std::string_view ToString(SimFault fault) noexcept {
  return KindOf(fault).name;
}

bool Befalls(SimFault fault, SimTarget target) noexcept {
  const unsigned bit = 1U << static_cast<unsigned>(target);
  return (KindOf(fault).targets & bit) != 0;
}

SimFaults SimFaults::Rare() {
  return AllKinds(1.0 / 1000);
}

SimFaults SimFaults::Often() {
  return AllKinds(1.0 / 128);
}

SimFaults SimFaults::Hostile() {
  return AllKinds(1.0 / 32);
}

SimFaults SimFaults::Only(SimFault fault, double odds) {
  SimFaults faults;
  faults.odds = odds;
  faults.weights.at(static_cast<std::size_t>(fault)) = 1;
  return faults;
}

SimFaults SimFaults::Without(SimFault fault) const {
  SimFaults rest = *this;
  rest.weights.at(static_cast<std::size_t>(fault)) = 0;
  return rest;
}

std::optional<SimFault> SimFaults::Draw(SimTarget target, Random& random) const {
  if (!random.Chance(odds)) {
    return std::nullopt;
  }
  std::uint64_t weight_sum = 0;
  for (const SimFault fault : AllSimFaults()) {
    weight_sum += Befalls(fault, target) ? weights.at(static_cast<std::size_t>(fault)) : 0;
  }
  if (weight_sum == 0) {
    return std::nullopt;
  }
  std::uint64_t drawn = random.Below(weight_sum);
  for (const SimFault fault : AllSimFaults()) {
    const std::uint64_t weight =
        Befalls(fault, target) ? weights.at(static_cast<std::size_t>(fault)) : 0;
    if (drawn < weight) {
      return fault;
    }
    drawn -= weight;
  }
  return std::nullopt;
}

std::uint64_t FaultCounts::total() const {
  std::uint64_t sum = 0;
  for (const std::uint64_t count : counts_) {
    sum += count;
  }
  return sum;
}

FaultCounts& FaultCounts::operator+=(const FaultCounts& other) {
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    counts_.at(i) += other.counts_.at(i);
  }
  return *this;
}

std::string FaultCounts::ToString() const {
  std::string text;
  for (const SimFault fault : AllSimFaults()) {
    if (of(fault) == 0) {
      continue;
    }
    text += text.empty() ? "" : ", ";
    text += sim::ToString(fault);
    text += " " + std::to_string(of(fault));
  }
  return text.empty() ? "none" : text;
}

std::array<SimFault, kSimFaultCount> AllSimFaults() {
  std::array<SimFault, kSimFaultCount> faults{};
  for (std::size_t i = 0; i < faults.size(); ++i) {
    faults.at(i) = static_cast<SimFault>(i);
  }
  return faults;
}

}  // namespace kvferry::sim
