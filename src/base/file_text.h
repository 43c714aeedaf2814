// Small files as text.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace profgpu {

/// At most `most` bytes of the file; nullopt if it cannot be read. Never waits for a pipe or a device.
std::optional<std::string> file_text(const std::string& path, size_t most = 64 << 10);

}  // namespace profgpu
