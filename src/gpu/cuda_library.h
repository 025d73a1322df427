// LoadCudaRuntime: finds libcudart at run time and fills the table from it; nothing links to it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kvferry/status.h"

#include "gpu/cuda_api.h"

namespace kvferry::gpu {

// Where to look, in this order: `file`; what the process has loaded already; `package_folders`; the
// loader's path; `toolkit_folder`.
struct RuntimeSearch {
  std::string file;  // A libcudart by its path, and no other; empty: search.
  // Folders that Python packages lie in; each is asked for nvidia/cu13/lib and
  // nvidia/cuda_runtime/lib, the homes of pip's nvidia-cuda-runtime.
  std::vector<std::string> package_folders;
  std::string toolkit_folder = "/usr/local/cuda/lib64";
};

// A libcudart that stays loaded until destroyed, which must be after everything that uses `api`.
//
// Thread-safe: immutable.
class CudaLibrary {
 public:
  class Token {
    friend class CudaLibrary;
    Token() = default;
  };

  // kUnavailable if there is none of major version 13; the message lists what was tried, and why
  // not. Says nothing of devices: a runtime without a driver loads.
  static Result<std::unique_ptr<CudaLibrary>> Load(const RuntimeSearch& search);

  CudaLibrary(Token token, void* library, std::string origin);
  ~CudaLibrary();
  CudaLibrary(const CudaLibrary&) = delete;
  CudaLibrary& operator=(const CudaLibrary&) = delete;

  const CudaApi& api() const noexcept { return api_; }
  // Its path as it was found, for people.
  const std::string& origin() const noexcept { return origin_; }
  int version() const noexcept { return version_; }  // As CUDART_VERSION: 13000 is 13.0.

 private:
  static Result<std::unique_ptr<CudaLibrary>> Try(const std::string& file, int extra_flags);
  Status Fill();

  void* library_;
  std::string origin_;
  int version_ = 0;
  CudaApi api_;
};

}  // namespace kvferry::gpu
