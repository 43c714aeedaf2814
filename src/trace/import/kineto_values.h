// What the text of one trace event says, as text: fields and arguments, before anything is made of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_reader.h"
#include "trace/string_pool.h"

namespace profgpu {

/// What an event's category makes of it.
enum class EventClass : uint8_t {
  kUnknown,
  kIgnored,
  kCounters,
  kOp,
  kAnnotation,
  kPython,
  kRuntime,
  kDriver,
  kOverhead,
  kLibrary,
  kSystem,
  kKernel,
  kMemcpy,
  kMemset,
  kSync,
  kInstant,
  kBackwardFlow,
  kDeviceRange,
};

/// The text of a list or an object that an event had at this place, and what became of it.
struct KnownText {
  std::string text;
  StringId id;   ///< invalid: not interned
};

/// A value as it is written; `known` has the same text, or is null.
struct RawValue {
  std::string_view text;
  KnownText* known = nullptr;
  [[nodiscard]] bool empty() const { return text.empty(); }
};

struct KinetoSlot;

struct KinetoValues {
  char phase = 0;
  EventClass event_class = EventClass::kUnknown;
  bool has_category = false;
  JsonString name;
  std::string_view pid, tid, time, duration, id;
  RawValue arguments;   ///< all of them, where the category came later

  std::string_view device, stream, context, correlation, external_id, bytes, registers, shared, graph, graph_node;
  std::string_view sequence, forward_thread, function_number, flops, wait_stream;
  RawValue shapes, types, concrete, strides;
  std::string_view device_type, device_id, address, total_allocated, total_reserved;
  std::string_view in_elements, out_elements, group_size, collective_sequence, source, destination;
  JsonString collective, dtype, group, group_description, ranks, label;
  int32_t grid[3] = {0, 0, 0}, block[3] = {0, 0, 0};
  std::vector<const KinetoSlot*>
      given;  ///< arguments since forget(): most of what is here is of other classes of events

  void forget();
  void forget_arguments();
};

/// A key and where its value goes: one of the four, or nowhere.
struct KinetoSlot {
  std::string_view key;
  std::string_view KinetoValues::*number = nullptr;
  RawValue KinetoValues::*raw = nullptr;
  JsonString KinetoValues::*text = nullptr;
  int32_t (KinetoValues::*triple)[3] = nullptr;
};

inline void KinetoValues::forget() {
  phase = 0;
  event_class = EventClass::kUnknown;
  has_category = false;
  name = {};
  pid = tid = time = duration = id = {};
  arguments = {};
  forget_arguments();
}

inline void KinetoValues::forget_arguments() {
  for (const KinetoSlot* slot : given) {
    if (slot->number != nullptr) this->*slot->number = {};
    if (slot->raw != nullptr) this->*slot->raw = {};
    if (slot->text != nullptr) this->*slot->text = {};
    if (slot->triple != nullptr) std::fill_n(this->*slot->triple, 3, 0);
  }
  given.clear();
}

/// Of an array of numbers the first three. False: it is malformed or cut.
bool read_triple(JsonReader& reader, int32_t (&out)[3]);

}  // namespace profgpu
