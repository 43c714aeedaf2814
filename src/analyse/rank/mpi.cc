#include "analyse/rank/mpi.h"

#include <algorithm>
#include <functional>
#include <map>

#include "analyse/rank/collectives.h"
#include "analyse/rank/steps.h"
#include "base/decimal.h"
#include "base/saturated.h"

namespace profgpu {

bool is_mpi_call(const Trace& trace, HostId h) {
  return trace.host.kind[h.value] == HostKind::kLibrary && trace.name(h).starts_with("MPI_");
}

namespace {

// MPI_Finalize is where ranks without more to do wait for the last one.
bool starts_mpi(std::string_view function) { return function.starts_with("MPI_Init"); }

struct FunctionSums {
  MpiFunction row;
  std::vector<int64_t> bytes;
  std::map<std::string, int64_t, std::less<>> ns_in;   // by the program's range
};

// Ranges that mark steps, by name: each has its own, and none is a place.
std::vector<bool> names_of_steps(const Facts& facts) {
  std::vector<bool> names(facts.trace().strings.size());
  for (const Step& step : facts.get<Steps>().steps)
    if (step.range.valid()) names[facts.trace().host.name[step.range.value].value] = true;
  return names;
}

// The range of the program around a call.
std::string_view range_around(const Trace& trace, HostId call, const std::vector<bool>& steps) {
  const HostId range = trace.enclosing(trace.host.parent[call.value], [&](HostId h) {
    const HostKind kind = trace.host.kind[h.value];
    return (kind == HostKind::kAnnotation || kind == HostKind::kPython) && !steps[trace.host.name[h.value].value];
  });
  return range.valid() ? trace.name(range) : std::string_view();
}

void finish(FunctionSums& sums, int64_t wall_ns) {
  MpiFunction& row = sums.row;
  row.pct = percent_of(row.total_ns, wall_ns);
  const auto most = std::ranges::max_element(sums.ns_in, {}, [](const auto& range) { return range.second; });
  if (most != sums.ns_in.end() && 2 * most->second >= row.total_ns) row.where = most->first;
  if (sums.bytes.empty()) return;
  row.bytes = 0;
  for (const int64_t bytes : sums.bytes) add_saturated(*row.bytes, bytes);
  row.median_bytes = lower_median(sums.bytes);
}

// Where the recording says it of the call, and not of a collective.
std::optional<int64_t> stated_bytes(std::string_view arguments) {
  for (const std::string_view key : {"\"Message size [bytes]\": ", "\"Received [bytes]\": "}) {
    const size_t at = arguments.find(key);
    if (at == arguments.npos) continue;
    if (const auto number = leading_number(arguments.substr(at + key.size())); number && number->value > 0)
      return static_cast<int64_t>(number->value);
  }
  return std::nullopt;
}

std::map<uint32_t, int64_t> bytes_of_calls(const Trace& trace) {
  std::map<uint32_t, int64_t> bytes;
  for (const RangeArguments& a : trace.range_arguments)
    if (is_mpi_call(trace, a.host))
      if (const auto stated = stated_bytes(trace.strings[a.text])) bytes[a.host.value] = *stated;
  for (const Collective& c : trace.collectives) {
    if (!c.host.valid()) continue;
    const std::string name = collective_name(trace.strings[c.name]);
    if (const auto known = message_bytes(c, name, trace.strings[c.dtype]); known && *known > 0)
      bytes[c.host.value] = *known;
  }
  return bytes;
}

}  // namespace

const MpiFunction* MpiTime::longest() const {
  const auto found = std::ranges::find_if(functions, [](const MpiFunction& f) { return !starts_mpi(f.name); });
  return found != functions.end() ? &*found : nullptr;
}

MpiCalls MpiCalls::compute(const Facts& facts) {
  const Trace& trace = facts.trace();
  MpiCalls calls;
  for (uint32_t h = 0; h < trace.host.size(); ++h)
    if (is_mpi_call(trace, HostId(h))) calls.time.push_back(trace.host.interval(HostId(h)));
  calls.time = merged(std::move(calls.time));
  return calls;
}

std::optional<MpiTime> MpiTime::compute(const Facts& facts) {
  const Trace& trace = facts.trace();
  const MpiCalls& calls = facts.get<MpiCalls>();
  if (calls.time.empty()) return std::nullopt;
  const Intervals measured = facts.get<Steps>().measured_time();
  const std::map<uint32_t, int64_t> bytes = bytes_of_calls(trace);
  MpiTime out;
  out.wall_ns = total_length(measured);
  out.outside_ns = out.wall_ns - total_length(intersect(calls.time, measured));
  const std::vector<bool> steps = names_of_steps(facts);
  Intervals communicating;
  std::map<std::string_view, FunctionSums> functions;
  for (uint32_t h = 0; h < trace.host.size(); ++h) {
    if (!is_mpi_call(trace, HostId(h))) continue;
    const std::string_view name = trace.name(HostId(h));
    const Interval time = trace.host.interval(HostId(h));
    if (!starts_mpi(name)) communicating.push_back(time);
    const int64_t within = total_length(clipped(measured, time));
    if (within == 0 && !contains(measured, time.start)) continue;
    FunctionSums& f = functions[name];
    ++f.row.calls;
    f.row.total_ns += within;
    if (const auto size = bytes.find(h); size != bytes.end()) f.bytes.push_back(size->second);
    if (const std::string_view range = range_around(trace, HostId(h), steps); !range.empty())
      f.ns_in[std::string(range)] += within;
  }
  out.total_ns = total_length(intersect(merged(std::move(communicating)), measured));
  for (auto& [name, sums] : functions) {
    sums.row.name = name;
    finish(sums, out.wall_ns);
    out.functions.push_back(std::move(sums.row));
  }
  std::ranges::stable_sort(out.functions, std::greater(), &MpiFunction::total_ns);
  return out;
}

}  // namespace profgpu
