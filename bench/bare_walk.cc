// The yardstick of reading speed: simdjson's on-demand parser visits every event and every key of a Kineto trace on one
// core, reads times as doubles, names as text and arguments raw, and keeps nothing. Prints the events, seconds and MB/s
// of the walk alone; loading the file is not counted.
#include <simdjson.h>

#include <chrono>
#include <cstdio>
#include <string_view>

namespace {

using simdjson::ondemand::object;
using simdjson::ondemand::value;

/// Sums that keep the compiler from dropping the work.
struct Seen {
  size_t events = 0, bytes = 0;
  double time = 0;
};

void visit_arguments(value arguments, Seen& seen) {
  object fields;
  if (arguments.get_object().get(fields)) return;
  for (auto field : fields) {
    const std::string_view key = field.unescaped_key();
    const std::string_view text = simdjson::to_json_string(field.value());
    seen.bytes += key.size() + text.size();
  }
}

void visit_event(object event, Seen& seen) {
  ++seen.events;
  for (auto field : event) {
    const std::string_view key = field.unescaped_key();
    if (key == "ts" || key == "dur") {
      double time;
      if (!field.value().get_double().get(time)) seen.time += time;
    } else if (key == "name" || key == "cat") {
      std::string_view text;
      if (!field.value().get_string().get(text)) seen.bytes += text.size();
    } else if (key == "args") {
      visit_arguments(field.value(), seen);
    }
  }
}

}  // namespace

int main(int count, char** words) {
  if (count != 2) return std::fprintf(stderr, "usage: bare_walk TRACE.json\n"), 2;
  try {
    const simdjson::padded_string text = simdjson::padded_string::load(words[1]);
    const auto begin = std::chrono::steady_clock::now();
    simdjson::ondemand::parser parser;
    simdjson::ondemand::document document = parser.iterate(text);
    Seen seen;
    for (auto field : document.get_object()) {
      const std::string_view key = field.unescaped_key();
      if (key != "traceEvents") continue;
      for (object event : field.value().get_array()) visit_event(event, seen);
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::printf("%zu %.6f %.1f %zu %g\n", seen.events, took.count(),
                static_cast<double>(text.size()) / 1e6 / took.count(), seen.bytes, seen.time);
  } catch (const simdjson::simdjson_error& error) {
    return std::fprintf(stderr, "bare_walk: %s: %s\n", words[1], error.what()), 1;
  }
}
