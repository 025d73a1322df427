# Install rules, so that find_package(kvferry) works: the libraries a user can link today, their
# headers, the kvferry command and the scripts that draw its pages.
include(CMakePackageConfigHelpers)

set(kvferry_config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/kvferry)

# GCC's objects for link-time optimisation link with no other compiler, and make every link of a
# user's slow. Said when somebody installs, since the build itself is in order.
if(CMAKE_INTERPROCEDURAL_OPTIMIZATION)
  install(CODE "message(FATAL_ERROR \"this build's archives are for its own compiler's link-time \"
    \"optimisation only; install another: cmake --workflow --preset package, then \"
    \"cmake --install build/package\")")
endif()

set(kvferry_gpu_libraries)
if(KVFERRY_HAS_CUDA)
  set(kvferry_gpu_libraries kvferry_device_kernels kvferry_gpu kvferry_hbm)
endif()
install(TARGETS kvferry_base kvferry_policy kvferry_tiers kvferry_engine kvferry_interface
  ${kvferry_gpu_libraries}
  EXPORT kvferry
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT kvferry NAMESPACE kvferry:: FILE kvferryTargets.cmake
  DESTINATION ${kvferry_config_folder})
configure_package_config_file(cmake/kvferryConfig.cmake.in
  ${PROJECT_BINARY_DIR}/kvferryConfig.cmake INSTALL_DESTINATION ${kvferry_config_folder})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/kvferryConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/kvferryConfig.cmake
  ${PROJECT_BINARY_DIR}/kvferryConfigVersion.cmake DESTINATION ${kvferry_config_folder})

install(DIRECTORY include/kvferry ${PROJECT_BINARY_DIR}/include/kvferry
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

if(KVFERRY_TOOLS)
  install(TARGETS kvferry RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  file(GLOB page_scripts CONFIGURE_DEPENDS tools/kvferry/*.py tools/kvferry/*.css)
  install(FILES ${page_scripts} DESTINATION ${CMAKE_INSTALL_DATADIR}/kvferry)
endif()
