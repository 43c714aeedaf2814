
#include "base/decimal.h"
#include "base/json_reader.h"
#include "base/secrets.h"
#include "base/text.h"
#include "trace/import/kineto.h"

namespace profgpu {
namespace {

using std::string_view;

constexpr size_t kLongestKept = 4096;

std::string text_of(JsonReader& reader) {
  std::string text;
  string_view raw;
  if (reader.peek() == '"') (void)read_text(reader, text);
  else if (reader.raw_value(raw)) text = raw;
  return text;
}

// Runs `read` on a JSON value that may itself be wrapped in a string.
template <class Read>
void unwrapped(string_view raw, Read&& read) {
  std::string text(raw);
  // A number needs something behind it to be whole.
  const auto reader_of_text = [&] { return JsonReader::over(text += ' '); };
  for (int i = 0; i < 2 && text.starts_with('"'); ++i) {
    JsonReader reader = reader_of_text();
    text = text_of(reader);
  }
  JsonReader reader = reader_of_text();
  read(reader);
}

std::optional<int> small_number(JsonReader& reader) {
  const auto value = whole_number(text_of(reader));
  return value && *value >= 0 && *value <= INT32_MAX ? std::optional<int>(static_cast<int>(*value)) : std::nullopt;
}

void read_device(JsonReader& reader, Trace& trace) {
  DeviceProperties d;
  const bool ok = read_object(reader, [&](string_view key) {
    if (key == "name") return d.name = text_of(reader), true;
    const bool wanted = key == "id" || key == "totalGlobalMem" || key == "computeMajor" || key == "computeMinor" ||
                        key == "numSms";
    if (!wanted) return reader.skip_value();
    const auto value = whole_number(text_of(reader));
    if (!value) return true;
    if (key == "totalGlobalMem") d.memory_bytes = *value;
    if (*value < 0 || *value > INT32_MAX) return true;
    if (key == "id") d.id = static_cast<int32_t>(*value);
    if (key == "computeMajor") d.compute_major = static_cast<int32_t>(*value);
    if (key == "computeMinor") d.compute_minor = static_cast<int32_t>(*value);
    if (key == "numSms") d.multiprocessors = static_cast<int32_t>(*value);
    return true;
  });
  if (ok) trace.devices.push_back(std::move(d));
}

void read_distributed(JsonReader& reader, Trace& trace) {
  read_object(reader, [&](string_view key) {
    if (key == "rank") return trace.distributed.rank = small_number(reader), true;
    if (key == "world_size") return trace.distributed.world_size = small_number(reader), true;
    if (key == "backend") return trace.distributed.backend = text_of(reader), true;
    return reader.skip_value();
  });
}

}  // namespace

void read_kineto_field(string_view key, string_view raw, Trace& trace) {
  if (key == "deviceProperties") {
    unwrapped(raw, [&](JsonReader& r) {
      read_array(r, [&] {
        if (r.peek() != '{') return r.skip_value();
        const char* before = r.position();
        read_device(r, trace);
        return r.position() != before && (r.peek() == ',' || r.peek() == ']');
      });
    });
  } else if (key == "distributedInfo") {
    unwrapped(raw, [&](JsonReader& r) { read_distributed(r, trace); });
  } else if (key == "baseTimeNanoseconds") {
    unwrapped(raw, [&](JsonReader& r) {
      // A time that added to a trace's own cannot overflow; see kLatest in kineto_event.cc.
      const auto value = whole_number(text_of(r));
      if (value && *value >= 0 && *value < INT64_MAX / 4) trace.base_time_ns = *value;
    });
  } else if (raw.size() <= kLongestKept) {
    unwrapped(raw, [&](JsonReader& r) {
      // Programs add fields of their own. What holds others may be an environment or a configuration: it is left out.
      if (r.peek() == '{' || r.peek() == '[') return;
      const char* const begin = r.position();
      std::string text = text_of(r);
      if (r.peek() != 0) text = without_blanks({begin, static_cast<size_t>(r.end() - begin)});   // words, no JSON
      text = masked_member(key, text);
      if (key == "host_name" || key == "hostname") trace.host_name = text;
      trace.metadata.emplace_back(std::string(key), std::move(text));
    });
  }
}

}  // namespace profgpu
