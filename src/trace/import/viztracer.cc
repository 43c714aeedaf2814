// VizTracer's JSON: calls of Python functions as Chrome events, on the clock that counts from the start of the machine;
// files that were not merged say when that was.
#include <fmt/format.h>

#include <map>
#include <string>

#include "base/decimal.h"
#include "base/text.h"
#include "trace/import/chrome_events.h"
#include "trace/import/host_profile.h"
#include "trace/import/importer.h"
#include "trace/import/recording_rows.h"
#include "trace/import/said_issues.h"
#include "trace/trace_builder.h"

namespace profgpu {
namespace {

using std::string_view;

/// "/a/b.py(12): f" for "f (/a/b.py:12)"; functions in C have no place.
std::string viztracer_frame(string_view name) {
  const size_t open = name.rfind(" (");
  if (open == name.npos || !name.ends_with(')')) return std::string(name.empty() ? "(no name)" : name);
  const string_view place = name.substr(open + 2, name.size() - open - 3);
  const size_t colon = place.rfind(':');
  const auto line = colon == place.npos ? std::nullopt : whole_number(place.substr(colon + 1));
  return line ? frame_name(name.substr(0, open), place.substr(0, colon), *line) : std::string(name);
}

void take_viztracer(const ChromeEvent& event, Shard& shard) {
  if (event.phase == 'M' && event.name == "thread_name")
    shard.name_thread(event.process, event.thread, json_member(event.arguments, "name"));
  if (event.phase != 'X') return;
  if (!event.start_ns || !event.duration_ns || *event.start_ns < 0 || *event.start_ns >= INT64_MAX / 4 ||
      *event.duration_ns >= kLongestNs)
    return void(++shard.issues[TraceIssueKind::kOutOfRange]);
  if (*event.duration_ns < 0) return void(++shard.issues[TraceIssueKind::kNegativeDuration]);
  HostRow row;
  row.start_ns = *event.start_ns;
  row.duration_ns = *event.duration_ns;
  // Other events are those that the program logs itself.
  const bool call = event.category == "fee" || event.category == "FEE";
  row.kind = call ? HostKind::kPython : HostKind::kAnnotation;
  row.name = shard.strings.intern(call ? viztracer_frame(event.name) : event.name.empty() ? "(no name)" : event.name);
  row.thread = static_cast<uint16_t>(shard.thread(event.process, event.thread));
  shard.host.push_back(row);
}

// Unix time, and sums with it do not overflow.
bool is_base_time(int64_t ns) { return is_unix_time(ns) && ns < INT64_MAX / 4 * 2; }

bool sniff_viztracer(string_view head) {
  const size_t begin = head.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  constexpr string_view kCalls[] = {"\"cat\": \"fee\"", "\"cat\":\"fee\"", "\"cat\": \"FEE\"", "\"cat\":\"FEE\""};
  const bool calls = contains_any(head, kCalls);
  return begin != head.npos && head[begin] == '{' &&
         (contains(head, "\"viztracer_metadata\"") || (contains(head, "\"traceEvents\"") && calls));
}

Result<Trace> read_viztracer(const std::string& path, const ImportOptions& options) {
  TraceBuilder builder;
  Shard& shard = builder.shard();
  builder.header().recorder = Recorder::kOther;
  auto read = read_chrome_events(path, [&](const ChromeEvent& event) { take_viztracer(event, shard); });
  if (!read) return read.error();
  shard.events = read->events;
  for (const auto& [name, raw] : read->fields)
    if (name == "viztracer_metadata")
      if (const auto base = whole_number(json_member(raw, "baseTimeNanoseconds")); base && is_base_time(*base))
        builder.header().base_time_ns = *base;
  const IssueCounts counts = builder.issue_counts();
  Trace trace = builder.finish(options.threads);
  if (trace.host.size() == 0)
    return Error{path + ": a trace of VizTracer without any calls", "viztracer -o trace.json -- train.py"};
  read->add_issues(trace);
  for (const auto& [kind, count] : counts)
    if (kind != TraceIssueKind::kInvalidText)
      add_count(trace, kind, count, "events left out because a time is missing or out of range: {}");
  return trace;
}

TraceIssue join_viztracer(const Trace& own, const std::string&, Trace& other) {
  if (own.windows.empty() || other.windows.empty())
    return {TraceIssueKind::kOther, 0, "there is no time in it, or in the trace beside it: it was not used"};
  const Interval took = own.windows.front(), window{other.windows.front().start, other.windows.back().end};
  // The same clock, one that starts at a known time, or one that the calls of operators tell.
  const bool based = is_base_time(own.base_time_ns) && is_base_time(other.base_time_ns);
  const bool same_clock = based || (!is_base_time(own.base_time_ns) && !is_base_time(other.base_time_ns));
  const int64_t shift = based ? own.base_time_ns - other.base_time_ns : 0;
  const bool direct = same_clock && took.start + shift < window.end && window.start < took.end + shift;
  const ClockShift by_calls = shift_by_calls(own, other);
  if (!by_calls.found() && !direct)
    return {TraceIssueKind::kOther, 0,
            "its clock is another than that of the trace beside it, and too few of its calls are operators there: it "
            "was not used"};
  const int64_t same = add_stacks(own, by_calls.found() ? by_calls.shift_ns : shift, other);
  return {TraceIssueKind::kNote, own.events,
          by_calls.found()
              ? fmt::format("calls of {} threads of the trace beside it, joined by {} of {} operators that both have",
                            same, by_calls.agree, by_calls.pairs)
              : fmt::format("calls of {} threads of the trace beside it, joined by their times", same)};
}

}  // namespace

extern const Importer kVizTracer = {.name = "viztracer",
                                    .noun = "VizTracer trace",
                                    .summary = "VizTracer's JSON: calls of Python functions, alone or beside a trace",
                                    .examples = "result.json, viztracer.json.gz",
                                    .sniff = sniff_viztracer,
                                    .read = read_viztracer,
                                    .join = join_viztracer};

}  // namespace profgpu
