// The miniature: compute, offload, reuse, onboard.
#include "tests/sim/cuda/offload_scene.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "gpu/memory.h"
#include "gpu/stream.h"

namespace kvferry::testing {
namespace {

constexpr std::size_t kBlockBytes = 4096;
constexpr unsigned char kRounds = 6;

template <class T>
T Must(Result<T> result) {
  KVFERRY_CHECK(result.ok());
  return std::move(*result);
}
void Must(const Status& status) {
  KVFERRY_CHECK(status.ok());
}

class Scene {
 public:
  Scene(gpu::Device& device, PlantedBug bug)
      : device_(device),
        bug_(bug),
        compute_(Must(gpu::Stream::Create(device, gpu::StreamPriority::kLowest))),
        copies_(Must(gpu::Stream::Create(device, gpu::StreamPriority::kHighest))),
        produced_(Must(gpu::Event::Create(device))),
        copied_(Must(gpu::Event::Create(device))),
        block_(Must(gpu::DeviceBuffer::Create(device, kBlockBytes))),
        staging_(Must(gpu::PinnedBuffer::Create(device, kBlockBytes))),
        source_(Must(gpu::PinnedBuffer::Create(device, kBlockBytes))) {}

  bool Offload(unsigned char value) {
    Must(compute_.Fill(block_.data(), value, kBlockBytes));
    Must(compute_.Record(produced_));
    if (bug_ != PlantedBug::kNoProducerWait) {
      Must(copies_.WaitFor(produced_));
    }
    Must(copies_.Copy(staging_.bytes().data(), block_.data(), kBlockBytes));
    Must(copies_.Record(copied_));
    if (bug_ != PlantedBug::kReusedTooEarly) {
      Must(compute_.WaitFor(copied_));
    }
    Must(compute_.Fill(block_.data(), 0xEE, kBlockBytes));
    // So that waiting for the copy is not needed for the order of the two streams.
    if (bug_ == PlantedBug::kReusedTooEarly) {
      Must(compute_.Synchronize());
    }
    if (bug_ != PlantedBug::kReadTooEarly) {
      Must(copied_.Synchronize());
    }
    const bool is_right = AllAre(staging_, value);
    Must(copies_.Synchronize());
    Must(compute_.Synchronize());
    return is_right;
  }

  bool Onboard(unsigned char value) {
    std::memset(source_.bytes().data(), value, kBlockBytes);
    Must(copies_.Copy(block_.data(), source_.bytes().data(), kBlockBytes));
    Must(copies_.Record(copied_));
    if (bug_ != PlantedBug::kOverwrittenSource) {
      Must(copied_.Synchronize());
    }
    std::memset(source_.bytes().data(), 0x11, kBlockBytes);
    Must(compute_.WaitFor(copied_));
    Must(compute_.Copy(staging_.bytes().data(), block_.data(), kBlockBytes));
    Must(compute_.Synchronize());
    return AllAre(staging_, value);
  }

  bool UseAndFree(unsigned char value) {
    void* scratch = nullptr;
    const gpu::CudaApi& api = device_.api();
    KVFERRY_CHECK(api.cudaMallocAsync(&scratch, kBlockBytes, compute_.native()) == cudaSuccess);
    Must(compute_.Fill(scratch, value, kBlockBytes));
    Must(compute_.Copy(staging_.bytes().data(), scratch, kBlockBytes));
    const gpu::Stream& freeing = bug_ == PlantedBug::kFreedElsewhere ? copies_ : compute_;
    KVFERRY_CHECK(api.cudaFreeAsync(scratch, freeing.native()) == cudaSuccess);
    Must(compute_.Synchronize());
    return AllAre(staging_, value);
  }

 private:
  static bool AllAre(const gpu::PinnedBuffer& buffer, unsigned char value) {
    const auto bytes = buffer.bytes();
    return std::all_of(bytes.begin(), bytes.end(),
                       [value](std::byte byte) { return byte == std::byte{value}; });
  }

  gpu::Device& device_;
  PlantedBug bug_;
  gpu::Stream compute_;
  gpu::Stream copies_;
  gpu::Event produced_;
  gpu::Event copied_;
  gpu::DeviceBuffer block_;
  gpu::PinnedBuffer staging_;
  gpu::PinnedBuffer source_;
};

}  // namespace

bool RunOffloadScene(PlantedBug bug, const sim::SimCudaOptions& options) {
  sim::SimCuda cuda(options);
  const auto device = Must(gpu::Device::Open(cuda.api(), 0));
  Scene scene(*device, bug);
  bool is_right = true;
  for (unsigned char round = 1; round <= kRounds; ++round) {
    is_right = scene.Offload(round) && is_right;
    is_right = scene.Onboard(static_cast<unsigned char>(0x80 + round)) && is_right;
    is_right = scene.UseAndFree(static_cast<unsigned char>(0x40 + round)) && is_right;
  }
  return is_right;
}

}  // namespace kvferry::testing
