#include "analyse/rules/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <ranges>

#include "analyse/rank/memory.h"
#include "analyse/rank/threads.h"
#include "trace/intervals.h"

namespace profgpu {
namespace {

constexpr int64_t kMinSamples = 10;
constexpr double kWorthSayingPct = 30, kMaxPct = 50;

/// What a thread does in a system call that blocks it.
struct Meaning {
  std::string_view does, fix;
  std::vector<std::string_view> calls;
};
const std::vector<Meaning>& meanings() {
  static const std::vector<Meaning> all = {
      {"it sleeps", "wait for what the program waits for, not for a time", {"nanosleep", "clock_nanosleep"}},
      {"it reads",
       "read ahead in other threads or processes: the one that launches should wait for no file",
       {"read", "pread64", "readv", "preadv", "io_uring_enter", "openat", "newfstatat"}},
      {"it writes",
       "write in another thread: the one that launches should wait for no file",
       {"write", "pwrite64", "writev", "fsync", "fdatasync", "msync", "ftruncate", "sendfile"}},
      {"it waits for another thread",
       "`--section threads` shows what the others do meanwhile",
       {"futex", "futex_waitv"}},
      {"it waits for the network or another process",
       "fetch ahead in other threads: the one that launches should wait for nobody outside",
       {"poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2", "recvfrom", "recvmsg",
        "sendto", "sendmsg", "connect", "accept", "accept4"}},
      {"it waits for a process that it started", "let that process run beside the loop", {"wait4", "waitid"}}};
  return all;
}

/// Of the samples of launching threads within gaps.
struct Blocked {
  int64_t samples = 0, blocked = 0;
  std::map<int32_t, int64_t> calls;   // by system call
};

// From the gap's start to when the launch that ends it begins, by thread.
std::map<ThreadId, Intervals> until_launches(const Measured& m, IdleCause cause) {
  std::map<ThreadId, Intervals> waits;
  for (const Gap& gap : m.idle().gaps) {
    if (gap.cause != cause || !gap.launch.valid() || !m.in_measured_step(gap.end_ns - 1)) continue;
    const int64_t launch = m.trace().host.start_ns[gap.launch.value];
    waits[m.trace().host.thread[gap.launch.value]].push_back({gap.start_ns, std::min(launch, gap.end_ns)});
  }
  for (auto& [thread, intervals] : waits) intervals = merged(std::move(intervals));
  return waits;
}

Blocked blocked_in_gaps(const Measured& m, IdleCause cause) {
  const std::map<ThreadId, Intervals> waits = until_launches(m, cause);
  Blocked sum;
  for (const ThreadSample& s : m.trace().thread_samples) {
    const auto of_thread = waits.find(s.thread);
    if (of_thread == waits.end() || !contains(of_thread->second, s.time_ns)) continue;
    ++sum.samples;
    if (s.state == 'R') continue;
    ++sum.blocked;
    ++sum.calls[s.system_call];
  }
  return sum;
}

bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

// Inductor's or Triton's kernels, or graph launches.
bool is_compiled(const Measured& m) {
  const Trace& trace = m.trace();
  for (const StringId name : trace.activity.name)
    if (trace.strings[name].starts_with("triton_")) return true;
  for (size_t i = 0; i < trace.strings.size(); ++i) {
    const std::string_view name = trace.strings[StringId(i)];
    if (contains(name, "GraphLaunch") || name.starts_with("Torch-Compiled Region") ||
        name.starts_with("## Call CompiledFxGraph"))
      return true;
  }
  return false;
}

Verdict fused_optimizer(const Measured& m) {
  const Trace& trace = m.trace();
  const auto& phase = m.facts().get<Phases>().of_activity;
  bool any = false;
  for (uint32_t i = 0; i < trace.activity.size(); ++i) {
    if (phase[i] != Phase::kOptimizer || trace.activity.kind[i] != ActivityKind::kKernel) continue;
    any = true;
    const std::string_view name = trace.name(ActivityId(i));
    if (contains(name, "multi_tensor") || contains(name, "fused") || contains(name, "Fused")) return Verdict::kPass;
  }
  return any ? Verdict::kFail : Verdict::kUnknown;
}

void measure_device(const Measured& m, RankMeasure& out) {
  const DeviceTime& device = m.device();
  out.has_device = true;
  if (const auto reserved = reserved_pct(m)) out.memory_headroom_pct = 100 - *reserved;
  out.device_label = m.device_label();
  out.device_name = device.name;
  out.span_ns = device.span_ns;
  out.waiting_ns = m.waiting_ns();
  out.utilization_pct = m.utilization_pct();
  out.exposed_communication_pct = m.exposed_communication_pct();
  out.busy_wall_pct = m.wall_pct(total_length(intersect(device.busy, m.measured_time())));
  for (size_t c = 0; c < kIdleCauses; ++c) out.idle_pct[c] = m.idle_pct(static_cast<IdleCause>(c));
  out.largest_idle_cause = m.largest_idle_cause();
  out.matrix_work = std::ranges::any_of(m.facts().get<Kernels>().rows, is_matrix_work, &KernelRow::category);
  out.compiled = is_compiled(m);
  out.fused_optimizer = fused_optimizer(m);
}

}  // namespace

Measured::Measured(int rank, const Facts& facts, size_t place, Thresholds thresholds)
    : rank_(rank), facts_(facts), device_(place), thresholds_(std::move(thresholds)) {
  const Steps& steps = facts.get<Steps>();
  for (const Step* s : steps.measured()) measured_.push_back(s->interval());
  steps_ = static_cast<int64_t>(measured_.size());
  measured_ = merged(std::move(measured_));
  wall_ns_ = steps.measured_wall_ns();
  // Steps in which the device hardly runs, such as the rump of one at the end, say nothing about it.
  all_measured_ = static_cast<size_t>(steps_) == steps.steps.size() ||
                  (has_device() && 2 * total_length(intersect(device().spans, measured_)) < wall_ns_);
}

const DeviceTime& Measured::device() const { return facts_.get<Devices>().devices[device_]; }

const DeviceIdle& Measured::idle() const { return facts_.get<Idle>().devices[device_]; }

std::string Measured::device_label() const { return fmt::format("GPU {}", device().id); }

int64_t Measured::span_ns() const {
  return all_measured_ ? device().span_ns : total_length(intersect(device().spans, measured_));
}

double Measured::idle_pct(IdleCause cause) const {
  const auto c = static_cast<size_t>(cause);
  return percent_of(all_measured_ ? idle().total_ns[c] : idle().measured_ns[c], span_ns());
}

Intervals Measured::idle_around(IdleCause cause) const {
  const Phases& phases = facts_.get<Phases>();
  const bool loads = cause == IdleCause::kDataLoading;
  if (!loads && cause != IdleCause::kCheckpoint) return {};
  return subtract(intersect(loads ? phases.data_loading : phases.checkpoint, measured_), device().spans);
}

double Measured::idle_wall_pct(IdleCause cause) const {
  return wall_pct(idle().measured_ns[static_cast<size_t>(cause)] + total_length(idle_around(cause)));
}

int64_t Measured::waiting_ns() const {
  const DeviceTime& d = device();
  return d.idle_ns + d.exposed_communication_ns + d.exposed_memory_ns +
         total_length(idle_around(IdleCause::kDataLoading)) + total_length(idle_around(IdleCause::kCheckpoint));
}

IdleCause Measured::largest_idle_cause() const {
  const auto& total = idle().total_ns;
  return static_cast<IdleCause>(std::ranges::max_element(total) - total.begin());
}

double Measured::utilization_pct() const {
  return percent_of(all_measured_ ? device().busy_ns : total_length(intersect(device().busy, measured_)), span_ns());
}

double Measured::exposed_communication_pct() const {
  const Intervals& exposed = device().exposed_communication;
  return percent_of(all_measured_ ? total_length(exposed) : total_length(intersect(exposed, measured_)), span_ns());
}

double Measured::phase_pct(Phase phase) const {
  return percent_of(facts_.get<Phases>().measured_wall_ns[static_cast<size_t>(phase)], wall_ns_);
}

double Measured::wall_pct(int64_t ns) const { return percent_of(ns, wall_ns_); }

bool Measured::in_measured_step(int64_t time) const { return contains(measured_, time); }

void set_cost(Finding& finding, int64_t wall_ns, int64_t cost_ns) {
  finding.cost_ns = cost_ns;
  finding.cost_pct = percent_of(cost_ns, wall_ns);
}

std::optional<double> reserved_pct(const Measured& measured) {
  const Memory& memory = measured.facts().get<Memory>();
  if (!memory.peak_reserved_bytes || !memory.capacity_bytes) return std::nullopt;
  return percent_of(*memory.peak_reserved_bytes, *memory.capacity_bytes);
}

std::string duration_text(double ns) {
  if (ns < 1e3) return fmt::format("{:.0f} ns", ns);
  if (ns < 1e6) return fmt::format("{:.1f} µs", ns / 1e3);
  if (ns < 1e9) return fmt::format("{:.1f} ms", ns / 1e6);
  return fmt::format("{:.2f} s", ns / 1e9);
}

std::string idle_cause_words(IdleCause cause) {
  std::string words(idle_cause_name(cause));
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

std::string percent_text(double pct) { return fmt::format("{:.1f} %", pct); }

std::string shortened(std::string_view text, size_t longest) {
  if (text.size() <= longest) return std::string(text);
  size_t keep = longest;
  while (keep > 0 && (static_cast<unsigned char>(text[keep]) & 0xC0) == 0x80) --keep;
  return std::string(text.substr(0, keep)) + "…";
}

std::vector<std::string> waited_in(const Measured& measured, IdleCause cause, size_t most) {
  struct Sum {
    std::string_view name;
    int64_t ns = 0, count = 0;
  };
  std::map<std::string_view, Sum> by_name;
  for (const Gap& gap : measured.idle().gaps) {
    if (gap.cause != cause || !gap.host.valid()) continue;
    Sum& sum = by_name[measured.trace().name(gap.host)];
    sum.name = measured.trace().name(gap.host);
    sum.ns += gap.length();
    ++sum.count;
  }
  const auto values = std::views::values(by_name);
  std::vector<Sum> order(values.begin(), values.end());
  std::ranges::stable_sort(order, std::greater(), &Sum::ns);
  std::vector<std::string> out;
  for (const Sum& s : order | std::views::take(most))
    out.push_back(fmt::format("{} ({} in {} of the longest gaps)", shortened(s.name), duration_text(s.ns), s.count));
  return out;
}

const Gap* longest_gap(const Measured& measured, IdleCause cause) {
  const Gap* best = nullptr;
  for (const Gap& gap : measured.idle().gaps) {
    if (gap.cause != cause || !measured.in_measured_step(gap.end_ns - 1)) continue;
    if (best == nullptr || gap.length() > best->length()) best = &gap;
  }
  return best;
}

int64_t steps_with_gaps(const Measured& measured, IdleCause cause) {
  int64_t count = 0;
  const auto& gaps = measured.idle().gaps;
  const Intervals around = measured.idle_around(cause);
  for (const Step* step : measured.facts().get<Steps>().measured()) {
    count += overlap_length(around, step->interval()) > 0 || std::any_of(gaps.begin(), gaps.end(), [&](const Gap& g) {
      return g.cause == cause && g.start_ns < step->interval().end && g.end_ns > step->start_ns;
    });
  }
  return count;
}

std::string share_text(const Finding& finding) { return fmt::format("{:.0f} %", *finding.value); }

std::optional<BlockedThread> blocked_thread(const Measured& measured, IdleCause cause) {
  const Blocked sum = blocked_in_gaps(measured, cause);
  if (sum.samples < kMinSamples) return std::nullopt;
  const double pct = percent_of(sum.blocked, sum.samples);
  if (pct < kWorthSayingPct) return std::nullopt;
  BlockedThread out;
  out.said = fmt::format("meanwhile the thread that launches is blocked {:.0f} % of the time", pct);
  const auto most = std::ranges::max_element(sum.calls, {}, &std::pair<const int32_t, int64_t>::second);
  if (most->first < 0) return out;
  const std::string call = system_call_name(most->first);
  out.said += (most->second == sum.blocked ? ", in " : ", mostly in ") + call;
  for (const Meaning& known : meanings()) {
    if (std::find(known.calls.begin(), known.calls.end(), call) == known.calls.end()) continue;
    out.said += fmt::format(": {}", known.does);
    if (pct >= kMaxPct) out.fix = known.fix;
  }
  return out;
}

void add_blocked_thread(Finding& finding, const Measured& measured, IdleCause cause) {
  std::optional<BlockedThread> blocked = blocked_thread(measured, cause);
  if (!blocked) return;
  finding.evidence.insert(finding.evidence.begin(), std::move(blocked->said));
  if (!blocked->fix.empty()) finding.fix.insert(finding.fix.begin(), std::move(blocked->fix));
}

Phase RankMeasure::largest_phase() const {
  return static_cast<Phase>(std::ranges::max_element(phase_pct) - phase_pct.begin());
}

RankMeasure rank_measure(const Measured& m) {
  RankMeasure out;
  out.rank = m.rank();
  out.wall_ns = m.wall_ns();
  out.steps = m.steps();
  out.annotated = m.facts().get<Steps>().annotated;
  for (size_t p = 0; p < kPhases; ++p) out.phase_pct[p] = m.phase_pct(static_cast<Phase>(p));
  const Phases& phases = m.facts().get<Phases>();
  out.accumulates = phases.optimizer_steps > 0 && phases.backward_passes > phases.optimizer_steps;
  if (m.has_device()) measure_device(m, out);
  return out;
}

}  // namespace profgpu
