// PagedTensors: a server's paged KV tensors, registered so that blocks can be copied from and to
// the pages that it names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kvferry/device.h"
#include "kvferry/function_ref.h"
#include "kvferry/status.h"

#include "gpu/device.h"
#include "gpu/kernels/block_copy.h"

namespace kvferry::tiers {

// Layers `first` to `first + count - 1` of a group.
struct LayerRange {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  bool operator==(const LayerRange&) const = default;
};

// Tensors stay the server's. While moves use them it must not free them, and the pages that a move
// names belong to the move until it ends. The host form of a block is [plane][token][head][row];
// a block that is not full is none.
//
// Thread-confined, but for what is const. Must outlive the moves that name it; stops the process
// otherwise.
class PagedTensors {
  struct Token {};  // Only Register can name it.

 public:
  // kInvalidArgument, saying which number is wrong, or which plane does not begin or end in device
  // memory.
  static Result<std::unique_ptr<PagedTensors>> Register(gpu::Device& device,
                                                        const DeviceTensors& tensors);

  PagedTensors(Token token, const DeviceTensors& tensors);
  PagedTensors(const PagedTensors&) = delete;
  PagedTensors& operator=(const PagedTensors&) = delete;
  ~PagedTensors();

  // What a move does; a server may unregister while there is none.
  void AddMove() noexcept { ++moves_; }
  void RemoveMove();
  bool is_in_use() const noexcept { return moves_ > 0; }

  std::uint32_t layers() const noexcept { return options_.layers; }
  std::uint64_t block_bytes() const noexcept { return plane_bytes() * options_.planes.size(); }
  // The bytes of these layers in a block's host form, where they are contiguous.
  std::uint64_t BytesOf(LayerRange layers) const noexcept { return BytesOf(layers.count); }
  std::uint64_t OffsetOf(LayerRange layers) const noexcept { return BytesOf(layers.first); }
  std::span<std::byte* const> PlanesOf(LayerRange layers) const;

  // kInvalidArgument for a page that does not exist, or too few or too many of them.
  Status Check(const DeviceBlock& block) const;
  // How many pages a block at that token needs.
  std::uint32_t PagesFor(std::uint32_t first_token) const noexcept;

  // The bytes that are contiguous on both sides for sure; runs of ForEachRun may be longer.
  std::uint64_t run_bytes() const noexcept { return run_bytes_; }
  // Calls `run(device, host, bytes)` for each run of these layers; `host` is where they begin in
  // the block's host form. The block must have passed Check.
  void ForEachRun(const DeviceBlock& block,
                  LayerRange layers,
                  std::byte* host,
                  FunctionRef<void(std::byte*, std::byte*, std::size_t)> run) const;

  // Whether kernels can copy it: everything is a multiple of 128 bits.
  bool fits_kernels() const noexcept { return fits_kernels_; }
  // For a kernel's argument; only where fits_kernels().
  gpu::PagedLayout kernel_layout() const;
  std::uint32_t block_tokens() const noexcept { return options_.block_tokens; }

 private:
  std::uint32_t planes_a_layer() const noexcept {
    return static_cast<std::uint32_t>(options_.planes.size()) / options_.layers;
  }
  std::uint64_t plane_bytes() const noexcept {
    return std::uint64_t{options_.block_tokens} * options_.heads * options_.row_bytes;
  }
  std::uint64_t BytesOf(std::uint32_t layers) const noexcept {
    return plane_bytes() * planes_a_layer() * layers;
  }
  // Calls `run` for the tokens of one plane.
  void RunsOfPlane(const DeviceBlock& block,
                   std::byte* plane,
                   std::byte* host,
                   FunctionRef<void(std::byte*, std::byte*, std::size_t)> run) const;

  std::vector<std::byte*> planes_;
  DeviceTensors options_;  // Its planes are planes_.
  std::uint64_t run_bytes_;
  bool fits_kernels_;
  std::uint32_t moves_ = 0;
};

}  // namespace kvferry::tiers
