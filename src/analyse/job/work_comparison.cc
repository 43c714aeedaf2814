#include "analyse/job/work_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>

#include "analyse/report/quantity.h"
#include "base/statistics.h"
#include "base/text.h"
#include "trace/sample.h"

namespace profgpu {
namespace {

// As the host numbers it, as far as that is known.
int32_t number_of_device(const RankDigest& rank) { return rank.host_device >= 0 ? rank.host_device : rank.device; }

// Index in the log of the rank's device: by its identity, else by its number on its host.
std::optional<uint32_t> device_of(const RankDigest& rank, const SampleLog& log, const SampleHosts& hosts) {
  std::optional<uint32_t> found;
  for (uint32_t i = 0; i < log.devices.size(); ++i) {
    const DeviceInfo& d = log.devices[i];
    if (!hosts.fits(rank.host, d)) continue;
    if (!rank.device_uuid.empty() && !d.uuid.empty()) {
      if (lower_case(d.uuid) == lower_case(rank.device_uuid)) return i;
      continue;   // another one, whatever its number
    }
    if (!d.mig_profile.empty() || static_cast<int64_t>(d.index) != number_of_device(rank)) continue;
    if (found) return std::nullopt;
    found = i;
  }
  return found;
}

bool in_measured_step(const RankDigest& rank, int64_t time_ns) {
  const auto after = std::ranges::upper_bound(rank.steps, time_ns, {}, &DigestStep::start_ns);
  if (after == rank.steps.begin()) return false;
  const DigestStep& step = *std::prev(after);
  return step.measured && time_ns < step.interval().end;
}

/// A device of the log, and the ranks that it may be the device of.
struct DeviceUsers {
  std::vector<uint32_t> ranks;   // indices
  bool by_number = false;        // of one of them only the number is known
};

// By device of the log.
std::map<uint32_t, DeviceUsers> device_users(std::span<const RankDigest* const> ranks, const SampleLog& log) {
  std::map<uint32_t, DeviceUsers> users;
  std::vector<std::string> names;
  for (const RankDigest* r : ranks) names.push_back(r->host);
  const SampleHosts hosts(log, names);
  for (uint32_t i = 0; i < ranks.size() && !log.empty(); ++i) {
    const std::optional<uint32_t> device = ranks[i]->device >= 0 ? device_of(*ranks[i], log, hosts) : std::nullopt;
    if (!device) continue;
    DeviceUsers& of = users[*device];
    of.ranks.push_back(i);
    of.by_number |= ranks[i]->device_uuid.empty() || log.devices[*device].uuid.empty();
  }
  return users;
}

std::vector<const RankDigest*> pointers_to(std::span<const RankDigest> ranks) {
  std::vector<const RankDigest*> all;
  for (const RankDigest& r : ranks) all.push_back(&r);
  return all;
}

constexpr uint32_t kLeftOut = UINT32_MAX;

// Removes rows of devices that are left out, and renumbers the others.
template <class Rows>
void keep(Rows& rows, const std::vector<uint32_t>& index_of) {
  std::erase_if(rows, [&](const auto& r) { return index_of[r.device] == kLeftOut; });
  for (auto& r : rows) r.device = index_of[r.device];
}

void leave_out(const std::set<std::string>& hosts, SampleLog& log) {
  std::vector<uint32_t> index_of;
  uint32_t next = 0;
  for (const DeviceInfo& d : log.devices) index_of.push_back(hosts.contains(d.host) ? kLeftOut : next++);
  std::erase_if(log.devices, [&](const DeviceInfo& d) { return hosts.contains(d.host); });
  for (DeviceInfo& d : log.devices)
    if (d.parent) d.parent = index_of[*d.parent];
  keep(log.series, index_of);
  keep(log.processes, index_of);
  keep(log.process_ticks, index_of);
}

// A host's clock, from one of its ranks; null: unknown.
const RankClock* clock_of(const std::string& host, std::span<const std::string> hosts,
                          std::span<const RankClock> clocks) {
  for (size_t r = 0; r < clocks.size() && !host.empty(); ++r)
    if (hosts[r] == host && !clocks[r].apart && clocks[r].method != "none") return &clocks[r];
  return nullptr;
}

void put_on_first_clock(std::span<const std::string> hosts, std::span<const RankClock> clocks, SampleLog& log) {
  std::vector<const RankClock*> of_device;
  for (const DeviceInfo& d : log.devices) of_device.push_back(clock_of(d.host, hosts, clocks));
  const auto move = [&](uint32_t device, int64_t& time_ns) {
    if (of_device[device] != nullptr) time_ns = of_device[device]->aligned(time_ns);
  };
  Interval all{INT64_MAX, INT64_MIN};
  for (SampleSeries& s : log.series)
    for (int64_t& t : s.time_ns) {
      move(s.device, t);
      all = hull(all, {t, t});
    }
  for (auto& p : log.processes) move(p.device, p.time_ns);
  for (auto& t : log.process_ticks) move(t.device, t.time_ns);
  if (all.start <= all.end) log.first_ns = all.start, log.last_ns = all.end;
}

constexpr double kExplains = 1.0 / 3;       // of the excess, for a part to be the reason
constexpr double kLowClock = 0.97;          // of the others' clock: boost clocks of healthy devices differ by less
constexpr double kCommonWork = 0.1;         // of kernel time in common kernels, to compare ranks by them
constexpr double kMostlyCommon = 2.0 / 3;   // with less in common and others that all do the same: different work
constexpr double kShownPct = 1;             // of the step: smaller differences are not shown

double median(std::vector<double> values) { return values.empty() ? 0 : median_of(values); }

template <Phase phase>
double of_phase(const StepWork& s) {
  return static_cast<double>(s.phase_ns[static_cast<size_t>(phase)]);
}
template <IdleCause... causes>
double idle(const StepWork& s) {
  return static_cast<double>((s.idle_ns[static_cast<size_t>(causes)] + ...));
}
template <auto field>
double figure(const StepWork& s) {
  return static_cast<double>(s.*field);
}

// Means over steps.
enum Measure : uint8_t {
  kCompute, kKernelTime, kKernels, kInputElements, kForward, kBackward, kOptimizer, kDataLoading, kCheckpoint,
  kIdleDataLoading, kIdleCheckpoint, kIdleAllocation, kIdleHost, kIdleOther, kExposedMemory, kExposedCommunication,
  kOutsideMpi, kOutsideWaits, kMeasures
};
constexpr std::pair<const char*, double (*)(const StepWork&)> kFigures[kMeasures] = {
    {"compute_ns", figure<&StepWork::compute_ns>},
    {"kernel_time_ns", figure<&StepWork::kernel_ns>},
    {"kernels", figure<&StepWork::kernels>},
    {"input_elements", figure<&StepWork::input_elements>},
    {"forward_ns", of_phase<Phase::kForward>},
    {"backward_ns", of_phase<Phase::kBackward>},
    {"optimizer_ns", of_phase<Phase::kOptimizer>},
    {"data_loading_ns", of_phase<Phase::kDataLoading>},
    {"checkpoint_ns", of_phase<Phase::kCheckpoint>},
    {"idle_data_loading_ns", idle<IdleCause::kDataLoading>},
    {"idle_checkpoint_ns", idle<IdleCause::kCheckpoint>},
    {"idle_memory_allocation_ns", idle<IdleCause::kMemoryAllocation>},
    // Launched late for whatever reason: a wait for the device ends before the host launches.
    {"idle_host_ns", idle<IdleCause::kHostBound, IdleCause::kLaunchLatency, IdleCause::kSynchronization>},
    {"idle_other_ns", idle<IdleCause::kUnknown, IdleCause::kDependency>},
    {"exposed_memory_ns", figure<&StepWork::exposed_memory_ns>},
    {"exposed_communication_ns", figure<&StepWork::exposed_communication_ns>},
    {"outside_mpi_ns", figure<&StepWork::outside_mpi_ns>},
    {"outside_waits_ns", figure<&StepWork::outside_waits_ns>}};
using Profile = std::array<double, kMeasures>;

// A rank's chosen steps: means over them, and the work of each.
struct Course {
  Profile mean{};
  std::map<StepKey, uint64_t> work;   // hashes
  [[nodiscard]] bool known() const { return !work.empty(); }
};

Course course_of(const RankDigest& rank, const std::vector<StepKey>& steps) {
  Course course;
  for (size_t i = 0; i < std::min(rank.steps.size(), rank.work.steps.size()); ++i) {
    const StepKey key = rank.steps[i].key();
    if (!rank.steps[i].measured || !std::ranges::binary_search(steps, key)) continue;
    course.work[key] = rank.work.steps[i].work;
    for (size_t m = 0; m < kMeasures; ++m) course.mean[m] += kFigures[m].second(rank.work.steps[i]);
  }
  for (double& x : course.mean) x /= static_cast<double>(std::max<size_t>(course.work.size(), 1));
  return course;
}

class Comparison {
 public:
  Comparison(std::span<const RankDigest> ranks, const LateSteps& late, std::span<const uint32_t> peers,
             std::span<const std::optional<SampledClock>> clocks)
      : ranks_(ranks), late_(late), clocks_(clocks), own_(course_of(ranks[late.rank], late.steps)) {
    for (const uint32_t p : peers) {
      Course course = course_of(ranks[p], late.steps);
      if (course.known()) peers_.push_back(p), courses_.push_back(std::move(course));
    }
    choose_alike();
    for (size_t m = 0; m < kMeasures; ++m) {
      std::vector<double> values;
      for (const Course& c : courses_) values.push_back(c.mean[m]);
      others_[m] = median(std::move(values));
    }
  }

