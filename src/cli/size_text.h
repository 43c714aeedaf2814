// Sizes as people type them.
#pragma once

#include <optional>
#include <string_view>

namespace profgpu {

/// Bytes: "20GiB", "20G", "20GB", "20000 MiB", "1.5T", "4096". K, M, G, T with or without "iB" are powers of 1024, as
/// nvidia-smi and memory makers count; with "B" alone powers of 1000. Case does not matter. Nullopt: not a size.
std::optional<double> size_bytes(std::string_view text);

}  // namespace profgpu
