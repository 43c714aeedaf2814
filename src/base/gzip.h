// Bytes as a gzip file (RFC 1952), and as text (RFC 4648).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace profgpu {

/// In memory, in one piece. `level`: 1 takes a third of 6's time.
std::string gzipped(std::string_view bytes, int level = 6);

/// Base 64 with padding, on one line.
std::string base64(std::string_view bytes);
/// Nullopt for what base64() would not write.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace profgpu
