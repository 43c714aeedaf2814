#include "analyse/rules/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <ranges>

#include "analyse/rank/collectives.h"
#include "analyse/rank/first_use.h"
#include "analyse/rank/frameworks.h"
#include "analyse/rank/kernels.h"
#include "analyse/rank/memory.h"
#include "analyse/rank/places.h"
#include "analyse/rank/threads.h"
#include "base/text.h"
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

// A network that every cluster has: 100 Gbit/s, of which 10 GB/s are reached; and a call's own latency on it.
constexpr double kSlowNetwork_gbps = 10;
constexpr int64_t kSlowCall_ns = 200'000;

// How long collectives of known size last beyond what their bytes take on a slow network.
void measure_collectives(const Measured& m, RankMeasure& out) {
  for (const CollectiveRow& row : m.facts().get<Collectives>().rows) {
    if (!row.message_bytes || row.group_size < 2 || row.total_ns == 0) continue;
    const double bytes = static_cast<double>(*row.message_bytes) * bus_factor(row.name, row.group_size);
    const int64_t transfer_ns = row.measured_calls * (static_cast<int64_t>(bytes / kSlowNetwork_gbps) + kSlowCall_ns);
    const int64_t exposed_ns = row.exposed_ns * row.measured_ns / row.total_ns;
    out.collectives.exposed_ns += exposed_ns;
    out.collectives.least_wait_ns += std::clamp<int64_t>(row.measured_ns - transfer_ns, 0, exposed_ns);
  }
}

std::vector<Place> places_of(const Measured& m, ThreadId thread) {
  Places places(m.facts());
  for (const Interval& step : m.measured_time()) places.add_host_time(thread, step);
  return places.most_expensive(2);
}

// Of the thread that runs the steps; of another where that one does nothing that was recorded, as with collectives that
// threads of their own carry out.
std::vector<Place> host_places(const Measured& m) {
  const ThreadId steps = m.facts().get<Steps>().thread;
  std::vector<Place> most;
  if (steps.valid()) most = places_of(m, steps);
  if (!most.empty()) return most;
  for (size_t t = 0; t < m.trace().threads.size(); ++t)
    if (auto places = places_of(m, ThreadId(t)); !places.empty() && (most.empty() || places[0].ns > most[0].ns))
      most = std::move(places);
  return most;
}

void measure_device(const Measured& m, RankMeasure& out) {
  const DeviceTime& device = m.device();
  out.has_device = true;
  if (const auto reserved = reserved_pct(m)) out.memory_headroom_pct = 100 - *reserved;
  out.device_label = m.device_label();
  out.device_name = device.name;
  out.window_ns = total_length(m.idle().window);
  out.waiting_ns = m.waiting_ns();
  out.utilization_pct = m.utilization_pct();
  out.known_utilization_pct = m.known_utilization_pct();
  out.exposed_communication_pct = m.exposed_communication_pct();
  measure_collectives(m, out);
  out.activities = static_cast<int64_t>(m.trace().activity.size());
  out.captures = m.is_capture();
  for (size_t c = 0; c < kIdleCauses; ++c) out.idle_pct[c] = m.idle_pct(static_cast<IdleCause>(c));
  out.matrix_work = std::ranges::any_of(m.facts().get<Kernels>().rows, is_matrix_work, &KernelRow::category);
  const Frameworks& with = m.facts().get<Frameworks>();
  out.compiled = with.has(Framework::kTorchCompile) || with.has(Framework::kCudaGraphs);
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
  if (has_device()) gaps_ = idle().all();
}

const DeviceTime& Measured::device() const { return facts_.get<Devices>().devices[device_]; }

const DeviceIdle& Measured::idle() const { return facts_.get<Idle>().devices[device_]; }

std::string Measured::device_label() const { return fmt::format("GPU {}", device().id); }

int64_t Measured::judged_ns(const Intervals& time) const {
  return total_length(all_measured_ ? time : intersect(time, measured_));
}

int64_t Measured::idle_ns(IdleCause cause) const {
  const auto c = static_cast<size_t>(cause);
  return all_measured_ ? idle().total_ns[c] + idle().edge_ns[c] : idle().measured_ns[c];
}

double Measured::idle_pct(IdleCause cause) const { return percent_of(idle_ns(cause), window_ns()); }

double Measured::idle_wall_pct(IdleCause cause) const {
  return wall_pct(idle().measured_ns[static_cast<size_t>(cause)]);
}

int64_t Measured::waiting_ns() const {
  const DeviceTime& d = device();
  return window_ns() - judged_ns(d.busy) + judged_ns(d.exposed_communication) + judged_ns(d.exposed_memory);
}

