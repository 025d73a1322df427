// The two things that are done to a caller's stream, on the caller's own thread.
#pragma once

#include "kvferry/status.h"

#include "gpu/stream.h"

namespace kvferry::gpu {

// Makes `event` stand for what the caller has queued in `stream` so far: the producer's event of a
// put. kInvalidArgument for the null stream's legacy form, and while `stream` is under capture:
// what is recorded then happens in the graph's launch, not now.
//
// Never called by the mover, which touches no stream of a caller.
Status RecordCallerStream(Event& event, cudaStream_t stream);

// Makes what the caller queues in `stream` from now on wait for `event`. The same errors.
Status MakeCallerStreamWait(cudaStream_t stream, const Event& event);

}  // namespace kvferry::gpu
