// Registered strings and domains of NVTX. Their handles go to the program, which may use them in a forked child too,
// where names have other numbers: so a handle is the text itself, kept for ever, with the number that it last had.
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
/// Not ended by NUL; "" of null.
const char* text_of(const Handle* handle, size_t& length);

// NVTX's payload extension: structures that a program hands over with its events, and how they are laid out. Schemas
// are kept for ever and go to the file once; of each payload the first kMaxPayloadBytes are copied. Nothing is decoded
// here.
//
// Budget: 100 ns a payload of 16 bytes, beside its range event.

// nvtx.cc
bool is_wanted();
/// The number of a range that any thread may end.
uint64_t next_range();

/// Sends the payloads of an event and lets its row refer to them. The first kMostPayloads; others count as dropped.
void attach_payloads(wire::RangeEvent& row, const Handle* domain, const PayloadData* data, size_t count);
inline constexpr size_t kMaxPayloads = 8;

/// The number of a schema: the program's own where it gave one that is allowed. 0: it cannot be kept.
uint64_t register_schema(const Handle* domain, const SchemaAttributes* attributes);
uint64_t register_enumeration(const Handle* domain, const EnumAttributes* attributes);
/// Bytes of a payload of that schema; 0: not known.
size_t schema_bytes(const Handle* domain, uint64_t number);
/// Brings all schemas to the file of this process, where they are not there yet, as in a forked child.
void publish_schemas();

}  // namespace profgpu::inject::nvtx