  WorkComparison compare() {
    WorkComparison out;
    if (peers_.empty() || !own_.known()) return out;
    out.kind = kind();
    show(out);
    add_evidence(out);
    return out;
  }

 private:
  [[nodiscard]] double more(Measure m) const { return own_.mean[m] - others_[m]; }

  // Share of common steps with the same work.
  [[nodiscard]] static double alike(const Course& a, const Course& b) {
    size_t common = 0, same = 0;
    for (const auto& [step, work] : a.work)
      if (const auto it = b.work.find(step); it != b.work.end()) ++common, same += work == it->second && work != 0;
    return common == 0 ? 0 : static_cast<double>(same) / static_cast<double>(common);
  }

  // Keeps peers with the rank's work; else those with the work of most peers; else all, if they all differ.
  void choose_alike() {
    same_work_ = keep_alike(own_);
    if (same_work_) return;
    for (const Course& c : courses_) {
      const auto like = std::ranges::count_if(courses_, [&](const Course& o) { return alike(c, o) >= 0.5; });
      if (2 * static_cast<size_t>(like) <= courses_.size()) continue;
      peers_agree_ = true;
      keep_alike(Course(c));
      return;
    }
  }

  bool keep_alike(const Course& model) {
    std::vector<uint32_t> peers;
    std::vector<Course> courses;
    for (size_t i = 0; i < peers_.size(); ++i)
      if (alike(model, courses_[i]) >= 0.5) peers.push_back(peers_[i]), courses.push_back(courses_[i]);
    if (peers.empty()) return false;
    peers_ = std::move(peers), courses_ = std::move(courses);
    return true;
  }

