// What runs a kernel's threads on a host: places, barriers, exchanges between the lanes of a warp.
#pragma once

#include <vector_types.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

// Only declarations of what runs a block; src/sim/cuda defines them. Each CUDA thread is a fiber
// there. What the hardware leaves undefined (lanes at different collectives, a mask that names an
// exited lane, threads of a block at different barriers) stops the kernel and says where.
namespace kvferry::gpu::on_host {

inline constexpr std::uint32_t kWarpLanes = 32;

struct ThreadPlace {
  uint3 thread{};
  uint3 block{};
  dim3 block_extent;
  dim3 grid_extent;
  std::uint32_t lane = 0;
  std::uint32_t warp = 0;
};
const ThreadPlace& ThisThread() noexcept;

struct SourcePlace {
  const char* file;
  int line;
};
void SyncThreads(SourcePlace where);
void SyncWarp(std::uint32_t mask, SourcePlace where);
// All lanes of `mask` leave a value; returns the 32 of this round, good until the next.
const std::uint64_t* ExchangeInWarp(std::uint32_t mask, std::uint64_t value, SourcePlace where);
void Fence();
// To be told of each atomic: with a fence before and after it orders, alone it does not.
void NoteAtomic(void* word);
// The block's own variable `key`, full of 0xCB at first.
void* SharedVariable(const void* key, std::size_t size_bytes);
void* DynamicShared() noexcept;
[[noreturn]] void StopKernel(const char* reason, SourcePlace where);

template <class T>
std::uint64_t ToBits(T value) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t) && std::is_trivially_copyable_v<T>);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

template <class T>
T FromBits(std::uint64_t bits) {
  T value;
  std::memcpy(static_cast<void*>(&value), &bits, sizeof value);
  return value;
}

template <class T>
T ShuffleFrom(std::uint32_t mask, T value, std::uint32_t lane, SourcePlace where) {
  const std::uint64_t* const all = ExchangeInWarp(mask, ToBits(value), where);
  if ((mask >> lane & 1U) == 0) {
    StopKernel("a shuffle reads a lane outside of its mask", where);
  }
  return FromBits<T>(all[lane]);
}

template <class T>
T ShuffleXor(std::uint32_t mask, T value, int lanes, SourcePlace where) {
  return ShuffleFrom(mask, value, ThisThread().lane ^ static_cast<std::uint32_t>(lanes), where);
}

inline std::uint32_t Ballot(std::uint32_t mask, bool vote, SourcePlace where) {
  const std::uint64_t* const all = ExchangeInWarp(mask, vote ? 1 : 0, where);
  std::uint32_t votes = 0;
  for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
    votes |= (mask >> lane & 1U) != 0 && all[lane] != 0 ? 1U << lane : 0U;
  }
  return votes;
}

// Tells of the atomic when it is done. Thread-confined.
class AtomicNote {
 public:
  explicit AtomicNote(void* word) : word_(word) {}
  ~AtomicNote() { NoteAtomic(word_); }
  AtomicNote(const AtomicNote&) = delete;
  AtomicNote& operator=(const AtomicNote&) = delete;

 private:
  void* word_;
};

}  // namespace kvferry::gpu::on_host
