// The queues of io_uring; liburing's only home.
#include "tiers/nvme/uring_kernel.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <string>
#include <vector>

#include <liburing.h>

#include "base/assert.h"
#include "base/file.h"

namespace kvferry::tiers {
namespace {

// With these features the completion queue loses nothing and a wait takes a time limit.
constexpr unsigned kNeededFeatures = IORING_FEAT_NODROP | IORING_FEAT_EXT_ARG;
// From Linux 6.1, from 5.19, and always. Each but the last lets completions be worked off when this
// thread asks, rather than by interrupting it.
constexpr std::array<unsigned, 3> kSetups = {
    IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
    IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG, 0};
constexpr unsigned kBuffersMax = 64;
constexpr std::size_t kEndsAtOnce = 64;

Status Refusal(const std::string& what, int error_number) {
  return Status::Error(StatusCode::kUnavailable, "io_uring: " + what, error_number);
}

class UringKernel final : public KernelRing {
 public:
  UringKernel() = default;
  UringKernel(const UringKernel&) = delete;
  UringKernel& operator=(const UringKernel&) = delete;
  ~UringKernel() override {
    if (is_open_) {
      io_uring_queue_exit(&ring_);
    }
  }

  Status Open(std::span<const int> files, std::uint32_t in_flight_max);

  bool Prepare(const KernelRequest& request) override;
  int Enter() override;
  std::size_t TakeEnds(std::span<KernelEnd> ends) override;
  int EnterAndWait(Duration time_max) override;
  void Wake() noexcept override;
  Status RegisterBuffer(std::span<std::byte> chunk) override;

 private:
  struct Buffer {
    std::span<std::byte> chunk;
    int index = 0;
  };

  void PrepareTransfer(io_uring_sqe& entry, const KernelRequest& request);
  int BufferIndexOf(std::span<std::byte> bytes) const;
  void ListenForWakes();
  void TakeWake();
  void TakeLeadingWakes();

