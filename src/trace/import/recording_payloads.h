// What NVTX's extended payloads say: names and values, by the schemas that the program registered for them.
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
