// Shapes that each kernel is launched with, from its argument.
#pragma once

#include <cstdint>

#include "gpu/kernel_library.h"
#include "gpu/kernels/block_copy.h"
#include "gpu/kernels/page_selection.h"
#include "gpu/kernels/paged_decode.h"
#include "gpu/kernels/quantize.h"
#include "gpu/kernels/rotate_keys.h"

namespace kvferry::gpu {

// What a grid's second and third extent may be; more blocks, planes or sequences take another
// launch.
inline constexpr std::uint32_t kGridRowsMax = 65535;

// kInvalidArgument, with the reason, if the kernel cannot copy this: a step or an address that is
// no multiple of 128 bits, sizes below one. The copy engines can, row by row.
Status CheckBlockCopy(const BlockCopy& copy);

// Gather and scatter of `blocks` blocks; few thread blocks each, to leave the GPU to the server.
LaunchShape ShapeOf(const BlockCopy& copy, std::uint32_t blocks);
// Quantise and dequantise.
LaunchShape ShapeOf(const RowCodes& rows);
LaunchShape ShapeOf(const ChannelCodes& codes);
LaunchShape ShapeOf(const KeyRotation& rotation, std::uint32_t blocks);
LaunchShape ShapeOf(const PagedDecode& decode, std::uint32_t sequences, std::uint32_t splits);
LaunchShape ShapeOf(const PartialMerge& merge, std::uint32_t sequences);
LaunchShape ShapeOf(const PageSummaries& work, std::uint32_t pages);
LaunchShape ShapeOf(const PageSelection& work, std::uint32_t sequences);

}  // namespace kvferry::gpu