  io_uring ring_{};
  bool is_open_ = false;
  std::vector<int> files_;
  bool has_registered_files_ = false;
  FileDescriptor wake_;        // Becomes readable by Wake().
  bool is_listening_ = false;  // A poll of it is in the ring.
  bool is_woken_ = false;      // The poll has ended since the last wait.
  bool can_register_ = false;
  std::vector<Buffer> buffers_;
};

Status UringKernel::Open(std::span<const int> files, std::uint32_t in_flight_max) {
  files_.assign(files.begin(), files.end());
  buffers_.reserve(kBuffersMax);
  int error = 0;
  io_uring_params params{};
  for (const unsigned flags : kSetups) {
    params = {};
    params.flags = flags;
    // One more for the poll; the completion queue is twice as large.
    error = io_uring_queue_init_params(in_flight_max + 1, &ring_, &params);
    if (error != -EINVAL) {
      break;
    }
  }
  if (error < 0) {
    return Refusal("the kernel refuses a ring", -error);
  }
  is_open_ = true;
  if ((params.features & kNeededFeatures) != kNeededFeatures) {
    return Refusal("the kernel is too old", ENOSYS);
  }
  error = io_uring_ring_dontfork(&ring_);
  if (error < 0) {
    return Refusal("the ring cannot be kept from forked children", -error);
  }
  wake_ = FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_.is_open()) {
    return Refusal("no descriptor for wakes", errno);
  }
  // Registration only spares the kernel work, so a refusal costs nothing but that.
  has_registered_files_ =
      !files_.empty() &&
      io_uring_register_files(&ring_, files_.data(), static_cast<unsigned>(files_.size())) == 0;
  can_register_ = io_uring_register_buffers_sparse(&ring_, kBuffersMax) == 0;
  return Status::Ok();
}

bool UringKernel::Prepare(const KernelRequest& request) {
  io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
  if (entry == nullptr) {
    return false;
  }
  PrepareTransfer(*entry, request);
  io_uring_sqe_set_data(entry, request.op);
  return true;
}

void UringKernel::PrepareTransfer(io_uring_sqe& entry, const KernelRequest& request) {
  const std::uint32_t file_index = request.op->file_index;
  const int file = has_registered_files_ ? static_cast<int>(file_index) : files_.at(file_index);
  const auto length = static_cast<unsigned>(request.rest.size());
  std::byte* const start = request.rest.data();
  const int buffer_index = BufferIndexOf(request.rest);
  switch (request.op->kind) {
    case IoOp::Kind::kRead:
      if (buffer_index >= 0) {
        io_uring_prep_read_fixed(&entry, file, start, length, request.offset_bytes, buffer_index);
      } else {
        io_uring_prep_read(&entry, file, start, length, request.offset_bytes);
      }
      break;
    case IoOp::Kind::kWrite:
      if (buffer_index >= 0) {
        io_uring_prep_write_fixed(&entry, file, start, length, request.offset_bytes, buffer_index);
      } else {
        io_uring_prep_write(&entry, file, start, length, request.offset_bytes);
      }
      break;
    case IoOp::Kind::kSyncData:
      io_uring_prep_fsync(&entry, file, IORING_FSYNC_DATASYNC);
      break;
  }
  if (has_registered_files_) {
    io_uring_sqe_set_flags(&entry, IOSQE_FIXED_FILE);
  }
}

int UringKernel::BufferIndexOf(std::span<std::byte> bytes) const {
  for (const Buffer& buffer : buffers_) {
    const std::byte* const start = buffer.chunk.data();
    if (bytes.data() >= start && bytes.data() + bytes.size() <= start + buffer.chunk.size()) {
      return buffer.index;
    }
  }
  return -1;
}

void UringKernel::ListenForWakes() {
  if (is_listening_) {
    return;
  }
  io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
  if (entry == nullptr) {
    return;  // The queue is full; the next wait listens.
  }
  io_uring_prep_poll_add(entry, wake_.fd(), POLLIN);
  io_uring_sqe_set_data(entry, nullptr);
  is_listening_ = true;
}

int UringKernel::Enter() {
  return io_uring_sq_ready(&ring_) == 0 ? 0 : io_uring_submit(&ring_);
}

std::size_t UringKernel::TakeEnds(std::span<KernelEnd> ends) {
  std::array<io_uring_cqe*, kEndsAtOnce> found{};
  const auto wanted = static_cast<unsigned>(std::min(ends.size(), found.size()));
  std::size_t taken = 0;
  // The ends of polls are not given, so one batch may give nothing while there is more.
  while (taken == 0) {
    const unsigned count = io_uring_peek_batch_cqe(&ring_, found.data(), wanted);
    if (count == 0) {
      return 0;
    }
    for (unsigned i = 0; i < count; ++i) {
      auto* const op = static_cast<IoOp*>(io_uring_cqe_get_data(found.at(i)));
      if (op != nullptr) {
        ends[taken++] = {op, found.at(i)->res};
        continue;
      }
      TakeWake();
    }
    io_uring_cq_advance(&ring_, count);
  }
  return taken;
}

void UringKernel::TakeWake() {
  is_listening_ = false;
  is_woken_ = true;
  std::uint64_t wakes = 0;
  // Nothing to read means that there was nothing to reset.
  [[maybe_unused]] const auto size = ::read(wake_.fd(), &wakes, sizeof(wakes));
}

void UringKernel::TakeLeadingWakes() {
  io_uring_cqe* first = nullptr;
  while (io_uring_peek_cqe(&ring_, &first) == 0 && io_uring_cqe_get_data(first) == nullptr) {
    TakeWake();
    io_uring_cq_advance(&ring_, 1);
  }
}

int UringKernel::EnterAndWait(Duration time_max) {
  ListenForWakes();
  if (is_woken_) {
    is_woken_ = false;
    return Enter();
  }
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time_max);
  __kernel_timespec timeout{};
  timeout.tv_sec = seconds.count();
  timeout.tv_nsec = (time_max - seconds).count();
  io_uring_cqe* first = nullptr;
  const int entered = io_uring_submit_and_wait_timeout(&ring_, &first, 1, &timeout, nullptr);
  TakeLeadingWakes();
  is_woken_ = false;  // This wait has ended by them.
  return entered;
}

void UringKernel::Wake() noexcept {
  const std::uint64_t one = 1;
  // A full counter is a wake that nobody has seen yet, which is as good.
  [[maybe_unused]] const auto size = ::write(wake_.fd(), &one, sizeof(one));
}

Status UringKernel::RegisterBuffer(std::span<std::byte> chunk) {
  if (!can_register_) {
    return Refusal("the kernel has no table of buffers", ENOSYS);
  }
  if (buffers_.size() == kBuffersMax || chunk.size() > kIoBytesMax) {
    return Status::Error(StatusCode::kResourceExhausted,
                         "io_uring: too many buffers, or too large a one");
  }
  const auto index = static_cast<unsigned>(buffers_.size());
  const iovec area = {chunk.data(), chunk.size()};
  __u64 tag = 0;
  const int updated = io_uring_register_buffers_update_tag(&ring_, index, &area, &tag, 1);
  if (updated < 0) {
    return Status::Error(StatusCode::kResourceExhausted, "io_uring: register a buffer", -updated);
  }
  buffers_.push_back({chunk, static_cast<int>(index)});
  return Status::Ok();
}

}  // namespace

Result<std::unique_ptr<KernelRing>> OpenUringKernel(std::span<const int> files,
                                                    std::uint32_t in_flight_max) {
  auto kernel = std::make_unique<UringKernel>();
  KVFERRY_RETURN_IF_ERROR(kernel->Open(files, in_flight_max));
  return std::unique_ptr<KernelRing>(std::move(kernel));
}

}  // namespace kvferry::tiers
