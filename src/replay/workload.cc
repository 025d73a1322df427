// Sessions as they begin, take turns and end, in the order of time.
#include "replay/workload.h"

#include <cmath>
#include <cstdio>
#include <memory>
#include <queue>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/random.h"
#include "base/sha256.h"
#include "replay/write_mooncake.h"

namespace kvferry::replay {
namespace {

// A distribution by some of its quantiles, straight lines between them: whole numbers only, so that
// every machine draws the same.
struct Quantile {
  std::uint32_t per_mille;
  std::uint32_t value;
};
using Quantiles = std::span<const Quantile>;

// Tokens.
constexpr Quantile kSystemPromptTokens[] = {{0, 60}, {500, 350}, {900, 1'200}, {1000, 3'000}};
constexpr Quantile kAgentPrefixTokens[] = {{0, 6'000}, {500, 12'000}, {1000, 20'000}};
constexpr Quantile kSingleTokens[] = {
    {0, 60}, {500, 700}, {900, 3'300}, {990, 6'700}, {1000, 7'200}};
constexpr Quantile kSingleOutputTokens[] = {{0, 2}, {500, 13}, {900, 60}, {990, 252}, {1000, 900}};
constexpr Quantile kChatTokens[] = {{0, 5}, {500, 60}, {900, 700}, {990, 3'000}, {1000, 9'000}};
constexpr Quantile kChatOutputTokens[] = {
    {0, 5}, {500, 129}, {900, 420}, {990, 601}, {1000, 1'500}};
constexpr Quantile kAgentTaskTokens[] = {{0, 100}, {500, 1'500}, {900, 8'000}, {1000, 20'000}};
constexpr Quantile kAgentToolTokens[] = {
    {0, 20}, {500, 180}, {900, 700}, {990, 2'600}, {1000, 6'000}};
constexpr Quantile kAgentOutputTokens[] = {
    {0, 20}, {500, 209}, {900, 700}, {990, 3'498}, {1000, 8'000}};
// Turns. Values are rounded down, so 27 % of chats have one turn, and none has more than 43.
constexpr Quantile kChatTurns[] = {{0, 1},   {270, 1},  {270, 2},  {600, 4},
                                   {850, 7}, {990, 24}, {1000, 44}};
constexpr Quantile kAgentTurns[] = {{0, 2}, {500, 35}, {900, 142}, {990, 219}, {1000, 260}};
// Milliseconds.
constexpr Quantile kHumanGapMs[] = {{0, 4'000},     {100, 25'000},    {500, 123'000},
                                    {900, 474'000}, {990, 1'458'000}, {1000, 3'000'000}};
constexpr Quantile kToolGapMs[] = {
    {0, 1'000}, {100, 7'000}, {550, 15'500}, {900, 40'000}, {1000, 100'000}};

constexpr double kAgentHumanGapChance = 0.14;
constexpr double kChatBranchChance = 0.10;  // Half of them edit, half regenerate.
constexpr double kAgentRetryChance = 0.01;
constexpr std::uint64_t kChatTokensMax = 32'000;  // Where a session has to end.
constexpr std::uint64_t kAgentTokensMax = 200'000;

constexpr std::uint32_t kRequestsMax = 50'000'000;
constexpr std::uint32_t kBlockTokensMax = 65'536;
constexpr std::uint32_t kPromptsMax = 1'000'000;
constexpr double kSessionsPerMinuteMax = 1e6;
constexpr std::uint64_t kDurationMaxS = 100ULL * 365 * 86'400;
constexpr double kExponentMax = 8;

constexpr std::uint64_t kPoints = 10'000'000;  // To draw from: ten thousand for each per mille.

std::uint64_t ValueAt(Quantiles quantiles, std::uint64_t point) {
  constexpr std::uint64_t kPointsOfOne = kPoints / 1'000;
  std::size_t end = 1;
  while (point >= quantiles[end].per_mille * kPointsOfOne) {
    ++end;
  }
  const Quantile& low = quantiles[end - 1];
  const Quantile& high = quantiles[end];
  const std::uint64_t above = point - low.per_mille * kPointsOfOne;
  return low.value +
         (high.value - low.value) * above / ((high.per_mille - low.per_mille) * kPointsOfOne);
}

std::uint64_t Draw(Quantiles quantiles, Random& random) {
  return ValueAt(quantiles, random.Below(kPoints));
}

enum class Kind : std::uint8_t { kSingle, kChat, kAgent };

// A text by its length and the ids of its full blocks.
struct Prompt {
  std::uint64_t tokens = 0;
  std::vector<std::uint64_t> ids;
};

// Unique ids for new content.
class IdSource {
 public:
  std::uint64_t Next() { return next_++; }

 private:
  std::uint64_t next_ = 0;
};

// The context of one session: what its next request sends.
class Context {
 public:
  Context(const Prompt& prompt, std::uint32_t block_tokens)
      : ids_(prompt.ids), tokens_(prompt.tokens), block_tokens_(block_tokens) {}

  std::uint64_t tokens() const { return tokens_; }
  std::span<const std::uint64_t> ids() const { return ids_; }

  void Append(std::uint64_t tokens, IdSource& source) {
    tokens_ += tokens;
    while (ids_.size() < tokens_ / block_tokens_) {
      ids_.push_back(source.Next());
    }
  }
  // Forgets what follows the first `tokens`. A block that reached over the cut gets another id when
  // it fills up again, because its end will be another one.
  void CutTo(std::uint64_t tokens) {
    tokens_ = tokens;
    ids_.resize(tokens_ / block_tokens_);
  }

 private:
  std::vector<std::uint64_t> ids_;
  std::uint64_t tokens_;
  std::uint32_t block_tokens_;
};

// Where one turn's message begins and ends in the context.
struct Turn {
  std::uint64_t begin_tokens;
  std::uint64_t end_tokens;
};

struct Session {
  Kind kind;
  std::uint32_t number;
  Random random;
  Context context;
  std::uint64_t turns_left;
  std::vector<Turn> turns = {};     // That led to the context as it is.
  std::uint64_t output_tokens = 0;  // Of the last turn; joins the context with the next.
};

struct Event {
  std::int64_t time_us;
  std::uint32_t session;  // Its number: an earlier session goes first among equals.
  bool operator>(const Event& other) const {
    return std::pair(time_us, session) > std::pair(other.time_us, other.session);
  }
};

Status Bad(std::string_view option, std::string_view reason_and_remedy) {
  std::string text("workload option ");
  text.append(option).append(" ").append(reason_and_remedy);
  return Status::Error(StatusCode::kInvalidArgument, std::move(text));
}

bool IsShare(double value) {
  return std::isfinite(value) && value >= 0 && value <= 1e9;
}

Status Check(const WorkloadOptions& options) {
  if (options.requests_max == 0 || options.requests_max > kRequestsMax) {
    return Bad("requests_max", "is out of range: give 1 to 50,000,000 requests");
  }
  if (options.duration_s > kDurationMaxS) {
    return Bad("duration_s", "is out of range: give at most a hundred years, or 0 for no end");
  }
  if (!(options.sessions_per_minute > 0) ||
      !(options.sessions_per_minute <= kSessionsPerMinuteMax) ||
      options.sessions_per_minute < 1e-6) {
    return Bad("sessions_per_minute",
               "is out of range: give 0.000001 to 1,000,000 sessions a minute");
  }
  if (options.block_tokens == 0 || options.block_tokens > kBlockTokensMax) {
    return Bad("block_tokens", "is out of range: give 1 to 65,536 tokens a block");
  }
  if (!IsShare(options.single_share) || !IsShare(options.chat_share) ||
      !IsShare(options.agent_share)) {
    return Bad("*_share", "is out of range: give shares of the sessions, 0 to 1,000,000,000");
  }
  if (options.single_share + options.chat_share + options.agent_share <= 0) {
    return Bad("*_share", "is 0 for all kinds: give at least one kind of session a share");
  }
  if (options.system_prompts == 0 || options.system_prompts > kPromptsMax ||
      options.agent_prefixes == 0 || options.agent_prefixes > kPromptsMax) {
    return Bad("system_prompts", "or agent_prefixes is out of range: give 1 to 1,000,000");
  }
  if (!(options.prompt_exponent >= 0) || !(options.prompt_exponent <= kExponentMax)) {
    return Bad("prompt_exponent", "is out of range: give 0 (all alike) to 8");
  }
  return Status::Ok();
}

class Generator {
 public:
  explicit Generator(const WorkloadOptions& options)
      : options_(options),
        random_(options.seed),
        builder_(options.memory_max_bytes),
        system_popularity_(options.system_prompts, options.prompt_exponent),
        agent_popularity_(options.agent_prefixes, options.prompt_exponent) {
    Random lengths = random_.Fork();
    system_prompts_ = MakePrompts(options.system_prompts, kSystemPromptTokens, lengths);
    agent_prefixes_ = MakePrompts(options.agent_prefixes, kAgentPrefixTokens, lengths);
  }

  Result<Trace> Generate() {
    builder_.BeginStream(0);
    const std::int64_t end_us = options_.duration_s == 0
                                    ? INT64_MAX
                                    : static_cast<std::int64_t>(options_.duration_s) * 1'000'000;
    std::int64_t arrival_us = NextArrival(0);
    std::uint32_t requests = 0;
    while (requests < options_.requests_max) {
      const bool is_arrival = events_.empty() || arrival_us < events_.top().time_us;
      const std::int64_t now_us = is_arrival ? arrival_us : events_.top().time_us;
      if (now_us >= end_us) {
        break;
      }
      std::uint32_t number = 0;
      if (is_arrival) {
        number = BeginSession();
        arrival_us = NextArrival(arrival_us);
      } else {
        number = events_.top().session;
        events_.pop();
      }
      KVFERRY_RETURN_IF_ERROR(TakeTurn(*sessions_[number], now_us));
      ++requests;
    }
    return builder_.Finish(Origin(), options_.selection, false);
  }

 private:
  // Prompts from the most to the least popular. Steps of the golden ratio spread any number of the
  // first ones evenly over the lengths, so that a few popular ones do not decide how long a prompt
  // is.
  std::vector<Prompt> MakePrompts(std::uint32_t count, Quantiles tokens, Random& random) {
    constexpr std::uint64_t kGoldenStep = 6'180'340;  // Of kPoints.
    std::vector<Prompt> prompts(count);
    std::uint64_t point = random.Below(kPoints);
    for (Prompt& prompt : prompts) {
      point = (point + kGoldenStep) % kPoints;
      prompt.tokens = ValueAt(tokens, point);
      for (std::uint64_t block = 0; block < prompt.tokens / options_.block_tokens; ++block) {
        prompt.ids.push_back(ids_.Next());
      }
    }
    return prompts;
  }

  std::int64_t NextArrival(std::int64_t after_us) {
    const double mean_us = 60e6 / options_.sessions_per_minute;
    const double gap_us = random_.Exponential() * mean_us;
    return after_us + static_cast<std::int64_t>(std::llround(gap_us));
  }

  std::uint32_t BeginSession() {
    Random random = random_.Fork();
    const Kind kind = DrawKind(random);
    const Prompt& prompt = kind == Kind::kAgent ? agent_prefixes_[agent_popularity_.Draw(random)]
                                                : system_prompts_[system_popularity_.Draw(random)];
    std::uint64_t turns = 1;
    if (kind != Kind::kSingle) {
      turns = Draw(kind == Kind::kChat ? Quantiles(kChatTurns) : Quantiles(kAgentTurns), random);
    }
    const auto number = static_cast<std::uint32_t>(sessions_.size());
    sessions_.push_back(
        std::make_unique<Session>(Session{.kind = kind,
                                          .number = number,
                                          .random = random,
                                          .context = Context(prompt, options_.block_tokens),
                                          .turns_left = turns}));
    return number;
  }

  Kind DrawKind(Random& random) const {
    const double sum = options_.single_share + options_.chat_share + options_.agent_share;
    const double drawn = random.Fraction() * sum;
    if (drawn < options_.single_share) {
      return Kind::kSingle;
    }
    return drawn < options_.single_share + options_.chat_share || options_.agent_share <= 0
               ? Kind::kChat
               : Kind::kAgent;
  }

  Status TakeTurn(Session& session, std::int64_t now_us) {
    session.context.Append(session.output_tokens, ids_);
    if (!GoBack(session)) {
      const std::uint64_t begin_tokens = session.context.tokens();
      session.context.Append(DrawMessage(session), ids_);
      session.turns.push_back({begin_tokens, session.context.tokens()});
    }
    session.output_tokens = DrawOutput(session);
    name_ = std::to_string(session.number);
    KVFERRY_RETURN_IF_ERROR(
        builder_.Add({.time_ms = now_us / 1000,
                      .input_tokens = static_cast<std::uint32_t>(session.context.tokens()),
                      .output_tokens = static_cast<std::uint32_t>(session.output_tokens),
                      .session = name_,
                      .ids = session.context.ids()}));
    --session.turns_left;
    const std::uint64_t tokens_max =
        session.kind == Kind::kAgent ? kAgentTokensMax : kChatTokensMax;
    if (session.turns_left == 0 || session.context.tokens() + session.output_tokens > tokens_max) {
      sessions_[session.number].reset();
      return Status::Ok();
    }
    const auto gap_us = static_cast<std::int64_t>(DrawGapMs(session)) * 1000;
    events_.push({now_us + gap_us, session.number});
    return Status::Ok();
  }

  // Whether this turn takes up an earlier one: the same message again, to have another answer, or
  // another message in its place. True if the context is ready to be sent as it is.
  static bool GoBack(Session& session) {
    const double chance = session.kind == Kind::kChat ? kChatBranchChance : kAgentRetryChance;
    if (session.turns.empty() || !session.random.Chance(chance)) {
      return false;
    }
    const std::size_t last = session.turns.size() - 1;
    const bool is_same_message = session.kind == Kind::kAgent || session.random.Chance(0.5);
    const std::size_t index = session.kind == Kind::kAgent
                                  ? last
                                  : static_cast<std::size_t>(session.random.Below(last + 1));
    const Turn turn = session.turns[index];
    session.turns.resize(index + (is_same_message ? 1 : 0));
    session.context.CutTo(is_same_message ? turn.end_tokens : turn.begin_tokens);
    return is_same_message;
  }

  static std::uint64_t DrawMessage(Session& session) {
    switch (session.kind) {
      case Kind::kSingle:
        return Draw(kSingleTokens, session.random);
      case Kind::kChat:
        return Draw(kChatTokens, session.random);
      case Kind::kAgent:
        break;
    }
    return Draw(session.turns.empty() ? Quantiles(kAgentTaskTokens) : Quantiles(kAgentToolTokens),
                session.random);
  }

  static std::uint64_t DrawOutput(Session& session) {
    switch (session.kind) {
      case Kind::kSingle:
        return Draw(kSingleOutputTokens, session.random);
      case Kind::kChat:
        return Draw(kChatOutputTokens, session.random);
      case Kind::kAgent:
        break;
    }
    return Draw(kAgentOutputTokens, session.random);
  }

  static std::uint64_t DrawGapMs(Session& session) {
    const bool is_human =
        session.kind == Kind::kChat || session.random.Chance(kAgentHumanGapChance);
    return Draw(is_human ? Quantiles(kHumanGapMs) : Quantiles(kToolGapMs), session.random);
  }

  TraceOrigin Origin() const {
    TraceOrigin origin;
    origin.name = "generated:chat-agents (seed " + std::to_string(options_.seed) + ")";
    origin.format = "generated";
    origin.block_tokens = options_.block_tokens;
    origin.has_blocks = true;
    origin.has_sessions = true;
    origin.notes.push_back(
        "a generated workload, not a recording: it shows what the tool does, not what "
        "a cache would do for you");
    return origin;
  }

  const WorkloadOptions& options_;
  Random random_;
  IdSource ids_;
  TraceBuilder builder_;
  ZipfSampler system_popularity_;
  ZipfSampler agent_popularity_;
  std::vector<Prompt> system_prompts_;
  std::vector<Prompt> agent_prefixes_;
  std::vector<std::unique_ptr<Session>> sessions_;  // By number; null once ended.
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::string name_;
};

ssize_t HashWritten(void* cookie, const char* bytes, std::size_t size) {
  static_cast<Sha256*>(cookie)->Update(std::as_bytes(std::span(bytes, size)));
  return static_cast<ssize_t>(size);
}

// The digest of what WriteMooncake writes, without a file.
Result<std::string> MooncakeSha256(const Trace& trace) {
  struct Close {
    void operator()(std::FILE* stream) const { std::fclose(stream); }
  };
  Sha256 sha;
  const ::cookie_io_functions_t functions = {
      .read = nullptr, .write = HashWritten, .seek = nullptr, .close = nullptr};
  const std::unique_ptr<std::FILE, Close> sink(::fopencookie(&sha, "w", functions));
  if (sink == nullptr) {
    return Status::Error(StatusCode::kResourceExhausted, "no memory for a stream");
  }
  KVFERRY_RETURN_IF_ERROR(WriteMooncake(trace, sink.get()));
  return ToHex(sha.Finish());
}

}  // namespace

Result<Trace> GenerateWorkload(const WorkloadOptions& options) {
  KVFERRY_RETURN_IF_ERROR(Check(options));
  Generator generator(options);
  KVFERRY_ASSIGN_OR_RETURN(Trace trace, generator.Generate());
  KVFERRY_ASSIGN_OR_RETURN(trace.mutable_origin().sha256, MooncakeSha256(trace));
  return trace;
}

}  // namespace kvferry::replay
