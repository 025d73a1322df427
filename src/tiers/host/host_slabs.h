// HostSlabs: slots for blocks in one area of host memory, cut into slabs by size class.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kvferry/status.h"

#include "tiers/host/chunk_pool.h"
#include "tiers/host/host_memory.h"
#include "tiers/host/slot_classes.h"

namespace kvferry::tiers {

// Names a slot by its first page of 4 KiB, counted from the area's start.
struct HostSlot {
  std::uint32_t page = 0;
  bool operator==(const HostSlot&) const = default;
};

struct HostSlabOptions {
  HostMemoryOptions memory;   // Its size is rounded down to 2 MiB; at most 16 TiB.
  bool poison_freed = false;  // Freed slots are filled with kPoison, to show whoever still reads.
};

struct HostUsage {
  std::uint64_t bytes_total = 0;
  std::uint64_t bytes_in_slabs = 0;  // What the size classes have taken from the common pool.
  std::uint64_t bytes_reserved = 0;  // Of the slots in use, as long as they are.
  std::uint64_t slots_reserved = 0;
};

struct HostClassUsage {
  std::uint32_t slot_bytes = 0;
  std::uint32_t slabs = 0;
  std::uint64_t slots = 0;  // In its slabs, reserved or free.
  std::uint64_t slots_reserved = 0;
};

// A slab belongs to one size class (slot_classes.h has the sizes and the bound on waste) and goes
// back to the common pool with its last slot, so that any class may have it next. Where free chunks
// are too scattered for a slab of the usual length, a class takes the longest that it can get and
// that holds a slot; such a slab may leave more unused at its end.
//
// Metadata is allocated at Create: about 100 bytes a chunk of 2 MiB, and 2 KiB of generation
// numbers whose pages are taken when a slot in their range is first freed; 0.11 % in all. A call
// allocates nothing and takes constant time, but for looking for a run of chunks when a class needs
// another slab (8 bytes for 128 MiB).
//
// Thread-confined to the mover thread, except usage() and class_usage(), which are for any thread.
// The bytes of a reserved slot are the reserver's own affair.
class HostSlabs {
  struct Token {};  // Only Create can name it.

 public:
  static constexpr std::byte kPoison{0xdb};

  // Returns at once whatever the size, as HostMemory::Map does, whose errors it passes on.
  // kInvalidArgument for less than 2 MiB or more than 16 TiB; kResourceExhausted when there is no
  // memory for the metadata.
  static Result<std::unique_ptr<HostSlabs>> Create(const HostSlabOptions& options);

  HostSlabs(Token token,
            const HostSlabOptions& options,
            std::unique_ptr<HostMemory> memory,
            std::unique_ptr<HostMemory> generations);
  HostSlabs(const HostSlabs&) = delete;
  HostSlabs& operator=(const HostSlabs&) = delete;
  ~HostSlabs() = default;

  // `size_bytes` is 1 .. kSlotBytesMax. Whether the next Reserve of that size has a slot.
  bool CanReserve(std::uint32_t size_bytes);
  // Slots of that size that the area has when no other size takes any of it; 0: it is too small.
  std::uint64_t SlotsMax(std::uint32_t size_bytes) const;
  // A slot of at least that size, its bytes being whatever was there before; nothing when none is
  // free, which eviction may change.
  std::optional<HostSlot> Reserve(std::uint32_t size_bytes);
  // The slot must be reserved; freeing it twice stops the process.
  void Free(HostSlot slot);

  // The first `size_bytes` of a reserved slot, which must have that many.
  std::span<std::byte> BytesOf(HostSlot slot, std::uint32_t size_bytes) const;
  std::uint32_t SlotBytes(HostSlot slot) const { return SlotBytesAt(PlaceOf(slot).slab); }
  // How often a slot that begins at this page has been freed. Whoever keeps a slot's name beyond
  // its own reservation keeps this number with it.
  std::uint32_t GenerationOf(HostSlot slot) const;
  // Whether the slot is reserved and has not been freed since `generation` was read.
  bool IsCurrent(HostSlot slot, std::uint32_t generation) const;