  [[nodiscard]] std::string kind() {
    // Longer loading or saving may also show as idle time of other causes: a wait, a late launch.
    const double idle = std::max(0.0, more(kIdleDataLoading)) + std::max(0.0, more(kIdleCheckpoint)) +
                        std::max(0.0, more(kIdleHost)) + std::max(0.0, more(kIdleOther));
    const double delays = std::max(idle, more(kOutsideWaits));   // without a device nothing idles
    const std::pair<const char*, double> parts[] = {
        {"slow_input", std::max(more(kIdleDataLoading), std::min(more(kDataLoading), delays))},
        {"checkpoint", std::max(more(kIdleCheckpoint), std::min(more(kCheckpoint), delays))},
        {"memory_allocation", more(kIdleAllocation)},
        {"compute", more(kCompute)},
        {"slow_host", more(kIdleHost)},
        {"longer_between_calls", more(kOutsideMpi)},
        {"more_host_work", more_host_work()},
        {"late", std::max(more(kIdleOther), more(kExposedMemory))}};
    const auto* largest = std::ranges::max_element(parts, {}, &std::pair<const char*, double>::second);
    if (largest->second < kExplains * late_.excess_ns || largest->second <= 0) return "late";
    return largest->first == std::string_view("compute") ? compute_kind() : largest->first;
  }

