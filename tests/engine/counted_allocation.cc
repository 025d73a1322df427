// The executable's own forms of operator new, over malloc.
#include "tests/engine/counted_allocation.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace kvferry::testing {
namespace {

std::atomic<bool> is_counting = false;
std::atomic<std::uint64_t> counted = 0;
std::atomic<std::uint64_t> counted_bytes = 0;
std::atomic<std::uint64_t> failing_number = 0;
// The main thread is the test's, unless it says otherwise; it sets this before it counts.
thread_local bool is_test_code = false;

bool MayAllocate(std::size_t size) {
  if (!is_counting.load() || is_test_code) {
    return true;
  }
  counted_bytes += size;
  return ++counted != failing_number.load();
}

void* Allocate(std::size_t size, std::size_t alignment) {
  if (!MayAllocate(size)) {
    return nullptr;
  }
  const std::size_t wanted = size == 0 ? 1 : size;
  if (alignment <= alignof(std::max_align_t)) {
    return std::malloc(wanted);
  }
  return std::aligned_alloc(alignment, (wanted + alignment - 1) / alignment * alignment);
}

void* AllocateOrThrow(std::size_t size, std::size_t alignment) {
  void* memory = Allocate(size, alignment);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}

}  // namespace

EngineCode::EngineCode() {
  is_test_code = false;
}

EngineCode::~EngineCode() {
  is_test_code = true;
}

void StartCounting(std::uint64_t failing) {
  is_test_code = true;
  counted = 0;
  counted_bytes = 0;
  failing_number = failing;
  is_counting = true;
}

std::uint64_t StopCounting() {
  is_counting = false;
  return counted;
}

std::uint64_t CountedBytes() {
  return counted_bytes;
}

}  // namespace kvferry::testing

void* operator new(std::size_t size) {
  return kvferry::testing::AllocateOrThrow(size, 1);
}
void* operator new[](std::size_t size) {
  return kvferry::testing::AllocateOrThrow(size, 1);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return kvferry::testing::AllocateOrThrow(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return kvferry::testing::AllocateOrThrow(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  return kvferry::testing::Allocate(size, 1);
}
void* operator new[](std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  return kvferry::testing::Allocate(size, 1);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t /*size*/) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t /*size*/) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t /*size*/, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}
void operator delete[](void* memory,
                       std::size_t /*size*/,
                       std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}
