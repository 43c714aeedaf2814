// PyTorch (Kineto) traces: the file level. See kineto_event.h for one event.
#pragma once

#include <string>
#include <string_view>

#include "trace/import/importer.h"
#include "trace/trace_builder.h"

namespace profgpu {

extern const Importer kKineto;

/// Fields beside the events: device properties, rank, base time, versions. `raw` is the value's JSON text.
void read_kineto_field(std::string_view key, std::string_view raw, Trace& trace);

/// Whether an event object may start at `text`: '{', then a key that Kineto's events have.
bool looks_like_event(const char* at, const char* end);

}  // namespace profgpu
