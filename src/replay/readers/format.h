// RecognizeFormat: which of the known formats a text is in, told from its beginning.
#pragma once

#include <string>
#include <string_view>

#include "kvferry/status.h"

namespace kvferry::replay {

// So many bytes of the (decompressed) beginning decide.
inline constexpr std::size_t kFormatBytes = std::size_t{1} << 20;

// What follows a byte order mark and white space, where there are any.
std::string_view WithoutMarkAndSpaces(std::string_view start);

// A name of TraceFormats() for a text's beginning, kFormatBytes of it or all. kDataLoss, saying
// what was seen and which formats there are, when it is none of them.
Result<std::string_view> RecognizeFormat(std::string_view start);

// Whether a file of an archive is a session: by its keys, or, where the user says that the archive
// holds sessions, by being JSON at all.
bool LooksLikeSession(std::string_view start, bool is_said);

// Whether the bytes begin a tar archive.
bool IsTar(std::string_view start);
// A look at this many bytes tells.
inline constexpr std::size_t kTarBytes = 512;

// "mooncake, sessions, ...": for messages.
std::string FormatNames();

}  // namespace kvferry::replay
