// DecodeBlocks: where the sessions of a `bench decode` have their blocks while they are decoded.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kvferry/status.h"

#include "bench/decode_memory.h"
#include "bench/decode_plan.h"
#include "bench/decode_values.h"
#include "gpu/stream.h"

namespace kvferry::bench {

// What the decoder's loop asks, on its one thread: for each turn BeginTurn; for each of its steps
// Poll and, before each layer, AwaitLayer for each session; at last EndTurn, when the device is
// done with the turn.
class DecodeBlocks {
 public:
  DecodeBlocks() = default;
  DecodeBlocks(const DecodeBlocks&) = delete;
  DecodeBlocks& operator=(const DecodeBlocks&) = delete;
  virtual ~DecodeBlocks() = default;

  // Then the sessions of the turn have pages.
  virtual Status BeginTurn(std::uint32_t turn) = 0;
  virtual Status Poll() = 0;
  // What is queued in the decoder's stream from now on finds this layer of the session's full
  // blocks in place.
  virtual Status AwaitLayer(std::uint32_t session, std::uint32_t layer) = 0;
  virtual Status EndTurn(std::uint32_t turn) = 0;
  // DecodePlan::session_blocks() of them.
  virtual std::span<const std::int32_t> PagesOf(std::uint32_t session) const = 0;
};

// All sessions are there all the time.
class ResidentBlocks final : public DecodeBlocks {
  struct Token {};  // Only Create can name it.

 public:
  // Computes the sessions' full blocks into `memory`, which has room for all of them.
  static Result<std::unique_ptr<ResidentBlocks>> Create(const DecodePlan& plan,
                                                        BlockFeeder& feeder,
                                                        gpu::Stream& stream,
                                                        DecodeMemory& memory);
  explicit ResidentBlocks(Token /*token*/) {}

  Status BeginTurn(std::uint32_t /*turn*/) override { return Status::Ok(); }
  Status Poll() override { return Status::Ok(); }
  Status AwaitLayer(std::uint32_t /*session*/, std::uint32_t /*layer*/) override {
    return Status::Ok();
  }
  Status EndTurn(std::uint32_t /*turn*/) override { return Status::Ok(); }
  std::span<const std::int32_t> PagesOf(std::uint32_t session) const override {
    return pages_[session];
  }

 private:
  std::vector<std::vector<std::int32_t>> pages_;
};

}  // namespace kvferry::bench
