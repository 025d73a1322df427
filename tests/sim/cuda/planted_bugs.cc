// Runs one planted bug by its name, for a sanitizer to report: planted_bugs offload-3.
#include <cstdio>
#include <string>

#include "tests/sim/cuda/offload_scene.h"
#include "tests/sim/cuda/planted_kernels.h"

int main(int argument_count, char** arguments) {
  const std::string name = argument_count == 2 ? arguments[1] : "";
  const std::string offload = "offload-";
  bool is_right = false;
  if (name.starts_with(offload)) {
    kvferry::sim::SimCudaOptions options;
    options.schedule = kvferry::sim::CudaSchedule::kEager;
    const int bug = name.back() - '0';
    is_right =
        kvferry::testing::RunOffloadScene(static_cast<kvferry::testing::PlantedBug>(bug), options);
  } else {
    is_right = kvferry::testing::RunPlantedKernel(name);
  }
  std::printf("%s: %s\n", name.c_str(), is_right ? "right" : "WRONG");
  return is_right ? 0 : 1;
}
