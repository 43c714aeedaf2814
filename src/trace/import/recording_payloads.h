// NVTX's extended payloads as names and values, by the schemas that the program registered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/import/recording_file.h"

namespace profgpu {

// Values of NVTX_PAYLOAD_ENTRY_TYPE_*.

/// Bytes, which is the type's alignment too; 0: it is not known.
size_t payload_type_size(uint64_t type);
/// Lowest byte first; ignores those behind the eighth.
uint64_t payload_unsigned(std::string_view bytes);
/// As JSON. `bytes` has as many as the type.
std::string payload_value(uint64_t type, std::string_view bytes);

struct PayloadText {
  std::string members;   ///< of a JSON object, without its braces
  std::string message;   ///< the event's name in the payload; empty: none
};

/// A schema with its fields in order.
struct PayloadLayout {
  wire::PayloadSchema schema;
  std::vector<wire::PayloadField> fields;
  size_t align = 1;   ///< bytes
  int height = 0;     ///< levels of nested schemas, including itself; 0: not known yet
};

/// Trusts neither schemas nor data: leaves out and counts what is beyond the bytes or of an unknown type. Shows a
/// payload as bytes if its schema is nested too deeply, or refers to itself.
class PayloadDecoder {
 public:
  explicit PayloadDecoder(const RecordingFile& file);
  /// The event's number, or its payloads. Returns each payload once, so that time is bounded by the file's size.
  PayloadText of(const wire::RangeEvent& event);
  /// Fields and payloads left out.
  [[nodiscard]] int64_t left_out() const { return left_out_; }

 private:
  void measure(PayloadLayout& layout);

  const RecordingFile& file_;
  std::map<std::pair<std::string_view, uint64_t>, PayloadLayout> layouts_;       // by domain and number
  std::vector<std::pair<uint64_t, const wire::PayloadRef*>> by_event_;   // null: already returned
  int64_t left_out_ = 0;
};

}  // namespace profgpu
