// What a client takes, by the headers of its request (RFC 9110, section 12.5).
#pragma once

#include <string_view>

#include "exporter/exposition.h"

namespace profgpu {

/// OpenMetrics only where it is asked for by name and not liked less than plain text.
ExpositionFormat wanted_format(std::string_view accept);
bool takes_gzip(std::string_view accept_encoding);

}  // namespace profgpu
