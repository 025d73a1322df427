// InlineWorkers: copy jobs are done on the thread that asks for what is done.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "engine/copy_work.h"

namespace kvferry::testing {

// A job is under way from the step that submits it to the next one.
class InlineWorkers final : public engine::CopyWorkers {
 public:
  void Submit(engine::CopyJob& job) override { waiting_.push_back(&job); }
  std::size_t Reap(Instant /*now*/, std::span<engine::CopyJob*> done) override {
    const std::size_t count = std::min(done.size(), waiting_.size());
    for (std::size_t i = 0; i < count; ++i) {
      done[i] = waiting_.back();
      waiting_.pop_back();
      engine::RunCopyJob(*done[i]);
    }
    return count;
  }
  std::size_t in_flight() const noexcept override { return waiting_.size(); }

 private:
  std::vector<engine::CopyJob*> waiting_;
};

}  // namespace kvferry::testing
