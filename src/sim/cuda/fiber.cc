// Stacks and the switch between them.
#include "sim/cuda/fiber.h"

#include <pthread.h>
#include <sys/mman.h>

#include <cstdlib>

#include "base/assert.h"
#include "sim/cuda/sanitizer_hooks.h"

#ifndef __x86_64__
#include <ucontext.h>
#endif

#ifdef __x86_64__
extern "C" void KvferrySimSwapStacks(void** left, void* entered);
// Saves what the ABI asks a callee to save, on the old stack, and takes the same from the new one.
asm(R"(
.text
.globl KvferrySimSwapStacks
.hidden KvferrySimSwapStacks
.type KvferrySimSwapStacks,@function
KvferrySimSwapStacks:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp,(%rdi)
  movq %rsi,%rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size KvferrySimSwapStacks,.-KvferrySimSwapStacks
)");
#endif

namespace kvferry::sim {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kStackBytes = std::size_t{64} << 10;
constexpr std::size_t kSanitizedStackBytes = std::size_t{256} << 10;
constexpr std::size_t kSavedRegisters = 6;

}  // namespace

Fiber::~Fiber() {
  if (!is_adopted_) {
    DestroyTsanFiber(tsan_fiber_);  // Null once given up.
    if (stack_ != nullptr) {
      Unpoison(stack_, stack_bytes_);
      ::munmap(stack_ - kPageBytes, stack_bytes_ + kPageBytes);
    }
  }
#ifndef __x86_64__
  std::free(context_);
#endif
}

void Fiber::AdoptThread() {
  is_adopted_ = true;
  tsan_fiber_ = CurrentTsanFiber();
  pthread_attr_t attributes;
  KVFERRY_CHECK(::pthread_getattr_np(::pthread_self(), &attributes) == 0);
  void* stack = nullptr;
  KVFERRY_CHECK(::pthread_attr_getstack(&attributes, &stack, &stack_bytes_) == 0);
  ::pthread_attr_destroy(&attributes);
  stack_ = static_cast<std::byte*>(stack);
#ifndef __x86_64__
  context_ = context_ == nullptr ? std::malloc(sizeof(ucontext_t)) : context_;
  KVFERRY_CHECK(context_ != nullptr);
#endif
}

void Fiber::Prepare(void (*entry)()) {
  if (stack_ == nullptr) {
    stack_bytes_ = IsSanitized() ? kSanitizedStackBytes : kStackBytes;
    void* const memory = ::mmap(nullptr, stack_bytes_ + kPageBytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    KVFERRY_CHECK(memory != MAP_FAILED);
    KVFERRY_CHECK(::mprotect(memory, kPageBytes, PROT_NONE) == 0);
    stack_ = static_cast<std::byte*>(memory) + kPageBytes;
  }
  // The frames of a thread that was left for good never unwound.
  Unpoison(stack_, stack_bytes_);
  if (tsan_fiber_ == nullptr) {
    tsan_fiber_ = CreateTsanFiber();
  }
#ifdef __x86_64__
  auto** top = reinterpret_cast<void**>(stack_ + stack_bytes_);
  *--top = nullptr;  // Aligns the stack as a call would.
  *--top = reinterpret_cast<void*>(entry);
  for (std::size_t i = 0; i < kSavedRegisters; ++i) {
    *--top = nullptr;
  }
  context_ = static_cast<void*>(top);
#else
  context_ = context_ == nullptr ? std::malloc(sizeof(ucontext_t)) : context_;
  KVFERRY_CHECK(context_ != nullptr);
  auto* const context = static_cast<ucontext_t*>(context_);
  KVFERRY_CHECK(::getcontext(context) == 0);
  context->uc_stack.ss_sp = stack_;
  context->uc_stack.ss_size = stack_bytes_;
  context->uc_link = nullptr;
  ::makecontext(context, entry, 0);
#endif
}

void Fiber::Begin() {
  FinishStackSwitch(nullptr);
}

void Fiber::SwitchAs(Fiber& from, Fiber& to, void** fake_stack) {
  StartStackSwitch(fake_stack, to.stack_, to.stack_bytes_);
  SwitchTsanFiber(to.tsan_fiber_);
#ifdef __x86_64__
  KvferrySimSwapStacks(&from.context_, to.context_);
#else
  ::swapcontext(static_cast<ucontext_t*>(from.context_), static_cast<ucontext_t*>(to.context_));
#endif
}

void Fiber::Switch(Fiber& from, Fiber& to) {
  SwitchAs(from, to, &from.fake_stack_);
  FinishStackSwitch(from.fake_stack_);
}

void Fiber::SwitchForGood(Fiber& from, Fiber& to) {
  SwitchAs(from, to, nullptr);
}

}  // namespace kvferry::sim
