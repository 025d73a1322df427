// A program that ends with its engine open and at work, in the way that its argument names.
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

#include "tests/support/tier_engine.h"

namespace {

using kvferry::testing::TierEngine;

// For ever, as one of a static object or of an interpreter.
void LeaveOpen() {
  alignas(TierEngine) static std::array<std::byte, sizeof(TierEngine)> place;
  TierEngine& engine = *std::construct_at(reinterpret_cast<TierEngine*>(place.data()));
  engine.OpenEngine();
  engine.Put(0, 40);
  std::filesystem::remove_all(engine.folder);  // Nobody else will; what is open stays usable.
  std::cout << "open" << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string end = argc == 2 ? argv[1] : "";
  LeaveOpen();
  if (end == "quick_exit") {
    std::quick_exit(0);
  }
  if (end == "SIGINT" || end == "SIGTERM") {
    std::raise(end == "SIGINT" ? SIGINT : SIGTERM);
  }
  if (end == "throw") {
    std::terminate();
  }
  std::exit(end == "exit" ? 0 : 2);
}
