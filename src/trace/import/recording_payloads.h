// What NVTX's extended payloads say: names and values, by the schemas that the program registered for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/import/recording_file.h"

namespace profgpu {

// NVTX's own types of values in payloads, as JSON text. Sizes are those of Linux on 64 bits.

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

struct PayloadText {
  std::string members;   ///< of a JSON object, without its braces
  std::string message;   ///< what the payload calls the event; empty: it does not
};

/// A schema with its fields in order.
struct PayloadLayout {
  wire::PayloadSchema schema;
  std::vector<wire::PayloadField> fields;
  size_t align = 1;   ///< bytes
  int height = 0;     ///< schemas in one another, with itself; 0: not known yet
};

/// Schemas and data are believed in nothing: what lies beyond the bytes or is of a type that is not known is left out
/// and counted. A payload whose schema has too many others in one another, or a circle of them, is shown as bytes.
class PayloadDecoder {
 public:
  explicit PayloadDecoder(const RecordingFile& file);
  /// What the event carries: a number, or rows of payloads. These belong to one event and are told once, so that time
  /// is bounded by the file's size.
  PayloadText of(const wire::RangeEvent& event);
  /// Fields and payloads that could not be shown.
  [[nodiscard]] int64_t left_out() const { return left_out_; }

 private:
  void measure(PayloadLayout& layout);

  const RecordingFile& file_;
  std::map<std::pair<std::string_view, uint64_t>, PayloadLayout> layouts_;       // by domain and number
  std::vector<std::pair<uint64_t, const wire::PayloadRef*>> by_event_;   // null: shown
  int64_t left_out_ = 0;
};

}  // namespace profgpu
