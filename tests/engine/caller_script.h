// CallerScript: what one thread of callers does with an engine, by a seed, checked against a model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvferry/engine.h"

#include "base/random.h"
#include "stress/block_model.h"

namespace kvferry::testing {

// The namespaces and keys that the threads of one test share out: each has a namespace of its own,
// whose blocks have versions, and all share the last one, whose blocks always have the same bytes.
struct ScriptSpaces {
  static constexpr std::uint32_t kKeysPerSpace = 16;
  static constexpr std::uint32_t kBlockBytes = 4 << 10;

  std::vector<NamespaceHandle> handles;
  std::uint32_t shared() const { return static_cast<std::uint32_t>(handles.size()) - 1; }
};

// Keeps several requests in flight in a queue of its own, and follows each to its one end.
//
// For one thread.
class CallerScript {
 public:
  struct Options {
    std::uint64_t seed = 1;
    std::uint32_t own_space = 0;
    // Requests may end early because somebody closes the engine.
    bool may_be_closed = false;
  };
  // `model` is the thread's: one for all its scripts, or none of what they find could be checked.
  CallerScript(Engine& engine,
               const ScriptSpaces& spaces,
               stress::BlockModel& model,
               const Options& options);

  // Makes so many calls, then waits for all ends. False once the engine refuses as closed.
  bool Run(std::uint32_t calls);

  std::uint64_t ended() const { return ended_; }
  std::uint64_t compared() const { return compared_; }
  // What was wrong first; empty if nothing was.
  const std::string& failure() const { return failure_; }

 private:
  enum class Kind : std::uint8_t { kPut, kGet, kPrefetch, kPin, kErase };
  struct Pending {
    Ticket ticket;
    Kind kind = Kind::kGet;
    bool is_cancelled = false;
    bool has_deadline = false;
    std::uint32_t space = 0;
    std::vector<std::uint32_t> keys;
    std::vector<std::uint32_t> versions;
    std::vector<BlockKey> block_keys;
    std::vector<std::vector<std::byte>> blocks;
    std::vector<const std::byte*> sources;
    std::vector<std::byte*> targets;
  };
  struct Held {
    BlockHandle handle;
    std::uint32_t key = 0;
    std::uint32_t oldest = 0;
    std::uint32_t newest = 0;
  };

  void Fail(const std::string& what);
  void Call();
  void Submit();
  Result<Ticket> Send(const Pending& pending, const RequestOptions& options);
  void Began(const Pending& pending);
  bool IsTracked(const Pending& pending) const { return pending.space != spaces_.shared(); }
  std::uint32_t VersionOf(const Pending& pending, std::uint32_t key) const;
  void CancelOne();
  void LookUp();
  void EraseSpace();
  void CheckStats();
  // Waits for at least one end; false if none comes.
  bool Await();
  void End(const Completion& completion);
  void CheckEnd(const Pending& pending, const Completion& completion);
  void EndPin(const Pending& pending, const Completion& completion);
  void CheckHeld(const Held& held);
  void ReleaseOne();

  Engine& engine_;
  const ScriptSpaces& spaces_;
  stress::BlockModel& model_;
  Options options_;
  Random random_;
  std::unique_ptr<CompletionQueue> queue_;
  // Where they lie is told to the engine, so they stay there.
  std::vector<std::unique_ptr<Pending>> pending_;
  std::vector<Held> held_;
  bool is_closed_ = false;
  std::uint64_t ended_ = 0;
  std::uint64_t compared_ = 0;
  std::string failure_;
};

}  // namespace kvferry::testing
