// Events of a kind are written alike: the same keys in the same order, with the same blanks. What lies between the
// values of an event that was read is remembered, and compared with the text of the next, sixteen bytes at a time: no
// key is looked up, no blank skipped. Where nothing remembered fits, the event is read key by key, and remembered in
// turn.
// Lists (shapes, strides, types) are the same in many calls of an operator: the latest of each place is remembered by
// the event's name, and compared before brackets are counted.
//
// Budget: a compare of sixteen bytes for each sixteen bytes between values, and one pass over each value.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_reader.h"
#include "trace/import/kineto_values.h"

namespace profgpu {

/// Shapes of events as a tree: a node is the text that leads to a value, and how the value is written; events that
/// begin alike share their first nodes. One per importing thread.
class KinetoShapes {
 public:
  enum class Written : uint8_t { kText, kBare, kNested, kTriple, kEnd };   ///< kEnd: no value, the event ends here

  KinetoShapes();

  /// Reads the event at the reader's place. False: it has no known shape; the reader has not moved, `values` are to be
  /// forgotten.
  bool read(JsonReader& reader, KinetoValues& values);

  // An event that is read key by key: where it begins, its values in their order, where it ends.
  void begin(const char* event) {
    values_.clear();
    event_ = event;
  }
  /// `slot`: null where the value is of no interest. The text of a string is that between its quotes.
  void value(Written written, const KinetoSlot* slot, bool argument, std::string_view text) {
    values_.push_back({written, argument, slot, text});
  }
  /// The event is not to be remembered.
  void forget_event() { event_ = nullptr; }
  void learn(const char* end, const KinetoValues& values);

 private:
  struct Value {
    Written written;
    bool argument;            ///< to be forgotten after the event
    const KinetoSlot* slot;
    std::string_view text;
  };
  struct Node {
    uint32_t literal = 0;     ///< in literals_, filled up to whole blocks
    uint16_t size = 0;        ///< of the literal
    Written written = Written::kEnd;
    bool argument = false;
    const KinetoSlot* slot = nullptr;
    uint16_t child = 0, sibling = 0;   ///< 0: none
    // Of an event that ends here.
    char phase = 0;
    EventClass event_class = EventClass::kUnknown;
    bool has_category = false;
  };
  Node* next(Node& node, const char* at, const char* end);
  const char* read_value(const Node& node, JsonReader& reader, const char* at, KinetoValues& values);
  RawValue read_nested(JsonReader& reader, const char* at, const KinetoValues& values);
  KnownText* known_text(const KinetoValues& values);
  uint16_t child_of(uint16_t parent, std::string_view literal, const Node& wanted);

  std::vector<Node> nodes_;   // the first is the root
  std::string literals_;
  std::vector<Value> values_;
  const char* event_ = nullptr;
  // By the event's name, then by how many lists of it came before: lists of one event never share a place.
  static constexpr size_t kNames = 128, kLists = 8;
  std::array<KnownText, kNames * kLists> known_;
  size_t lists_ = 0;          // of the event so far
  KnownText* of_name_ = nullptr;   // where they are; null: the name does not come before its first list
};

}  // namespace profgpu
