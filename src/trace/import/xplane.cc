// XPlane protocol buffers (tsl/profiler/protobuf/xplane.proto), which JAX' and TensorFlow's profiler writes as
// `*.xplane.pb`: planes of lines of events, each with numbers of names that the plane lists.
#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>

#include "base/decimal.h"
#include "base/protobuf.h"
#include "base/text.h"
#include "trace/import/importer.h"
#include "trace/import/said_issues.h"
#include "trace/import/whole_text.h"
#include "trace/import/xla_rows.h"
#include "trace/trace_builder.h"
#include "trace/xla_profile.h"

namespace profgpu {
namespace {

using std::string_view;

/// The value of an XStat, which is made a text only where somebody wants it.
struct XplaneValue {
  enum class Kind : uint8_t { kText, kReal, kUnsigned, kSigned } kind = Kind::kText;
  string_view text;
  uint64_t number = 0;
  double real = 0;

  [[nodiscard]] std::string as_text() const {
    switch (kind) {
      case Kind::kReal: return std::to_string(real);
      case Kind::kUnsigned: return std::to_string(number);
      case Kind::kSigned: return std::to_string(static_cast<int64_t>(number));
      case Kind::kText: break;
    }
    return std::string(text);
  }
};

/// What an XStat says.
class XplaneStats {
 public:
  /// Field by which statistics refer to another statistic's name as their value.
  static constexpr uint32_t kName = 1, kDouble = 2, kUnsigned = 3, kSigned = 4, kText = 5, kBytes = 6, kReference = 7;

  void name(int64_t id, string_view text) { names_[id] = text; }
  /// Calls each(name, value).
  template <class Each>
  bool read(string_view stat, Each&& each) const {
    ProtobufReader reader(stat);
    string_view name;
    using Kind = XplaneValue::Kind;
    XplaneValue value;
    while (reader.next()) {
      switch (reader.field()) {
        case kName: name = name_of(reader.number()); break;
        case kDouble: value = {.kind = Kind::kReal, .text = {}, .real = reader.real()}; break;
        case kUnsigned: value = {.kind = Kind::kUnsigned, .text = {}, .number = reader.number()}; break;
        case kSigned: value = {.kind = Kind::kSigned, .text = {}, .number = reader.number()}; break;
        case kText: case kBytes: value = {.text = reader.text()}; break;
        case kReference: value = {.text = name_of(reader.number())}; break;
        default: break;
      }
    }
    if (!name.empty()) each(name, value);
    return !reader.broken();
  }

 private:
  [[nodiscard]] string_view name_of(uint64_t id) const {
    const auto at = names_.find(static_cast<int64_t>(id));
    return at != names_.end() ? string_view(at->second) : string_view();
  }
  std::unordered_map<int64_t, string_view> names_;
};

/// An entry of a map field: its key and its message.
std::pair<int64_t, string_view> map_entry(string_view entry) {
  std::pair<int64_t, string_view> found;
  ProtobufReader reader(entry);
  while (reader.next()) {
    if (reader.field() == 1) found.first = static_cast<int64_t>(reader.number());
    if (reader.field() == 2) found.second = reader.text();
  }
  return found;
}

string_view text_field(string_view message, uint32_t field) {
  ProtobufReader reader(message);
  while (reader.next())
    if (reader.field() == field) return reader.text();
  return {};
}

class XplaneReader {
 public:
  explicit XplaneReader(Shard& shard) : shard_(shard), rows_(shard) {}

  /// False: the message is cut or damaged.
  bool read(string_view space) {
    ProtobufReader reader(space);
    while (reader.next()) {
      switch (reader.field()) {
        case 1: plane(reader.text()); break;
        case 2: say(errors, reader.text()); break;
        case 3: say(warnings, reader.text()); break;
        case 4: if (host.empty()) host = valid_text(reader.text()); break;
        default: break;
      }
    }
    return !reader.broken() && !broken_;
  }
  XlaRows& rows() { return rows_; }

  std::vector<DeviceProperties> devices;
  int64_t began_ns = 0;          // Unix time of the recording's start; 0: not stated
  std::string host;
  std::map<std::string, int64_t> errors, warnings;   // of the profiler, and how often each was said

 private:
  static std::string valid_text(string_view text) {
    constexpr size_t kLongest = 300;
    std::string valid;
    for (const char c : text.substr(0, kLongest)) valid += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    replace_invalid_utf8(valid);
    return valid;
  }

