// A library that says it is the CUDA runtime 12.4, to be refused.
// NOLINTNEXTLINE(readability-identifier-naming): CUDA's name.
extern "C" __attribute__((visibility("default"))) int cudaRuntimeGetVersion(int* version) {
  *version = 12040;
  return 0;
}
