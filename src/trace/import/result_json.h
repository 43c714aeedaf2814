// A benchmark's result in JSON, as the log that its text would be.
#pragma once

#include <functional>
#include <string>

#include "base/json_reader.h"
#include "base/result.h"
#include "trace/trace.h"

namespace profgpu {

/// `begun`: what is known of it beforehand. `read` adds the rest; false where the JSON ends early. Of more than `most`
/// bytes the rest is left out.
Result<Trace> read_result_json(const std::string& path, size_t most, RunLog begun,
                               const std::function<bool(JsonReader, RunLog&)>& read);

}  // namespace profgpu