  static void say(std::map<std::string, int64_t>& all, string_view text) {
    constexpr size_t kMost = 5;
    const std::string said = valid_text(text);
    if (all.size() < kMost || all.contains(said)) ++all[said];
  }

  void plane(string_view plane) {
    names_.clear(), event_stats_.clear(), found_.clear();
    stats_ = {};
    const string_view name = text_field(plane, 2);
    ProtobufReader tables(plane);
    while (tables.next()) {   // names come after the lines that use them
      if (tables.field() == 4) {
        const auto [id, message] = map_entry(tables.text());
        const string_view display = text_field(message, 4), own = text_field(message, 2);
        names_[id] = display.empty() ? own : display;   // of a TPU the other one is the whole instruction
        event_stats_[id] = message;
      } else if (tables.field() == 5) {
        const auto [id, message] = map_entry(tables.text());
        stats_.name(id, text_field(message, 2));
      }
    }
    broken_ |= tables.broken();
    describe(plane, name);
    ProtobufReader lines(plane);
    while (lines.next())
      if (lines.field() == 3) line(lines.text(), name);
  }

  // What the plane says of itself: a device's properties, the process, when the recording began.
  void describe(string_view plane, string_view name) {
    const XlaLine::Kind kind = xla_line(name, "Stream #0", "", "").kind;
    DeviceProperties device;
    device.id = xla_line(name, "Stream #0", "", "").device;
    ProtobufReader reader(plane);
    while (reader.next()) {
      if (reader.field() != 6) continue;
      broken_ |= !stats_.read(reader.text(), [&](string_view stat, const XplaneValue& said) {
        const std::string value = said.as_text();
        const int64_t number = whole_number(value).value_or(0);
        const auto small = [&] { return static_cast<int32_t>(std::clamp<int64_t>(number, 0, INT32_MAX)); };
        if (stat == "process_id" && all_digits(value)) process_ = value;
        if (stat == "profile_start_time" && is_unix_time(number)) began_ns = number;
        if (stat == "core_count") device.multiprocessors = small();
        if (stat == "compute_cap_major") device.compute_major = small();
        if (stat == "compute_cap_minor") device.compute_minor = small();
        if (stat == "memory_size") device.memory_bytes = std::max<int64_t>(number, 0);
        if (stat == "gpu_device_name" || stat == "device_type_string") device.name = value.substr(0, 200);
      });
    }
    replace_invalid_utf8(device.name);
    if (kind == XlaLine::Kind::kStream && devices.size() < 1024) devices.push_back(device);
  }

  void line(string_view line, string_view plane) {
    int64_t id = 0, began = 0;
    string_view name, display;
    ProtobufReader head(line);
    while (head.next()) {
      switch (head.field()) {
        case 1: id = static_cast<int64_t>(head.number()); break;
        case 2: name = head.text(); break;
        case 3: began = static_cast<int64_t>(head.number()); break;
        case 11: display = head.text(); break;
        default: break;
      }
    }
    broken_ |= head.broken();
    std::string shown(display.empty() ? name : display);
    replace_invalid_utf8(shown);
    const bool device = contains(plane, "/device:");
    const XlaLine found = xla_line(plane, shown, device ? plane : string_view(process_), std::to_string(id));
    ProtobufReader events(line);
    while (events.next())
      if (events.field() == 4) event(events.text(), began, found);
  }

  void event(string_view event, int64_t began, const XlaLine& line) {
    int64_t metadata = 0, offset_ps = 0, duration_ps = 0;
    bool aggregated = false;
    ProtobufReader reader(event);
    while (reader.next()) {
      switch (reader.field()) {
        case 1: metadata = static_cast<int64_t>(reader.number()); break;
        case 2: offset_ps = static_cast<int64_t>(reader.number()); break;
        case 3: duration_ps = static_cast<int64_t>(reader.number()); break;
        case 5: aggregated = true; break;
        default: break;
      }
    }
    broken_ |= reader.broken();
    if (aggregated) return void(++shard_.issues[TraceIssueKind::kOther]);
    const auto at = names_.find(metadata);
    std::string name(at != names_.end() ? at->second : string_view());
    if (replace_invalid_utf8(name) > 0) ++shard_.issues[TraceIssueKind::kInvalidText];
    const std::function<std::string(string_view)> stat = [&](string_view wanted) {
      std::string found = stat_in(event, 4, wanted);
      return found.empty() && at != names_.end() ? stat_of_all(metadata, wanted) : found;
    };
    // Half a nanosecond more is rounding; the range of a time is checked with it.
    const int64_t start =
        began > INT64_MAX / 2 || began < 0 ? -1 : began + offset_ps / 1000 + (offset_ps % 1000 >= 500);
    rows_.add(line, {name, offset_ps < 0 ? -1 : start, duration_ps / 1000 + (duration_ps % 1000 >= 500), &stat});
  }

