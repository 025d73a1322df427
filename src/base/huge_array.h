// HugeArray: a table of fixed size on huge pages where the system gives them.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>

namespace kvferry {

// Asks for huge pages under this memory; no more than a wish.
void AdviseHugePages(void* memory, std::size_t size_bytes) noexcept;

// Zero bytes from the system, at a multiple of `alignment` (a power of two, of pages); a page comes
// when it is touched. `flags` are further ones of mmap. Null if there are none; errno says why. For
// UnmapBytes with the same size.
void* MapZeroBytes(std::size_t size_bytes, std::size_t alignment, int flags = 0) noexcept;
void UnmapBytes(void* memory, std::size_t size_bytes) noexcept;

// Says that elements are to be zero bytes.
struct ZeroBytes {};
inline constexpr ZeroBytes kZeroBytes;

// For tables that are read at random places: with pages of 4 KiB most of such a read is the walk
// through the page tables. Elements are value-initialised, or zero bytes, which must be as good:
// then a large table is made in no time, and its pages come when they are touched. The size never
// changes. Throws std::bad_alloc, as a vector would. Thread-compatible as an array is.
template <class T>
class HugeArray {
 public:
  HugeArray() noexcept = default;
  explicit HugeArray(std::size_t size) : size_(size) {
    static_assert(std::is_nothrow_default_constructible_v<T>);
    static_assert(std::is_trivially_destructible_v<T>);
    const bool is_large = size_bytes() >= kHugePageBytes;
    const std::align_val_t alignment{is_large ? kHugePageBytes : kSmallAlignment};
    void* const memory = ::operator new(size_bytes(), alignment);
    elements_ = std::unique_ptr<T, Free>(static_cast<T*>(memory), Free{alignment});
    if (is_large) {
      AdviseHugePages(memory, size_bytes());
    }
    std::uninitialized_value_construct_n(elements_.get(), size);
  }
  HugeArray(std::size_t size, ZeroBytes /*of_elements*/) : size_(size) {
    static_assert(std::is_trivially_destructible_v<T>);
    if (size_bytes() < kHugePageBytes) {
      const std::align_val_t alignment{kSmallAlignment};
      void* const memory = ::operator new(size_bytes(), alignment);
      std::memset(memory, 0, size_bytes());
      elements_ = std::unique_ptr<T, Free>(static_cast<T*>(memory), Free{alignment});
      return;
    }
    void* const memory = MapZeroBytes(size_bytes(), kHugePageBytes);
    if (memory == nullptr) {
      throw std::bad_alloc();
    }
    elements_ =
        std::unique_ptr<T, Free>(static_cast<T*>(memory), Free{.mapped_bytes = size_bytes()});
    AdviseHugePages(memory, size_bytes());
  }

  T& operator[](std::size_t index) { return elements_.get()[index]; }
  const T& operator[](std::size_t index) const { return elements_.get()[index]; }
  T* data() noexcept { return elements_.get(); }
  const T* data() const noexcept { return elements_.get(); }
  std::size_t size() const noexcept { return size_; }
  std::size_t size_bytes() const noexcept { return size_ * sizeof(T); }

 private:
  static constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
  static constexpr std::size_t kSmallAlignment = alignof(T) > 64 ? alignof(T) : 64;

  struct Free {
    std::align_val_t alignment{kSmallAlignment};
    std::size_t mapped_bytes = 0;  // 0: it is not mapped.
    void operator()(T* elements) const noexcept {
      if (mapped_bytes > 0) {
        UnmapBytes(elements, mapped_bytes);
      } else {
        ::operator delete(elements, alignment);
      }
    }
  };

  std::unique_ptr<T, Free> elements_;
  std::size_t size_ = 0;
};

}  // namespace kvferry
