// KeyRotation: keys that were rotated for one position (RoPE), turned on to another.
#pragma once

#include <cstdint>

namespace kvferry::gpu {

// The argument of kvferry_rotate_keys_*: turns the keys of contiguous blocks in place. Moving a
// block by some tokens turns each pair of elements by an angle that depends on the pair and on the
// distance alone, so cosine and sine come from the host, in float from double, for any scaling of
// the frequencies.
struct KeyRotation {
  void* blocks = nullptr;        // [block][plane][row][element], bf16 or fp16 by the kernel's name.
  const float* turns = nullptr;  // [block][pair][2]: cosine and sine.
  std::int32_t plane_count = 0;
  std::int32_t plane_first = 0;   // The planes with keys: this one,
  std::int32_t plane_step = 1;    // and each so many further on.
  std::int32_t rows = 0;          // Tokens times heads.
  std::int32_t row_size = 0;      // Elements.
  std::int32_t rotary_first = 0;  // MLA rotates the end of its row only.
  std::int32_t rotary_size = 0;   // Even.
  bool is_interleaved = false;    // Pairs are neighbours; else element i with i + rotary_size / 2.
};

}  // namespace kvferry::gpu
