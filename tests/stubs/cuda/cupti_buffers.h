// Activity buffers between the simulated driver and who records: asked for, filled, handed back on a worker thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cuda_sim {

using BufferRequested = void (*)(uint8_t** buffer, size_t* size, size_t* most_records);
using BufferCompleted = void (*)(void* context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid);

void set_buffer_callbacks(BufferRequested requested, BufferCompleted completed);
bool have_buffer_callbacks();
/// The client promises zeroed buffers (CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER).
void promise_zeroed(bool promised);
void append_record(const void* record, size_t size);
/// Hands back what is there, and returns when it was delivered.
void flush_buffers();
/// Records dropped since this was last asked. Takes the lock that is held while a buffer is requested, as the real one.
uint64_t take_dropped();

}  // namespace cuda_sim