  // Of collectives of the host. What it loads and saves longer has kinds of its own.
  [[nodiscard]] double more_host_work() const {
    return more(kOutsideWaits) - std::max(0.0, more(kDataLoading)) - std::max(0.0, more(kCheckpoint));
  }

  [[nodiscard]] std::string compute_kind() {
    const double slower = others_[kCompute] > 0 ? own_.mean[kCompute] / others_[kCompute] - 1 : 0;
    if (low_clock(slower)) return "low_clocks";
    if (larger_inputs(slower) || one_kernel_explains()) return "uneven_work";
    if (same_work_ || slower_explains()) return "slow_compute";
    return peers_agree_ || varies(own_) ? "uneven_work" : "late";   // late: stages of a pipeline differ by design
  }

  // Whether slower kernels explain half of the longer kernel time, over all measured steps. If kernels differ from step
  // to step, the common ones represent all; but if the peers agree, the kernels that only the rank runs are different
  // work.
  [[nodiscard]] bool slower_explains() {
    const auto ratio = common_slowdown();
    if (!ratio || (peers_agree_ && common_share_ < kMostlyCommon)) return false;
    std::vector<double> others;
    for (const uint32_t p : peers_) others.push_back(kernel_ns_per_step(ranks_[p]));
    const double own = kernel_ns_per_step(ranks_[late_.rank]);
    const double comparable = peers_agree_ ? own * common_share_ : own;
    return 2 * comparable * (1 - 1 / *ratio) >= own - median(std::move(others));
  }

  [[nodiscard]] static double kernel_ns_per_step(const RankDigest& rank) {
    double sum = 0;
    for (const StepWork& s : rank.work.steps) sum += static_cast<double>(s.kernel_ns);
    return sum / static_cast<double>(std::max<int64_t>(rank.measured_steps(), 1));
  }

  // A slow device slows all kernels. One with the same grid that alone takes longer has more to do: an expert more
  // tokens.
  [[nodiscard]] bool one_kernel_explains() {
    const auto ratio = common_slowdown();
    constexpr double kMinRest = 0.1, kSame = 0.1;   // of the common kernels' time, and of their slowdown
    if (!ratio || *ratio <= 1 || slowest_.kernel == nullptr) return false;
    if (rest_own_ns_ < kMinRest * (rest_own_ns_ + slowest_.own_ns)) return false;
    one_kernel_ = rest_own_ns_ / rest_others_ns_ - 1 <= kSame * (*ratio - 1);
    return one_kernel_;
  }

  [[nodiscard]] bool larger_inputs(double slower) const {
    const double own = own_.mean[kInputElements], others = others_[kInputElements];
    return own > 0 && others > 0 && own / others - 1 >= std::max(0.01, slower / 2);
  }

  [[nodiscard]] static bool varies(const Course& c) {
    return std::ranges::any_of(c.work, [&](const auto& w) { return w.second != c.work.begin()->second; });
  }

  [[nodiscard]] std::optional<double> others_clock() const {
    std::vector<double> mhz;
    for (const uint32_t p : peers_)
      if (clocks_[p]) mhz.push_back(clocks_[p]->sm_clock_mhz);
    return mhz.empty() ? std::nullopt : std::optional(median(std::move(mhz)));
  }

  // Lower than the others', by enough to explain half of the longer kernel time.
  [[nodiscard]] bool low_clock(double slower) const {
    const auto& own = clocks_[late_.rank];
    const auto others = others_clock();
    return own && others && own->sm_clock_mhz > 0 && own->sm_clock_mhz <= kLowClock * *others &&
           *others / own->sm_clock_mhz - 1 >= slower / 2;
  }

