// What readers may believe beside one writer.
#include "base/sequence_lock.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <thread>

#include <gtest/gtest.h>

namespace kvferry {
namespace {

TEST(SequenceLockTest, IsCurrentUntilTheNextWrite) {
  SequenceLock lock;
  const std::uint32_t before = lock.sequence();
  EXPECT_TRUE(lock.IsCurrent(before));

  lock.BeginWrite();
  const std::uint32_t during = lock.sequence();
  EXPECT_FALSE(lock.IsCurrent(before));
  EXPECT_FALSE(lock.IsCurrent(during));
  lock.EndWrite();

  EXPECT_FALSE(lock.IsCurrent(before));
  EXPECT_FALSE(lock.IsCurrent(during));
  EXPECT_TRUE(lock.IsCurrent(lock.sequence()));
}

// A result that a write fell into must not be handed out.
TEST(SequenceLockTest, ReadsAgainWhenAWriteFellBetween) {
  SequenceLock lock;
  int reads = 0;
  const int result = lock.Read([&] {
    if (++reads < 3) {
      const SequenceWrite write(lock);
    }
    return reads;
  });

  EXPECT_EQ(result, 3);
}

// Four words that are always equal, and never go back.
class Words {
 public:
  void Write(std::uint64_t value) {
    const SequenceWrite write(lock_);
    for (std::atomic<std::uint64_t>& word : words_) {
      word.store(value, std::memory_order_release);
    }
  }
  std::array<std::uint64_t, 4> Read() const {
    return lock_.Read([&] {
      std::array<std::uint64_t, 4> seen{};
      for (std::size_t i = 0; i < seen.size(); ++i) {
        seen[i] = words_[i].load(std::memory_order_acquire);
      }
      return seen;
    });
  }

 private:
  SequenceLock lock_;
  std::array<std::atomic<std::uint64_t>, 4> words_{};
};

TEST(SequenceLockTest, ShowsReadersAllOfAWriteOrNothing) {
  constexpr std::uint64_t kWrites = 20'000;
  Words words;
  std::atomic<bool> is_done = false;
  std::atomic<std::uint64_t> torn = 0;
  std::atomic<std::uint64_t> reads = 0;
  const auto read = [&] {
    std::uint64_t latest = 0;
    for (; !is_done.load(); ++reads) {
      const auto seen = words.Read();
      const bool is_whole = seen[1] == seen[0] && seen[2] == seen[0] && seen[3] == seen[0];
      torn += is_whole && seen[0] >= latest ? 0 : 1;
      latest = seen[0];
    }
  };
  std::array<std::thread, 2> readers{std::thread(read), std::thread(read)};

  for (std::uint64_t value = 1; value <= kWrites || reads.load() < kWrites; ++value) {
    words.Write(value);
  }
  is_done = true;
  for (std::thread& reader : readers) {
    reader.join();
  }

  EXPECT_EQ(torn.load(), 0U);
}

}  // namespace
}  // namespace kvferry
