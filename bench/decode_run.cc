// Steps, and what is made on the host for the next one while the device works.
#include "bench/decode_run.h"

#include <array>
#include <chrono>
#include <utility>

#include "base/sha256.h"
#include "bench/decode_attention.h"

namespace kvferry::bench {
namespace {

struct Step {
  std::uint32_t turn = 0;
  std::uint32_t number = 0;  // In its turn.
};

std::vector<DecodeLine> LinesOf(const DecodePlan& plan, const Step& step) {
  const DecodePlan::Turn turn = plan.TurnAt(step.turn);
  std::vector<DecodeLine> lines;
  for (std::uint32_t i = 0; i < turn.sessions; ++i) {
    lines.push_back({.session = turn.first_session + i,
                     .tokens = turn.tokens + step.number + 1,
                     .tail = step.number == 0 ? turn.tokens % plan.block_tokens + 1 : 1});
  }
  return lines;
}

class DecodeLoop {
 public:
  explicit DecodeLoop(const DecodeRunParts& parts)
      : parts_(parts),
        layout_(parts.values.shape(), parts.plan.batch_sessions, parts.plan.session_blocks()) {}

  Result<DecodeTrace> Run() {
    const DecodePlan& plan = parts_.plan;
    gpu::Device& device = parts_.gpu.device();
    KVFERRY_ASSIGN_OR_RETURN(DecodeTrace trace,
                             DecodeTrace::Create(device, plan, parts_.values.shape()));
    KVFERRY_ASSIGN_OR_RETURN(attention_, DecodeAttention::Create(device, parts_.gpu.kernels(),
                                                                 parts_.values.shape(), layout_));
    for (int i = 0; i < 2; ++i) {
      KVFERRY_ASSIGN_OR_RETURN(DecodeInput input,
                               DecodeInput::Create(device, parts_.values, layout_));
      inputs_.push_back(std::move(input));
    }
    inputs_[0].Prepare(LinesOf(plan, {}));
    last_ = Clock::now();
    for (std::uint32_t turn = 0; turn < plan.turns(); ++turn) {
      KVFERRY_RETURN_IF_ERROR(parts_.blocks.BeginTurn(turn));
      for (std::uint32_t number = 0; number < plan.TurnAt(turn).steps; ++number) {
        KVFERRY_RETURN_IF_ERROR(RunStep({turn, number}, trace));
      }
      KVFERRY_RETURN_IF_ERROR(parts_.blocks.EndTurn(turn));
    }
    KVFERRY_RETURN_IF_ERROR(parts_.gpu.CheckKernels());
    return trace;
  }

 private:
  Status RunStep(const Step& step, DecodeTrace& trace) {
    const DecodePlan::Turn turn = parts_.plan.TurnAt(step.turn);
    const std::uint32_t number = turn.first_step + step.number;
    DecodeInput& input = inputs_[number % 2];
    KVFERRY_RETURN_IF_ERROR(parts_.blocks.Poll());
    for (std::uint32_t i = 0; i < turn.sessions; ++i) {
      input.SetPages(i, parts_.blocks.PagesOf(turn.first_session + i));
    }
    KVFERRY_RETURN_IF_ERROR(attention_->Begin(parts_.stream, input));
    for (std::uint32_t layer = 0; layer < parts_.values.shape().layers; ++layer) {
      for (std::uint32_t i = 0; i < turn.sessions; ++i) {
        KVFERRY_RETURN_IF_ERROR(parts_.blocks.AwaitLayer(turn.first_session + i, layer));
      }
      KVFERRY_RETURN_IF_ERROR(input.AppendLayer(parts_.stream, parts_.memory, layer));
      KVFERRY_RETURN_IF_ERROR(attention_->AttendLayer(parts_.stream, parts_.memory, layer));
    }
    KVFERRY_RETURN_IF_ERROR(attention_->End(parts_.stream, trace.OutputsOf(number)));
    if (number + 1 < parts_.plan.steps) {
      const Step next =
          step.number + 1 < turn.steps ? Step{step.turn, step.number + 1} : Step{step.turn + 1, 0};
      inputs_[(number + 1) % 2].Prepare(LinesOf(parts_.plan, next));
    }
    KVFERRY_RETURN_IF_ERROR(parts_.stream.Synchronize());
    const Instant now = Clock::now();
    trace.step_seconds.push_back(
        std::chrono::duration<double>(now - std::exchange(last_, now)).count());
    return Status::Ok();
  }

  const DecodeRunParts& parts_;
  DecodeInput::Layout layout_;
  std::unique_ptr<DecodeAttention> attention_;
  std::vector<DecodeInput> inputs_;
  Instant last_;
};

}  // namespace

Result<DecodeTrace> DecodeTrace::Create(gpu::Device& device,
                                        const DecodePlan& plan,
                                        const DecodeShape& shape) {
  std::vector<std::size_t> offsets;
  std::size_t end = 0;
  for (std::uint32_t turn = 0; turn < plan.turns(); ++turn) {
    const DecodePlan::Turn now = plan.TurnAt(turn);
    for (std::uint32_t step = 0; step < now.steps; ++step) {
      offsets.push_back(end);
      end += std::size_t{now.sessions} * shape.layers * shape.output_bytes();
    }
  }
  KVFERRY_ASSIGN_OR_RETURN(gpu::PinnedBuffer outputs, gpu::PinnedBuffer::Create(device, end));
  return DecodeTrace(shape, std::move(offsets), std::move(outputs));
}

std::span<const BFloat16> DecodeTrace::RowAt(const Row& row) const {
  const std::size_t index =
      (std::size_t{row.layer} * row.lines + row.line) * shape_.query_heads + row.query_head;
  const auto* const begin =
      reinterpret_cast<const BFloat16*>(outputs_.bytes().data() + offsets_[row.step]);
  return {begin + index * shape_.value_width, shape_.value_width};
}

std::string DecodeTrace::Digest() const {
  Sha256 sha;
  sha.Update(outputs_.bytes());
  return ToHex(sha.Finish());
}

Result<DecodeTrace> RunDecode(const DecodeRunParts& parts) {
  return DecodeLoop(parts).Run();
}

std::uint64_t AttendedBytes(const DecodePlan& plan,
                            const DecodeShape& shape,
                            std::uint32_t first_step) {
  std::uint64_t tokens = 0;
  for (std::uint32_t turn = 0; turn < plan.turns(); ++turn) {
    const DecodePlan::Turn now = plan.TurnAt(turn);
    for (std::uint32_t step = 0; step < now.steps; ++step) {
      const bool counts = now.first_step + step >= first_step;
      tokens += counts ? std::uint64_t{now.sessions} * (now.tokens + step + 1) : 0;
    }
  }
  return tokens * shape.token_bytes() * shape.planes();
}

}  // namespace kvferry::bench