  HostUsage usage() const noexcept;
  HostClassUsage class_usage(std::uint32_t class_index) const noexcept;
  const HostMemory& memory() const noexcept { return *memory_; }
  // As HostMemory has it.
  void LeaveMapped() noexcept { memory_->LeaveMapped(); }

  // Compares all that is recorded more than once: bits, counts, lists, pool. For tests and the
  // simulation; takes time by the size of the area. kInternal, naming what is wrong.
  Status CheckInvariants() const;

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;
  static constexpr std::uint32_t kWordBits = 64;
  static constexpr std::uint32_t kWordsPerChunk = kPagesPerChunk / kWordBits;

  // One a chunk; in use where a slab begins.
  struct Slab {
    std::uint32_t next = kNone;  // Neighbours among the slabs of the class that have a free slot.
    std::uint32_t previous = kNone;
    std::uint16_t class_index = 0;
    std::uint16_t chunks = 0;
    std::uint16_t slots = 0;
    std::uint16_t reserved = 0;
  };
  // Only the mover writes, so a load and a store make an addition; readers take each number by
  // itself, and no other memory depends on it: relaxed.
  class Count {
   public:
    void Add(std::uint64_t amount) noexcept {
      value_.store(get() + amount, std::memory_order_relaxed);
    }
    void Subtract(std::uint64_t amount) noexcept {
      value_.store(get() - amount, std::memory_order_relaxed);
    }
    std::uint64_t get() const noexcept { return value_.load(std::memory_order_relaxed); }

   private:
    std::atomic<std::uint64_t> value_ = 0;
  };
  struct ClassState {
    std::uint32_t first_with_room = kNone;  // Slab.
    std::uint64_t slots_max = 0;
    Count slabs;
    Count slots;
    Count slots_reserved;
  };
  struct Place {
    std::uint32_t slab;
    std::uint32_t index;  // Of the slot in its slab.
  };

  // The place of the slot that begins at this page and is reserved, or nothing.
  std::optional<Place> Find(HostSlot slot) const;
  Place PlaceOf(HostSlot slot) const;
  std::uint32_t SlotBytesAt(std::uint32_t slab) const {
    return kSlotClasses[slabs_[slab].class_index].slot_pages * kHostPageBytes;
  }
  std::uint32_t* GenerationAt(std::uint32_t page) const;
  std::span<std::uint64_t> WordsOf(std::uint32_t slab);
  std::span<const std::uint64_t> WordsOf(std::uint32_t slab) const;

  std::uint64_t SlotsOfArea(std::uint32_t class_index) const;
  // The length of the run of chunks that the class would get now; 0 for none.
  std::uint32_t SlabChunksFor(std::uint32_t class_index);
  bool AddSlab(std::uint32_t class_index);
  void ReleaseSlab(std::uint32_t slab);
  void Link(std::uint32_t slab);
  void Unlink(std::uint32_t slab);

  Status CheckSlab(std::uint32_t slab) const;
  Status CheckClass(std::uint32_t class_index) const;
  Status CheckTotals() const;

  std::unique_ptr<HostMemory> memory_;
  std::unique_ptr<HostMemory> generations_;  // 32 bits a page.
  bool poison_freed_;
  ChunkPool pool_;
  std::vector<std::uint32_t> slab_of_chunk_;  // The slab's first chunk; kNone where free.
  std::vector<Slab> slabs_;
  std::vector<std::uint64_t> reserved_bits_;  // kWordsPerChunk a chunk, from the slab's first on.
  std::array<ClassState, kSlotClassCount> classes_;
  Count bytes_in_slabs_;
  Count bytes_reserved_;
  Count slots_reserved_;
};

}  // namespace kvferry::tiers