  // Mean duration of common kernels over the peers' median, weighted by time. Sets the kernel that adds most.
  std::optional<double> common_slowdown() {
    std::unordered_map<uint64_t, std::vector<double>> means;
    for (const uint32_t p : peers_)
      for (const KernelWork& k : ranks_[p].work.kernels)
        if (k.count > 0) means[k.key].push_back(k.mean_ns());
    double own = 0, others = 0, all = 0, most = 0;
    for (const KernelWork& k : ranks_[late_.rank].work.kernels) {
      all += static_cast<double>(k.total_ns);
      const auto it = means.find(k.key);
      if (it == means.end()) continue;
      const double there = median(it->second) * static_cast<double>(k.count);
      own += static_cast<double>(k.total_ns), others += there;
      if (static_cast<double>(k.total_ns) - there <= most) continue;
      most = static_cast<double>(k.total_ns) - there;
      slowest_ = {&k, median(it->second), static_cast<double>(k.total_ns), there};
    }
    rest_own_ns_ = own - slowest_.own_ns, rest_others_ns_ = others - slowest_.there_ns;
    if (own < kCommonWork * all || others <= 0 || own <= 0) return std::nullopt;
    common_share_ = own / all;
    return own / others;
  }

  void show(WorkComparison& out) const {
    const double step_ns = static_cast<double>(ranks_[late_.rank].mean_step_ns());
    const auto known = [&](Measure m) { return own_.mean[m] > 0 || others_[m] > 0; };
    const bool of_host = known(kOutsideMpi) || known(kOutsideWaits);
    for (size_t m = 0; m < kMeasures; ++m) {
      const bool time = m != kKernels && m != kInputElements;
      const bool of_device = m == kCompute || m == kKernels || m == kExposedCommunication;
      const bool always = of_host ? m >= kOutsideMpi && known(static_cast<Measure>(m)) : of_device;
      if (!of_host && (m == kForward || m == kBackward || m == kOptimizer)) continue;   // queuing, not work
      const bool unknown = m == kInputElements && (own_.mean[m] < 0 || others_[m] < 0);
      const double difference = std::abs(own_.mean[m] - others_[m]);
      const bool differs = time ? difference >= kShownPct / 100 * step_ns : difference > 0.01 * others_[m];
      if (!unknown && (always || differs)) out.side_by_side.push_back({kFigures[m].first, own_.mean[m], others_[m]});
    }
    const auto& clock = clocks_[late_.rank];
    if (const auto others = others_clock(); clock || others)
      out.side_by_side.push_back({"sm_clock_mhz", clock ? std::optional(clock->sm_clock_mhz) : std::nullopt, others});
  }

  void add_evidence(WorkComparison& out) {
    const auto add = [&](const char* what, Measure m) {
      out.evidence.push_back(fmt::format("{} {} per step, others {}", what, format_duration(own_.mean[m]),
                                         format_duration(others_[m])));
    };
    const std::string& k = out.kind;
    if (k == "slow_input")
      add("data loading", more(kDataLoading) > more(kIdleDataLoading) ? kDataLoading : kIdleDataLoading);
    if (k == "checkpoint")
      add("checkpoint", more(kCheckpoint) > more(kIdleCheckpoint) ? kCheckpoint : kIdleCheckpoint);
    if (k == "memory_allocation") add("GPU idle for memory allocation", kIdleAllocation);
    if (k == "slow_host") add("GPU idle for the host", kIdleHost);
    if (k == "slow_compute" || k == "low_clocks" || k == "uneven_work") add("GPU compute", kCompute);
    if (k == "slow_compute" || k == "low_clocks") add_slow_kernels(out);
    if (k == "uneven_work") add_amounts(out);
    if (k == "low_clocks") add_clocks(out);
    if (own_.mean[kOutsideMpi] > 0) add("time outside MPI", kOutsideMpi);
    else if (own_.mean[kOutsideWaits] > 0) add_host_work(out);
    else add("exposed communication", kExposedCommunication);
  }

