// The handler touches nothing but one fixed buffer, unlink and raise, which a handler may.
#include "base/remove_on_signal.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <utility>

#include "base/assert.h"

namespace kvferry {
namespace {

constexpr std::array kEndingSignals = {SIGTERM, SIGINT, SIGHUP};

struct Watched {
  std::array<char, PATH_MAX> path{};
  std::atomic<bool> is_armed = false;
  std::array<bool, kEndingSignals.size()> is_handled{};
};
static_assert(std::atomic<bool>::is_always_lock_free);

// Without a constructor to run, so that the handler may ask for it.
Watched& TheWatched() {
  static constinit Watched watched;
  return watched;
}

void RemoveAndEnd(int signal) {
  const int kept_errno = errno;
  if (TheWatched().is_armed.load()) {
    ::unlink(TheWatched().path.data());
  }
  errno = kept_errno;
  // SA_RESETHAND has put the default back: the signal comes again when this handler returns.
  ::raise(signal);
}

sigset_t EndingSignals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : kEndingSignals) {
    ::sigaddset(&set, signal);
  }
  return set;
}

}  // namespace

RemoveOnSignal::RemoveOnSignal(const std::string& path) {
  Watched& watched = TheWatched();
  KVFERRY_CHECK(!watched.is_armed.load());
  if (path.size() >= watched.path.size()) {
    return;
  }
  *std::copy(path.begin(), path.end(), watched.path.begin()) = '\0';
  watched.is_armed.store(true);
  struct sigaction action = {};
  action.sa_handler = RemoveAndEnd;
  action.sa_mask = EndingSignals();
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (std::size_t i = 0; i < kEndingSignals.size(); ++i) {
    struct sigaction before = {};
    watched.is_handled[i] = ::sigaction(kEndingSignals[i], nullptr, &before) == 0 &&
                            before.sa_handler == SIG_DFL &&
                            ::sigaction(kEndingSignals[i], &action, nullptr) == 0;
  }
}

RemoveOnSignal::~RemoveOnSignal() {
  Watched& watched = TheWatched();
  watched.is_armed.store(false);
  for (std::size_t i = 0; i < kEndingSignals.size(); ++i) {
    if (std::exchange(watched.is_handled[i], false)) {
      struct sigaction action = {};
      action.sa_handler = SIG_DFL;
      ::sigaction(kEndingSignals[i], &action, nullptr);
    }
  }
}

SignalsHeldBack::SignalsHeldBack() : before_() {
  const sigset_t held_back = EndingSignals();
  ::pthread_sigmask(SIG_BLOCK, &held_back, &before_);
}

SignalsHeldBack::~SignalsHeldBack() {
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace kvferry
