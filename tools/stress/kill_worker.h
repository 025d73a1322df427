// KillWorker: an engine on real files that first shows that nothing was lost, then works at random
// until its process is killed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kvferry/engine.h"

#include "base/random.h"
#include "stress/block_model.h"
#include "stress/kill_journal.h"

namespace kvferry::stress {

struct KillWorkerOptions {
  std::string folder;
  std::uint64_t seed = 1;
  std::uint64_t capacity_bytes = 0;  // May grow from one process to the next, never shrink.
  bool has_work = true;              // False: verifies, and closes the engine.
  bool fills = false;                // Without work: puts every key before it closes the engine.
  // Somebody has changed the files: what was persisted may be a miss, and the store be refused. A
  // few random requests come between the look and the close.
  bool is_damaged = false;
};

// Every change of the model is in the journal before the engine hears of what it allows, and after
// the engine has acknowledged what it forbids. A violation is noted there, and ends the work.
//
// Thread-confined.
class KillWorker {
 public:
  // Model and journal are borrowed.
  KillWorker(const KillWorkerOptions& options, BlockModel& model, KillJournal& journal);

  // Returns when it has closed the engine, or has found a violation.
  void Run();

 private:
  enum class Kind : std::uint8_t { kPut, kGet, kPrefetch, kPersist, kUnpersist, kErase };
  // A request from its submission to its completion.
  struct Pending {
    bool is_active = false;
    bool is_verifying = false;
    Kind kind = Kind::kGet;
    Ticket ticket;
    std::uint32_t space = 0;
    std::vector<std::uint32_t> keys;
    std::vector<std::uint32_t> oldest;        // Versions, when it was submitted.
    std::vector<std::uint32_t> disturbances;  // Likewise.
    std::vector<BlockKey> block_keys;
    std::vector<std::vector<std::byte>> buffers;
    std::vector<const std::byte*> sources;
    std::vector<std::byte*> targets;
  };

  EngineOptions DrawOptions();
  bool Open();
  bool AwaitScan();
  bool Verify();
  void Work();
  void WorkALittle();
  void Fill();
  void Close();

  void Note(const KillStep& step);
  bool Violates(const std::string& what);
  bool has_violation() const { return journal_.violations > 0; }
  // Null: all are in use.
  Pending* FreePending();
  // The next one that is free, waiting for it; null after a violation.
  Pending* AwaitFree();
  void SubmitRandom(Pending& pending);
  void EraseOneNamespace();
  // Fills in what the request needs, and tells the model.
  void Prepare(Pending& pending);
  void Submit(Pending& pending);
  Result<Ticket> Call(const Pending& pending);
  // Handles what has ended; waits for the first until `deadline`.
  void Reap(Instant deadline);
  void End(Pending& pending, const Completion& completion);
  void CheckBlocks(const Pending& pending, std::uint32_t ready);
  void CheckFound(const Pending& pending, const Completion& completion);

  KillWorkerOptions options_;
  Random random_;
  BlockModel& model_;
  KillJournal& journal_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<CompletionQueue> queue_;
  std::vector<NamespaceHandle> handles_;  // By space.
  std::vector<Pending> pending_;
  std::size_t active_ = 0;
  std::uint64_t reuses_seen_ = 0;
};

}  // namespace kvferry::stress
