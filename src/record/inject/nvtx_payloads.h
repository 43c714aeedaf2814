// Registered strings and domains of NVTX. The program gets their handles and may also use them in a forked child, where
// names have other numbers: so a handle is the text itself, kept for ever, with its latest number.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "record/inject/nvtx_types.h"
#include "record/inject/recorder.h"

namespace profgpu::inject::nvtx {

struct Handle;

/// The same text has the same handle. Null: no room (16 MiB in all), which is counted as a refused name.
const Handle* handle_of(const char* text, size_t length);
/// The text's number in this process; 0 for null.
uint32_t name_of(const Handle* handle);
/// Not terminated by NUL; "" for null.
const char* text_of(const Handle* handle, size_t& length);

// NVTX's payload extension: structures that a program attaches to its events, and their layouts. Schemas are kept for
// ever and written once; the first kMaxPayloadBytes of each payload are copied. Nothing is decoded here.
//
// Budget: 100 ns a payload of 16 bytes, beside its range event.

// nvtx.cc
bool is_wanted();
/// The number of a range that any thread may end.
uint64_t next_range();

/// Posts the payloads of an event and makes its row refer to them: the first kMaxPayloads; others count as dropped.
void attach_payloads(wire::RangeEvent& row, const Handle* domain, const PayloadData* data, size_t count);
inline constexpr size_t kMaxPayloads = 8;

/// The number of a schema: the program's own if it gave a valid one. 0: it cannot be kept.
uint64_t register_schema(const Handle* domain, const SchemaAttributes* attributes);
uint64_t register_enumeration(const Handle* domain, const EnumAttributes* attributes);
/// Bytes of a payload of that schema; 0: unknown.
size_t schema_bytes(const Handle* domain, uint64_t number);
/// Writes all schemas to the file of this process, unless done: a forked child has a new file.
void publish_schemas();

}  // namespace profgpu::inject::nvtx
