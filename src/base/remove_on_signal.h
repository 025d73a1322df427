// RemoveOnSignal: one unfinished file that TERM, INT and HUP do not leave behind.
#pragma once

#include <csignal>
#include <string>

namespace kvferry {

// While it lives, the signals TERM, INT and HUP remove the file before they end the process as they
// would have without it: the exit status is the signal's. A signal that the process ignores or
// handles itself stays as it is. Nothing is removed at destruction.
//
// One at a time in a process; created and destroyed by one thread, the signal may reach any.
class RemoveOnSignal {
 public:
  // A path longer than PATH_MAX, which no system call takes, is not watched.
  explicit RemoveOnSignal(const std::string& path);
  RemoveOnSignal(const RemoveOnSignal&) = delete;
  RemoveOnSignal& operator=(const RemoveOnSignal&) = delete;
  ~RemoveOnSignal();
};

// The same signals wait, for the calling thread, until it is destroyed.
//
// Created and destroyed by one thread.
class SignalsHeldBack {
 public:
  SignalsHeldBack();
  SignalsHeldBack(const SignalsHeldBack&) = delete;
  SignalsHeldBack& operator=(const SignalsHeldBack&) = delete;
  ~SignalsHeldBack();

 private:
  sigset_t before_;
};

}  // namespace kvferry
