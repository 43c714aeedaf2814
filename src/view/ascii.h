// Text for terminals and locales that have ASCII alone.
#pragma once

#include <string>
#include <string_view>

namespace profgpu {

/// The same in letters that every terminal has, as wide: bars of "#", curves of ".:-=+*#", "?" for what has no
/// likeness.
std::string ascii_text(std::string_view text);

}  // namespace profgpu
