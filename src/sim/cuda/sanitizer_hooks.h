// What the simulated runtime tells the sanitizers; without one, each of these does nothing.
#pragma once

#include <cstddef>

namespace kvferry::sim {

// How ThreadSanitizer is made to see CUDA's order, and nothing else:
// 1. This folder is compiled without -fsanitize=thread, but interceptors (malloc, memcpy, mutexes)
//    still see what it calls. Hush makes a scope's accesses and locks invisible.
// 2. The edges are told by Release and Acquire: host to operation, operation to event to waiter,
//    operation to host at a synchronise or a successful query, barriers, __syncwarp, and fence and
//    atomic together. They are ignored inside a Hush, so it is lifted for them (Speak).
// 3. Each stream is a fiber to the sanitizer, and so is each CUDA thread; switches order nothing.
// 4. What Release and Acquire name lies on the heap and lives as short as what it stands for: a
//    reused address would inherit old order, which hides races.
void Release(void* clock) noexcept;
void Acquire(void* clock) noexcept;

// A scope whose accesses and locks the thread sanitizer does not see. Thread-confined.
class Hush {
 public:
  Hush() noexcept;
  ~Hush();
  Hush(const Hush&) = delete;
  Hush& operator=(const Hush&) = delete;
};

// A scope inside a Hush in which it is lifted.
class Speak {
 public:
  Speak() noexcept;
  ~Speak();
  Speak(const Speak&) = delete;
  Speak& operator=(const Speak&) = delete;
};

// As Hush, but locks still order: for code that runs between a kernel's own lines.
class Quiet {
 public:
  Quiet() noexcept;
  ~Quiet();
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
};

// Identities for the thread sanitizer; null without it.
void* CreateTsanFiber() noexcept;
void DestroyTsanFiber(void* fiber) noexcept;
void* CurrentTsanFiber() noexcept;
// Orders nothing.
void SwitchTsanFiber(void* fiber) noexcept;

// The address sanitizer's poison, for the ends of allocations.
void Poison(void* memory, std::size_t size_bytes) noexcept;
void Unpoison(void* memory, std::size_t size_bytes) noexcept;

// A switch of stacks as the address sanitizer wants it told. `fake_stack`: kept by the fiber that
// is left; null if it is left for good.
void StartStackSwitch(void** fake_stack, const void* stack, std::size_t stack_bytes) noexcept;
void FinishStackSwitch(void* fake_stack) noexcept;

// True under the thread sanitizer: races are found without real parallelism.
bool IsThreadSanitized() noexcept;
// Sanitizers make frames larger.
bool IsSanitized() noexcept;

}  // namespace kvferry::sim