IdleCause RankMeasure::largest_idle_cause() const {
  std::array<double, kIdleCauses> of_program = idle_pct;
  of_program[static_cast<size_t>(IdleCause::kUntracedWork)] = 0;   // the device does work
  return static_cast<IdleCause>(std::ranges::max_element(of_program) - of_program.begin());
}

double Measured::utilization_pct() const {
  return window_pct(device().busy);
}

double Measured::known_utilization_pct() const {
  const double untraced = idle_pct(IdleCause::kUntracedWork);
  return untraced < 100 ? 100 * utilization_pct() / (100 - untraced) : 0;
}

bool Measured::is_capture() const {
  Intervals capture;
  for (const Intervals& of_thread : facts_.get<FirstUse>().capture) capture = unite(capture, of_thread);
  return 2 * total_length(intersect(capture, measured_)) > wall_ns_;
}

double Measured::exposed_communication_pct() const {
  return window_pct(device().exposed_communication);
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

bool is_upload(const Trace& trace, ActivityId copy) {
  return trace.activity.kind[copy.value] == ActivityKind::kMemcpy &&
         trace.name(copy).find("HtoD") != std::string_view::npos;
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

std::string place_text(const Place& place) {
  if (place.file.empty()) return shortened(place.name);
  return fmt::format("{} ({}:{})", shortened(place.name), shortened(place.file), place.line.value_or(0));
}

std::vector<Place> places_in_gaps(const Measured& measured, IdleCause cause) {
  constexpr size_t kMost = 200;
  std::vector<const Gap*> gaps;
  for (const Gap& gap : measured.gaps())
    if (gap.cause == cause && measured.in_measured_step(gap.end_ns - 1)) gaps.push_back(&gap);
  const auto end = gaps.begin() + static_cast<ptrdiff_t>(std::min(gaps.size(), kMost));
  std::partial_sort(gaps.begin(), end, gaps.end(),
                    [](const Gap* a, const Gap* b) { return a->length() > b->length(); });
  const Trace& trace = measured.trace();
  Places places(measured.facts());
  for (auto it = gaps.begin(); it != end; ++it) {
    const Gap& gap = **it;
    const bool launched = gap.launch.valid();
    const ThreadId thread = launched ? trace.host.thread[gap.launch.value] : measured.facts().get<Steps>().thread;
    // A launch that takes long is part of what the host did.
    const int64_t until = launched ? std::min(trace.host.end_ns(gap.launch), gap.end_ns) : gap.end_ns;
    if (thread.valid() && until > gap.start_ns) places.add_host_time(thread, {gap.start_ns, until});
  }
  return places.most_expensive();
}

const Gap* longest_gap(const Measured& measured, IdleCause cause) {
  const Gap* best = nullptr;
  for (const Gap& gap : measured.gaps()) {
    if (gap.cause != cause || !measured.in_measured_step(gap.end_ns - 1)) continue;
    if (best == nullptr || gap.length() > best->length()) best = &gap;
  }
  return best;
}

int64_t steps_with_gaps(const Measured& measured, IdleCause cause) {
  int64_t count = 0;
  const auto& gaps = measured.gaps();
  for (const Step* step : measured.facts().get<Steps>().measured())
    count += std::any_of(gaps.begin(), gaps.end(), [&](const Gap& g) {
      return g.cause == cause && g.start_ns < step->interval().end && g.end_ns > step->start_ns;
    });
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

double RankMeasure::phase_pct(Phase phase) const {
  const auto at = std::ranges::find(phases, phase_name(phase), &PhaseShare::name);
  return at == phases.end() ? 0 : at->wall_pct;
}

RankMeasure rank_measure(const Measured& m) {
  RankMeasure out;
  out.rank = m.rank();
  out.wall_ns = m.wall_ns();
  out.steps = m.steps();
  out.cut_off = m.trace().cut_off;
  out.annotated = m.facts().get<Steps>().annotated;
  const Phases& phases = m.facts().get<Phases>();
  for (const Phase p : phases.all()) {
    const int64_t ns = phases.measured_wall_ns[static_cast<size_t>(p)];
    out.phases.push_back({std::string(phases.name(p)), ns, m.wall_pct(ns)});
  }
  out.accumulates = phases.optimizer_steps > 0 && phases.backward_passes > phases.optimizer_steps;
  if (m.has_device()) measure_device(m, out);
  else out.host_places = host_places(m);
  return out;
}

}  // namespace profgpu
