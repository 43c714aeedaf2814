// One trace event of Kineto's JSON, from text to rows of a Shard.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/json_reader.h"
#include "trace/trace_builder.h"

namespace profgpu {

/// What an event's category makes of it.
enum class EventClass : uint8_t {
  kUnknown, kIgnored, kCounters, kOp, kAnnotation, kPython, kRuntime, kDriver, kOverhead, kKernel, kMemcpy, kMemset, kSync,
  kInstant, kBackwardFlow,
};
EventClass event_class(std::string_view category);

/// Reads events into one shard; keeps what it has learnt of strings between them. One per importing thread.
class KinetoEvents {
 public:
  explicit KinetoEvents(Shard& shard);
  ~KinetoEvents();

  /// Reads the event object at the reader's place. False: malformed or cut (reader.at_end() tells); nothing was added.
  bool read(JsonReader& reader);

 private:
  struct Fields;
  struct Arguments;
  struct Argument;
  class ArgumentTable;

  bool read_fields(JsonReader& reader, Fields& f);
  bool read_arguments(JsonReader& reader, EventClass event_class, Arguments& a);
  static const ArgumentTable& arguments_of(EventClass event_class);
  bool read_argument(JsonReader& reader, const Argument& known, EventClass event_class, Arguments& a);
  void add(const Fields& f, Arguments& a);
  void add_host(const Fields& f, const Arguments& a, int64_t start, int64_t duration);
  void add_activity(const Fields& f, const Arguments& a, int64_t start, int64_t duration);
  void add_instant(const Fields& f, const Arguments& a, int64_t start);
  void add_metadata(const Fields& f, const Arguments& a);
  void add_counter(const Fields& f, int64_t start);
  uint32_t add_collective(const Arguments& a);
  StringId text(const JsonString& token);
  StringId raw_text(std::string_view raw);
  EventClass classify(std::string_view category);

  Shard& shard_;
  std::unique_ptr<Arguments> arguments_;   // of the event being read
  struct KnownCategory {
    std::string name;
    EventClass event_class = EventClass::kUnknown;
  };
  std::array<KnownCategory, 32> categories_;   // by length and first letter: the latest of each
};

}  // namespace profgpu
