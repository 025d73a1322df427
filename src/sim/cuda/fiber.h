// Fiber: a stack of its own to switch to; a CUDA thread, to the simulator.
#pragma once

#include <cstddef>

namespace kvferry::sim {

// A switch costs some 20 ns on x86-64 (our own assembly) and some 300 ns elsewhere (swapcontext,
// which asks the kernel each time).
//
// Thread-confined to the thread that runs it.
class Fiber {
 public:
  Fiber() = default;
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Makes this stand for the calling thread as it is, so that fibers can switch back to it.
  void AdoptThread();
  // The next switch here begins `entry` on a fresh stack. It must never return.
  void Prepare(void (*entry)());
  // Gives up what was left in the middle, before this is destroyed: the thread sanitizer does not
  // let an identity end inside of a Quiet, so it is kept for good.
  void Abandon() noexcept { tsan_fiber_ = nullptr; }
  // `entry`'s first call.
  static void Begin();

  // Leaves `from` and goes on in `to`; returns when somebody switches back.
  static void Switch(Fiber& from, Fiber& to);
  // Leaves `from`, which nobody switches to any more before it is prepared anew.
  static void SwitchForGood(Fiber& from, Fiber& to);

 private:
  static void SwitchAs(Fiber& from, Fiber& to, void** fake_stack);

  void* context_ = nullptr;  // Where the stack stood, or a ucontext_t.
  std::byte* stack_ = nullptr;
  std::size_t stack_bytes_ = 0;
  bool is_adopted_ = false;
  void* fake_stack_ = nullptr;
  void* tsan_fiber_ = nullptr;
};

}  // namespace kvferry::sim