  // The phases that take longer, and their sum.
  void add_host_work(WorkComparison& out) const {
    std::string phases;
    for (const auto& [what, m] : {std::pair("forward", kForward), {"backward", kBackward}, {"optimizer", kOptimizer},
                                  {"data loading", kDataLoading}, {"checkpoint", kCheckpoint}})
      if (more(m) >= kExplains * more(kOutsideWaits) && more(m) > 0)
        append_listed(phases, fmt::format("{} {}, others {}", what, format_duration(own_.mean[m]),
                                          format_duration(others_[m])), "; ");
    out.evidence.push_back(fmt::format("it works {} per step between waits for collectives, others {}{}",
                                       format_duration(own_.mean[kOutsideWaits]), format_duration(others_[kOutsideWaits]),
                                       phases.empty() ? "" : " (" + phases + ")"));
  }

  void add_slow_kernels(WorkComparison& out) {
    const auto ratio = common_slowdown();
    if (!ratio) return;
    out.evidence.push_back(fmt::format("{} take {} longer", same_work_ ? "the same kernels" : "common kernels",
                                       format_percent(100 * (*ratio - 1))));
    if (slowest_.kernel != nullptr) out.evidence.push_back(slowest_.text());
  }

  void add_amounts(WorkComparison& out) const {
    for (const auto& [what, m] : {std::pair("kernels", kKernels), {"input elements", kInputElements}})
      if (own_.mean[m] > 0 && others_[m] > 0 && more(m) != 0)
        out.evidence.push_back(fmt::format("{}: {} per step, others {}", what,
                                           format_count(static_cast<int64_t>(own_.mean[m])),
                                           format_count(static_cast<int64_t>(others_[m]))));
    if (one_kernel_) out.evidence.push_back(slowest_.text() + "; all other kernels take as long as there");
    if (!same_work_) out.evidence.push_back("its kernels differ from the others' in name, grid or block");
  }

  void add_clocks(WorkComparison& out) const {
    const SampledClock& own = *clocks_[late_.rank];
    out.evidence.push_back(fmt::format("SM clock {} MHz, others {} MHz", format_number(own.sm_clock_mhz),
                                       format_number(*others_clock())));
    if (!own.held_by.empty() && own.held_pct)
      out.evidence.push_back(
          fmt::format("clocks reduced by {} {} of the time", own.held_by, format_percent(*own.held_pct)));
  }

