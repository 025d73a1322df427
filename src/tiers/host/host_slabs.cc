// Reserving and freeing slots; the lists of slabs that have room.
#include "tiers/host/host_slabs.h"

#include <algorithm>
#include <bit>
#include <new>
#include <string>
#include <utility>

#include "base/assert.h"
#include "base/bytes.h"

namespace kvferry::tiers {
namespace {

constexpr std::uint64_t kAreaBytesMax = 16 * kTiB;  // 2^32 pages.

std::uint32_t ChunkCount(const HostMemory& memory) {
  return Narrow<std::uint32_t>(memory.bytes().size() / kChunkBytes);
}

Status Broken(std::string what, std::uint32_t number) {
  return Status::Error(StatusCode::kInternal,
                       "host slabs: " + std::move(what) + " " + std::to_string(number));
}

}  // namespace

Result<std::unique_ptr<HostSlabs>> HostSlabs::Create(const HostSlabOptions& options) {
  if (options.memory.bytes < kChunkBytes || options.memory.bytes > kAreaBytesMax) {
    return Status::Error(StatusCode::kInvalidArgument, "a host tier of " +
                                                           FormatBytes(options.memory.bytes) +
                                                           ": the size must be 2 MiB to 16 TiB");
  }
  HostMemoryOptions memory = options.memory;
  memory.bytes = memory.bytes / kChunkBytes * kChunkBytes;
  HostMemoryOptions generations;
  generations.bytes = memory.bytes / kHostPageBytes * sizeof(std::uint32_t);
  generations.huge_pages = HugePages::kNone;  // Touched here and there only.
  KVFERRY_ASSIGN_OR_RETURN(auto area, HostMemory::Map(memory));
  KVFERRY_ASSIGN_OR_RETURN(auto numbers, HostMemory::Map(generations));
  try {
    return std::make_unique<HostSlabs>(Token(), options, std::move(area), std::move(numbers));
  } catch (const std::bad_alloc&) {
    return Status::Error(
        StatusCode::kResourceExhausted,
        "no memory for the records of a host tier of " + FormatBytes(options.memory.bytes));
  }
}

HostSlabs::HostSlabs(Token /*token*/,
                     const HostSlabOptions& options,
                     std::unique_ptr<HostMemory> memory,
                     std::unique_ptr<HostMemory> generations)
    : memory_(std::move(memory)),
      generations_(std::move(generations)),
      poison_freed_(options.poison_freed),
      pool_(ChunkCount(*memory_)),
      slab_of_chunk_(pool_.chunk_count(), kNone),
      slabs_(pool_.chunk_count()),
      reserved_bits_(std::size_t{pool_.chunk_count()} * kWordsPerChunk) {
  for (std::uint32_t class_index = 0; class_index < kSlotClassCount; ++class_index) {
    classes_[class_index].slots_max = SlotsOfArea(class_index);
  }
}

bool HostSlabs::CanReserve(std::uint32_t size_bytes) {
  KVFERRY_CHECK(size_bytes > 0);
  KVFERRY_CHECK(size_bytes <= kSlotBytesMax);
  const std::uint32_t class_index = SlotClassOf(size_bytes);
  return classes_[class_index].first_with_room != kNone || SlabChunksFor(class_index) > 0;
}

std::uint64_t HostSlabs::SlotsMax(std::uint32_t size_bytes) const {
  KVFERRY_CHECK(size_bytes > 0 && size_bytes <= kSlotBytesMax);
  return classes_[SlotClassOf(size_bytes)].slots_max;
}

std::uint64_t HostSlabs::SlotsOfArea(std::uint32_t class_index) const {
  const SlotClass& slot_class = kSlotClasses[class_index];
  const auto slots_in = [&](std::uint32_t chunks) {
    return chunks * kPagesPerChunk / slot_class.slot_pages;
  };
  const std::uint32_t slabs = pool_.chunk_count() / slot_class.slab_chunks;
  return std::uint64_t{slabs} * slots_in(slot_class.slab_chunks) +
         slots_in(pool_.chunk_count() % slot_class.slab_chunks);
}

std::optional<HostSlot> HostSlabs::Reserve(std::uint32_t size_bytes) {
  KVFERRY_CHECK(size_bytes > 0);
  KVFERRY_CHECK(size_bytes <= kSlotBytesMax);
  const std::uint32_t class_index = SlotClassOf(size_bytes);
  ClassState& state = classes_[class_index];
  if (state.first_with_room == kNone && !AddSlab(class_index)) {
    return std::nullopt;
  }
  const std::uint32_t first = state.first_with_room;
  Slab& slab = slabs_[first];
  const std::span<std::uint64_t> words = WordsOf(first);
  const auto word = std::ranges::find_if(words, [](std::uint64_t bits) { return ~bits != 0; });
  KVFERRY_CHECK(word != words.end());
  const auto bit = static_cast<std::uint32_t>(std::countr_one(*word));
  const std::uint32_t index = static_cast<std::uint32_t>(word - words.begin()) * kWordBits + bit;
  KVFERRY_CHECK(index < slab.slots);

  *word |= std::uint64_t{1} << bit;
  if (++slab.reserved == slab.slots) {
    Unlink(first);
  }
  const std::uint32_t slot_pages = kSlotClasses[class_index].slot_pages;
  state.slots_reserved.Add(1);
  slots_reserved_.Add(1);
  bytes_reserved_.Add(std::uint64_t{slot_pages} * kHostPageBytes);
  return HostSlot{first * kPagesPerChunk + index * slot_pages};
}

void HostSlabs::Free(HostSlot slot) {
  const Place place = PlaceOf(slot);
  Slab& slab = slabs_[place.slab];
  const std::uint32_t slot_bytes = SlotBytesAt(place.slab);
  if (poison_freed_) {
    std::ranges::fill(BytesOf(slot, slot_bytes), kPoison);
  }
  ++*GenerationAt(slot.page);
  WordsOf(place.slab)[place.index / kWordBits] ^= std::uint64_t{1} << (place.index % kWordBits);
  if (slab.reserved-- == slab.slots) {
    Link(place.slab);
  }
  classes_[slab.class_index].slots_reserved.Subtract(1);
  slots_reserved_.Subtract(1);
  bytes_reserved_.Subtract(slot_bytes);
  if (slab.reserved == 0) {
    ReleaseSlab(place.slab);
  }
}

std::span<std::byte> HostSlabs::BytesOf(HostSlot slot, std::uint32_t size_bytes) const {
  KVFERRY_CHECK(size_bytes <= SlotBytes(slot));
  return memory_->bytes().subspan(std::size_t{slot.page} * kHostPageBytes, size_bytes);
}

std::uint32_t HostSlabs::GenerationOf(HostSlot slot) const {
  KVFERRY_CHECK(slot.page / kPagesPerChunk < pool_.chunk_count());
  return *GenerationAt(slot.page);
}

bool HostSlabs::IsCurrent(HostSlot slot, std::uint32_t generation) const {
  return Find(slot).has_value() && GenerationOf(slot) == generation;
}

HostUsage HostSlabs::usage() const noexcept {
  return {memory_->bytes().size(), bytes_in_slabs_.get(), bytes_reserved_.get(),
          slots_reserved_.get()};
}

HostClassUsage HostSlabs::class_usage(std::uint32_t class_index) const noexcept {
  KVFERRY_CHECK(class_index < kSlotClassCount);
  const ClassState& state = classes_[class_index];
  return {kSlotClasses[class_index].slot_pages * kHostPageBytes,
          static_cast<std::uint32_t>(state.slabs.get()), state.slots.get(),
          state.slots_reserved.get()};
}

std::optional<HostSlabs::Place> HostSlabs::Find(HostSlot slot) const {
  const std::uint32_t chunk = slot.page / kPagesPerChunk;
  if (chunk >= pool_.chunk_count() || slab_of_chunk_[chunk] == kNone) {
    return std::nullopt;
  }
  const std::uint32_t first = slab_of_chunk_[chunk];
  const std::uint32_t offset = slot.page - first * kPagesPerChunk;
  const std::uint32_t slot_pages = kSlotClasses[slabs_[first].class_index].slot_pages;
  const std::uint32_t index = offset / slot_pages;
  if (offset % slot_pages != 0 || index >= slabs_[first].slots ||
      (WordsOf(first)[index / kWordBits] >> (index % kWordBits) & 1) == 0) {
    return std::nullopt;
  }
  return Place{first, index};
}

HostSlabs::Place HostSlabs::PlaceOf(HostSlot slot) const {
  const std::optional<Place> place = Find(slot);
  KVFERRY_CHECK(place.has_value());
  return *place;
}

std::uint32_t* HostSlabs::GenerationAt(std::uint32_t page) const {
  return reinterpret_cast<std::uint32_t*>(generations_->bytes().data()) + page;
}

std::span<std::uint64_t> HostSlabs::WordsOf(std::uint32_t slab) {
  return std::span(reserved_bits_)
      .subspan(std::size_t{slab} * kWordsPerChunk, (slabs_[slab].slots - 1U) / kWordBits + 1);
}

std::span<const std::uint64_t> HostSlabs::WordsOf(std::uint32_t slab) const {
  return std::span(reserved_bits_)
      .subspan(std::size_t{slab} * kWordsPerChunk, (slabs_[slab].slots - 1U) / kWordBits + 1);
}

std::uint32_t HostSlabs::SlabChunksFor(std::uint32_t class_index) {
  const SlotClass& slot_class = kSlotClasses[class_index];
  const std::uint32_t chunks_min = (slot_class.slot_pages - 1) / kPagesPerChunk + 1;
  for (std::uint32_t chunks = slot_class.slab_chunks; chunks >= chunks_min; --chunks) {
    if (pool_.Find(chunks).has_value()) {
      return chunks;
    }
  }
  return 0;
}

bool HostSlabs::AddSlab(std::uint32_t class_index) {
  const std::uint32_t chunks = SlabChunksFor(class_index);
  if (chunks == 0) {
    return false;
  }
  const std::uint32_t first = pool_.Acquire(chunks).value();
  const auto end = slab_of_chunk_.begin() + first + chunks;
  std::fill(slab_of_chunk_.begin() + first, end, first);
  const std::uint32_t slots = chunks * kPagesPerChunk / kSlotClasses[class_index].slot_pages;
  slabs_[first] = {.class_index = Narrow<std::uint16_t>(class_index),
                   .chunks = Narrow<std::uint16_t>(chunks),
                   .slots = Narrow<std::uint16_t>(slots)};
  classes_[class_index].slabs.Add(1);
  classes_[class_index].slots.Add(slots);
  bytes_in_slabs_.Add(std::uint64_t{chunks} * kChunkBytes);
  Link(first);
  return true;
}

void HostSlabs::ReleaseSlab(std::uint32_t slab) {
  Unlink(slab);
  const Slab& gone = slabs_[slab];
  classes_[gone.class_index].slabs.Subtract(1);
  classes_[gone.class_index].slots.Subtract(gone.slots);
  bytes_in_slabs_.Subtract(std::uint64_t{gone.chunks} * kChunkBytes);
  const auto end = slab_of_chunk_.begin() + slab + gone.chunks;
  std::fill(slab_of_chunk_.begin() + slab, end, kNone);
  pool_.Release(slab, gone.chunks);
}

void HostSlabs::Link(std::uint32_t slab) {
  std::uint32_t& first = classes_[slabs_[slab].class_index].first_with_room;
  slabs_[slab].previous = kNone;
  slabs_[slab].next = first;
  if (first != kNone) {
    slabs_[first].previous = slab;
  }
  first = slab;
}

void HostSlabs::Unlink(std::uint32_t slab) {
  const Slab& gone = slabs_[slab];
  if (gone.previous == kNone) {
    classes_[gone.class_index].first_with_room = gone.next;
  } else {
    slabs_[gone.previous].next = gone.next;
  }
  if (gone.next != kNone) {
    slabs_[gone.next].previous = gone.previous;
  }
}

Status HostSlabs::CheckInvariants() const {
  for (std::uint32_t chunk = 0; chunk < pool_.chunk_count();) {
    if (pool_.IsFree(chunk)) {
      if (slab_of_chunk_[chunk] != kNone) {
        return Broken("a slab holds free chunk", chunk);
      }
      ++chunk;
      continue;
    }
    if (slab_of_chunk_[chunk] != chunk) {
      return Broken("no slab begins at used chunk", chunk);
    }
    KVFERRY_RETURN_IF_ERROR(CheckSlab(chunk));
    chunk += slabs_[chunk].chunks;
  }
  for (std::uint32_t class_index = 0; class_index < kSlotClassCount; ++class_index) {
    KVFERRY_RETURN_IF_ERROR(CheckClass(class_index));
  }
  return CheckTotals();
}

Status HostSlabs::CheckSlab(std::uint32_t slab) const {
  const Slab& record = slabs_[slab];
  for (std::uint32_t chunk = slab; chunk < slab + record.chunks; ++chunk) {
    if (chunk >= pool_.chunk_count() || pool_.IsFree(chunk) || slab_of_chunk_[chunk] != slab) {
      return Broken("a slab lacks its chunk", chunk);
    }
  }
  std::uint32_t reserved = 0;
  for (const std::uint64_t word : WordsOf(slab)) {
    reserved += static_cast<std::uint32_t>(std::popcount(word));
  }
  const std::uint32_t bits_behind = record.slots % kWordBits;
  if (bits_behind != 0 && WordsOf(slab).back() >> bits_behind != 0) {
    return Broken("a slot behind the last one is reserved in slab", slab);
  }
  if (reserved != record.reserved || reserved == 0 || reserved > record.slots) {
    return Broken("wrong count of reserved slots in slab", slab);
  }
  return Status::Ok();
}

Status HostSlabs::CheckClass(std::uint32_t class_index) const {
  const ClassState& state = classes_[class_index];
  std::uint64_t slabs = 0;
  std::uint64_t slabs_with_room = 0;
  std::uint64_t slots = 0;
  std::uint64_t reserved = 0;
  for (std::uint32_t chunk = 0; chunk < pool_.chunk_count(); ++chunk) {
    const Slab& slab = slabs_[chunk];
    if (slab_of_chunk_[chunk] == chunk && slab.class_index == class_index) {
      ++slabs;
      slabs_with_room += slab.reserved < slab.slots ? 1 : 0;
      slots += slab.slots;
      reserved += slab.reserved;
    }
  }
  if (slabs != state.slabs.get() || slots != state.slots.get() ||
      reserved != state.slots_reserved.get()) {
    return Broken("wrong counts of class", class_index);
  }
  std::uint32_t previous = kNone;
  for (std::uint32_t at = state.first_with_room; at != kNone; at = slabs_[at].next) {
    const Slab& slab = slabs_[at];
    if (slabs_with_room == 0 || slab_of_chunk_[at] != at || slab.class_index != class_index ||
        slab.reserved == slab.slots || slab.previous != previous) {
      return Broken("a slab does not belong into the list of class", class_index);
    }
    --slabs_with_room;
    previous = at;
  }
  return slabs_with_room == 0 ? Status::Ok()
                              : Broken("a slab with room is not in the list of class", class_index);
}

Status HostSlabs::CheckTotals() const {
  std::uint64_t slots = 0;
  std::uint64_t bytes = 0;
  for (std::uint32_t class_index = 0; class_index < kSlotClassCount; ++class_index) {
    const HostClassUsage usage = class_usage(class_index);
    slots += usage.slots_reserved;
    bytes += usage.slots_reserved * usage.slot_bytes;
  }
  const std::uint32_t used_chunks = pool_.chunk_count() - pool_.free_count();
  if (slots != slots_reserved_.get() || bytes != bytes_reserved_.get() ||
      bytes_in_slabs_.get() != std::uint64_t{used_chunks} * kChunkBytes) {
    return Broken("wrong totals with chunks in use:", used_chunks);
  }
  return Status::Ok();
}

}  // namespace kvferry::tiers
