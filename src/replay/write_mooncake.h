// WriteMooncake: any decoded trace as Mooncake JSONL.
#pragma once

#include <cstdio>

#include "kvferry/status.h"

#include "replay/trace.h"

namespace kvferry::replay {

// One line a request, in order: timestamp (whole ms), input_length, output_length, block_size,
// hash_ids and, where the trace has sessions, session_id. Ids are the trace's entry numbers and
// session ids its session numbers: names of the source are not kept by a Trace, what is equal stays
// equal. Reading the result gives the same requests, paths and sessions. The caller owns `sink` and
// closes it; it is flushed.
//
// kInvalidArgument, before anything is written, when the trace has no block ids or a request whose
// number of ids Mooncake JSONL cannot express (blocks that end inside a prompt without being full).
// kIoError with errno when the sink takes no more.
Status WriteMooncake(const Trace& trace, std::FILE* sink);

}  // namespace kvferry::replay
