#include "trace/import/rocm_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "trace/import/kernel_symbol.h"
#include "trace/import/recording_rows.h"
#include "trace/import/said_issues.h"

namespace profgpu {
namespace {

using std::string_view;

constexpr int64_t kLatestRocm_ns = INT64_MAX / 4;   // as for other formats: sums and differences cannot overflow

int32_t rocm_size(int64_t value) { return static_cast<int32_t>(std::clamp<int64_t>(value, 0, INT32_MAX)); }

uint32_t rocm_correlation(int64_t number) {
  return number > 0 && number <= UINT32_MAX ? static_cast<uint32_t>(number) : 0;
}

// As PyTorch's traces of AMD devices have it; whether the host's memory is pinned is not recorded.
string_view copy_name_of(string_view direction) {
  const std::string words = lower_case(direction);
  const auto has = [&](string_view a, string_view b) { return contains(words, a) || contains(words, b); };
  if (has("host_to_device", "hosttodevice")) return "Memcpy HtoD (Host -> Device)";
  if (has("device_to_host", "devicetohost")) return "Memcpy DtoH (Device -> Host)";
  if (has("device_to_device", "devicetodevice")) return "Memcpy DtoD (Device -> Device)";
  if (has("host_to_host", "hosttohost")) return "Memcpy HtoH (Host -> Host)";
  return "Memcpy Unknown (Unknown -> Unknown)";
}

}  // namespace

void RocmRows::add_agent(int64_t number, bool gpu, string_view name, int64_t compute_units) {
  constexpr size_t kMaxAgents = 4096;
  if (agents_.size() >= kMaxAgents || agents_.contains(number)) return;
  if (!gpu) {
    agents_[number] = std::nullopt;
    return;
  }
  DeviceProperties& d = devices_.emplace_back();
  d.id = static_cast<int32_t>(devices_.size()) - 1;
  d.name = name.substr(0, 200);
  replace_invalid_utf8(d.name);
  d.multiprocessors = rocm_size(compute_units);
  agents_[number] = d.id;
}

void RocmRows::add_alias(int64_t alias, int64_t number) {
  if (const auto at = agents_.find(number); at != agents_.end()) agents_.try_emplace(alias, at->second);
}

// An agent that is not listed is taken for a GPU: only those run kernels.
int32_t RocmRows::device(int64_t agent) {
  const auto at = agents_.find(agent);
  if (at != agents_.end()) return at->second.value_or(0);
  add_agent(agent, true, "", 0);
  const auto added = agents_.find(agent);
  return added != agents_.end() ? added->second.value_or(0) : 0;
}

StringId RocmRows::name(string_view text) {
  std::string valid(text.empty() ? "(no name)" : text);
  if (replace_invalid_utf8(valid) > 0) ++shard_.issues[TraceIssueKind::kInvalidText];
  return shard_.strings.intern(valid);
}

bool RocmRows::in_time(int64_t start_ns, int64_t end_ns) {
  ++shard_.events;
  if (start_ns < 0 || start_ns >= kLatestRocm_ns || end_ns >= kLatestRocm_ns || end_ns - start_ns >= kLongestNs)
    return ++shard_.issues[TraceIssueKind::kOutOfRange], false;
  if (end_ns < start_ns) return ++shard_.issues[TraceIssueKind::kNegativeDuration], false;
  return true;
}

void RocmRows::add(const RocmDispatch& dispatch) {
  if (!in_time(dispatch.start_ns, dispatch.end_ns)) return;
  ActivityArgs args;
  for (int i = 0; i < 3; ++i) {
    args.block[i] = rocm_size(dispatch.workgroup[i]);
    args.grid[i] = rocm_size(dispatch.grid[i] / std::max<int64_t>(dispatch.workgroup[i], 1));
  }
  args.shared_bytes = rocm_size(dispatch.lds_bytes);
  args.registers = rocm_size(dispatch.registers);
  ActivityRow row;
  row.start_ns = dispatch.start_ns;
  row.duration_ns = dispatch.end_ns - dispatch.start_ns;
  row.name = name(demangled(without_kd(dispatch.kernel)));
  row.correlation = rocm_correlation(dispatch.correlation);
  row.queue = shard_.queue({device(dispatch.agent), dispatch.queue, 0});
  row.args = shard_.activity_args(args);
  shard_.activity.push_back(row);
}

void RocmRows::add(const RocmCopy& copy) {
  if (!in_time(copy.start_ns, copy.end_ns)) return;
  const auto is_gpu = [&](int64_t agent) {
    const auto at = agents_.find(agent);
    return at != agents_.end() && at->second.has_value();
  };
  // The device is whichever end is a GPU, the target first.
  const int64_t agent = is_gpu(copy.to) || !is_gpu(copy.from) ? copy.to : copy.from;
  ActivityArgs args;
  args.bytes = std::max<int64_t>(copy.bytes, -1);
  ActivityRow row;
  row.start_ns = copy.start_ns;
  row.duration_ns = copy.end_ns - copy.start_ns;
  row.name = name(copy_name_of(copy.direction));
  row.correlation = rocm_correlation(copy.correlation);
  row.kind = ActivityKind::kMemcpy;
  // Copies have engines of their own: they are not in the order of a stream's kernels.
  row.queue = shard_.queue({is_gpu(agent) ? device(agent) : 0, copy.queue, 1});
  row.args = shard_.activity_args(args);
  shard_.activity.push_back(row);
}

void RocmRows::add_counter(string_view counter, double value, int64_t start_ns, int64_t agent) {
  if (start_ns >= 0 && start_ns < kLatestRocm_ns)
    shard_.counters.push_back({start_ns, name(counter), device(agent), value});
}

bool RocmRows::add_host(const RocmRange& range, HostKind kind) {
  if (!in_time(range.start_ns, range.end_ns)) return false;
  HostRow row;
  row.start_ns = range.start_ns;
  row.duration_ns = range.end_ns - range.start_ns;
  row.name = name(range.name);
  row.kind = kind;
  row.thread = static_cast<uint16_t>(shard_.thread(std::to_string(range.process), std::to_string(range.thread)));
  if (kind == HostKind::kRuntime || kind == HostKind::kDriver) row.link = rocm_correlation(range.correlation);
  shard_.host.push_back(row);
  return true;
}

void RocmRows::add_call(const RocmRange& call) {
  const bool hip = call.name.starts_with("hip") || call.name.starts_with("__hip");
  add_host(call, hip ? HostKind::kRuntime : call.name.starts_with("hsa_") ? HostKind::kDriver : HostKind::kLibrary);
}

void RocmRows::add_marker(const RocmRange& marker) { add_host(marker, HostKind::kAnnotation); }

void add_rocm_issues(bool complete, const IssueCounts& counts,
                     const std::map<std::string, int64_t>& unread, Trace& trace) {
  if (!complete) add_cut(trace);
  add_counts(trace, counts,
             {{TraceIssueKind::kDamaged, "records left out because a number in them is missing or no number: {}"},
              {TraceIssueKind::kNegativeDuration, "records left out because their duration is negative: {}"},
              {TraceIssueKind::kOutOfRange, "records left out because a time is missing or out of range: {}"},
              {TraceIssueKind::kInvalidText, "names that are not valid UTF-8: {}"}});
  int64_t records = 0;
  std::string kinds;
  for (const auto& [kind, count] : unread) {
    records += count;
    append_listed(kinds, fmt::format("{} ({})", kind.substr(0, 60), format_count(count)));
  }
  if (records > 0)
    trace.issues.push_back({TraceIssueKind::kUnknownRows, records,
                            fmt::format("records of kinds that profgpu does not read: {}; {:.3g} % of all", kinds,
                                        100.0 * static_cast<double>(records) /
                                            static_cast<double>(records + trace.events))});
}

}  // namespace profgpu
