#include "analyse/rules/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "analyse/rank/averaged_time.h"
#include "analyse/rank/collectives.h"
#include "analyse/rank/distance.h"
#include "analyse/rank/first_use.h"
#include "analyse/rank/frameworks.h"
#include "analyse/rank/host_collectives.h"
#include "analyse/rank/memory.h"
#include "analyse/rank/places.h"
#include "analyse/rank/recorder_advice.h"
#include "analyse/rank/request_waits.h"
#include "analyse/rank/snapshot.h"
#include "analyse/rank/threads.h"
#include "analyse/rank/work.h"
#include "analyse/rules/host_work.h"
#include "base/text.h"
#include "trace/copy_kind.h"
#include "trace/intervals.h"
#include "trace/no_timeline.h"

namespace profgpu {
namespace {

constexpr int64_t kMinSamples = 10;
constexpr double kMinPct = 30, kMostlyPct = 50;   // of the samples: to report it, and to suggest a fix

/// System calls that block for one reason.
struct BlockingReason {
  std::string_view words, fix;
  std::vector<std::string_view> calls;
};
const std::vector<BlockingReason>& blocking_reasons() {
  static const std::vector<BlockingReason> all = {
      {"sleep", "wait for the event itself instead of sleeping", {"nanosleep", "clock_nanosleep"}},
      {"file input",
       "read ahead in other threads or processes, so that the launching thread never waits for a file",
       {"read", "pread64", "readv", "preadv", "io_uring_enter", "openat", "newfstatat"}},
      {"file output",
       "write in another thread, so that the launching thread never waits for a file",
       {"write", "pwrite64", "writev", "fsync", "fdatasync", "msync", "ftruncate", "sendfile"}},
      {"waiting for another thread",
       "`--section threads` shows what the other threads do at that time",
       {"futex", "futex_waitv"}},
      {"waiting for the network or another process",
       "fetch ahead in other threads, so that the launching thread never waits for other processes",
       {"poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2", "recvfrom", "recvmsg",
        "sendto", "sendmsg", "connect", "accept", "accept4"}},
      {"waiting for a child process", "let the child process run in parallel with the loop", {"wait4", "waitid"}}};
  return all;
}

/// Samples of launching threads within gaps.
struct Blocked {
  int64_t samples = 0, blocked = 0;
  std::map<int32_t, int64_t> calls;   // by system call
};

// From each gap's start to the launch that ends it, by thread.
std::map<ThreadId, Intervals> until_launches(const Measured& m, IdleCause cause) {
  std::map<ThreadId, Intervals> waits;
  for (const Gap& gap : m.idle().gaps) {
    if (!gap.launch.valid() || !m.counts(gap, cause)) continue;
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

// By device time: a fused norm of the gradients makes no fused optimizer.
Verdict fused_optimizer(const Measured& m) {
  const Trace& trace = m.trace();
  const auto& phase = m.facts().get<Phases>().of_activity;
  int64_t fused_ns = 0, all_ns = 0;
  for (uint32_t i = 0; i < trace.activity.size(); ++i) {
    if (phase[i] != Phase::kOptimizer || trace.activity.kind[i] != ActivityKind::kKernel) continue;
    constexpr std::string_view kFused[] = {"multi_tensor", "fused", "Fused"};
    const int64_t ns = trace.activity.duration_ns[i];
    all_ns += ns;
    if (contains_any(trace.name(ActivityId(i)), kFused)) fused_ns += ns;
  }
  if (all_ns == 0) return Verdict::kUnknown;
  return 2 * fused_ns >= all_ns ? Verdict::kPass : Verdict::kFail;
}

// The slowest network of usual clusters, 100 Gbit/s, reaches 10 GB/s; and the latency of a call on it.
constexpr double kSlowNetwork_gbps = 10;
constexpr int64_t kSlowCall_ns = 200'000;

// How much longer calls take than the shortest of the same kind and size, where no compute hides it.
void measure_beyond_shortest(const Measured& m, SizedCollectives& out) {
  constexpr int64_t kMinCalls = 3;
  const CollectiveCalls& all = m.facts().get<CollectiveCalls>();
  struct Lengths {
    int64_t calls = 0, shortest_ns = INT64_MAX, longest_ns = 0, beyond_ns = 0;
  };
  std::vector<Lengths> rows(all.rows.size());
  const auto counts = [&](const CollectiveCall& c) {
    return c.measured && c.message_bytes >= 0 && !all.kinds[c.kind].is_pair();
  };
  for (const CollectiveCall& c : all.calls) {
    if (!counts(c)) continue;
    Lengths& row = rows[c.row];
    ++row.calls;
    row.shortest_ns = std::min(row.shortest_ns, c.time().length());
    row.longest_ns = std::max(row.longest_ns, c.time().length());
  }
  for (const CollectiveCall& c : all.calls)
    if (Lengths& row = rows[c.row]; counts(c) && row.calls >= kMinCalls)
      row.beyond_ns += std::min(c.exposed_ns, c.time().length() - row.shortest_ns);
  const auto most = std::ranges::max_element(rows, {}, &Lengths::beyond_ns);
  if (most == rows.end() || most->beyond_ns == 0) return;
  out.beyond_shortest_ns = sum_of(rows, &Lengths::beyond_ns);
  out.shortest_ns = most->shortest_ns, out.longest_ns = most->longest_ns;
}

// How much longer collectives of known size take than their bytes would on a slow network.
void measure_collectives(const Measured& m, RankMeasure& out) {
  measure_beyond_shortest(m, out.collectives);
  for (const CollectiveRow& row : m.facts().get<Collectives>().rows) {
    if (!row.message_bytes || row.group_size < 2 || row.total_ns == 0) continue;
    const double bytes = static_cast<double>(*row.message_bytes) * bus_factor(row.name, row.group_size);
    const int64_t transfer_ns = row.measured_calls * (static_cast<int64_t>(bytes / kSlowNetwork_gbps) + kSlowCall_ns);
    const double part = static_cast<double>(row.measured_ns) / static_cast<double>(row.total_ns);
    const auto exposed_ns = static_cast<int64_t>(static_cast<double>(row.exposed_ns) * part);
    out.collectives.exposed_ns += exposed_ns;
    out.collectives.min_wait_ns += std::clamp<int64_t>(row.measured_ns - transfer_ns, 0, exposed_ns);
  }
}

std::vector<Place> places_of(const Measured& m, ThreadId thread) {
  Places places(m.facts(), PlaceOf::kOwnCode);
  for (const Interval& step : m.measured_time()) places.add_host_time(thread, step);
  return places.most_expensive(2);
}

// Of the step's thread; if nothing of it was recorded, of another one, as with collectives that run on their own
// threads.
std::vector<Place> host_places(const Measured& m) {
  if (!m.trace().log_steps.empty()) return {};   // a log's ranges are its steps
  const ThreadId steps = m.facts().get<Steps>().thread;
  std::vector<Place> most = m.facts().get<HostPlaces>().places;
  most.resize(std::min<size_t>(most.size(), 2));
  const ThreadId stack = steps.valid() ? m.trace().sampled_stacks()[steps.value] : ThreadId();
  if (stack.valid() && !most.empty() && samples_in(m.trace(), stack, most.front().ns) < kMinSamples) return {};
  if (!most.empty()) return most;
  for (size_t t = 0; t < m.trace().threads.size(); ++t)
    if (auto places = places_of(m, ThreadId(t)); !places.empty() && (most.empty() || places[0].ns > most[0].ns))
      most = std::move(places);
  return most;
}

// Of the device's compute kernels.
std::string largest_category(const Measured& m) {
  constexpr std::array kWords = {"GEMMs", "convolutions", "attention", "normalization",
                                 "elementwise operations", "reductions", "embeddings", "the optimizer", "copies"};
  std::array<int64_t, static_cast<size_t>(KernelCategory::kOther) + 1> by_category{};
  for (const KernelRow& k : m.facts().get<Kernels>().rows)
    if (k.device == m.device().id && k.kind == WorkKind::kCompute)
      by_category[static_cast<size_t>(k.category)] += m.counted(k.total_ns, k.steady_ns);
  const auto most = std::ranges::max_element(by_category);
  const auto index = static_cast<size_t>(most - by_category.begin());
  if (index >= kWords.size() || *most == 0) return "";
  return fmt::format("{} ({})", kWords[index], format_percent(percent_of(*most, sum_of(by_category)), 0));
}

// Percent of the measured time in which no thread runs an operator; none: no operators were recorded.
std::optional<double> no_operator_pct(const Measured& m) {
  const HostTable& h = m.trace().host;
  Intervals ops;
  for (uint32_t i = 0; i < h.size(); ++i)
    if (h.kind[i] == HostKind::kOp) ops.push_back(h.interval(HostId(i)));
  if (ops.empty()) return std::nullopt;
  return m.wall_pct(total_length(subtract(m.measured_time(), merged(std::move(ops)))));
}

// By phase. A host that runs ahead of the device says little of where the time goes.
std::array<int64_t, kMaxPhases> time_by_phase(const Measured& m) {
  const Phases& phases = m.facts().get<Phases>();
  std::array<int64_t, kMaxPhases> ns{};
  if (!m.has_device()) {
    std::ranges::copy(phases.measured_wall_ns, ns.begin());
    return ns;
  }
  for (ActivityId a = m.device().begin; a < m.device().end; ++a)
    if (m.counted(1, m.in_measured_step(m.trace().launched_ns(a))) != 0)
      ns[static_cast<size_t>(phases.of_activity[a.value])] += m.trace().activity.duration_ns[a.value];
  return ns;
}

// Of work in no known phase, on the device of no known kind either.
std::string unknown_part(const Measured& m) {
  if (m.has_device())
    return m.device().compute_ns > 0 ? "most kernel time goes into kernels of no known kind" : "no compute kernels ran";
  if (!m.facts().get<Steps>().of_engine.empty()) return "most time goes into the engine's steps";
  return trains(m.facts()) ? "most time is in no known phase of training" : "no phase of the program was recognized";
}

std::string largest_part(const Measured& m) {
  constexpr std::array<std::string_view, kPhases> kPhaseWords = {
      "data loading", "the forward pass", "the backward pass", "the optimizer", "waiting for communication",
      "saving checkpoints", "work outside the known phases"};
  const std::array<int64_t, kMaxPhases> ns = time_by_phase(m);
  const auto largest = std::ranges::max_element(ns);
  if (*largest == 0) return "nothing ran";
  const auto phase = static_cast<Phase>(largest - ns.begin());
  const double pct = percent_of(*largest, sum_of(ns));
  // Inference, or a benchmark: all of it is the forward pass, at most.
  const bool one_phase = pct > 95 && (phase == Phase::kForward || phase == Phase::kOther);
  const std::string kernels = one_phase && m.has_device() ? largest_category(m) : "";
  if (!kernels.empty()) return "most kernel time goes into " + kernels;
  if (one_phase && phase == Phase::kOther) return unknown_part(m);
  const auto index = static_cast<size_t>(phase);
  const std::string_view words = index < kPhases ? kPhaseWords[index] : m.facts().get<Phases>().name(phase);
  return fmt::format("most {}time goes into {} ({})", m.has_device() ? "GPU " : "", words, format_percent(pct, 0));
}

// Of a host without recorded lines. An operator that takes less than the largest part is not where most time goes, nor
// is a range where most of the time no operator runs.
void say_where_operators_do_not(const Measured& m, RankMeasure& out) {
  constexpr double kMostPct = 50;
  if (out.host.places.empty() || !out.host.places.front().file.empty()) return;
  const auto& ns = m.facts().get<Phases>().measured_wall_ns;
  const double without_pct = no_operator_pct(m).value_or(0);
  const bool explained = 2 * out.host.places.front().ns >= *std::ranges::max_element(ns);
  const bool mostly_without = without_pct >= kMostPct;
  if (out.host.places.front().is_range ? explained || !mostly_without : explained && !mostly_without) return;
  out.host.places.clear();
  if (!mostly_without) return;
  out.mostly = fmt::format("no operator runs for {} of the time: it goes into Python or other code between the operators",
                           format_percent(without_pct, 0));
  if (!out.host.python_frames)
    out.mostly += fmt::format(". To see its lines, use {}", recorder_advice(m.trace()).stacks);
}

// Where the host prepares inputs in code that no range marks.
double waiting_for_inputs_pct(const Measured& m) {
  int64_t preparing_ns = 0;
  for (const Place& place : m.places_in_gaps(IdleCause::kHostBound))
    if (prepares_inputs(place)) preparing_ns += place.ns;
  const int64_t host_bound_ns = m.idle_ns(IdleCause::kHostBound);
  const double part = percent_of(std::min(preparing_ns, host_bound_ns), host_bound_ns) / 100;
  return m.own_idle_pct(IdleCause::kHostBound) * part;
}

// Where an allocation failed, no more than the device had free then: others may hold the rest.
std::optional<double> memory_headroom_pct(const Measured& m) {
  const auto reserved = fullest_reserved_pct(m);
  if (!reserved) return std::nullopt;
  const auto& snapshot = m.facts().get<Snapshot>().section;
  if (!snapshot || !snapshot->oom) return 100 - *reserved;
  return std::min(100 - *reserved, percent_of(snapshot->oom->device_free_bytes, *m.facts().get<Memory>().capacity_bytes));
}

// A matrix kernel's name shows tensor cores, or its data have a precision that only they are fast in.
bool shows_tensor_cores(const Measured& m) {
  const Kernels& kernels = m.facts().get<Kernels>();
  const DeviceWork& work = m.facts().get<DeviceWork>();
  const auto is_reduced = [](Precision p) {
    return p != Precision::kUnknown && p != Precision::kFp32 && p != Precision::kFp64;
  };
  const bool amd = is_amd(m.trace(), m.device().id);
  for (ActivityId a = m.device().begin; a < m.device().end; ++a) {
    const StringId name = m.trace().activity.name[a.value];
    if (!multiplies(kernels.category[name.value])) continue;
    const WorkRun* run = work.run(a);
    if (run != nullptr && is_reduced(run->work->precision)) return true;
    // In FP32, AMD's matrix instructions reach a fraction of the rate of bf16.
    if (run != nullptr && run->work->precision == Precision::kFp32 && amd) continue;
    if (kernels.tensor_cores[name.value] || is_reduced(work.by_name[name.value])) return true;
  }
  return false;
}

void measure_device(const Measured& m, RankMeasure& out) {
  DeviceMeasure& d = out.device;
  out.has_device = true;
  d.memory_headroom_pct = memory_headroom_pct(m);
  d.label = m.device_label();
  d.name = m.device().name;
  d.window_ns = total_length(m.idle().window);
  d.waiting_ns = m.waiting_ns();
  d.utilization_pct = m.utilization_pct();
  d.known_utilization_pct = m.known_utilization_pct();
  out.mpi_wait_pct = mpi_wait_pct(m);
  out.exposed_communication_pct = m.exposed_communication_pct() + out.mpi_wait_pct;
  measure_collectives(m, out);
  d.activities = static_cast<int64_t>(m.trace().activity.size());
  if (const Distance& distance = m.facts().get<Distance>(); distance.is_known()) d.times_limit = distance.times_limit;
  for (size_t c = 0; c < kIdleCauses; ++c) d.idle_pct[c] = m.idle_pct(static_cast<IdleCause>(c));
  d.largest_idle_cause = m.largest_idle_cause();
  d.largest_idle_words = largest_idle_words(m);
  d.on_tensor_cores = shows_tensor_cores(m);
  out.fused_optimizer = fused_optimizer(m);
}

// Of the launches of kernels, how many have no record of the device's work.
double lost_pct(const Measured& m) {
  const size_t lost = m.facts().get<LostLaunches>().start_ns.size();
  const auto recorded = std::ranges::count(m.trace().activity.kind, ActivityKind::kKernel);
  return percent_of(lost, lost + static_cast<size_t>(recorded));
}

constexpr double kMostLostPct = 50;

// Of a server that computed nothing for requests while it was recorded.
std::string without_requests(const Measured& m) {
  constexpr double kAlmostAllPct = 80;
  const Steps& steps = m.facts().get<Steps>();
  if (!steps.of_engine.empty() || !m.facts().get<Frameworks>().serves()) return {};
  const RequestWaits& waits = m.facts().get<RequestWaits>();
  int64_t waited = 0, recorded = 0;
  for (const Interval& window : m.trace().windows) {
    recorded += window.length();
    // Without steps nothing tells whether another process that it waits for is idle as well.
    if (steps.thread.valid() && !waits.certain.empty())
      waited += overlap_length(waits.certain[steps.thread.value], window);
  }
  if (steps.without_requests.empty() && percent_of(waited, recorded) < kAlmostAllPct) return {};
  return "The engine had no requests while this was recorded: there is nothing to evaluate. Record while requests are "
         "served.";
}

// Why times say little about the program.
std::string no_evidence(const Measured& m) {
  const Trace& trace = m.trace();
  if (m.has_device() && !m.is_capture() && lost_pct(m) > kMostLostPct)
    return fmt::format("For {} of the launched kernels the device's records are missing: how busy it was and what it "
                       "waited for is not known. Record fewer steps, and let the recording end after a step.",
                       format_percent(lost_pct(m), 0));
  if (trace.hardware_counters)
    return "Hardware counters were collected for each kernel, which makes every launch slow: the times in this trace are "
           "not those of a normal run. Record without counters to see where the time goes.";
  if (has_no_timeline(trace))
    return "This file has no timeline: it tells which kernels took how long, and neither how busy the device was nor "
           "what it waited for. Record a trace to see that.";
  return without_requests(m);
}

}  // namespace

Measured::Measured(int rank, const Facts& facts, size_t device, Thresholds thresholds)
    : rank_(rank), facts_(facts), device_(device), thresholds_(std::move(thresholds)) {
  const Steps& steps = facts.get<Steps>();
  steps_ = static_cast<int64_t>(steps.measured().size());
  measured_ = steps.measured_time();
  measured_host_ = steps.measured_host_time();
  wall_ns_ = total_length(measured_);
  all_measured_ = !has_device() || !facts.get<AveragedTime>().of_steps[device_];
  if (has_device()) gaps_ = idle().all();
}

const std::vector<bool>& Measured::named_kernels() const {
  std::call_once(named_->once, [this] { named_->value = find_named_kernels(*this); });
  return named_->value;
}

const std::vector<Place>& Measured::places_in_gaps(IdleCause cause) const {
  Once<std::vector<Place>>& places = (*places_)[static_cast<size_t>(cause)];
  std::call_once(places.once, [&] { places.value = find_places_in_gaps(*this, cause); });
  return places.value;
}

const Intervals& Measured::host_time_of_other_rules() const {
  std::call_once(other_rules_->once, [this] { other_rules_->value = find_host_time_of_other_rules(*this); });
  return other_rules_->value;
}

int64_t Measured::of_other_rules_ns(IdleCause cause) const {
  const Intervals& others = host_time_of_other_rules();
  return others.empty() ? 0 : evaluated_ns(intersect(idle().time_of(cause), others));
}

std::string Measured::device_label() const { return fmt::format("GPU {}", device().id); }

int64_t Measured::evaluated_ns(const Intervals& time) const {
  return total_length(all_measured_ ? time : intersect(time, measured_));
}

int64_t Measured::idle_ns(IdleCause cause) const {
  const auto c = static_cast<size_t>(cause);
  return all_measured_ ? idle().total_ns[c] + idle().edge_ns[c] : idle().measured_ns[c];
}

int64_t Measured::cold_start_ns(IdleCause cause) const {
  constexpr int64_t kSeveral = 3;
  const std::vector<Gap>& edges = idle().edges;
  const bool of_host = cause == IdleCause::kHostBound || cause == IdleCause::kDataLoading;
  if (!of_host || steps_ < kSeveral || edges.empty()) return 0;
  if (edges.front().before.valid() || !counts(edges.front(), cause)) return 0;
  const int64_t cold = edges.front().length(), in_other_steps = idle_ns(cause) - cold;
  return 4 * in_other_steps < cold * (steps_ - 1) ? cold : 0;
}

int64_t Measured::waiting_ns() const {
  const DeviceTime& d = device();
  return window_ns() - evaluated_ns(d.busy) + evaluated_ns(d.exposed_communication) + evaluated_ns(d.exposed_memory);
}

IdleCause Measured::largest_idle_cause() const {
  std::array<int64_t, kIdleCauses> total{};
  for (size_t c = 0; c < total.size(); ++c) total[c] = idle_ns(static_cast<IdleCause>(c));
  total[static_cast<size_t>(IdleCause::kUntracedWork)] = 0;   // the device works
  total[static_cast<size_t>(IdleCause::kNoRequests)] = 0;     // there is no work
  return static_cast<IdleCause>(std::ranges::max_element(total) - total.begin());
}

double Measured::known_utilization_pct() const {
  const double no_fault = idle_pct(IdleCause::kUntracedWork) + idle_pct(IdleCause::kNoRequests);
  return no_fault < 100 ? std::min(100.0, 100 * utilization_pct() / (100 - no_fault)) : 0;
}

int64_t Measured::capture_ns() const {
  Intervals capture;
  for (const Intervals& of_thread : facts_.get<FirstUse>().capture) capture = unite(capture, of_thread);
  return total_length(intersect(capture, measured_));
}

double Measured::phase_pct(Phase phase) const {
  // The steps of a host that runs ahead last longer than their ranges.
  return percent_of(facts_.get<Phases>().measured_wall_ns[static_cast<size_t>(phase)],
                    std::max(facts_.get<Steps>().measured_wall_ns(), wall_ns_));
}

void see(Finding& finding, const Interval& stretch) {
  finding.seen.start_ns = stretch.start, finding.seen.duration_ns = stretch.length();
}

void set_cost(Finding& finding, int64_t wall_ns, int64_t cost_ns) {
  finding.cost_ns = cost_ns;
  finding.cost_pct = percent_of(cost_ns, wall_ns);
}

bool is_known_well(int64_t whole_ns, const Saving& saving) {
  return saving.most_ns - saving.least_ns <= std::max(whole_ns / 100, saving.least_ns / 4);
}

void set_saving(const Measured& measured, const Saving& saving, Finding& finding) {
  if (is_known_well(measured.wall_ns(), saving)) return set_cost(finding, measured.wall_ns(), saving.least_ns);
  const std::string least =
      saving.least_ns > 0 ? per_step_text(measured, saving.least_ns) + " at least, " : "";
  finding.evidence.push_back(fmt::format(
      "saves {}{} at most: the trace doesn't show when the host waits for the device",
      least, per_step_text(measured, saving.most_ns)));
}

void set_kernel_cost(const Measured& measured, const std::vector<ActivityId>& kernels, int64_t kernels_ns,
                     int64_t less_ns, Finding& finding) {
  const Trace& trace = measured.trace();
  Removal removal;
  removal.activity.resize(trace.activity.size());
  for (const ActivityId a : kernels) removal.activity[a.value] = true;
  removal.left = 1 - static_cast<double>(less_ns) / static_cast<double>(std::max<int64_t>(kernels_ns, 1));
  set_saving(measured, measured.replay().saved_by(removal).up_to(less_ns), finding);
  const std::vector<WorkKind>& kind = measured.facts().get<Devices>().kind;
  Intervals own, others;   // compute
  for (ActivityId a = measured.device().begin; a < measured.device().end; ++a)
    if (kind[a.value] == WorkKind::kCompute)
      (removal.activity[a.value] ? own : others).push_back(trace.activity.interval(a));
  place_in_lane(measured, subtract(merged(std::move(own)), merged(std::move(others))), finding);
}

void place_in_lane(const Measured& measured, const Intervals& time, Finding& finding) {
  const Facts& facts = measured.facts();
  const Devices& devices = facts.get<Devices>();
  const auto at = static_cast<size_t>(devices.busiest);
  const bool busiest = devices.busiest >= 0 && &measured.device() == &devices.devices[at];
  if (!busiest || !finding.cost_ns || facts.get<CollectiveCalls>().calls.empty()) return;
  finding.in_lane = facts.get<Lane>().savings(measured.trace(), time, *finding.cost_ns);
}

std::optional<double> reserved_pct(const Measured& measured) {
  const Memory& memory = measured.facts().get<Memory>();
  // Of one device alone it is that one's, though the allocator may number it otherwise.
  const bool several = memory.reserved_by_device.size() > 1 || measured.trace().device_rows.size() > 1;
  if (!measured.has_device() || memory.device < 0 || !several || memory.reserved_by_device.empty())
    return fullest_reserved_pct(measured);
  const int32_t device = measured.device().id;
  const auto reserved = memory.reserved_by_device.find(device);
  const int64_t capacity = measured.trace().properties(device).memory_bytes;
  if (reserved == memory.reserved_by_device.end() || capacity <= 0) return std::nullopt;
  return percent_of(reserved->second, capacity);
}

std::optional<double> fullest_reserved_pct(const Measured& measured) {
  const Memory& memory = measured.facts().get<Memory>();
  const auto& snapshot = measured.facts().get<Snapshot>().section;
  std::optional<int64_t> reserved = memory.peak_reserved_bytes;
  if (!reserved && snapshot && snapshot->history_recorded) reserved = snapshot->peak.reserved_bytes;
  if (!reserved || !memory.capacity_bytes) return std::nullopt;
  return percent_of(*reserved, *memory.capacity_bytes);
}

bool is_amd(const Trace& trace, int32_t device) {
  const DeviceProperties d = trace.properties(device);
  return d.name.empty() ? vendor(trace, device) == Vendor::kAmd : is_amd(d);
}

namespace {

// "A100-SXM4-40GB", "GH200 480GB"
bool is_nvidia_model(std::string_view name) {
  const size_t letters = name.starts_with("GB") || name.starts_with("GH") ? 2 : 1;
  return name.size() > letters && std::string_view("ABGHKLPTV").find(name.front()) != std::string_view::npos &&
         is_digit(name[letters]);
}

Vendor vendor_called(std::string_view device) {
  constexpr std::string_view kNvidia[] = {"NVIDIA", "GeForce", "Tesla", "Quadro", "RTX", "GTX", "TITAN", "Orin"};
  if (is_amd_name(device)) return Vendor::kAmd;
  if (contains_any(device, kNvidia) || is_nvidia_model(device)) return Vendor::kNvidia;
  if (contains(device, "Intel")) return Vendor::kIntel;
  if (contains(device, "TPU")) return Vendor::kGoogle;
  return contains(device, "MTIA") ? Vendor::kMeta : Vendor::kUnknown;
}

/// How names of a vendor's calls and kernels begin, the surest first: some write HIP's calls with CUDA's names.
struct VendorName {
  std::string_view begin;
  Vendor vendor;
};
constexpr VendorName kVendorNames[] = {
    {"Cijk_", Vendor::kAmd},               {"igemm_", Vendor::kAmd},            {"miopen", Vendor::kAmd},
    {"_ZN2ck", Vendor::kAmd},              {"_ZN7ck_tile", Vendor::kAmd},       {"void ck::", Vendor::kAmd},
    {"void ck_tile::", Vendor::kAmd},
    {"hipLaunch", Vendor::kAmd},           {"hipModuleLaunch", Vendor::kAmd},   {"hipExtModuleLaunch", Vendor::kAmd},
    {"hipExtLaunch", Vendor::kAmd},        {"hipGraphLaunch", Vendor::kAmd},    {"hipMemcpy", Vendor::kAmd},
    {"hipStreamSynchronize", Vendor::kAmd},
    {"cudaLaunch", Vendor::kNvidia},       {"cuLaunch", Vendor::kNvidia},       {"cudaGraphLaunch", Vendor::kNvidia},
    {"cudaMemcpy", Vendor::kNvidia},       {"cudaStreamSynchronize", Vendor::kNvidia},
    {"cudaDeviceSynchronize", Vendor::kNvidia}, {"volta_", Vendor::kNvidia},    {"turing_", Vendor::kNvidia},
    {"ampere_", Vendor::kNvidia},          {"sm80_", Vendor::kNvidia},          {"sm90_", Vendor::kNvidia},
    {"nvjet_", Vendor::kNvidia},           {"urEnqueue", Vendor::kIntel},       {"piEnqueue", Vendor::kIntel},
    {"zeCommandList", Vendor::kIntel},     {"mtia", Vendor::kMeta},
    {"runFunction - job_prep_and_submit_for_execution", Vendor::kMeta}};

}  // namespace

Vendor vendor(const Trace& trace, int32_t device) {
  if (const Vendor named = vendor_called(trace.properties(device).name); named != Vendor::kUnknown) return named;
  if (trace.recorder == Recorder::kRocprof) return Vendor::kAmd;
  if (trace.recorder == Recorder::kNsight) return Vendor::kNvidia;
  for (const VendorName& name : kVendorNames)
    for (size_t i = 0; i < trace.strings.size(); ++i)
      if (trace.strings[StringId(i)].starts_with(name.begin)) return name.vendor;
  return contains(trace.distributed.backend, "mtia:") ? Vendor::kMeta : Vendor::kUnknown;
}

bool trains(const Facts& facts) {
  const Phases& phases = facts.get<Phases>();
  if (phases.backward_passes > 0 || phases.optimizer_steps > 0) return true;
  for (const Phase phase : {Phase::kBackward, Phase::kOptimizer})
    if (phases.wall_ns[static_cast<size_t>(phase)] > 0) return true;
  return std::ranges::count(facts.get<Kernels>().rows, KernelCategory::kOptimizer, &KernelRow::category) > 0;
}

bool infers(const Facts& facts) { return !facts.get<Ops>().rows.empty() && !trains(facts); }

void demote_on_idle_device(const Measured& m, Finding& f) {
  constexpr double kMinBusyPct = 50;
  if (m.known_utilization_pct() < kMinBusyPct) f.severity = Severity::kInfo;
}

std::string_view program_command(const Facts& facts) {
  const Frameworks& with = facts.get<Frameworks>();
  if (with.has(Framework::kVllm)) return "vllm serve MODEL";
  if (with.has(Framework::kSglang)) return "python -m sglang.launch_server --model-path MODEL";
  if (with.serves()) return "COMMAND";
  for (const auto& [key, value] : facts.trace().metadata)
    if (key == "command" && !value.empty() && facts.trace().recorder == Recorder::kNsight) return value;
  if (with.has(Framework::kNative)) return "COMMAND";
  return trains(facts) ? "python train.py" : "python SCRIPT.py";
}

std::string largest_idle_words(const Measured& m) {
  const IdleCause largest = m.largest_idle_cause();
  return largest == IdleCause::kDependency && long_launch(m) ? "launching calls" : words(idle_cause_name(largest));
}

std::optional<LongLaunch> long_launch(const Measured& m) {
  const Trace& trace = m.trace();
  struct Calls {
    int64_t waited_ns = 0, ns = 0, count = 0;
  };
  std::map<StringId, Calls> by_name;
  int64_t all_ns = 0, in_calls_ns = 0;
  HostId last;
  for (const Gap& gap : m.gaps()) {
    if (!m.counts(gap, IdleCause::kDependency)) continue;
    all_ns += gap.length();
    if (!gap.launch.valid()) continue;
    const Interval call = trace.host.interval(gap.launch);
    const int64_t waited_ns = std::max<int64_t>(0, std::min(call.end, gap.end_ns) - gap.start_ns);
    Calls& calls = by_name[trace.host.name[gap.launch.value]];
    in_calls_ns += waited_ns, calls.waited_ns += waited_ns;
    if (gap.launch != last) calls.ns += call.length(), ++calls.count;
    last = gap.launch;
  }
  if (all_ns == 0 || 2 * in_calls_ns <= all_ns) return std::nullopt;
  const auto most = std::ranges::max_element(by_name, {}, [](const auto& row) { return row.second.waited_ns; });
  return LongLaunch{trace.strings[most->first], most->second.ns / most->second.count};
}

const DeviceWords& device_words(const Measured& measured) {
  static constexpr DeviceWords kAmd = {"compute unit", "compute units", "workgroups", "matrix cores"};
  static constexpr DeviceWords kOthers = {"multiprocessor", "multiprocessors", "blocks", "tensor cores"};
  return is_amd(measured.trace(), measured.device().id) ? kAmd : kOthers;
}

bool is_upload(const Trace& trace, ActivityId copy) {
  return trace.activity.kind[copy.value] == ActivityKind::kMemcpy && copy_kind(trace.name(copy)) == CopyKind::kHtoD;
}

bool has_python_frames(const Trace& trace) {
  return std::ranges::find(trace.host.kind, HostKind::kPython) != trace.host.kind.end();
}

std::string place_text(const Place& place) {
  if (place.file.empty()) return shortened(place.name);
  return fmt::format("{} ({}:{})", shortened(place.name), shortened(place.file), place.line.value_or(0));
}

void show_kernels(const Measured& measured, const std::vector<ActivityId>& kernels, Finding& finding) {
  const Trace& trace = measured.trace();
  Places places(measured.facts());
  for (const ActivityId a : kernels) places.add(a);
  finding.where = places.most_expensive();
  if (kernels.empty() || finding.seen.at != Locator::At::kSteps) return;
  const ActivityId longest =
      *std::ranges::max_element(kernels, {}, [&](ActivityId a) { return trace.activity.duration_ns[a.value]; });
  finding.seen = {Locator::At::kLongestKernel, std::string(trace.name(longest))};
  see(finding, trace.activity.interval(longest));
}

int64_t steps_with_gaps(const Measured& measured, IdleCause cause) {
  const std::vector<Gap>& gaps = measured.gaps();   // disjoint: their ends ascend as well
  return std::ranges::count_if(measured.facts().get<Steps>().measured(), [&](const Step* step) {
    const Interval time = step->elapsed;   // loops may load between their ranges
    auto gap = std::ranges::upper_bound(gaps, time.start, {}, &Gap::end_ns);
    for (; gap != gaps.end() && gap->start_ns < time.end; ++gap)
      if (gap->cause == cause && 2 * overlap_length(gap->time(), time) >= std::min(gap->length(), time.length()))
        return true;
    return false;
  });
}

std::string per_step_text(const Measured& measured, int64_t ns) {
  const double steps = static_cast<double>(std::max<int64_t>(measured.steps(), 1));
  const std::string text = format_duration(static_cast<double>(ns) / steps);
  return measured.facts().get<Steps>().marked() ? text + " per step" : text;
}

std::optional<BlockedThread> blocked_thread(const Measured& measured, IdleCause cause) {
  const Blocked sum = blocked_in_gaps(measured, cause);
  if (sum.samples < kMinSamples) return std::nullopt;
  const double pct = percent_of(sum.blocked, sum.samples);
  if (pct < kMinPct) return std::nullopt;
  BlockedThread out;
  out.text = fmt::format("meanwhile the launching thread is blocked {} of the time", format_percent(pct, 0));
  const auto most = std::ranges::max_element(sum.calls, {}, &std::pair<const int32_t, int64_t>::second);
  if (most->first < 0) return out;
  const std::string call = system_call_name(most->first);
  out.text += (most->second == sum.blocked ? ", in " : ", mostly in ") + call;
  const auto* reason = first_where(
      blocking_reasons(), [&](const BlockingReason& r) { return std::ranges::count(r.calls, call) > 0; });
  if (reason == nullptr) return out;
  out.text += fmt::format(" ({})", reason->words);
  if (pct >= kMostlyPct) out.fix = reason->fix;
  return out;
}

void add_blocked_thread(Finding& finding, const Measured& measured, IdleCause cause) {
  std::optional<BlockedThread> blocked = blocked_thread(measured, cause);
  if (!blocked) return;
  finding.evidence.insert(finding.evidence.begin(), std::move(blocked->text));
  if (!blocked->fix.empty()) finding.fix.insert(finding.fix.begin(), std::move(blocked->fix));
}

namespace {

void measure_host(const Measured& m, RankMeasure& out) {
  out.host.places = host_places(m);
  say_where_operators_do_not(m, out);
  out.host.collectives = !m.facts().get<HostCollectives>().calls.empty();
  out.exposed_communication_pct = m.phase_pct(Phase::kCommunication);
  out.host.backward_ns = m.facts().get<Phases>().measured_wall_ns[static_cast<size_t>(Phase::kBackward)];
}

// Waits for collectives alone do not show whether data loading would be seen.
bool recognizes_phases(const Measured& m) {
  const auto& ns = m.facts().get<Phases>().measured_wall_ns;
  for (int p = 0; p < static_cast<int>(Phase::kOther); ++p)
    if (static_cast<Phase>(p) != Phase::kCommunication && ns[static_cast<size_t>(p)] > 0) return true;
  return false;
}

}  // namespace

RankMeasure rank_measure(const Measured& m) {
  RankMeasure out;
  out.rank = m.rank();
  out.wall_ns = m.wall_ns();
  out.steps = m.steps();
  out.infers = infers(m.facts());
  out.cut_off = m.trace().cut_off;
  out.unread_pct = m.trace().unread_pct;
  out.recorder = m.trace().recorder;
  out.host.python_frames = has_python_frames(m.trace());
  out.host.launches = m.facts().get<Names>().launches();
  out.no_evidence = no_evidence(m);
  out.annotated = m.facts().get<Steps>().annotated;
  out.of_log = !m.trace().log_steps.empty() && std::ranges::count(m.trace().host.kind, HostKind::kOp) == 0;
  out.device.captures = m.is_capture();
  out.mostly = largest_part(m);
  if (m.has_device()) {
    const double inputs_pct = waiting_for_inputs_pct(m), loading_pct = m.own_idle_pct(IdleCause::kDataLoading);
    out.loading_pct = loading_pct + inputs_pct, out.loads_in_own_code = inputs_pct > loading_pct;
  } else if (recognizes_phases(m)) out.loading_pct = m.phase_pct(Phase::kDataLoading);
  const Phases& phases = m.facts().get<Phases>();
  out.accumulates = phases.optimizer_steps > 0 && phases.backward_passes > phases.optimizer_steps;
  if (const auto& snapshot = m.facts().get<Snapshot>().section)
    out.snapshot.peak = peak_sentence(*snapshot, m.facts().get<Memory>().capacity_bytes),
    out.snapshot.peak_bytes = snapshot->peak.allocated_bytes, out.snapshot.peak_known = snapshot->history_recorded;
  out.snapshot.alone = m.trace().only_snapshots();
  out.with = m.facts().get<Frameworks>();
  out.host.mpi = MpiTime::compute(m.facts());
  if (m.has_device()) measure_device(m, out);
  else measure_host(m, out);
  return out;
}

}  // namespace profgpu
