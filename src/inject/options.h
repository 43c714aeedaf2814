#pragma once

#include "inject/recorder.h"
#include "inject/text.h"

namespace profgpu::inject {

/// Reads PROFGPU_RECORD_OPTIONS (null: nothing is set). What is not understood is added to `not_understood`.
void parse_options(const char* text, Options& options, Text<256>& not_understood);

}  // namespace profgpu::inject
