// Kernels with and without a planted race.
#pragma once

#include <string_view>

namespace kvferry::testing {

// Runs the kernel called `name` in a simulated block or more; false if there is none of that name.
bool RunPlantedKernel(std::string_view name);

}  // namespace kvferry::testing
