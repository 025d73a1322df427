# CUDA's headers and nvcc, each used where it is there; no target links a CUDA library.
option(KVFERRY_CUDA "Build the GPU parts where the CUDA Toolkit's headers are found" ON)
set(KVFERRY_CUDA_ARCHITECTURES 80 90 100 CACHE STRING "Architectures that kernels are built for")

set(KVFERRY_HAS_CUDA OFF)
if(KVFERRY_CUDA)
  find_path(KVFERRY_CUDA_INCLUDE cuda_runtime_api.h
    HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES include)
  find_program(KVFERRY_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda
    PATH_SUFFIXES bin)
  mark_as_advanced(KVFERRY_CUDA_INCLUDE KVFERRY_NVCC)
  if(KVFERRY_CUDA_INCLUDE)
    file(STRINGS ${KVFERRY_CUDA_INCLUDE}/cuda_runtime_api.h version_line
      REGEX "^#define CUDART_VERSION +[0-9]+")
    string(REGEX MATCH "[0-9]+$" cuda_version "${version_line}")
  endif()
  if(NOT KVFERRY_CUDA_INCLUDE)
    message(STATUS "No CUDA headers (KVFERRY_CUDA_INCLUDE): the GPU parts are left out")
  elseif(NOT cuda_version GREATER_EQUAL 13000 OR NOT cuda_version LESS 14000)
    message(STATUS "CUDA headers of version ${cuda_version}, not 13: the GPU parts are left out")
  else()
    set(KVFERRY_HAS_CUDA ON)
    # Headers only. As system headers: they are not written for our warnings.
    add_library(kvferry_cuda_headers INTERFACE)
    target_include_directories(kvferry_cuda_headers SYSTEM INTERFACE ${KVFERRY_CUDA_INCLUDE})
  endif()
endif()
