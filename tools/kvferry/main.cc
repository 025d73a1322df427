// The kvferry command line: one file a subcommand.
#include "kvferry/version.h"

#include <cstdio>

int main() {
  std::printf("kvferry %s\n", kvferry::kVersion);
  return 0;
}
