// RunDecodeBench: a synthetic decoder whose sessions exceed HBM, beside the same all resident.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kvferry/function_ref.h"
#include "kvferry/status.h"

#include "bench/decode_plan.h"
#include "bench/decode_report.h"
#include "bench/decode_shape.h"

namespace kvferry::bench {

// What a row of outputs may deviate from double precision: bf16 rounds by 2^-9.
inline constexpr double kDecodeTolerance = 1e-2;

struct DecodeBenchOptions {
  enum class Device : std::uint8_t { kSim, kCuda };

  std::string model;         // A config.json; empty: a toy.
  std::uint32_t layers = 0;  // At most so many of its layers; 0: all.
  std::uint32_t block_tokens = 16;
  std::uint32_t sessions = 16;
  std::uint32_t context_tokens = 204;
  std::uint32_t hbm_blocks = 64;
  std::uint32_t host_blocks = 0;  // 0: room for all sessions, and a quarter more.
  std::string nvme_dir;           // Empty: no NVMe tier.
  std::uint32_t steps = 24;
  std::uint32_t turn_steps = 4;
  std::uint32_t hint_turns = 1;
  Device device = Device::kSim;
  std::uint32_t gpu = 0;           // Of those that are visible, for kCuda.
  std::string schedule = "lazy";   // Of the simulated runtime.
  std::uint32_t check_rows = 256;  // Outputs that are computed in double precision too.
  std::uint64_t seed = 1;

  // kInvalidArgument naming the option, what is wrong with it and what may be; kIoError for a model
  // that cannot be read.
  Result<DecodeShape> Shape() const;
  Result<DecodePlan> Plan(const DecodeShape& shape) const;
  std::uint64_t HostBlocks(const DecodeShape& shape, const DecodePlan& plan) const;
  // What the engine's pool takes to have room for them: whole slabs.
  std::uint64_t HostBytes(const DecodeShape& shape, const DecodePlan& plan) const;
};

// Two runs of one plan: with all sessions on the device, and with --hbm-blocks of them, the rest in
// host memory and on a drive. docs/performance.md says what the cases are. Times leave out the
// first turn. kUnavailable, saying why, without the device that was asked for, and in a build
// without CUDA's headers. To be called while the process has one thread. Files as of RunNvmeBench.
Result<DecodeReport> RunDecodeBench(const DecodeBenchOptions& options,
                                    FunctionRef<void(std::string_view)> on_step);

}  // namespace kvferry::bench
