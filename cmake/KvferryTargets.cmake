# kvferry_library(), kvferry_test(), kvferry_tool(): the only three ways to add a target.

# kvferry_library(NAME SOURCES ... [DEPS public...] [PRIVATE private...])
# One static library a folder of src/; DEPS repeats the edges of tools/tidy/layers.txt.
function(kvferry_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS;PRIVATE" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  string(REPLACE "kvferry_" "" export_name ${name})
  set_target_properties(${name} PROPERTIES EXPORT_NAME ${export_name}
    POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON CXX_EXTENSIONS OFF)
  target_include_directories(${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${name} PUBLIC cxx_std_20)
  target_link_libraries(${name} PUBLIC ${arg_DEPS}
    PRIVATE $<BUILD_INTERFACE:kvferry_flags> ${arg_PRIVATE})
endfunction()

# kvferry_tool(NAME SOURCES ... DEPS ...): an executable that is no test.
function(kvferry_tool name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES CXX_EXTENSIONS OFF)
  target_link_libraries(${name} PRIVATE kvferry_flags ${arg_DEPS})
  kvferry_compile_quickly(${name})
endfunction()

# Under the sanitizers of the tests most of a build's time goes into optimising what tests and tools
# say once: they go without, which takes no check away. The libraries, where the loops are, do not.
function(kvferry_compile_quickly name)
  if(KVFERRY_SANITIZER MATCHES "^(address|thread)$")
    target_compile_options(${name} PRIVATE -O0)
  endif()
endfunction()

# kvferry_test(NAME SOURCES ... DEPS ... [THREADED ...] [LABELS ...] [TIMEOUT seconds])
# One executable a folder of tests/; every TEST in it becomes a ctest of its own. THREADED repeats
# the sources whose units have threads, which are all that a build for the thread sanitizer compiles
# of them (the test preset tsan names their suites); without it that is every source.
function(kvferry_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;DEPS;LABELS;THREADED" ${ARGN})
  if(KVFERRY_SANITIZER STREQUAL "thread" AND arg_THREADED)
    set(arg_SOURCES ${arg_THREADED})
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  if(NOT KVFERRY_SANITIZER STREQUAL "")
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 4")  # A sanitizer costs a factor of two to ten.
  endif()
  add_executable(${name} ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES CXX_EXTENSIONS OFF)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE kvferry_flags ${arg_DEPS} GTest::gmock GTest::gtest_main)
  kvferry_compile_quickly(${name})
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}")
endfunction()
