// Exact numbers from decimal text.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace profgpu {

/// Decimal text times 10^scale, rounded half away from zero: scaled_decimal("12.3456", 3) is 12346. Accepts a sign, a
/// fraction and an exponent; nullopt for anything else and for results that do not fit int64_t.
std::optional<int64_t> scaled_decimal(std::string_view text, int scale);

/// The same, for text that eight readable bytes follow: digits are taken eight at a time, however many there are.
std::optional<int64_t> padded_scaled_decimal(std::string_view text, int scale);

inline std::optional<int64_t> whole_number(std::string_view text) { return scaled_decimal(text, 0); }
/// A floating-point number; nullopt if the text is none or not finite.
std::optional<double> real_number(std::string_view text);

// Times as people type them.

/// Nanoseconds of "0.2", "0.2s", "200ms", "500us", "2m", "1h"; a bare number counts seconds. Nullopt: no duration of 0
/// or more.
std::optional<int64_t> duration_ns(std::string_view text);

}  // namespace profgpu
