// The sessions that never leave.
#include "bench/decode_blocks.h"

namespace kvferry::bench {

Result<std::unique_ptr<ResidentBlocks>> ResidentBlocks::Create(const DecodePlan& plan,
                                                               BlockFeeder& feeder,
                                                               gpu::Stream& stream,
                                                               DecodeMemory& memory) {
  auto created = std::make_unique<ResidentBlocks>(Token());
  const std::uint32_t full_blocks = plan.context_tokens / plan.block_tokens;
  for (std::uint32_t session = 0; session < plan.sessions; ++session) {
    created->pages_.push_back(memory.Take(plan.session_blocks()));
    const std::span<const std::int32_t> pages(created->pages_.back());
    KVFERRY_RETURN_IF_ERROR(feeder.Feed(stream, memory, session, 0, pages.first(full_blocks)));
  }
  return created;
}

}  // namespace kvferry::bench
