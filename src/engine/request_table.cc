// Fixed tables of requests and operations, and the queue of those to go on with.
#include "engine/request_table.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace kvferry::engine {
namespace {

constexpr std::uint32_t kOperationsMin = 2 * kWindowBlocks;

}  // namespace

std::uint32_t RequestTable::OperationsMax(std::uint32_t requests_max) {
  return std::max(kOperationsMin, 2 * kFairShare * requests_max);
}

RequestTable::RequestTable(std::uint32_t requests_max)
    : requests_(requests_max), operations_(OperationsMax(requests_max)) {
  free_.reserve(operations_.size());
  for (std::uint32_t number = operations_max(); number > 0; --number) {
    free_.push_back(number - 1);
  }
}

void RequestTable::Begin(std::uint32_t number, const Call& call) {
  Request& request = requests_[number];
  KVFERRY_CHECK(!request.is_active && !request.is_queued);
  request = Request{};
  request.call = call;
  request.limit = static_cast<std::uint32_t>(call.keys.size());
  request.is_active = true;
  ++active_;
}

void RequestTable::End(std::uint32_t number) {
  Request& request = requests_[number];
  KVFERRY_CHECK(request.is_active && request.operations == 0);
  request.is_active = false;
  --active_;
}

bool RequestTable::CanBegin(const Request& request) const {
  if (free_.empty() || request.next - request.base >= kWindowBlocks) {
    return false;
  }
  return request.operations < kFairShare || free_.size() > operations_.size() / 2;
}

std::uint32_t RequestTable::BeginNext(std::uint32_t number) {
  Request& request = requests_[number];
  KVFERRY_CHECK(CanBegin(request));
  const std::uint32_t taken = free_.back();
  free_.pop_back();
  Operation& operation = operations_[taken];
  operation = Operation{};
  operation.request = number;
  operation.index = request.next++;
  operation.next_in_request = request.first_operation;
  if (request.first_operation != kNone) {
    operations_[request.first_operation].previous_in_request = taken;
  }
  request.first_operation = taken;
  ++request.operations;
  return taken;
}

void RequestTable::EndOperation(std::uint32_t number) {
  Operation& operation = operations_[number];
  KVFERRY_CHECK(operation.stage != Operation::Stage::kFree);
  Request& request = requests_[operation.request];
  if (operation.previous_in_request != kNone) {
    operations_[operation.previous_in_request].next_in_request = operation.next_in_request;
  } else {
    request.first_operation = operation.next_in_request;
  }
  if (operation.next_in_request != kNone) {
    operations_[operation.next_in_request].previous_in_request = operation.previous_in_request;
  }
  operation.stage = Operation::Stage::kFree;
  --request.operations;
  free_.push_back(number);
}

void RequestTable::MarkDone(Request& request, std::uint32_t index) {
  KVFERRY_CHECK(index >= request.base && index - request.base < kWindowBlocks);
  request.done |= std::uint64_t{1} << (index - request.base);
  while ((request.done & 1) != 0) {
    request.done >>= 1;
    ++request.base;
  }
}

void RequestTable::Append(OperationList& list, std::uint32_t number) {
  operations_[number].next_waiter = kNone;
  if (list.first == kNone) {
    list.first = number;
  } else {
    operations_[list.last].next_waiter = number;
  }
  list.last = number;
}

std::uint32_t RequestTable::TakeFirst(OperationList& list) {
  const std::uint32_t number = list.first;
  KVFERRY_CHECK(number != kNone);
  list.first = std::exchange(operations_[number].next_waiter, kNone);
  return number;
}

std::uint32_t RequestTable::SkipNext(Request& request) {
  const std::uint32_t index = request.next++;
  MarkDone(request, index);
  return index;
}

void RequestTable::Limit(Request& request, std::uint32_t index, MissReason reason) {
  if (index < request.limit) {
    request.limit = index;
    request.next_missing = reason;
  }
}

void RequestTable::Queue(std::uint32_t number) {
  Request& request = requests_[number];
  if (request.is_queued) {
    return;
  }
  request.is_queued = true;
  request.next_queued = kNone;
  if (last_queued_ == kNone) {
    first_queued_ = number;
  } else {
    requests_[last_queued_].next_queued = number;
  }
  last_queued_ = number;
  ++queued_;
}

std::uint32_t RequestTable::TakeQueued() {
  const std::uint32_t number = first_queued_;
  if (number != kNone) {
    first_queued_ = requests_[number].next_queued;
    last_queued_ = first_queued_ == kNone ? kNone : last_queued_;
    requests_[number].is_queued = false;
    --queued_;
  }
  return number;
}

}  // namespace kvferry::engine
