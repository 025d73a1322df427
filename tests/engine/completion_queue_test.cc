// The bounded queue between the mover thread and a poller.
#include "engine/completion_queue.h"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "tests/support/status_matchers.h"

namespace kvferry::engine {
namespace {

// Long enough that only a lost wake-up reaches it.
Instant FarAhead() {
  return Clock::now() + std::chrono::minutes(1);
}

std::unique_ptr<BoundedCompletionQueue> QueueOf(std::uint32_t entries_max) {
  auto queue = BoundedCompletionQueue::Create(entries_max, {});
  EXPECT_OK(queue);
  return std::move(*queue);
}

Completion Numbered(std::uint32_t number) {
  Completion completion;
  completion.ticket = {.entry = number, .generation = 1};
  return completion;
}

std::vector<std::uint32_t> PollNumbers(BoundedCompletionQueue& queue, std::size_t count_max) {
  std::vector<Completion> completions(count_max);
  completions.resize(queue.Poll(completions));
  std::vector<std::uint32_t> numbers;
  numbers.reserve(completions.size());
  for (const Completion& completion : completions) {
    numbers.push_back(completion.ticket.entry);
  }
  return numbers;
}

TEST(CompletionQueueTest, RefusesSizesOutOfRange) {
  for (const std::uint32_t entries : {0U, (1U << 20) + 1, 0xffffffffU}) {
    const auto refused = BoundedCompletionQueue::Create(entries, {});
    EXPECT_STATUS(refused, StatusCode::kInvalidArgument);
    EXPECT_EQ(refused.status().message(),
              "a completion queue has 1 to 1048576 entries, not " + std::to_string(entries));
  }
  EXPECT_OK(BoundedCompletionQueue::Create(1, {}));
  EXPECT_OK(BoundedCompletionQueue::Create(1U << 20, {}));
}

// A place that is given twice is a completion without room.
TEST(CompletionQueueTest, CountsUnfinishedAndWaitingAgainstItsBound) {
  const auto queue = QueueOf(3);
  EXPECT_TRUE(queue->TryReserve());
  EXPECT_TRUE(queue->TryReserve());
  queue->Push(Numbered(1));
  EXPECT_TRUE(queue->TryReserve());
  EXPECT_FALSE(queue->TryReserve());

  queue->Push(Numbered(2));
  EXPECT_FALSE(queue->TryReserve());
  EXPECT_THAT(PollNumbers(*queue, 1), ::testing::ElementsAre(1));

  EXPECT_TRUE(queue->TryReserve());
  EXPECT_FALSE(queue->TryReserve());
  queue->Push(Numbered(3));
  queue->Push(Numbered(4));
  EXPECT_THAT(PollNumbers(*queue, 9), ::testing::ElementsAre(2, 3, 4));
  EXPECT_THAT(PollNumbers(*queue, 9), ::testing::IsEmpty());
}

TEST(CompletionQueueTest, CarriesTheWholeCompletion) {
  const auto queue = QueueOf(1);
  Completion completion = Numbered(7);
  completion.status = Status::Error(StatusCode::kCancelled, "closing");
  completion.blocks_ready = 3;
  completion.blocks_stored = 2;
  completion.next_missing = MissReason::kTooLate;
  ASSERT_TRUE(queue->TryReserve());
  queue->Push(completion);

  std::array<Completion, 2> polled;
  ASSERT_EQ(queue->Poll(polled), 1U);
  EXPECT_EQ(polled[0].ticket, completion.ticket);
  EXPECT_EQ(polled[0].status.message(), "closing");
  EXPECT_EQ(polled[0].blocks_ready, 3U);
  EXPECT_EQ(polled[0].blocks_stored, 2U);
  EXPECT_EQ(polled[0].next_missing, MissReason::kTooLate);
}

// The ring wraps at any place, and no order but that of the pushes comes out.
TEST(CompletionQueueTest, GivesTheOldestFirstAcrossItsEnd) {
  constexpr std::uint32_t kEntries = 7;
  const auto queue = QueueOf(kEntries);
  std::deque<std::uint32_t> expected;
  std::uint32_t pushed = 0;
  Random random(3);
  for (int round = 0; round < 2'000; ++round) {
    for (std::uint64_t count = random.Below(4); count > 0; --count) {
      ASSERT_EQ(queue->TryReserve(), expected.size() < kEntries);
      if (expected.size() < kEntries) {
        queue->Push(Numbered(pushed));
        expected.push_back(pushed++);
      }
    }
    for (const std::uint32_t number : PollNumbers(*queue, random.Below(5))) {
      ASSERT_EQ(number, expected.front());
      expected.pop_front();
    }
  }
  EXPECT_GT(pushed, 500U);
}

TEST(CompletionQueueTest, WaitEndsAtADeadlineThatHasPassed) {
  const auto queue = QueueOf(1);
  EXPECT_STATUS(queue->Wait(Clock::now() - std::chrono::seconds(1)), StatusCode::kDeadlineExceeded);
  EXPECT_STATUS(queue->Wait(Instant()), StatusCode::kDeadlineExceeded);
  EXPECT_STATUS(queue->Wait(Clock::now() + std::chrono::milliseconds(1)),
                StatusCode::kDeadlineExceeded);

  // What is there already is told whatever the time.
  ASSERT_TRUE(queue->TryReserve());
  queue->Push(Numbered(1));
  EXPECT_OK(queue->Wait(Instant()));
  EXPECT_OK(queue->Wait(Instant::max()));
}

TEST(CompletionQueueTest, WaitIsWokenByAPush) {
  const auto queue = QueueOf(1);
  for (std::uint32_t round = 0; round < 50; ++round) {
    ASSERT_TRUE(queue->TryReserve());
    std::thread mover([&] { queue->Push(Numbered(round)); });
    EXPECT_OK(queue->Wait(round % 2 == 0 ? FarAhead() : Instant::max()));
    EXPECT_THAT(PollNumbers(*queue, 1), ::testing::ElementsAre(round));
    mover.join();
  }
}

// A poller that has seen the last completion destroys the queue, while the mover thread is still
// about to leave Push.
// A thread that polls without end could not be stopped.
TEST(CompletionQueueTest, WakeEndsOneWaitThatFindsNothing) {
  const auto queue = QueueOf(2);
  std::thread waker([&] { queue->Wake(); });
  EXPECT_STATUS(queue->Wait(Instant::max()), StatusCode::kCancelled);
  waker.join();
  EXPECT_STATUS(queue->Wait(Clock::now()), StatusCode::kDeadlineExceeded);

  ASSERT_TRUE(queue->TryReserve());
  queue->Push(Numbered(1));
  queue->Wake();
  EXPECT_OK(queue->Wait(Instant::max()));  // What has ended comes first.
  EXPECT_EQ(PollNumbers(*queue, 2), std::vector{1U});
  EXPECT_STATUS(queue->Wait(Instant::max()), StatusCode::kCancelled);
}

TEST(CompletionQueueTest, MayBeDestroyedOnceTheLastOneIsPolled) {
  for (std::uint32_t round = 0; round < 200; ++round) {
    auto queue = QueueOf(1);
    BoundedCompletionQueue* const borrowed = queue.get();
    ASSERT_TRUE(queue->TryReserve());
    std::thread mover([borrowed] { borrowed->Push(Numbered(0)); });
    while (PollNumbers(*queue, 1).empty()) {
      std::this_thread::yield();
    }
    queue.reset();
    mover.join();
  }
}

// Lost or doubled completions would show as a wrong sum or a wait without end.
TEST(CompletionQueueTest, DeliversEachOfManyThreadsOnce) {
  constexpr std::size_t kThreads = 3;
  constexpr std::uint32_t kEach = 2'000;
  const auto queue = QueueOf(16);
  std::atomic<std::uint32_t> next = 0;
  const auto push_each = [&] {
    for (std::uint32_t i = 0; i < kEach; ++i) {
      while (!queue->TryReserve()) {
        std::this_thread::yield();
      }
      queue->Push(Numbered(next++));
    }
  };
  std::vector<std::thread> movers(kThreads);
  for (std::thread& mover : movers) {
    mover = std::thread(push_each);
  }

  std::vector<int> seen(kThreads * kEach);
  std::size_t polled = 0;
  while (polled < seen.size() && queue->Wait(FarAhead()).ok()) {
    for (const std::uint32_t number : PollNumbers(*queue, 5)) {
      ++seen[number];
      ++polled;
    }
  }
  for (std::thread& mover : movers) {
    mover.join();
  }

  EXPECT_THAT(seen, ::testing::Each(1));
}

TEST(CompletionQueueDeathTest, StopsWhereAPromiseIsBroken) {
  const auto queue = QueueOf(1);
  EXPECT_DEATH(queue->Push(Numbered(1)), "reserved_");
  EXPECT_DEATH(
      {
        auto left = QueueOf(1);
        (void)left->TryReserve();
        left.reset();
      },
      "reserved_ == 0");
}

// Ends what it is told to end, on a thread of its own and a while later.
class LateOwner final : public QueueOwner {
 public:
  explicit LateOwner(std::atomic<bool>& has_ended) : has_ended_(has_ended) {}
  LateOwner(const LateOwner&) = delete;
  LateOwner& operator=(const LateOwner&) = delete;
  ~LateOwner() override {
    if (thread_.joinable()) {
      thread_.join();
    }
  }

