// Which drives go together, the making of a store on all of them, and its growing and shrinking.
#include "tiers/nvme/drive_set.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/assert.h"
#include "base/bytes.h"
#include "tiers/nvme/kill_points.h"

namespace kvferry::tiers {

struct DriveSet::Content {
  std::vector<std::unique_ptr<Drive>> drives;
  StoreLayout layout;
  StoreUuid store;
  bool is_new = false;
  std::uint32_t previous_segment_count = 0;
  std::vector<std::string> warnings;
};

namespace {

struct FoundDrive {
  std::unique_ptr<Drive> drive;
  SuperblockChoice choice;

  const std::string& path() const { return drive->path(); }
  bool has_store() const { return choice.finding == PageFinding::kGood; }
};

struct Sizes {
  StoreLayout layout;
  std::uint32_t previous_segment_count = 0;
};

Status Invalid(const std::string& what) {
  return Status::Error(StatusCode::kInvalidArgument, what);
}

Result<std::vector<FoundDrive>> OpenAll(const std::vector<std::string>& paths, DriveAccess access) {
  if (paths.empty() || paths.size() > kDriveCountMax) {
    return Invalid("a store has 1 to " + std::to_string(kDriveCountMax) + " drives, not " +
                   std::to_string(paths.size()) + "; name a folder or device for each");
  }
  std::vector<FoundDrive> found;
  for (const std::string& path : paths) {
    FoundDrive next;
    KVFERRY_ASSIGN_OR_RETURN(next.drive, Drive::Open(path, access));
    next.choice = next.drive->ReadSuperblock();
    found.push_back(std::move(next));
  }
  return found;
}

// A file that has its superblock but not its name is of a store whose making a crash interrupted.
// Once one drive of that store has its name, all of them were ready for it; before, nothing counts.
Status FinishHalfMade(std::vector<FoundDrive>& found) {
  const auto named = std::find_if(found.begin(), found.end(), [](const FoundDrive& drive) {
    return drive.has_store() && !drive.drive->is_half_made();
  });
  for (FoundDrive& drive : found) {
    if (!drive.drive->is_half_made()) {
      continue;
    }
    if (named != found.end() && drive.has_store() &&
        drive.choice.superblock.store == named->choice.superblock.store) {
      KVFERRY_RETURN_IF_ERROR(drive.drive->Publish());
    } else {
      drive.choice = ChooseSuperblock({});
      drive.choice.finding = PageFinding::kBlank;
    }
  }
  return Status::Ok();
}

bool HasStore(const std::vector<FoundDrive>& found) {
  return std::any_of(found.begin(), found.end(),
                     [](const FoundDrive& drive) { return drive.has_store(); });
}

std::string HowToBeginAnew(const FoundDrive& drive) {
  return drive.drive->is_device()
             ? "to begin anew, which costs the cached blocks, zero its first MiB"
             : "to begin anew, which costs the cached blocks, remove what is in the folder";
}

// Why this drive's superblock is of no use, with a way out where that is one.
Status NoUse(const FoundDrive& drive) {
  const Status& why = drive.choice.status;
  if (drive.choice.finding != PageFinding::kDamaged) {
    return why;
  }
  return Status::Error(why.code(), std::string(why.message()) + "; " + HowToBeginAnew(drive),
                       why.native_code());
}

// Whether a store may be made on this drive, when no drive has one.
Status CheckMayMake(const FoundDrive& drive, const DriveSetOptions& options) {
  const bool is_rest =
      options.was_cut && !drive.drive->is_device() && drive.choice.finding == PageFinding::kBlank;
  if (drive.drive->is_half_made() || is_rest) {
    return Status::Ok();
  }
  const bool is_foreign = drive.choice.finding == PageFinding::kForeign;
  if (!is_foreign && drive.choice.finding != PageFinding::kBlank) {
    return NoUse(drive);
  }
  if (drive.drive->is_device() && options.may_format) {
    return Status::Ok();
  }
  if (!is_foreign) {
    KVFERRY_ASSIGN_OR_RETURN(const bool is_blank, drive.drive->IsBlank());
    if (is_blank) {
      return Status::Ok();
    }
  }
  if (drive.drive->is_device()) {
    return Invalid(drive.path() +
                   ": the device holds something that is not ours; name another one, or, if what "
                   "it holds may be lost, allow formatting");
  }
  return Invalid(drive.path() + "/" + std::string(kBlocksFileName) +
                 ": holds something, but no store of ours; give another folder, or remove it");
}

// Whether it is a certain store that was found, if it has to be; nothing was made or changed yet.
Status CheckIdentity(const std::vector<FoundDrive>& found, const StoreUuid& must_be) {
  const auto other = std::find_if(found.begin(), found.end(), [&](const FoundDrive& drive) {
    return !drive.has_store() || drive.choice.superblock.store != must_be;
  });
  if (must_be == StoreUuid{} || other == found.end()) {
    return Status::Ok();
  }
  return Status::Error(StatusCode::kUnavailable,
                       other->path() + ": the store " + ToString(must_be) +
                           ", which was open before, is not there; is its file system mounted? A "
                           "store of its own is made there only when the engine is opened anew");
}

Result<StoreUuid> DrawStoreUuid() {
  StoreUuid drawn;
  while (drawn == StoreUuid{}) {
    if (::getrandom(drawn.bytes.data(), drawn.bytes.size(), 0) !=
        static_cast<ssize_t>(drawn.bytes.size())) {
      return Status::Error(StatusCode::kIoError, "no random bytes for a store's identity", errno);
    }
  }
  return drawn;
}

// What each drive of a new store, or of one that is to change its size, may take.
Result<StoreLayout> LayOutEach(const std::vector<FoundDrive>& found,
                               const DriveSetOptions& options,
                               std::uint64_t segment_bytes) {
  LayoutRequest request{.capacity_bytes = options.capacity_bytes / found.size(),
                        .segment_bytes = segment_bytes,
                        .block_bytes_max = options.block_bytes_max};
  if (options.capacity_bytes == 0) {
    request.capacity_bytes = UINT64_MAX;
    for (const FoundDrive& drive : found) {
      if (!drive.drive->is_device()) {
        return Invalid(drive.path() + ": a new store in a folder needs a capacity; give one");
      }
      request.capacity_bytes = std::min(request.capacity_bytes, drive.drive->size_bytes());
    }
  }
  Result<StoreLayout> layout = LayOut(request);
  return layout.ok() ? layout : layout.error().WithContext("each drive of the store");
}

// Whether the volumes have what the drives lack of `size_bytes`: asked before anything is taken of
// one, since others work on it too. Several folders may be on one volume.
Status CheckRoom(const std::vector<const Drive*>& drives, std::uint64_t size_bytes) {
  for (const Drive* drive : drives) {
    auto volume = drive->LookAtVolume(size_bytes);
    if (!volume) {
      continue;
    }
    std::size_t sharing = 0;
    volume->needed_bytes = 0;
    for (const Drive* other : drives) {
      const auto there = other->LookAtVolume(size_bytes);
      if (there && there->number == volume->number) {
        volume->needed_bytes += there->needed_bytes;
        ++sharing;
      }
    }
    if (volume->needed_bytes > volume->free_bytes) {
      return drive->NoRoom(*volume, sharing);
    }
  }
  return Status::Ok();
}

Status MakeOnAll(std::vector<FoundDrive>& found,
                 const StoreUuid& store,
                 const StoreLayout& layout) {
  std::vector<const Drive*> drives;
  drives.reserve(found.size());
  for (const FoundDrive& drive : found) {
    drives.push_back(drive.drive.get());
  }
  KVFERRY_RETURN_IF_ERROR(CheckRoom(drives, layout.end_bytes()));
  for (std::size_t i = 0; i < found.size(); ++i) {
    KVFERRY_RETURN_IF_ERROR(found[i].drive->Prepare(layout.end_bytes()));
    Superblock& superblock = found[i].choice.superblock;
    superblock = {.store = store,
                  .sequence = found[i].choice.next_sequence,
                  .drive_index = static_cast<std::uint32_t>(i),
                  .drive_count = static_cast<std::uint32_t>(found.size()),
                  .layout = layout,
                  .checksum_kind = ChecksumKind::kXxh3};
    KVFERRY_RETURN_IF_ERROR(found[i].drive->WriteSuperblock(superblock));
  }
  Pass(KillPoint::kStoreWritten);
  for (FoundDrive& drive : found) {
    KVFERRY_RETURN_IF_ERROR(drive.drive->Publish());
    Pass(KillPoint::kStorePublished);
  }
  return Status::Ok();
}

Result<Sizes> MakeStore(std::vector<FoundDrive>& found, const DriveSetOptions& options) {
  for (const FoundDrive& drive : found) {
    KVFERRY_RETURN_IF_ERROR(CheckMayMake(drive, options));
  }
  KVFERRY_ASSIGN_OR_RETURN(const StoreLayout layout,
                           LayOutEach(found, options, options.segment_bytes));
  StoreUuid store = options.new_store;
  if (store == StoreUuid{}) {
    KVFERRY_ASSIGN_OR_RETURN(store, DrawStoreUuid());
  }
  if (Status made = MakeOnAll(found, store, layout); !made.ok()) {
    for (FoundDrive& drive : found) {
      drive.drive->Discard();
    }
    return made;
  }
  return Sizes{.layout = layout, .previous_segment_count = 0};
}

// Every drive has a store when one has: a blank one beside it may have been replaced or mixed up.
Status CheckAllHaveIt(const std::vector<FoundDrive>& found) {
  const auto with = std::find_if(found.begin(), found.end(),
                                 [](const FoundDrive& drive) { return drive.has_store(); });
  for (const FoundDrive& drive : found) {
    const PageFinding finding = drive.choice.finding;
    if (finding == PageFinding::kBlank || finding == PageFinding::kForeign) {
      return Invalid(drive.path() + ": holds no store, but " + with->path() + " is drive " +
                     std::to_string(with->choice.superblock.drive_index) + " of " +
                     std::to_string(with->choice.superblock.drive_count) + " of store " +
                     ToString(with->choice.superblock.store) +
                     "; name the drive that belongs here; " + HowToBeginAnew(*with) +
                     ", on every drive");
    }
    if (!drive.has_store()) {
      return NoUse(drive);
    }
  }
  return Status::Ok();
}

Status SamePlaceTwice(const FoundDrive& first, const FoundDrive& second) {
  return Invalid(second.path() + ": is drive " +
                 std::to_string(second.choice.superblock.drive_index) + " of the store, as " +
                 first.path() + " is: one is a copy of the other; name each drive once");
}

// Sorts the drives by their index; says in `warnings` if they were named in another order.
Status Order(std::vector<FoundDrive>& found, std::vector<std::string>& warnings) {
  KVFERRY_RETURN_IF_ERROR(CheckAllHaveIt(found));
  Superblock expected = found.front().choice.superblock;
  for (const FoundDrive& drive : found) {
    const Superblock& superblock = drive.choice.superblock;
    // Places may differ: they are put in order.
    if (superblock.drive_count == expected.drive_count) {
      expected.drive_index = superblock.drive_index;
    }
    if (const Status same = CheckSameStore(superblock, expected); !same.ok()) {
      return same.WithContext(drive.path());
    }
  }
  const auto before = [](const FoundDrive& first, const FoundDrive& second) {
    return first.choice.superblock.drive_index < second.choice.superblock.drive_index;
  };
  const bool was_ordered = std::is_sorted(found.begin(), found.end(), before);
  std::stable_sort(found.begin(), found.end(), before);
  for (std::size_t i = 1; i < found.size(); ++i) {
    if (!before(found[i - 1], found[i])) {
      return SamePlaceTwice(found[i - 1], found[i]);
    }
  }
  if (found.size() != expected.drive_count) {
    return Invalid("store " + ToString(expected.store) + " has " +
                   std::to_string(expected.drive_count) + " drives, but " +
                   std::to_string(found.size()) + " are named (" + found.front().path() +
                   " is drive " + std::to_string(found.front().choice.superblock.drive_index) +
                   "); name them all");
  }
  if (!was_ordered) {
    std::string order;
    for (const FoundDrive& drive : found) {
      order += (order.empty() ? "" : ", ") + drive.path();
    }
    warnings.push_back("the drives were named in another order than the store's, which is " +
                       order);
  }
  return Status::Ok();
}

// Drives differ in their segment count after a crash in the middle of a change: what a longer one
// has above the others was not used yet, or is not used any more.
Result<Sizes> SizesFound(const std::vector<FoundDrive>& found) {
  Sizes sizes{.layout = found.front().choice.superblock.layout, .previous_segment_count = 0};
  for (const FoundDrive& drive : found) {
    const StoreLayout& layout = drive.choice.superblock.layout;
    if (const Status fits = CheckFits(layout, drive.drive->size_bytes()); !fits.ok()) {
      return fits.WithContext(drive.path());
    }
    sizes.layout.segment_count = std::min(sizes.layout.segment_count, layout.segment_count);
    sizes.previous_segment_count = std::max(sizes.previous_segment_count, layout.segment_count);
  }
  return sizes;
}

Status ChangeSize(std::vector<FoundDrive>& found, const StoreLayout& target) {
  std::vector<const Drive*> growing;
  for (const FoundDrive& drive : found) {
    if (drive.choice.superblock.layout.segment_count < target.segment_count) {
      growing.push_back(drive.drive.get());
    }
  }
  KVFERRY_RETURN_IF_ERROR(CheckRoom(growing, target.end_bytes()));
  for (FoundDrive& drive : found) {
    const StoreLayout& layout = drive.choice.superblock.layout;
    if (layout.segment_count < target.segment_count) {
      KVFERRY_RETURN_IF_ERROR(drive.drive->Extend(layout, target));
      Pass(KillPoint::kStoreExtended);
    }
  }
  for (FoundDrive& drive : found) {
    Superblock changed = drive.choice.superblock;
    if (changed.layout.segment_count != target.segment_count) {
      changed.layout = target;
      changed.sequence = drive.choice.next_sequence;
      KVFERRY_RETURN_IF_ERROR(drive.drive->WriteSuperblock(changed));
    }
    KVFERRY_RETURN_IF_ERROR(drive.drive->CutBehind(target.end_bytes()));
  }
  return Status::Ok();
}

std::string DamagedCopies(const FoundDrive& drive) {
  std::string copies;
  for (std::size_t i = 0; i < kSuperblockCopies; ++i) {
    if (!drive.choice.is_current[i]) {
      copies.append(copies.empty() ? "" : ", ").append(std::to_string(i));
    }
  }
  return copies;
}

Result<Sizes> AdoptStore(std::vector<FoundDrive>& found,
                         const DriveSetOptions& options,
                         std::vector<std::string>& warnings) {
  KVFERRY_ASSIGN_OR_RETURN(Sizes sizes, SizesFound(found));
  const Superblock& superblock = found.front().choice.superblock;
  if (options.segment_bytes != 0) {
    Superblock asked = superblock;
    asked.layout.segment_bytes = options.segment_bytes;
    if (const Status same = CheckSameStore(superblock, asked); !same.ok()) {
      return same.WithContext(found.front().path());
    }
  }
  if (options.capacity_bytes != 0) {
    KVFERRY_ASSIGN_OR_RETURN(sizes.layout,
                             LayOutEach(found, options, superblock.layout.segment_bytes));
  }
  for (FoundDrive& drive : found) {
    if (const std::string copies = DamagedCopies(drive); !copies.empty()) {
      KVFERRY_RETURN_IF_ERROR(drive.drive->RepairSuperblock(drive.choice));
      warnings.push_back(drive.path() + " had damaged copies of its superblock, written anew: " +
                         copies + "; check the drive if that comes back");
    }
    KVFERRY_RETURN_IF_ERROR(drive.drive->SettleDirectIo());
  }
  KVFERRY_RETURN_IF_ERROR(ChangeSize(found, sizes.layout));
  return sizes;
}

}  // namespace

DriveSet::DriveSet(Content content) noexcept
    : drives_(std::move(content.drives)),
      layout_(content.layout),
      store_(content.store),
      is_new_(content.is_new),
      previous_segment_count_(content.previous_segment_count),
      warnings_(std::move(content.warnings)) {
  for (const std::unique_ptr<Drive>& drive : drives_) {
    fds_.push_back(drive->fd());
    warnings_.insert(warnings_.end(), drive->warnings().begin(), drive->warnings().end());
  }
}

const std::string& DriveSet::path(std::uint32_t drive_index) const {
  KVFERRY_CHECK(drive_index < drives_.size());
  return drives_[drive_index]->path();
}

std::uint32_t DriveSet::segments_dropped() const noexcept {
  return previous_segment_count_ > layout_.segment_count
             ? previous_segment_count_ - layout_.segment_count
             : 0;
}

Result<std::unique_ptr<DriveSet>> DriveSet::Open(const DriveSetOptions& options) {
  KVFERRY_ASSIGN_OR_RETURN(std::vector<FoundDrive> found,
                           OpenAll(options.paths, DriveAccess::kOwn));
  KVFERRY_RETURN_IF_ERROR(FinishHalfMade(found));
  KVFERRY_RETURN_IF_ERROR(CheckIdentity(found, options.must_be));
  Content content;
  content.is_new = !HasStore(found);
  Sizes sizes;
  if (content.is_new) {
    KVFERRY_ASSIGN_OR_RETURN(sizes, MakeStore(found, options));
  } else {
    KVFERRY_RETURN_IF_ERROR(Order(found, content.warnings));
    KVFERRY_ASSIGN_OR_RETURN(sizes, AdoptStore(found, options, content.warnings));
  }
  content.layout = sizes.layout;
  content.previous_segment_count = sizes.previous_segment_count;
  content.store = found.front().choice.superblock.store;
  for (FoundDrive& drive : found) {
    content.drives.push_back(std::move(drive.drive));
  }
  return std::make_unique<DriveSet>(std::move(content));
}

Result<std::unique_ptr<DriveSet>> DriveSet::OpenForReading(const std::vector<std::string>& paths,
                                                           DriveAccess access) {
  KVFERRY_CHECK(access != DriveAccess::kOwn);
  KVFERRY_ASSIGN_OR_RETURN(std::vector<FoundDrive> found, OpenAll(paths, access));
  if (!HasStore(found)) {
    return found.front().choice.status;
  }
  Content content;
  KVFERRY_RETURN_IF_ERROR(Order(found, content.warnings));
  KVFERRY_ASSIGN_OR_RETURN(const Sizes sizes, SizesFound(found));
  content.layout = sizes.layout;
  content.previous_segment_count = sizes.previous_segment_count;
  content.store = found.front().choice.superblock.store;
  for (FoundDrive& drive : found) {
    if (const std::string copies = DamagedCopies(drive); !copies.empty()) {
      content.warnings.push_back(drive.path() + " has damaged copies of its superblock: " + copies);
    }
    KVFERRY_RETURN_IF_ERROR(drive.drive->SettleDirectIo());
    content.drives.push_back(std::move(drive.drive));
  }
  return std::make_unique<DriveSet>(std::move(content));
}

}  // namespace kvferry::tiers
