// Arithmetic of paged tensors on the host's side; block_copy.h has the kernels'.
#include "tiers/hbm/paged_tensors.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/assert.h"
#include "gpu/memory.h"

namespace kvferry::tiers {
namespace {

// Far above any real tensor, far below what could overflow below.
constexpr std::uint64_t kStepBytesMax = std::uint64_t{1} << 40;
constexpr std::uint32_t kCountMax = 1U << 20;

Status Refuse(const std::string& reason) {
  return Status::Error(StatusCode::kInvalidArgument, "paged tensors: " + reason);
}

Status CheckNumbers(const DeviceTensors& options) {
  const std::array<std::pair<const char*, std::uint32_t>, 5> counts = {{
      {"layers", options.layers},
      {"page_tokens", options.page_tokens},
      {"heads", options.heads},
      {"row_bytes", options.row_bytes},
      {"block_tokens", options.block_tokens},
  }};
  for (const auto& [name, count] : counts) {
    if (count == 0 || count > kCountMax) {
      return Refuse(std::string(name) + " is " + std::to_string(count));
    }
  }
  if (options.pages == 0 || options.pages > 0x7fffffffU) {
    return Refuse("pages is " + std::to_string(options.pages));
  }
  if (options.planes.empty() || options.planes.size() % options.layers != 0 ||
      options.planes.size() > kCountMax) {
    return Refuse(std::to_string(options.planes.size()) + " planes for " +
                  std::to_string(options.layers) + " layers");
  }
  for (const std::uint64_t step :
       {options.page_step_bytes, options.token_step_bytes, options.head_step_bytes}) {
    if (step > kStepBytesMax) {
      return Refuse("a step of " + std::to_string(step) + " bytes");
    }
  }
  return Status::Ok();
}

// Rows that lie over each other would be torn by every copy: seen from the smallest step to the
// largest, each dimension begins behind the extent of the ones before.
Status CheckSteps(const DeviceTensors& options) {
  std::array<std::pair<std::uint64_t, std::uint64_t>, 3> steps = {{
      {options.page_step_bytes, options.pages},
      {options.token_step_bytes, options.page_tokens},
      {options.head_step_bytes, options.heads},
  }};
  std::sort(steps.begin(), steps.end());
  std::uint64_t extent_bytes = options.row_bytes;
  for (const auto& [step_bytes, count] : steps) {
    if (count > 1 && step_bytes < extent_bytes) {
      return Refuse("rows overlap by the steps of pages, tokens and heads");
    }
    extent_bytes += (count - 1) * step_bytes;
  }
  return Status::Ok();
}

std::uint64_t ExtentBytes(const DeviceTensors& options) {
  return (options.pages - 1) * options.page_step_bytes +
         (options.page_tokens - 1) * options.token_step_bytes +
         (options.heads - 1) * options.head_step_bytes + options.row_bytes;
}

Status CheckPlanes(gpu::Device& device, const DeviceTensors& options) {
  for (std::size_t i = 0; i < options.planes.size(); ++i) {
    const std::byte* const first = options.planes[i];
    KVFERRY_ASSIGN_OR_RETURN(const bool is_first_there, gpu::IsDeviceMemory(device, first));
    KVFERRY_ASSIGN_OR_RETURN(const bool is_last_there,
                             gpu::IsDeviceMemory(device, first + ExtentBytes(options) - 1));
    if (!is_first_there || !is_last_there) {
      return Refuse("plane " + std::to_string(i) + " does not " +
                    (is_first_there ? "end" : "begin") + " in the device's memory");
    }
  }
  return Status::Ok();
}

std::uint64_t RunBytes(const DeviceTensors& options) {
  const std::uint64_t row = options.row_bytes;
  if (options.head_step_bytes != row && options.heads > 1) {
    return row;
  }
  const std::uint64_t token = row * options.heads;
  if (options.token_step_bytes != token) {
    return token;
  }
  return token * std::min(options.page_tokens, options.block_tokens);
}

bool FitsKernels(const DeviceTensors& options) {
  const auto fits = [](std::uint64_t bytes) {
    return bytes % gpu::kVectorBytes == 0;
  };
  return fits(options.page_step_bytes) && fits(options.token_step_bytes) &&
         fits(options.head_step_bytes) && fits(options.row_bytes) &&
         std::all_of(options.planes.begin(), options.planes.end(), [&](const std::byte* plane) {
           return fits(reinterpret_cast<std::uintptr_t>(plane));
         });
}

}  // namespace

Result<std::unique_ptr<PagedTensors>> PagedTensors::Register(gpu::Device& device,
                                                             const DeviceTensors& tensors) {
  KVFERRY_RETURN_IF_ERROR(CheckNumbers(tensors));
  KVFERRY_RETURN_IF_ERROR(CheckSteps(tensors));
  KVFERRY_RETURN_IF_ERROR(CheckPlanes(device, tensors));
  return std::make_unique<PagedTensors>(Token(), tensors);
}

PagedTensors::PagedTensors(Token /*token*/, const DeviceTensors& tensors)
    : planes_(tensors.planes.begin(), tensors.planes.end()),
      options_(tensors),
      run_bytes_(RunBytes(tensors)),
      fits_kernels_(FitsKernels(tensors)) {
  options_.planes = planes_;
}

PagedTensors::~PagedTensors() {
  KVFERRY_CHECK(moves_ == 0);
}

void PagedTensors::RemoveMove() {
  KVFERRY_CHECK(moves_ > 0);
  --moves_;
}

std::span<std::byte* const> PagedTensors::PlanesOf(LayerRange layers) const {
  KVFERRY_CHECK(layers.first <= options_.layers && layers.count <= options_.layers - layers.first);
  return options_.planes.subspan(std::size_t{layers.first} * planes_a_layer(),
                                 std::size_t{layers.count} * planes_a_layer());
}

std::uint32_t PagedTensors::PagesFor(std::uint32_t first_token) const noexcept {
  return (first_token + options_.block_tokens - 1) / options_.page_tokens + 1;
}

Status PagedTensors::Check(const DeviceBlock& block) const {
  if (block.first_token >= options_.page_tokens ||
      block.pages.size() != PagesFor(block.first_token)) {
    return Refuse(std::to_string(block.pages.size()) + " pages for a block at token " +
                  std::to_string(block.first_token));
  }
  for (const std::int32_t page : block.pages) {
    if (page < 0 || static_cast<std::uint32_t>(page) >= options_.pages) {
      return Refuse("page " + std::to_string(page) + " of " + std::to_string(options_.pages));
    }
  }
  return Status::Ok();
}

void PagedTensors::ForEachRun(const DeviceBlock& block,
                              LayerRange layers,
                              std::byte* host,
                              FunctionRef<void(std::byte*, std::byte*, std::size_t)> run) const {
  for (std::byte* const plane : PlanesOf(layers)) {
    RunsOfPlane(block, plane, host, run);
    host += plane_bytes();
  }
}

void PagedTensors::RunsOfPlane(const DeviceBlock& block,
                               std::byte* plane,
                               std::byte* host,
                               FunctionRef<void(std::byte*, std::byte*, std::size_t)> run) const {
  const std::uint64_t token_bytes = std::uint64_t{options_.heads} * options_.row_bytes;
  for (std::uint32_t token = 0; token < options_.block_tokens;) {
    const std::uint32_t position = block.first_token + token;
    const auto page = static_cast<std::uint64_t>(block.pages[position / options_.page_tokens]);
    const std::uint32_t in_page = position % options_.page_tokens;
    std::byte* const device =
        plane + page * options_.page_step_bytes + in_page * options_.token_step_bytes;
    std::uint32_t tokens = 1;
    if (run_bytes_ > token_bytes) {  // The tokens of a page follow each other without a gap.
      tokens = std::min(options_.page_tokens - in_page, options_.block_tokens - token);
      run(device, host, tokens * token_bytes);
    } else if (run_bytes_ == token_bytes) {
      run(device, host, token_bytes);
    } else {
      for (std::uint32_t head = 0; head < options_.heads; ++head) {
        run(device + head * options_.head_step_bytes,
            host + std::uint64_t{head} * options_.row_bytes, options_.row_bytes);
      }
    }
    token += tokens;
    host += tokens * token_bytes;
  }
}

gpu::PagedLayout PagedTensors::kernel_layout() const {
  KVFERRY_CHECK(fits_kernels_);
  gpu::PagedLayout layout;
  layout.page_step = static_cast<std::int64_t>(options_.page_step_bytes) / gpu::kVectorBytes;
  layout.token_step = static_cast<std::int64_t>(options_.token_step_bytes) / gpu::kVectorBytes;
  layout.head_step = static_cast<std::int64_t>(options_.head_step_bytes) / gpu::kVectorBytes;
  layout.page_tokens = static_cast<std::int32_t>(options_.page_tokens);
  layout.heads = static_cast<std::int32_t>(options_.heads);
  layout.row_vectors = static_cast<std::int32_t>(options_.row_bytes / gpu::kVectorBytes);
  return layout;
}

}  // namespace kvferry::tiers
