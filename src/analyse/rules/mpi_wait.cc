// Programs that use MPI and GPUs: the device idles while the thread that launches its work is in a call of MPI.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyse/rank/mpi.h"
#include "analyse/rules/host_work.h"
#include "analyse/rules/measure.h"

namespace profgpu {

extern const Rule kMpiWait;

namespace {

/// Idle time of the device in which the launching thread is in calls of MPI, and in which of them.
struct MpiWaits {
  Intervals time;
  std::map<std::string_view, int64_t> by_function;
};

// By thread, in order of time; calls within calls are left out.
std::map<ThreadId, std::vector<HostId>> outermost_calls(const Trace& trace) {
  std::map<ThreadId, std::vector<HostId>> calls;
  for (uint32_t h = 0; h < trace.host.size(); ++h) {
    if (!is_mpi_call(trace, HostId(h))) continue;
    std::vector<HostId>& of_thread = calls[trace.host.thread[h]];
    if (of_thread.empty() || trace.host.end_ns(of_thread.back()) <= trace.host.start_ns[h]) of_thread.emplace_back(h);
  }
  return calls;
}

MpiWaits mpi_waits(const Measured& m) {
  const Trace& trace = m.trace();
  MpiWaits waits;
  if (!m.has_device() || m.facts().get<MpiCalls>().time.empty()) return waits;
  const std::map<ThreadId, std::vector<HostId>> calls = outermost_calls(trace);
  GapThreads threads(m);
  for (const Gap& gap : m.gaps()) {
    if (!m.counts(gap, IdleCause::kHostBound) && !m.counts(gap, IdleCause::kSynchronization)) continue;
    const auto of_thread = calls.find(threads(gap));
    if (of_thread == calls.end()) continue;
    const int64_t launch = gap.launch.valid() ? trace.host.start_ns[gap.launch.value] : gap.end_ns;
    const Interval wait{gap.start_ns, std::clamp(launch, gap.start_ns, gap.end_ns)};
    const auto end_of = [&](HostId h) { return trace.host.end_ns(h); };
    auto call = std::ranges::upper_bound(of_thread->second, wait.start, {}, end_of);
    for (; call != of_thread->second.end() && trace.host.start_ns[call->value] < wait.end; ++call) {
      const Interval time = trace.host.interval(*call);
      waits.time.push_back({std::max(wait.start, time.start), std::min(wait.end, time.end)});
      waits.by_function[trace.name(*call)] += waits.time.back().length();
    }
  }
  waits.time = merged(std::move(waits.time));
  return waits;
}

std::optional<double> mpi_wait_value(const Measured& m) {
  const Intervals time = mpi_waits(m).time;
  return only_if(!time.empty(), m.window_pct(time));
}

void describe_function(const std::string& function, Finding& f) {
  const std::string pct = format_percent(*f.value, 0);
  f.what = fmt::format("the GPU waits while the host is in {}", function);
  f.verdict = fmt::format("The GPU waits while the host is in {}: it idles {} of the time meanwhile.", function, pct);
}

void describe_mpi_wait(const Measured& m, Finding& f) {
  const MpiWaits waits = mpi_waits(m);
  using Function = std::pair<const std::string_view, int64_t>;
  const auto longest = std::ranges::max_element(waits.by_function, {}, &Function::second);
  describe_function(std::string(longest->first), f);
  f.why = fmt::format("The next kernels are launched after the call has returned: {} idles {} of the time until then. The "
                      "call waits for other ranks, or for the transfer.",
                      m.device_label(), format_percent(*f.value));
  Place place;
  place.name = longest->first, place.ns = longest->second, place.is_range = true;
  f.where = {place};
  for (const auto& [function, ns] : waits.by_function)
    f.evidence.push_back(fmt::format("{}: {}", function, per_step_text(m, ns)));
  f.own_fixes = true;
  set_cost(f, m.wall_ns(), total_length(intersect(waits.time, m.measured_time())));
}

// Of several ranks, what the one that waits least waits is the exchange itself: the rest is for a late rank, which
// other findings name.
bool settle_mpi_wait(const Rule& rule, const Evidence& evidence, const RankMeasure& m, Finding& f) {
  if (evidence.ranks.size() < 2) {
    f.fix.insert(f.fix.begin(), "record all ranks, and give analyze the folder with their files: which one is late?");
    return true;
  }
  const RankDiagnosis* least = nullptr;
  for (const RankDiagnosis& r : evidence.ranks)
    if (least == nullptr || r.measure.mpi_wait_pct < least->measure.mpi_wait_pct) least = &r;
  const double value = std::min(*f.value, least->measure.mpi_wait_pct);
  if (!rule.beyond(value, evidence.thresholds.of(rule))) return false;
  f.value = value;
  if (!f.where.empty()) describe_function(f.where.front().name, f);
  set_cost(f, m.wall_ns, static_cast<int64_t>(value / 100 * static_cast<double>(m.wall_ns)));
  return true;
}

}  // namespace

double mpi_wait_pct(const Measured& measured) { return mpi_wait_value(measured).value_or(0); }

Intervals find_mpi_wait(const Measured& measured) {
  if (!measured.has_device()) return {};
  Intervals time = mpi_waits(measured).time;
  return kMpiWait.beyond(measured.window_pct(time), measured.threshold(kMpiWait)) ? time : Intervals();
}

extern const Rule kMpiWait = {
    .id = "mpi-wait",
    .summary = "the GPU idles while the host is in a call of MPI",
    .unit = "%",
    .threshold = 10,
    .severe = 30,
    .meaning =
        "The program exchanges data with MPI between its kernels, on the thread that launches them: the device has "
        "nothing to do until the call returns.",
    .computation =
        "Value: idle time of causes host_bound and synchronization in which the launching thread is in a call of MPI, as "
        "a share of the device's window; with several ranks, that of the rank with least of it, since the others wait "
        "for that one as well (see mpi-imbalance). Cost: that time. Other findings about the host do not count it.",
    .advice =
        {"start the exchange early and wait for it late: MPI_Iallreduce, MPI_Isend and MPI_Irecv, with kernels launched in "
         "between that do not need the result",
         "give a CUDA-aware MPI pointers to device memory, or use NCCL for collectives: no copies through the host",
         "exchange less often, and more at once"},
    .rank = {.value = mpi_wait_value, .describe = describe_mpi_wait},
    .settle = settle_mpi_wait,
};

}  // namespace profgpu
