// Small stores, so that segments are reused within a run.
#include "stress/sim_drives.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/assert.h"
#include "base/bytes.h"
#include "tiers/nvme/io_errors.h"
#include "tiers/nvme/manifest_rebuild.h"
#include "tiers/nvme/store_layout.h"

namespace kvferry::stress {
namespace {

constexpr std::uint32_t kPagesPerSegment = 64;
// How often the power goes with a change of the real manifest's files, and within how many.
constexpr double kCutAtChangeChance = 0.7;
constexpr std::uint64_t kChangesMax = 60;

class DiskPages final : public tiers::PageSource {
 public:
  explicit DiskPages(const std::vector<std::unique_ptr<sim::SimDisk>>& disks) : disks_(disks) {}
  Status ReadPages(std::uint32_t drive,
                   std::uint64_t offset_bytes,
                   std::span<std::byte> target) const override {
    if (!disks_[drive]->IsReadable(offset_bytes, target.size())) {
      return tiers::IoError("read a bad place", EIO);
    }
    disks_[drive]->Read(offset_bytes, target);
    return Status::Ok();
  }

 private:
  const std::vector<std::unique_ptr<sim::SimDisk>>& disks_;
};

}  // namespace

SimDrives::SimDrives(ManualClock& clock, Random random, std::string manifest_folder)
    : clock_(clock), random_(random), manifest_folder_(std::move(manifest_folder)) {
  tiers::SegmentStore::Options& store = options_.store;
  for (std::byte& byte : store.store.bytes) {
    byte = std::byte{static_cast<std::uint8_t>(random_.Below(256))};
  }
  store.drive_count = static_cast<std::uint32_t>(random_.Chance(0.3) ? random_.Between(2, 3) : 1);
  store.layout.segment_bytes = std::uint64_t{kPagesPerSegment} * tiers::kDiskPageBytes;
  store.layout.segment_count = static_cast<std::uint32_t>(random_.Between(2, 8));
  store.owners_per_segment_max =
      static_cast<std::uint32_t>(random_.Between(8, tiers::PayloadsMax(kPagesPerSegment)));
  store.commit_bytes = random_.Between(1, 64) * tiers::kDiskPageBytes;
  store.commit_time = std::chrono::microseconds(random_.Between(50, 20'000));
  store.commit_entries_max = static_cast<std::uint32_t>(random_.Between(4, 64));
  store.unix_ms_minus_now = 1'700'000'000'000;
  options_.write_bytes_per_day = random_.Chance(0.1) ? random_.Between(1, 1'000) * kMiB : 0;
  options_.persisted_percent = static_cast<std::uint32_t>(random_.Between(10, 50));
  for (std::uint32_t drive = 0; drive < store.drive_count; ++drive) {
    disks_.push_back(std::make_unique<sim::SimDisk>(store.layout.end_bytes(), random_.Next(),
                                                    sim::SimDisk::Unwritten::kGarbage));
  }
}

std::uint32_t SimDrives::blocks_max() const noexcept {
  return options_.store.drive_count * options_.store.layout.segment_count * kPagesPerSegment;
}

bool SimDrives::Attach(engine::EngineCore& core, const sim::SimFaults& faults) {
  back_at_ = Instant::max();
  sim::SimRingOptions ring;
  ring.seed = random_.Next();
  ring.in_flight_max = static_cast<std::uint32_t>(random_.Between(4, 24));
  ring.faults = faults;
  std::vector<sim::SimDisk*> disks;
  for (const auto& disk : disks_) {
    disks.push_back(disk.get());
  }
  ring_ = std::make_unique<sim::SimRing>(disks, clock_, ring);
  if (!manifest_folder_.empty()) {
    return AttachPatient(core);
  }
  sim::SimManifestOptions manifest;
  manifest.seed = random_.Next();
  manifest.in_flight_max = static_cast<std::uint32_t>(random_.Between(1, 16));
  manifest.faults = faults;
  manifest_ = std::make_unique<sim::SimManifest>(store_, clock_, manifest);
  ArmNthFault();
  return AttachWith(core, *manifest_);
}

std::size_t SimDrives::in_flight() const {
  return (ring_ == nullptr ? 0 : ring_->in_flight()) +
         (manifest_ == nullptr ? 0 : manifest_->in_flight()) +
         (patient_ == nullptr ? 0 : patient_->in_flight());
}

std::uint64_t SimDrives::operation_count() const {
  return operations_gone_ + (ring_ == nullptr ? 0 : ring_->submitted_count());
}

std::uint64_t SimDrives::batch_count() const {
  return batches_gone_ + (manifest_ == nullptr ? 0 : manifest_->submitted_count());
}

// The fault, or, once that has happened and is to last, all of its kind.
void SimDrives::ArmNthFault() {
  if (!nth_fault_ || !is_attached()) {
    return;
  }
  const NthFault& nth = *nth_fault_;
  const std::uint64_t count = nth.is_batch ? batch_count() : operation_count();
  if (count > nth.number) {
    if (nth.is_lasting) {
      SetFaults(sim::SimFaults::Only(nth.fault, 1.0));
    }
  } else if (nth.is_batch) {
    manifest_->InjectAt(nth.number - batches_gone_, nth.fault);
  } else {
    ring_->InjectAt(nth.number - operations_gone_, nth.fault);
  }
}

bool SimDrives::AttachWith(engine::EngineCore& core, tiers::Manifest& manifest) {
  if (core.AttachNvme({*ring_, manifest, options_.store}).ok()) {
    return true;
  }
  Close();
  return false;
}

bool SimDrives::AttachPatient(engine::EngineCore& core) {
  if (random_.Chance(kCutAtChangeChance)) {
    files_.LoseAt(files_.change_count() + random_.Below(kChangesMax));
  }
  PatientManifest::Options options;
  options.folder = manifest_folder_;
  options.write_buffer_bytes = random_.Chance(0.5) ? 64 * kKiB : kMiB;
  options.in_flight_max = static_cast<std::uint32_t>(random_.Between(1, 16));
  options.on_power_out = [this] {
    is_out_ = true;
    ring_->PowerCut(random_);
  };
  auto opened = PatientManifest::Open(files_, clock_, random_.Fork(), options);
  if (!opened.ok() && !files_.is_lost()) {
    std::fprintf(stderr, "the manifest does not open after a crash: %s\n",
                 opened.status().ToString().c_str());
  }
  KVFERRY_CHECK(opened.ok() || files_.is_lost());
  if (files_.is_lost()) {
    // While it was being opened: the process sees nothing of that any more.
    is_out_ = true;
    ring_->PowerCut(random_);
    return false;
  }
  patient_ = std::move(*opened);
  KVFERRY_CHECK(AttachWith(core, *patient_));
  return true;
}

void SimDrives::Close() {
  counts_ += ring_->fault_counts();
  operations_gone_ = operation_count();
  batches_gone_ = batch_count();
  if (manifest_ != nullptr) {
    counts_ += manifest_->fault_counts();
  }
  ring_.reset();
  manifest_.reset();
  patient_.reset();
  back_at_ = clock_.Now() + std::chrono::microseconds(random_.Below(20'000));
}

void SimDrives::TendTo(engine::EngineCore& core, const sim::SimFaults& faults) {
  if (nth_fault_ && nth_fault_->is_lasting) {
    ArmNthFault();
  }
  if (core.nvme() != nullptr && !core.nvme()->failure().ok()) {
    core.StopNvme();
    if (core.nvme()->is_quiet()) {
      core.DetachNvme();
      Close();
    }
  }
  if (!is_attached() && clock_.Now() >= back_at_) {
    Attach(core, faults);
  }
}

void SimDrives::CrashNow(Crash crash) {
  if (!is_attached()) {
    back_at_ = Instant::max();
    return;
  }
  if (crash == Crash::kPowerCut && !is_out_) {
    ring_->PowerCut(random_);
    if (manifest_ != nullptr) {
      manifest_->PowerCut(random_);
    }
  }
  is_out_ = false;
  files_.LoseNow();  // What the manifest writes at its end is lost.
  Close();
  if (crash == Crash::kPowerCut) {
    files_.Cut(random_);
  } else {
    files_.Keep();
  }
  back_at_ = Instant::max();
}

void SimDrives::LoseManifest() {
  KVFERRY_CHECK(!is_attached() && CanLoseManifest());
  store_ = sim::SimManifestStore();
  const DiskPages pages(disks_);
  tiers::SegmentStore::Options& store = options_.store;
  const tiers::StoreReader reader({store.store, store.layout, store.drive_count}, pages);
  const auto rebuild = tiers::RebuildManifest(reader, [this](tiers::ManifestBatch& batch) {
    store_.Apply(batch);
    store_.Sync();
    return Status::Ok();
  });
  KVFERRY_CHECK(rebuild.ok());
  store.first_generation = std::max(store.first_generation, rebuild->newest_generation + 1);
}

void SimDrives::ReleaseHeld() {
  nth_fault_.reset();  // The faults are over.
  if (is_attached()) {
    ring_->ReleaseHeld();
  }
}

void SimDrives::SetFaults(const sim::SimFaults& faults) {
  if (is_attached()) {
    ring_->SetFaults(faults);
    if (manifest_ != nullptr) {
      manifest_->SetFaults(faults);
    }
  }
}

Instant SimDrives::NextEventTime() const {
  Instant next = back_at_;
  if (is_attached()) {
    next = std::min(next, ring_->NextEventTime().value_or(Instant::max()));
    if (manifest_ != nullptr) {
      next = std::min(next, manifest_->NextEventTime().value_or(Instant::max()));
    }
    if (patient_ != nullptr) {
      next = std::min(next, patient_->NextEventTime().value_or(Instant::max()));
    }
  }
  return next;
}

sim::FaultCounts SimDrives::fault_counts() const {
  sim::FaultCounts counts = counts_;
  if (is_attached()) {
    counts += ring_->fault_counts();
    if (manifest_ != nullptr) {
      counts += manifest_->fault_counts();
    }
  }
  return counts;
}

}  // namespace kvferry::stress
