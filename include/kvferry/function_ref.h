// FunctionRef: a borrowed callable, valid for the length of one call.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace kvferry {

template <class Signature>
class FunctionRef;

// Refers to a callable without owning it: two pointers, no allocation. For parameters only; the
// callable must outlive the call that it is passed to. Thread-compatible.
template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  template <class F,
            class = std::enable_if_t<!std::is_same_v<std::remove_cvref_t<F>, FunctionRef> &&
                                     std::is_invocable_r_v<R, F&, Args...>>>
  FunctionRef(F&& callable) noexcept  // NOLINT(google-explicit-constructor): made to convert.
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(callable)))),
        call_([](void* object, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<Args>(args)...);
        }) {}

  R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

}  // namespace kvferry
