// When operations end, and which fault they meet; what they do is in sim_ring_effects.cc.
#include "sim/sim_ring.h"

#include <algorithm>

#include "base/assert.h"
#include "tiers/nvme/io_errors.h"

namespace kvferry::sim {
namespace {

using tiers::IoOp;

constexpr Duration kLateMax = std::chrono::seconds(1);
constexpr Duration kWindowMin = std::chrono::milliseconds(1);
constexpr Duration kWindowMax = std::chrono::milliseconds(50);
constexpr std::byte kUnread{0xdb};  // What a read's buffer holds until the read ends.

SimTarget TargetOf(const IoOp& op) {
  switch (op.kind) {
    case IoOp::Kind::kRead:
      return SimTarget::kRead;
    case IoOp::Kind::kWrite:
      return SimTarget::kWrite;
    case IoOp::Kind::kSyncData:
      break;
  }
  return SimTarget::kSync;
}

Duration Between(Duration low, Duration high, Random& random) {
  const auto spread = static_cast<std::uint64_t>((high - low).count());
  return low + Duration(static_cast<Duration::rep>(random.Between(0, spread)));
}

}  // namespace

SimRing::SimRing(const std::vector<SimDisk*>& disks,
                 ManualClock& clock,
                 const SimRingOptions& options)
    : options_(options), clock_(clock), random_(options.seed) {
  KVFERRY_CHECK(options.in_flight_max > 0);
  KVFERRY_CHECK(options.timing.bytes_per_second > 0);
  for (SimDisk* disk : disks) {
    KVFERRY_CHECK(disk != nullptr);
    files_.push_back({disk, Instant(), SimWindow::kErrors, Instant()});
  }
}

SimRing::~SimRing() {
  is_closing_ = true;
  ReleaseHeld();
  while (!events_.empty()) {
    const Pending pending = events_.begin()->second;
    events_.erase(events_.begin());
    pending.op->status = Carry(pending, Instant::max());
    pending.op->sink->OnIoDone(*pending.op);
  }
}

Status SimRing::Take(IoOp& op) {
  KVFERRY_RETURN_IF_ERROR(CheckIoOp(op, files_.size()));
  if (is_closing_) {
    return Status::Error(StatusCode::kUnavailable, "the ring is closing");
  }
  if (in_flight() >= options_.in_flight_max) {
    return Status::Error(StatusCode::kResourceExhausted, "all entries of the ring are in flight");
  }
  const std::optional<SimFault> fault = FaultOfNext(op);
  if (fault == SimFault::kSubmitFull || fault == SimFault::kSubmitUnavailable) {
    return Refuse(*fault);
  }

  const Instant now = clock_.Now();
  op.status = Status::Ok();
  if (op.kind == IoOp::Kind::kRead) {
    std::fill(op.buffer.begin(), op.buffer.end(), kUnread);
  }
  const Pending pending{&op, fault, DiskOf(op).write_point()};
  if (!has_power_) {
    Schedule(now, pending);
    return Status::Ok();
  }
  Instant due = DueTime(op, now);
  if (fault == SimFault::kHeld && held_.size() < options_.held_max) {
    held_.push_back(pending);
    return Status::Ok();
  }
  if (fault == SimFault::kLate || fault == SimFault::kHeld) {
    due += Between(Duration(1), kLateMax, random_);
  } else if (fault == SimFault::kDeviceWindow) {
    StartRandomWindow(files_.at(op.file_index), now);
  }
  Schedule(due, pending);
  return Status::Ok();
}

std::optional<SimFault> SimRing::FaultOfNext(const IoOp& op) {
  const std::uint64_t number = submitted_count_++;
  std::optional<SimFault> fault;
  const auto injection = injections_.find(number);
  if (!has_power_) {
    return fault;
  }
  if (injection != injections_.end()) {
    if (Befalls(injection->second, TargetOf(op))) {
      fault = injection->second;
    }
    injections_.erase(injection);
  } else {
    fault = options_.faults.Draw(TargetOf(op), random_);
  }
  if (fault) {
    fault_counts_.Add(*fault);
  }
  return fault;
}

Status SimRing::Refuse(SimFault fault) {
  if (fault == SimFault::kSubmitFull) {
    return Status::Error(StatusCode::kResourceExhausted, "simulated: no entry is free");
  }
  return Status::Error(StatusCode::kUnavailable, "simulated: the ring is out of order");
}

Instant SimRing::DueTime(const IoOp& op, Instant now) {
  File& file = files_.at(op.file_index);
  Duration latency = options_.timing.sync_latency;
  if (op.kind != IoOp::Kind::kSyncData) {
    const double seconds = static_cast<double>(op.buffer.size()) /
                           static_cast<double>(options_.timing.bytes_per_second);
    file.busy_until = std::max(file.busy_until, now) +
                      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
    latency =
        op.kind == IoOp::Kind::kRead ? options_.timing.read_latency : options_.timing.write_latency;
  }
  const double factor = 0.5 + (0.5 * random_.Exponential());
  const auto wait = static_cast<Duration::rep>(static_cast<double>(latency.count()) * factor);
  return std::max(file.busy_until, now) + Duration(wait);
}

void SimRing::Schedule(Instant due, const Pending& pending) {
  events_.emplace(EventKey(due, event_count_++), pending);
}

void SimRing::StartRandomWindow(File& file, Instant now) {
  constexpr std::uint64_t kWindowKinds = 5;
  file.window = static_cast<SimWindow>(random_.Below(kWindowKinds));
  file.window_end = now + Between(kWindowMin, kWindowMax, random_);
}

std::size_t SimRing::Reap(Instant now) {
  // What a sink submits is left for the next call, so that one call ends.
  const std::uint64_t event_limit = event_count_;
  std::size_t delivered = 0;
  auto next = events_.begin();
  while (next != events_.end() && next->first.first <= now) {
    if (next->first.second >= event_limit) {
      ++next;
      continue;
    }
    const Pending pending = next->second;
    events_.erase(next);
    const File& file = files_.at(pending.op->file_index);
    if (has_power_ && file.window == SimWindow::kStalled && file.window_end > now) {
      Schedule(file.window_end, pending);
    } else {
      pending.op->status = Carry(pending, now);
      ++delivered;
      pending.op->sink->OnIoDone(*pending.op);
    }
    next = events_.begin();
  }
  return delivered;
}

std::uint32_t SimRing::in_flight() const noexcept {
  return static_cast<std::uint32_t>(events_.size() + held_.size());
}

void SimRing::WaitUntil(Instant deadline) {
  if (is_woken_.exchange(false)) {
    return;
  }
  const Instant wanted = std::min(deadline, NextEventTime().value_or(deadline));
  if (wanted > clock_.Now()) {
    clock_.MoveTo(wanted);
  }
}

Status SimRing::RegisterBuffer(std::span<std::byte> /*chunk*/) {
  return Status::Error(StatusCode::kUnavailable, "a simulated ring registers no buffers");
}

std::optional<Instant> SimRing::NextEventTime() const {
  if (events_.empty()) {
    return std::nullopt;
  }
  return events_.begin()->first.first;
}

void SimRing::InjectAt(std::uint64_t submit_number, SimFault fault) {
  injections_.insert_or_assign(submit_number, fault);
}

void SimRing::StartWindow(std::uint32_t file_index, SimWindow window, Instant until) {
  File& file = files_.at(file_index);
  file.window = window;
  file.window_end = until;
}

std::size_t SimRing::ReleaseHeld() {
  const std::size_t count = held_.size();
  for (const Pending& pending : held_) {
    Schedule(clock_.Now(), pending);
  }
  held_.clear();
  return count;
}

void SimRing::PowerCut(Random& random) {
  KVFERRY_CHECK(has_power_);
  ReleaseHeld();
  std::map<EventKey, Pending> cut;
  cut.swap(events_);
  has_power_ = false;
  for (const auto& [key, pending] : cut) {
    const IoOp& op = *pending.op;
    SimDisk& disk = DiskOf(op);
    const bool is_inside = op.offset_bytes <= disk.size_bytes() &&
                           op.buffer.size() <= disk.size_bytes() - op.offset_bytes;
    if (op.kind == IoOp::Kind::kWrite && is_inside && random.Chance(0.5)) {
      disk.WriteTorn(op.offset_bytes, op.buffer, random);
    }
    Schedule(clock_.Now(), pending);
  }
  for (const File& file : files_) {
    file.disk->PowerCut(random);
  }
}

}  // namespace kvferry::sim
