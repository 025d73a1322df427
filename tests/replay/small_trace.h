// Traces written out in tests, request by request, and random ones from a seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "replay/trace.h"

namespace kvferry::testing {

struct SmallRequest {
  std::int64_t time_ms = 0;
  std::vector<std::uint64_t> ids;
  std::uint32_t output_tokens = 0;
  std::string session = {};
  std::uint32_t input_tokens = 0;  // 0: all blocks are full.
};

inline constexpr std::uint32_t kSmallBlockTokens = 10;

// Blocks of kSmallBlockTokens. A request with a session makes the sessions given ones.
inline replay::Trace MakeTrace(const std::vector<SmallRequest>& requests) {
  replay::TraceBuilder builder;
  builder.BeginStream(0);
  replay::TraceOrigin origin;
  origin.name = "small";
  origin.sha256 = "00";
  origin.format = "test";
  origin.block_tokens = kSmallBlockTokens;
  for (const SmallRequest& request : requests) {
    const auto full_tokens = static_cast<std::uint32_t>(request.ids.size() * kSmallBlockTokens);
    const Status added =
        builder.Add({.time_ms = request.time_ms,
                     .input_tokens = request.input_tokens == 0 ? full_tokens : request.input_tokens,
                     .output_tokens = request.output_tokens,
                     .session = request.session,
                     .ids = request.ids});
    KVFERRY_CHECK(added.ok());
    origin.has_sessions = origin.has_sessions || !request.session.empty();
  }
  auto trace = builder.Finish(std::move(origin), {}, false);
  KVFERRY_CHECK(trace.ok());
  return std::move(*trace);
}

// Requests that branch off one another at random places of a prefix tree; with `is_chained` false
// the ids recur anywhere, also twice in one request. Some last blocks are partial, some requests
// share a time, and some have no blocks.
inline std::vector<SmallRequest> MakeRandomRequests(std::uint64_t seed, bool is_chained) {
  std::mt19937_64 random(seed);
  const auto below = [&random](std::uint64_t bound) {
    return random() % bound;
  };
  std::vector<SmallRequest> requests;
  std::int64_t time_ms = 0;
  std::uint64_t next_id = 0;
  const std::size_t request_count = 1 + below(60);
  for (std::size_t i = 0; i < request_count; ++i) {
    SmallRequest request;
    time_ms += static_cast<std::int64_t>(below(3) * below(50'000));
    request.time_ms = time_ms;
    request.output_tokens = static_cast<std::uint32_t>(below(40));
    if (!requests.empty() && below(5) != 0) {
      request.ids = requests[below(requests.size())].ids;
      request.ids.resize(below(request.ids.size() + 1));
    }
    for (std::uint64_t added = below(6); added > 0; --added) {
      request.ids.push_back(is_chained ? next_id++ : below(12));
    }
    // A partial last block is another one than the full block at its place, so only new ids are.
    const bool is_new = is_chained && !request.ids.empty() && request.ids.back() + 1 == next_id;
    if (is_new && below(3) == 0) {
      request.input_tokens = static_cast<std::uint32_t>(request.ids.size() * kSmallBlockTokens -
                                                        below(kSmallBlockTokens));
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

}  // namespace kvferry::testing
