// Which kinds of activity CUPTI is asked for.
#pragma once

#include "inject/cupti_types.h"

namespace profgpu::inject::cupti {

/// False where CUPTI refuses what a recording cannot do without: nothing is enabled then, and `reason` is a sentence. With
/// `whole_graphs` a launch of a graph is one record, else each of its nodes. `tell`: notes name what else is refused.
bool enable_kinds(const Calls& calls, bool whole_graphs, bool tell, char* reason, size_t size);
void disable_kinds(const Calls& calls);

}  // namespace profgpu::inject::cupti
