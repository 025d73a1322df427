// The byte layout of the superblock, and the choice among its copies.
#include "tiers/nvme/superblock.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/assert.h"
#include "base/bytes.h"
#include "tiers/nvme/disk_fields.h"

namespace kvferry::tiers {
namespace {

constexpr PageKind kKind = PageKind::kSuperblock;
constexpr std::string_view kRemedy =
    "; restore the drive's first MiB from a copy, or format it anew, which only costs the cached "
    "blocks";

struct BodyRead {
  PageFinding finding = PageFinding::kDamaged;
  Status status;
  Superblock superblock;
};

BodyRead Refuse(PageFinding finding, Status status) {
  return {.finding = finding, .status = std::move(status), .superblock = {}};
}

Status CheckNumbers(const Superblock& superblock) {
  if (superblock.drive_count == 0 || superblock.drive_count > kDriveCountMax ||
      superblock.drive_index >= superblock.drive_count) {
    return DamagedPage(kKind, "drive " + std::to_string(superblock.drive_index) + " of " +
                                  std::to_string(superblock.drive_count) + " cannot be" +
                                  std::string(kRemedy));
  }
  if (const Status layout = CheckLayout(superblock.layout); !layout.ok()) {
    return DamagedPage(kKind, std::string(layout.message()) + std::string(kRemedy));
  }
  return Status::Ok();
}

BodyRead ReadBody(ConstDiskPage page, const PageFrame& frame) {
  FieldReader reader(BodyOf(page));
  Superblock superblock;
  superblock.store = frame.store;
  superblock.sequence = frame.number;
  superblock.drive_index = reader.Take<std::uint32_t>();
  superblock.drive_count = reader.Take<std::uint32_t>();
  superblock.layout.segment_bytes = reader.Take<std::uint64_t>();
  superblock.layout.segment_count = reader.Take<std::uint32_t>();
  const auto page_bytes = reader.Take<std::uint32_t>();
  const auto checksum_kind = reader.Take<std::uint8_t>();
  if (page_bytes != kDiskPageBytes) {
    return Refuse(PageFinding::kNewer,
                  NewerPage(kKind, "has pages of " + std::to_string(page_bytes) + " bytes"));
  }
  if (checksum_kind != static_cast<std::uint8_t>(ChecksumKind::kXxh3)) {
    return Refuse(PageFinding::kNewer,
                  NewerPage(kKind, "has unknown checksum kind " + std::to_string(checksum_kind)));
  }
  if (!reader.TakeZeros()) {
    return Refuse(PageFinding::kNewer, NewerPage(kKind, "has unknown fields"));
  }
  if (Status numbers = CheckNumbers(superblock); !numbers.ok()) {
    return Refuse(PageFinding::kDamaged, std::move(numbers));
  }
  return {.finding = PageFinding::kGood, .status = Status::Ok(), .superblock = superblock};
}

// What became of the four copies, before any of them is believed.
struct Survey {
  std::array<FrameRead, kSuperblockCopies> frames;
  std::uint64_t sequence_max = 0;  // Of the whole copies.

  std::size_t CountOf(PageFinding finding) const {
    return static_cast<std::size_t>(
        std::count_if(frames.begin(), frames.end(),
                      [finding](const FrameRead& frame) { return frame.finding == finding; }));
  }
  std::size_t whole_count() const {
    return CountOf(PageFinding::kGood) + CountOf(PageFinding::kNewer);
  }

  bool is_whole(std::size_t copy) const {
    return frames[copy].finding == PageFinding::kGood ||
           frames[copy].finding == PageFinding::kNewer;
  }
};

Survey Look(const SuperblockCopies& copies) {
  Survey survey;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    survey.frames[i] = ReadFrame(copies[i], kKind);
    if (survey.is_whole(i)) {
      survey.sequence_max = std::max(survey.sequence_max, survey.frames[i].frame.number);
    }
  }
  return survey;
}

bool AreSame(std::span<const std::byte> first, std::span<const std::byte> second) {
  return std::equal(first.begin(), first.end(), second.begin(), second.end());
}

struct Pair {
  std::size_t copy = 0;
  bool is_contradicted = false;  // By another pair with the same sequence.
};

// The newest whole copy that another one repeats.
std::optional<Pair> NewestPair(const SuperblockCopies& copies, const Survey& survey) {
  std::optional<Pair> newest;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    for (std::size_t k = i + 1; k < copies.size(); ++k) {
      if (!survey.is_whole(i) || !survey.is_whole(k) || !AreSame(copies[i], copies[k])) {
        continue;
      }
      const std::uint64_t sequence = survey.frames[i].frame.number;
      const std::uint64_t before = newest ? survey.frames[newest->copy].frame.number : 0;
      if (sequence > before) {
        newest = Pair{.copy = i, .is_contradicted = false};
      } else if (sequence == before && !AreSame(copies[i], copies[newest->copy])) {
        newest->is_contradicted = true;
      }
    }
  }
  return newest;
}

