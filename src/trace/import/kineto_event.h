// One trace event of Kineto's JSON, from text to rows of a Shard.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "trace/import/importer.h"
#include "trace/import/kineto_shapes.h"
#include "trace/trace_builder.h"

namespace profgpu {

EventClass event_class(std::string_view category);

/// "TP00" of "[TP00] 83"; empty: there is none.
std::string_view rank_label(std::string_view pid);

/// Reads events into one shard; keeps what it has learnt of strings between them. One per importing thread.
class KinetoEvents {
 public:
  /// `merged`: only events of that rank are wanted; else null.
  explicit KinetoEvents(Shard& shard, const MergedRank* merged = nullptr) : shard_(shard), merged_(merged) {}

  /// Reads the event object at the reader's place. False: malformed or cut (reader.at_end() tells); nothing was added.
  bool read(JsonReader& reader);

 private:
  class SlotTable;

  bool read_by_key(JsonReader& reader);
  bool read_value(JsonReader& reader, const KinetoSlot* slot, bool argument);
  bool read_arguments(JsonReader& reader, EventClass event_class);
  static const SlotTable& slots_of(EventClass event_class);
  bool take_label();
  void add();
  void add_host(int64_t start, int64_t duration);
  void add_device_range(int64_t start, int64_t duration);
  void add_launch_shape(uint32_t correlation);
  void add_activity(int64_t start, int64_t duration);
  void add_instant(int64_t start);
  void add_metadata();
  void add_counter(int64_t start);
  uint32_t add_collective();
  StringId text(const JsonString& token);
  StringId raw_text(const RawValue& value);
  EventClass classify(std::string_view category);
  void count_unknown();

  Shard& shard_;
  std::string category_;   // of the event being read
  const MergedRank* merged_;
  KinetoValues values_;   // of the event being read
  KinetoShapes shapes_;
  struct KnownCategory {
    std::string name;
    EventClass event_class = EventClass::kUnknown;
  };
  std::array<KnownCategory, 32> categories_;   // by length and first letter: the latest of each
};

}  // namespace profgpu
