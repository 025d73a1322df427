// KVFERRY_KERNELS: every kernel's name and the type of its argument, once.
#pragma once

#include "gpu/kernels/block_copy.h"
#include "gpu/kernels/page_selection.h"
#include "gpu/kernels/paged_decode.h"
#include "gpu/kernels/quantize.h"
#include "gpu/kernels/rotate_keys.h"

#define KVFERRY_KERNELS_OF(X, suffix)                   \
  X(kvferry_quantize_rows_##suffix, RowCodes)           \
  X(kvferry_dequantize_rows_##suffix, RowCodes)         \
  X(kvferry_quantize_channels_##suffix, ChannelCodes)   \
  X(kvferry_dequantize_channels_##suffix, ChannelCodes) \
  X(kvferry_rotate_keys_##suffix, KeyRotation)          \
  X(kvferry_decode_64_##suffix, PagedDecode)            \
  X(kvferry_decode_128_##suffix, PagedDecode)           \
  X(kvferry_decode_256_##suffix, PagedDecode)           \
  X(kvferry_decode_mla_##suffix, PagedDecode)           \
  X(kvferry_merge_partials_##suffix, PartialMerge)      \
  X(kvferry_summarize_pages_##suffix, PageSummaries)    \
  X(kvferry_select_pages_##suffix, PageSelection)

#define KVFERRY_KERNELS(X)             \
  X(kvferry_gather_blocks, BlockCopy)  \
  X(kvferry_scatter_blocks, BlockCopy) \
  KVFERRY_KERNELS_OF(X, bf16)          \
  KVFERRY_KERNELS_OF(X, f16)