  void EndAllOf(const BoundedCompletionQueue& queue) override {
    EXPECT_EQ(&queue, queue_);
    thread_ = std::thread([this] {
      std::this_thread::yield();
      queue_->Push(Numbered(1));
      has_ended_ = true;
      queue_->Push(Numbered(2));
    });
  }
  void Discard(Ticket ticket) override { discarded.push_back(ticket.entry); }
  void Watch(BoundedCompletionQueue& queue) { queue_ = &queue; }

  std::vector<std::uint32_t> discarded;

 private:
  std::atomic<bool>& has_ended_;
  BoundedCompletionQueue* queue_ = nullptr;
  std::thread thread_;
};

TEST(CompletionQueueTest, HasWhatIsUnfinishedEndedAndWaitsForIt) {
  std::atomic<bool> has_ended = false;
  const auto owner = std::make_shared<LateOwner>(has_ended);
  auto queue = BoundedCompletionQueue::Create(3, owner);
  ASSERT_OK(queue);
  owner->Watch(**queue);
  EXPECT_TRUE((*queue)->IsOf(*owner));
  EXPECT_FALSE(QueueOf(1)->IsOf(*owner));
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE((*queue)->TryReserve());
  }
  (*queue)->Push(Numbered(0));

  queue->reset();

  EXPECT_TRUE(has_ended);
  EXPECT_THAT(owner->discarded, ::testing::ElementsAre(0, 1, 2));
}

TEST(CompletionQueueTest, MayOutliveItsOwner) {
  std::atomic<bool> has_ended = false;
  auto owner = std::make_shared<LateOwner>(has_ended);
  auto queue = BoundedCompletionQueue::Create(1, owner);
  ASSERT_OK(queue);
  ASSERT_TRUE((*queue)->TryReserve());
  (*queue)->Push(Numbered(5));
  owner.reset();

  EXPECT_THAT(PollNumbers(**queue, 1), ::testing::ElementsAre(5));
}

}  // namespace
}  // namespace kvferry::engine