  // What all events with the metadata have alike is looked for once.
  const std::string& stat_of_all(int64_t metadata, string_view wanted) {
    auto& found = found_[metadata];
    auto at = found.find(wanted);
    if (at == found.end()) at = found.emplace(wanted, stat_in(event_stats_[metadata], 5, wanted)).first;
    return at->second;
  }

  std::string stat_in(string_view message, uint32_t field, string_view wanted) {
    std::string found;
    ProtobufReader reader(message);
    while (reader.next() && found.empty())
      if (reader.field() == field)
        stats_.read(reader.text(), [&](string_view name, const XplaneValue& value) {
          if (name == wanted) found = value.as_text();
        });
    replace_invalid_utf8(found);
    return found;
  }

  Shard& shard_;
  XlaRows rows_;
  std::unordered_map<int64_t, string_view> names_, event_stats_;   // of the plane that is read
  std::unordered_map<int64_t, std::map<std::string, std::string, std::less<>>> found_;   // by metadata, then by name
  XplaneStats stats_;
  std::string process_ = "0";
  bool broken_ = false;
};

// A first field that is a plane with a name: "/host:CPU", "/device:GPU:0", "Task Environment".
bool sniff_xplane(string_view head) {
  constexpr char kPlane = 0x0A, kId = 0x08, kName = 0x12;
  if (head.size() < 8 || head.front() != kPlane) return false;
  head.remove_prefix(1);
  uint64_t length = 0, number = 0;
  if (!take_varint(head, length) || head.empty()) return false;
  if (head.front() == kId && (head.remove_prefix(1), !take_varint(head, number) || head.empty())) return false;
  if (head.front() != kName) return false;
  head.remove_prefix(1);
  if (!take_varint(head, number) || number > 256 || number > head.size()) return false;
  const string_view name = head.substr(0, number);
  return name.starts_with("/host:") || contains(name, "/device:") || name == "Task Environment" ||
         name.starts_with("#Chip");
}

Result<Trace> read_xplane(const std::string& path, const ImportOptions& options) {
  bool broken = false;
  auto bytes = whole_text(path, broken);
  if (!bytes) return bytes.error();
  TraceBuilder builder;
  XplaneReader reader(builder.shard());
  const bool complete = reader.read(*bytes) && !broken;
  reader.rows().finish();
  reader.rows().name_devices(reader.devices);
  builder.header().recorder = Recorder::kOther;
  builder.header().metadata.emplace_back(kXlaProfileField, "");
  builder.header().devices = reader.devices;
  builder.header().host_name = reader.host;
  builder.header().base_time_ns = reader.began_ns;
  const IssueCounts counts = builder.issue_counts();
  Trace trace = builder.finish(options.threads);
  if (trace.host.size() + trace.activity.size() == 0)
    return Error{path + ": XPlane data without any events that profgpu reads",
                 "record a few steps between jax.profiler.start_trace() and stop_trace()"};
  // Older versions count from 1970, not from where the recording began.
  if (!trace.windows.empty() && is_unix_time(trace.windows.front().start)) trace.base_time_ns = 0;
  if (!complete) add_cut(trace);
  for (const auto& [text, times] : reader.errors)
    trace.issues.push_back({TraceIssueKind::kOther, times, "the profiler reports an error: " + text});
  for (const auto& [text, times] : reader.warnings)
    trace.issues.push_back({TraceIssueKind::kOther, times, "the profiler warns: " + text});
  add_xla_issues(reader.rows(), counts, trace);
  add_counts(trace, counts, {{TraceIssueKind::kOther, "sums of several events without times, which are not read: {}"}});
  return trace;
}

}  // namespace

extern const Importer kXplane = {.name = "xplane",
                                 .noun = "JAX or TensorFlow profile",
                                 .summary = "JAX' and TensorFlow's profiler, XPlane protocol buffers",
                                 .examples = "host.xplane.pb, host.xplane.pb.gz",
                                 .sniff = sniff_xplane,
                                 .read = read_xplane};

}  // namespace profgpu
