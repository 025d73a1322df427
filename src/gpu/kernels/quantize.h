// RowCodes and ChannelCodes: values of 16 bits against codes of 8 or 4 with scales.
#pragma once

#include <cstdint>

namespace kvferry::gpu {

enum class CodeFormat : std::int32_t {
  kE4m3,  // FP8, the largest magnitude of a group at 448.
  kInt8,  // Symmetric, at 127.
  kInt4,  // Symmetric, at 7; two codes a byte, the even element in the low half.
};

// The argument of kvferry_quantize_rows_* and kvferry_dequantize_rows_*: groups of contiguous
// elements with a scale each. V of one token and head is such a group, and so are the groups of
// INT4. A group of zeros has scale 0. Values that are not finite have no defined code.
struct RowCodes {
  void* values = nullptr;  // bf16 or fp16, by the kernel's name; only read by quantize.
  unsigned char* codes = nullptr;
  float* scales = nullptr;  // One a group.
  std::int64_t groups = 0;
  std::int32_t group_size = 0;  // Even.
  CodeFormat format = CodeFormat::kInt8;
};

// The argument of kvferry_quantize_channels_* and kvferry_dequantize_channels_*: INT8 with a scale
// for each channel of each plane over all of a block's tokens, as K wants it: its outliers stay in
// their channels.
struct ChannelCodes {
  void* values = nullptr;  // [plane][token][channel]; only read by quantize.
  signed char* codes = nullptr;
  float* scales = nullptr;  // [plane][channel].
  std::int32_t planes = 0;
  std::int32_t tokens = 0;
  std::int32_t channels = 0;  // Heads times head size.
};

}  // namespace kvferry::gpu
