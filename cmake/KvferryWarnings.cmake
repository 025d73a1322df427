# Interface target with the warnings and sanitizer flags that every target of ours is built with.
add_library(kvferry_flags INTERFACE)
target_compile_features(kvferry_flags INTERFACE cxx_std_20)
target_compile_options(kvferry_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wnon-virtual-dtor
  -Wold-style-cast -Woverloaded-virtual -Wimplicit-fallthrough -Wundef -Werror
  -fstack-protector-strong
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>)
if(KVFERRY_SANITIZER STREQUAL "address")
  set(flags -fsanitize=address,undefined,float-divide-by-zero -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
elseif(KVFERRY_SANITIZER STREQUAL "thread")
  set(flags -fsanitize=thread -fno-omit-frame-pointer)
elseif(KVFERRY_SANITIZER STREQUAL "fuzzer")
  set(flags -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
elseif(NOT KVFERRY_SANITIZER STREQUAL "")
  message(FATAL_ERROR
    "KVFERRY_SANITIZER is '${KVFERRY_SANITIZER}': use address, thread, fuzzer or nothing")
endif()
if(flags)
  target_compile_options(kvferry_flags INTERFACE ${flags})
  target_link_options(kvferry_flags INTERFACE ${flags})
endif()
