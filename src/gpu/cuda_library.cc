// Filling the table from a libcudart that dlopen finds.
#include "gpu/cuda_library.h"

#include <dlfcn.h>

#include <utility>

namespace kvferry::gpu {
namespace {

constexpr const char* kLibraryName = "libcudart.so.13";

struct Candidate {
  std::string file;
  int extra_flags = 0;
  std::string where;
};

std::vector<Candidate> CandidatesOf(const RuntimeSearch& search) {
  if (!search.file.empty()) {
    return {{search.file, 0, "option"}};
  }
  std::vector<Candidate> candidates;
  candidates.push_back({kLibraryName, RTLD_NOLOAD, "already loaded"});
  for (const std::string& folder : search.package_folders) {
    for (const char* package : {"/nvidia/cu13/lib/", "/nvidia/cuda_runtime/lib/"}) {
      candidates.push_back({folder + package + kLibraryName, 0, "Python package"});
    }
  }
  candidates.push_back({kLibraryName, 0, "loader's path"});
  if (!search.toolkit_folder.empty()) {
    candidates.push_back({search.toolkit_folder + "/" + kLibraryName, 0, "toolkit"});
  }
  return candidates;
}

}  // namespace

Result<std::unique_ptr<CudaLibrary>> CudaLibrary::Load(const RuntimeSearch& search) {
  std::string tried;
  for (const Candidate& candidate : CandidatesOf(search)) {
    auto library = Try(candidate.file, candidate.extra_flags);
    if (library.ok()) {
      return library;
    }
    tried.append(tried.empty() ? "" : "; ").append(candidate.where).append(": ");
    tried.append(library.error().message());
  }
  return Status::Error(StatusCode::kUnavailable,
                       "no CUDA runtime of version 13 found; tried " + tried);
}

Result<std::unique_ptr<CudaLibrary>> CudaLibrary::Try(const std::string& file, int extra_flags) {
  void* const handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | extra_flags);
  if (handle == nullptr) {
    const char* const reason = ::dlerror();  // NOLINT(concurrency-mt-unsafe): ours by thread.
    return Status::Error(StatusCode::kUnavailable,
                         reason == nullptr ? file + " is not loaded" : std::string(reason));
  }
  auto library = std::make_unique<CudaLibrary>(Token(), handle, file);
  KVFERRY_RETURN_IF_ERROR(library->Fill());
  return library;
}

CudaLibrary::CudaLibrary(Token /*token*/, void* library, std::string origin)
    : library_(library), origin_(std::move(origin)) {}

CudaLibrary::~CudaLibrary() {
  ::dlclose(library_);
}

Status CudaLibrary::Fill() {
  const auto find = [this](auto& target, const char* name) {
    target = reinterpret_cast<std::remove_reference_t<decltype(target)>>(::dlsym(library_, name));
    return target != nullptr;
  };
  // The version comes first: of another one, any name may be missing or have other arguments.
  if (!find(api_.cudaRuntimeGetVersion, "cudaRuntimeGetVersion") ||
      api_.cudaRuntimeGetVersion(&version_) != cudaSuccess) {
    return Status::Error(StatusCode::kUnavailable, origin_ + " is no CUDA runtime");
  }
  if (version_ / 1000 != kCudaRuntimeMajor) {
    return Status::Error(StatusCode::kUnavailable,
                         origin_ + " has major version " + std::to_string(version_ / 1000));
  }
  const char* missing = nullptr;
#define KVFERRY_CUDA_FIND(name) \
  missing = missing == nullptr && !find(api_.cuda##name, "cuda" #name) ? "cuda" #name : missing;
  KVFERRY_CUDA_ENTRY_POINTS(KVFERRY_CUDA_FIND)
#undef KVFERRY_CUDA_FIND
  if (missing != nullptr) {
    return Status::Error(StatusCode::kUnavailable, origin_ + " lacks " + missing);
  }
  return Status::Ok();
}

}  // namespace kvferry::gpu
