// Text as JSON strings: valid UTF-8 whatever comes in; what terminals obey or nobody sees is escaped.
#pragma once

#include <string>
#include <string_view>

namespace profgpu {

/// The text with its quotes.
void append_json_quoted(std::string& out, std::string_view s);
std::string json_quoted(std::string_view s);

}  // namespace profgpu
