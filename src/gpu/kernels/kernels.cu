// All kernels in one compile unit: nvcc makes the fat binary of it, g++ the simulator's kernels.
#include "gpu/kernels/block_copy.cuh"
#include "gpu/kernels/page_selection.cuh"
#include "gpu/kernels/paged_decode.cuh"
#include "gpu/kernels/quantize.cuh"
#include "gpu/kernels/rotate_keys.cuh"
