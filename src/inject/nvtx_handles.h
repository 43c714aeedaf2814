// Registered strings and domains of NVTX. Their handles go to the program, which may use them in a forked child too,
// where names have other numbers: so a handle is the text itself, kept for ever, with the number that it last had.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace profgpu::inject::nvtx {

struct Handle;

/// The same text has the same handle. Null: no room (16 MiB in all), which is counted as a refused name.
const Handle* handle_of(const char* text, size_t length);
/// The text's number in this process; 0 for null.
uint32_t name_of(const Handle* handle);
/// Not ended by NUL; "" of null.
const char* text_of(const Handle* handle, size_t& length);

}  // namespace profgpu::inject::nvtx