  std::span<const RankDigest> ranks_;
  const LateSteps& late_;
  std::span<const std::optional<SampledClock>> clocks_;
  Course own_;
  std::vector<uint32_t> peers_;
  std::vector<Course> courses_;   // of peers_
  Profile others_{};              // medians over peers_
  bool same_work_ = false;        // peers_ have the rank's work
  bool peers_agree_ = false;      // peers_ have the same work, but not the rank's
  double common_share_ = 0;       // of the rank's kernel time
  struct Slowest {
    const KernelWork* kernel = nullptr;
    double others_mean_ns = 0;
    double own_ns = 0, there_ns = 0;   // of all calls, and what they would take there
    [[nodiscard]] std::string text() const {
      return fmt::format("{}: {} each, others {}", kernel->name, format_duration(kernel->mean_ns()),
                         format_duration(others_mean_ns));
    }
  };
  Slowest slowest_;                            // the common kernel that adds most
  double rest_own_ns_ = 0, rest_others_ns_ = 0;   // of the other common ones
  bool one_kernel_ = false;                    // it explains what the rank takes longer
};

}  // namespace

std::optional<SampledClock> sampled_clock(const RankDigest& rank, const SampleLog& samples, uint32_t device) {
  const SampleSeries* clock = samples.find(device, Metric::kSmClock);
  const SampleSeries* reasons = samples.find(device, Metric::kClockEventReasons);
  if (clock == nullptr) return std::nullopt;
  double sum = 0;
  int64_t count = 0, held = 0;
  std::map<uint32_t, int64_t> held_by;
  for (size_t i = 0; i < clock->time_ns.size(); ++i) {
    if (!in_measured_step(rank, clock->time_ns[i])) continue;
    const auto bits = static_cast<uint32_t>(reasons ? reasons->at(clock->time_ns[i]).value_or(0) : 0);
    if ((bits & static_cast<uint32_t>(ClockReason::kIdle)) != 0) continue;
    sum += clock->value[i];
    ++count;
    if ((bits & kHeldBackReasons) == 0) continue;
    ++held;
    for (const ClockReasonInfo& r : clock_reasons())
      if ((bits & kHeldBackReasons & static_cast<uint32_t>(r.reason)) != 0) ++held_by[static_cast<uint32_t>(r.reason)];
  }
  if (count == 0) return std::nullopt;
  SampledClock out;
  out.sm_clock_mhz = sum / static_cast<double>(count);
  if (reasons != nullptr) out.held_pct = 100.0 * static_cast<double>(held) / static_cast<double>(count);
  int64_t most = 0;
  for (const ClockReasonInfo& r : clock_reasons())
    if (const auto it = held_by.find(static_cast<uint32_t>(r.reason)); it != held_by.end() && it->second > most)
      most = it->second, out.held_by = r.words;
  return out;
}

std::vector<std::optional<uint32_t>> sampled_devices(std::span<const RankDigest* const> ranks,
                                                     const SampleLog& samples) {
  std::vector<std::optional<uint32_t>> out(ranks.size());
  const auto take = [&](size_t rank, uint32_t device) {
    const std::string &name = samples.devices[device].name, &own = ranks[rank]->device_name;
    if (name.empty() || own.empty() || name == own) out[rank] = device;
  };
  for (const auto& [device, users] : device_users(ranks, samples))
    if (users.ranks.size() == 1) take(users.ranks.front(), device);
  if (ranks.size() != 1 || samples.devices.size() != 1 || out[0] || ranks[0]->device < 0) return out;
  // The only one, whatever its number.
  const DeviceInfo& only = samples.devices[0];
  const bool another = !only.uuid.empty() && !ranks[0]->device_uuid.empty();
  const std::vector<std::string> host{ranks[0]->host};
  if (!another && SampleHosts(samples, host).fits(ranks[0]->host, only)) take(0, 0);
  return out;
}

std::vector<std::optional<SampledClock>> sampled_clocks(std::span<const RankDigest> ranks, const SampleLog& samples) {
  const std::vector<const RankDigest*> all = pointers_to(ranks);
  std::vector<std::optional<SampledClock>> clocks;
  for (const std::optional<uint32_t> device : sampled_devices(all, samples))
    clocks.push_back(device ? sampled_clock(ranks[clocks.size()], samples, *device) : std::nullopt);
  return clocks;
}

std::vector<std::string> unclear_samples(std::span<const RankDigest> ranks, const SampleLog& samples) {
  std::vector<std::string> notes;
  for (const auto& [device, users] : device_users(pointers_to(ranks), samples)) {
    if (users.ranks.size() < 2) continue;
    std::vector<int> numbers;
    for (const uint32_t p : users.ranks) numbers.push_back(ranks[p].rank);
    const RankDigest& first = ranks[users.ranks.front()];
    const std::string who = fmt::format("{}{}{}", ranks_text(numbers), first.host.empty() ? "" : " on ", first.host);
    notes.push_back(
        users.by_number
            ? fmt::format("{} each call their GPU {}, as when each process has its own CUDA_VISIBLE_DEVICES: their "
                          "samples can't be assigned to ranks",
                          who, number_of_device(first))
            : fmt::format("{} share GPU {}: its samples can't be divided among them", who,
                          samples.devices[device].label()));
  }
  return notes;
}

JobSamples job_samples(SampleLog log, std::span<const std::string> hosts, std::span<const RankClock> clocks) {
  JobSamples out{std::move(log), {}};
  const bool all_known = std::ranges::none_of(hosts, &std::string::empty);
  const std::set<std::string_view> of_ranks(hosts.begin(), hosts.end());
  for (const DeviceInfo& d : out.log.devices)
    if (all_known && !d.host.empty() && !of_ranks.contains(d.host)) out.others.insert(d.host);
  if (!out.others.empty()) leave_out(out.others, out.log);
  put_on_first_clock(hosts, clocks, out.log);
  return out;
}

WorkComparison compare_work(std::span<const RankDigest> ranks, const LateSteps& late, std::span<const uint32_t> peers,
                            std::span<const std::optional<SampledClock>> clocks) {
  return Comparison(ranks, late, peers, clocks).compare();
}

}  // namespace profgpu
