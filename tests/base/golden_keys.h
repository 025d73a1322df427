// Namespaces and block keys as tests/base/make_golden_keys.py computes them.
#pragma once

#include <string_view>

namespace kvferry::testing {

inline constexpr std::string_view kSharedNamespace =
    "99f9715fafa88f544dd86814ef2e9d16703a11c9c990c5494dd7c61239623d16";
inline constexpr std::string_view kPrivateNamespace =
    "6bf1a264b17ba238297aee9e6a78d419da16aaf705730f497e9732e353a059e3";
inline constexpr std::string_view kSharedKey0 =
    "6ace18085771deb8558614d189db0b1132aaf2c35644388cd499f5a54b065102";
inline constexpr std::string_view kSharedKey1 =
    "c397a67862135712b6e5f43335b00549762ae2a7b0967be648c81340c7fd7152";
inline constexpr std::string_view kSharedKey2 =
    "933790d61f36cc48bbc8cde7763e32d9a825727c8ea89fb7dd8ff4225dd8f648";
inline constexpr std::string_view kExtraKey =
    "9f2bb306b8f774026568146ae6c47cfeb2dbf8e216922911a6ada1797a4f1c7a";
inline constexpr std::string_view kPrivateKey0 =
    "903d44617965c1d5ab53d5a7aec4c9934b0a1d981a0a41e9622fb7d28d004d90";
inline constexpr std::string_view kCallerKey =
    "64aa52e8d381518c9d9a3c482c75baff44a4f3204f4b627a3631fd5024b10766";

}  // namespace kvferry::testing
