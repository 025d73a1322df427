// The sanitizers' interfaces; the one place that knows which sanitizer a build has.
#include "sim/cuda/sanitizer_hooks.h"

// KVFERRY_SIM_TSAN comes from the build, since this folder is compiled without the sanitizer.
#ifdef KVFERRY_SIM_TSAN
#include <sanitizer/tsan_interface.h>
extern "C" {
// NOLINTBEGIN(readability-identifier-naming): the sanitizer's names.
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
void AnnotateIgnoreSyncBegin(const char* file, int line);
void AnnotateIgnoreSyncEnd(const char* file, int line);
// NOLINTEND(readability-identifier-naming)
}
#endif
#if defined(__SANITIZE_ADDRESS__)
#define KVFERRY_SIM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KVFERRY_SIM_ASAN 1
#endif
#endif
#ifdef KVFERRY_SIM_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace kvferry::sim {
namespace {

void IgnoreAccesses() noexcept {
#ifdef KVFERRY_SIM_TSAN
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
#endif
}

void SeeAccesses() noexcept {
#ifdef KVFERRY_SIM_TSAN
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
#endif
}

void IgnoreAll() noexcept {
  IgnoreAccesses();
#ifdef KVFERRY_SIM_TSAN
  AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
#endif
}

void SeeAll() noexcept {
#ifdef KVFERRY_SIM_TSAN
  AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
#endif
  SeeAccesses();
}

}  // namespace

Hush::Hush() noexcept {
  IgnoreAll();
}
Hush::~Hush() {
  SeeAll();
}
Speak::Speak() noexcept {
  SeeAll();
}
Speak::~Speak() {
  IgnoreAll();
}
Quiet::Quiet() noexcept {
  IgnoreAccesses();
}
Quiet::~Quiet() {
  SeeAccesses();
}

#ifdef KVFERRY_SIM_TSAN
void Release(void* clock) noexcept {
  __tsan_release(clock);
}
void Acquire(void* clock) noexcept {
  __tsan_acquire(clock);
}
void* CreateTsanFiber() noexcept {
  return __tsan_create_fiber(0);
}
void DestroyTsanFiber(void* fiber) noexcept {
  if (fiber != nullptr) {
    __tsan_destroy_fiber(fiber);
  }
}
void* CurrentTsanFiber() noexcept {
  return __tsan_get_current_fiber();
}
void SwitchTsanFiber(void* fiber) noexcept {
  __tsan_switch_to_fiber(fiber, __tsan_switch_to_fiber_no_sync);
}
bool IsThreadSanitized() noexcept {
  return true;
}
#else
void Release(void* /*clock*/) noexcept {}
void Acquire(void* /*clock*/) noexcept {}
void* CreateTsanFiber() noexcept {
  return nullptr;
}
void DestroyTsanFiber(void* /*fiber*/) noexcept {}
void* CurrentTsanFiber() noexcept {
  return nullptr;
}
void SwitchTsanFiber(void* /*fiber*/) noexcept {}
bool IsThreadSanitized() noexcept {
  return false;
}
#endif

#ifdef KVFERRY_SIM_ASAN
void Poison(void* memory, std::size_t size_bytes) noexcept {
  __asan_poison_memory_region(memory, size_bytes);
}
void Unpoison(void* memory, std::size_t size_bytes) noexcept {
  __asan_unpoison_memory_region(memory, size_bytes);
}
void StartStackSwitch(void** fake_stack, const void* stack, std::size_t stack_bytes) noexcept {
  __sanitizer_start_switch_fiber(fake_stack, stack, stack_bytes);
}
void FinishStackSwitch(void* fake_stack) noexcept {
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
}
bool IsSanitized() noexcept {
  return true;
}
#else
void Poison(void* /*memory*/, std::size_t /*size_bytes*/) noexcept {}
void Unpoison(void* /*memory*/, std::size_t /*size_bytes*/) noexcept {}
void StartStackSwitch(void** /*fake_stack*/,
                      const void* /*stack*/,
                      std::size_t /*stack_bytes*/) noexcept {}
void FinishStackSwitch(void* /*fake_stack*/) noexcept {}
bool IsSanitized() noexcept {
  return IsThreadSanitized();
}
#endif

}  // namespace kvferry::sim
