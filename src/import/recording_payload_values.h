// NVTX's own types of values in payloads, as JSON text. Sizes are those of Linux on 64 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace profgpu {

/// NVTX_PAYLOAD_ENTRY_TYPE_* that are treated by themselves, and NVTX_TYPE_PAYLOAD_SCHEMA_*.
constexpr uint64_t kPayloadAddress = 23, kPayloadByte = 32, kPayloadText = 75, kPayloadTextUtf8 = 76;
constexpr uint64_t kPayloadSelector = 100;      ///< which of a union's fields it is
constexpr uint64_t kPayloadReferenced = 1022;   ///< a payload that others point into
constexpr uint64_t kPayloadRaw = 1023;          ///< bytes without a layout

/// Bytes, which is its alignment too; 0: the type is not known.
size_t payload_type_size(uint64_t type);
/// Whether arrays of it are text.
bool is_payload_character(uint64_t type);

/// The value as JSON; bytes as "0x...", lowest address first, where the type has no better form. `bytes` has as many as
/// the type.
std::string payload_value(uint64_t type, std::string_view bytes);
/// Lowest byte first; those behind the eighth are not looked at.
uint64_t payload_unsigned(std::string_view bytes);
/// The bits of a double as JSON.
std::string payload_double(uint64_t bits);
/// Hexadecimal, as a JSON string.
std::string payload_bytes(std::string_view bytes);
/// A whole number that is not negative; nothing for other types and values.
std::optional<uint64_t> payload_count(uint64_t type, std::string_view bytes);

}  // namespace profgpu