SuperblockChoice Without(PageFinding finding, const Survey& survey, Status status) {
  return {.finding = finding,
          .status = std::move(status),
          .superblock = {},
          .is_current = {},
          .next_sequence = survey.sequence_max + 1};
}

// No two copies agree: why not?
SuperblockChoice ChooseNone(const Survey& survey) {
  if (survey.CountOf(PageFinding::kBlank) == kSuperblockCopies) {
    return Without(PageFinding::kBlank, survey,
                   Status::Error(StatusCode::kInvalidArgument,
                                 "the drive or file is blank: there is no store to open; format "
                                 "it to make one"));
  }
  const std::size_t foreign_count = survey.CountOf(PageFinding::kForeign);
  if (foreign_count > 0 &&
      foreign_count + survey.CountOf(PageFinding::kBlank) == kSuperblockCopies) {
    return Without(PageFinding::kForeign, survey,
                   ForeignPage(kKind,
                               "the drive or file holds something else; give another path, or, if "
                               "what it holds may be lost, format it"));
  }
  return Without(PageFinding::kDamaged, survey,
                 DamagedPage(kKind, "no two of its four copies agree (" +
                                        std::to_string(survey.whole_count()) + " are whole, " +
                                        std::to_string(survey.CountOf(PageFinding::kBlank)) +
                                        " blank)" + std::string(kRemedy)));
}

}  // namespace

void EncodeSuperblock(const Superblock& superblock, DiskPage page) {
  KVFERRY_CHECK(CheckNumbers(superblock).ok());
  WriteFrame(page, kKind,
             {.version = kFormatVersion,
              .features = 0,
              .store = superblock.store,
              .number = superblock.sequence});
  FieldWriter writer(BodyOf(page));
  writer.Put(superblock.drive_index);
  writer.Put(superblock.drive_count);
  writer.Put(superblock.layout.segment_bytes);
  writer.Put(superblock.layout.segment_count);
  writer.Put(kDiskPageBytes);
  writer.Put(static_cast<std::uint8_t>(superblock.checksum_kind));
  writer.PutZeros(writer.left());
  SealPage(page);
}

SuperblockChoice ChooseSuperblock(const SuperblockCopies& copies) {
  const Survey survey = Look(copies);
  const std::optional<Pair> pair = NewestPair(copies, survey);
  if (!pair) {
    return ChooseNone(survey);
  }
  const FrameRead& chosen = survey.frames[pair->copy];
  if (pair->is_contradicted) {
    return Without(
        PageFinding::kDamaged, survey,
        DamagedPage(kKind, "two pairs of its copies contradict each other" + std::string(kRemedy)));
  }
  if (chosen.finding != PageFinding::kGood) {
    return Without(chosen.finding, survey, chosen.status);
  }
  BodyRead body = ReadBody(copies[pair->copy].first<kDiskPageBytes>(), chosen.frame);
  if (body.finding != PageFinding::kGood) {
    return Without(body.finding, survey, std::move(body.status));
  }
  SuperblockChoice choice = Without(PageFinding::kGood, survey, Status::Ok());
  choice.superblock = body.superblock;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    choice.is_current[i] = AreSame(copies[i], copies[pair->copy]);
  }
  return choice;
}

Status CheckSameStore(const Superblock& found, const Superblock& expected) {
  if (found.store != expected.store) {
    return ForeignPage(kKind, "it is of store " + ToString(found.store) + ", not " +
                                  ToString(expected.store) +
                                  "; give the path of this store's drive, or format this one");
  }
  if (found.drive_index != expected.drive_index || found.drive_count != expected.drive_count) {
    return ForeignPage(kKind, "it is drive " + std::to_string(found.drive_index) + " of " +
                                  std::to_string(found.drive_count) + ", not " +
                                  std::to_string(expected.drive_index) + " of " +
                                  std::to_string(expected.drive_count) +
                                  "; name the drives in the order in which they were formatted");
  }
  if (found.layout.segment_bytes != expected.layout.segment_bytes) {
    return Status::Error(StatusCode::kInvalidArgument,
                         "the store has segments of " + FormatBytes(found.layout.segment_bytes) +
                             ", not " + FormatBytes(expected.layout.segment_bytes) +
                             ": keep the segment size, or format the store anew");
  }
  return Status::Ok();
}

}  // namespace kvferry::tiers
