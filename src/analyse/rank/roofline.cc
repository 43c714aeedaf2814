#include "analyse/rank/measured.h"
#include "analyse/rank/roofline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "analyse/rank/devices.h"
#include "analyse/rank/kernels.h"
#include "analyse/rank/names.h"
#include "analyse/rank/ops.h"
#include "analyse/rank/recorder_advice.h"
#include "analyse/rank/steps.h"
#include "analyse/report/quantity.h"
#include "analyse/work/measured_limits.h"
#include "base/text.h"
#include "trace/intervals.h"

namespace profgpu {
namespace {

// Starting and draining a grid takes a few microseconds: shorter kernels reach no peak rate.
constexpr int64_t kShort_ns = 5'000;
// With few blocks longer ones don't, either, the longer the fewer of the device's multiprocessors have one. What takes
// longer than that has too few blocks for its work.
constexpr int64_t kShortOfFewBlocks_ns = 20'000;
constexpr double kHalf = 0.5;

/// The busiest device; null: none.
const DeviceTime* device_of(const Facts& facts) {
  const Devices& devices = facts.get<Devices>();
  return devices.busiest < 0 ? nullptr : &devices.devices[static_cast<size_t>(devices.busiest)];
}

bool is_of(const DeviceTime& device, ActivityId a) { return device.begin <= a && a < device.end; }

// Of each run, its longest kernel on the device, of those that multiply if there are any; invalid: none.
std::vector<ActivityId> main_kernels(const Facts& facts, const DeviceWork& work, const DeviceTime& device) {
  const Trace& trace = facts.trace();
  const std::vector<KernelCategory>& category = facts.get<Kernels>().category;
  std::vector<ActivityId> of_run(work.runs.size());
  const auto rank = [&](ActivityId a) {
    return std::pair(multiplies(category[trace.activity.name[a.value].value]), trace.activity.duration_ns[a.value]);
  };
  for (ActivityId a = device.begin; a < device.end; ++a) {
    if (work.run_of[a.value] == DeviceWork::kNone) continue;
    ActivityId& main = of_run[work.run_of[a.value]];
    if (!main.valid() || rank(a) > rank(main)) main = a;
  }
  return of_run;
}

/// What a kernel of a convolution's backward pass computes, as far as its name tells.
enum class ConvolutionSide : uint8_t { kUnknown, kData, kWeights };

ConvolutionSide convolution_side(std::string_view kernel) {
  const std::string low = lower_case(kernel);
  if (contains_any(low, {"wgrad", "wrw", "bwd_weight", "bwdweight", "bwdfilter", "bwd_filter"}))
    return ConvolutionSide::kWeights;
  if (contains_any(low, {"dgrad", "bwd_data", "bwddata"})) return ConvolutionSide::kData;
  return ConvolutionSide::kUnknown;
}

/// Which kernels do a run's work: those that multiply and take a tenth of such kernels' time or more, since an operator
/// may have several products, as experts and backward passes have; of other runs those of the longest one's name.
class WorkingKernels {
 public:
  WorkingKernels(const Facts& facts, const DeviceTime& device, RunLimits& out)
      : trace_(facts.trace()),
        work_(facts.get<DeviceWork>()),
        category_(facts.get<Kernels>().category),
        device_(device),
        out_(out),
        main_(main_kernels(facts, work_, device)) {}

  /// Sets `works`, `for_weights`, `main_ns` and `weights_ns`; returns each run's longest kernel.
  std::vector<ActivityId> find() {
    for (ActivityId a = device_.begin; a < device_.end; ++a)
      if (multiplies_beside_main(a)) several_[run_of(a)];
    for (ActivityId a = device_.begin; a < device_.end; ++a)
      if (const auto at = product_names(a); at != several_.end()) at->second[name_of(a)] += duration(a);
    for (ActivityId a = device_.begin; a < device_.end; ++a) {
      if (run_of(a) == DeviceWork::kNone || !works(a)) continue;
      out_.works[a.value] = true;
      out_.main_ns[run_of(a)] += duration(a);
    }
    for (const auto& [run, names] : several_) split_convolution(run, names);
    mark_weights();
    return std::move(main_);
  }

 private:
  using TimeByName = std::map<StringId, int64_t>;
  static constexpr int64_t kSmallPart = 10;   // kernels of less than this part of the products' time serve

  [[nodiscard]] uint32_t run_of(ActivityId a) const { return work_.run_of[a.value]; }
  [[nodiscard]] StringId name_of(ActivityId a) const { return trace_.activity.name[a.value]; }
  [[nodiscard]] int64_t duration(ActivityId a) const { return trace_.activity.duration_ns[a.value]; }
  [[nodiscard]] StringId main_name(uint32_t run) const { return name_of(main_[run]); }
  // Of an operator with FLOPs none of whose kernels is a product by name, as of Triton's, those of no known kind are.
  [[nodiscard]] bool may_multiply(ActivityId a) const {
    const uint32_t run = run_of(a);
    if (run == DeviceWork::kNone) return false;
    const KernelCategory own = category_[name_of(a).value], main = category_[main_name(run).value];
    return multiplies(own) || (own == KernelCategory::kOther && main == own && work_.runs[run].work->flops > 0);
  }
  [[nodiscard]] bool multiplies_beside_main(ActivityId a) const {
    return may_multiply(a) && name_of(a) != main_name(run_of(a));
  }
  [[nodiscard]] std::unordered_map<uint32_t, TimeByName>::iterator product_names(ActivityId a) {
    return may_multiply(a) ? several_.find(run_of(a)) : several_.end();
  }
  [[nodiscard]] bool works(ActivityId a) {
    if (name_of(a) == main_name(run_of(a))) return true;
    const auto at = product_names(a);
    return at != several_.end() && is_large(at->second, name_of(a));
  }
  [[nodiscard]] static bool is_large(const TimeByName& names, StringId name) {
    int64_t all_ns = 0;
    for (const auto& [unused, ns] : names) all_ns += ns;
    return kSmallPart * names.at(name) >= all_ns;
  }

  // The gradients of a convolution's input and of its weights need the same FLOPs. Where names tell only one of the
  // two, the other kernels compute the other.
  void split_convolution(uint32_t run, const TimeByName& names) {
    if (!trace_.name(work_.runs[run].op).ends_with("convolution_backward")) return;
    int64_t data_ns = 0, weights_ns = 0, untold_ns = 0;
    for (const auto& [name, ns] : names) {
      if (!is_large(names, name) && name != main_name(run)) continue;
      const ConvolutionSide side = convolution_side(trace_.strings[name]);
      (side == ConvolutionSide::kData ? data_ns : side == ConvolutionSide::kWeights ? weights_ns : untold_ns) += ns;
    }
    const bool both = data_ns > 0 && weights_ns > 0;
    if (both ? untold_ns > 0 : untold_ns == 0 || data_ns + weights_ns == 0) return;
    out_.weights_ns[run] = weights_ns > 0 ? weights_ns : untold_ns;
    untold_are_weights_.insert_or_assign(run, weights_ns == 0);
  }

  void mark_weights() {
    if (untold_are_weights_.empty()) return;
    for (ActivityId a = device_.begin; a < device_.end; ++a) {
      const auto at = untold_are_weights_.find(run_of(a));
      if (at == untold_are_weights_.end()) continue;
      const ConvolutionSide side = convolution_side(trace_.name(a));
      out_.for_weights[a.value] = side == ConvolutionSide::kUnknown ? at->second : side == ConvolutionSide::kWeights;
    }
  }

  const Trace& trace_;
  const DeviceWork& work_;
  const std::vector<KernelCategory>& category_;
  const DeviceTime& device_;
  RunLimits& out_;
  std::vector<ActivityId> main_;
  std::unordered_map<uint32_t, TimeByName> several_;           // by run, of those with products of several names
  std::unordered_map<uint32_t, bool> untold_are_weights_;      // by run whose work is split
};

// No mask leaves out any of it.
bool is_whole_product(const WorkRun& run) { return run.work->product.batch > 0 && run.work->skipped_flops <= 0; }

bool is_too_short(const Trace& trace, ActivityId a, int64_t multiprocessors) {
  const int64_t blocks = block_count(trace, a), ns = trace.activity.duration_ns[a.value];
  if (blocks <= 0 || blocks >= multiprocessors) return ns < kShort_ns;
  return ns < kShortOfFewBlocks_ns * std::max<int64_t>(1, multiprocessors / (4 * blocks));
}

/// Forward operators that run again in the backward pass, as activation checkpointing has them. Autograd numbers
/// forward operators, and only those: one with a number inside a backward node computes again what was not kept.
/// Gradients of gradients have numbers too, but no forward operator of their name and shapes.
class Recomputation {
 public:
  explicit Recomputation(const Facts& facts) : trace_(facts.trace()), place_(trace_.host.size()) {
    const HostTable& h = trace_.host;
    const std::vector<bool>& autograd = facts.get<Names>().autograd;
    for (uint32_t i = 0; i < h.size(); ++i) {   // parents come first
      Place& place = place_[i];
      if (h.parent[i].valid()) place = place_[h.parent[i].value];
      // The backward pass that a recomputed part has of its own is no recomputation.
      if (autograd[h.name[i].value]) place = Place::kBackward;
      else if (place == Place::kBackward && is_numbered_forward(HostId(i))) place = Place::kForwardWithin;
    }
  }
  void note(HostId op) {
    if (place_[op.value] == Place::kForward) forward_.insert(key(op));
  }
  [[nodiscard]] bool operator()(HostId op) const {
    return place_[op.value] == Place::kForwardWithin && forward_.contains(key(op));
  }

 private:
  enum class Place : uint8_t { kForward, kBackward, kForwardWithin };

  [[nodiscard]] uint64_t key(HostId op) const {
    return uint64_t{trace_.host.name[op.value].value} << 32 | shapes_of(trace_, op).value;
  }
  [[nodiscard]] bool is_numbered_forward(HostId h) const {
    const OpArgsId args = trace_.host.args[h.value];
    return args.valid() && trace_.op_args[args.value].sequence >= 0 && trace_.op_args[args.value].forward_thread == 0;
  }

  const Trace& trace_;
  std::vector<Place> place_;
  std::unordered_set<uint64_t> forward_;   // names and shapes
};

}  // namespace

std::string_view bound_name(Bound bound) {
  constexpr std::array<std::string_view, 4> kNames = {"unknown", "compute", "memory", "latency"};
  return kNames[static_cast<size_t>(bound)];
}

std::vector<PeakRow> Limits::peaks() const {
  std::vector<PeakRow> rows;
  for (int i = 1; device && i < kPrecisions; ++i)
    if (const double tera = device->tera[static_cast<size_t>(i)]; tera > 0)
      rows.push_back({precision_name(static_cast<Precision>(i)), tera,
                      clock_ratio() ? std::optional(tera * *clock_ratio()) : std::nullopt});
  return rows;
}

namespace {

std::string not_in_peaks(const MeasuredMachine& peaks, std::string_view device) {
  std::string names;
  for (const DeviceLimits& d : peaks.devices) append_listed(names, "\"" + d.name + "\"");
  return fmt::format("{} has no entry \"{}\", only {}", peaks.path.empty() ? "the file of --peaks" : peaks.path, device,
                     names);
}

// Kernels of Tensile are called after the architecture that they are for: "…_ISA942_…".
std::string unnamed_reason(const Trace& trace, const DeviceTime& device) {
  constexpr std::string_view kMark = "_ISA";
  for (ActivityId a = device.begin; a < device.end; ++a) {
    const std::string_view name = trace.name(a);
    const size_t at = name.find(kMark);
    if (at == std::string_view::npos) continue;
    const std::string_view from = name.substr(at + kMark.size());
    const std::string architecture = "gfx" + lower_case(from.substr(0, from.find('_')));
    if (const std::string_view devices = devices_of_architecture(architecture); !devices.empty())
      return fmt::format("the trace does not name the device, whose kernels are for {}: {}", architecture, devices);
  }
  return "the trace does not name the device";
}

}  // namespace

Limits Limits::compute(const Facts& facts) {
  const DeviceTime* device = device_of(facts);
  if (device == nullptr) return {std::nullopt, "no device was recorded"};
  const DeviceProperties properties = facts.trace().properties(device->id);
  FoundLimits found = find_limits({properties.name, properties.memory_bytes, properties.multiprocessors});
  if (const std::vector<DeviceLimits>& measured = facts.options().peaks.devices; !measured.empty()) {
    // Cards of one name differ: the very one first.
    const DeviceLimits* own = limits_of_uuid(measured, properties.uuid);
    if (own == nullptr) own = limits_called(measured, properties.name);
    if (own == nullptr)
      return {.device = std::nullopt, .why = not_in_peaks(facts.options().peaks, properties.name), .measured = true};
    DeviceLimits limits = measured_over(*own, found);
    if (limits.name.empty()) limits.name = properties.name;
    return {.device = std::move(limits), .why = "", .measured = true};
  }
  if (const DeviceLimits* own = limits_of_uuid(facts.options().machine.devices, properties.uuid))
    return {.device = measured_over(*own, found), .why = "", .measured = true};
  if (properties.name.empty())
    return {.device = std::nullopt, .why = unnamed_reason(facts.trace(), *device), .unnamed = true};
  return {std::move(found.limits), std::move(found.why)};
}

std::optional<double> RooflineRow::intensity() const {
  if (!flops || !bytes || *bytes == 0 || *flops == 0) return std::nullopt;
  return static_cast<double>(*flops) / static_cast<double>(*bytes);
}

std::optional<double> RooflineRow::tflops() const {
  if (!flops || *flops == 0 || total_ns == 0) return std::nullopt;
  return static_cast<double>(*flops) / static_cast<double>(total_ns) / 1e3;
}

std::optional<double> RooflineRow::memory_gbps() const {
  if (!bytes || total_ns == 0) return std::nullopt;
  return static_cast<double>(*bytes) / static_cast<double>(total_ns);
}

void PeakTime::add(const OpWork& work, const DeviceLimits& limits, bool recomputed) {
  if (work.needed_flops() <= 0) return;
  const double rate = limits.operations_per_ns(work.precision);
  flops += static_cast<double>(work.needed_flops());
  if (rate <= 0) {
    unrated_flops += static_cast<double>(work.needed_flops()), unrated = work.precision;
    return;
  }
  const double ns = static_cast<double>(work.needed_flops()) / rate;
  all_ns += ns;
  if (!recomputed) model_ns += ns;
}

namespace {

// No half of a run's work is faster than the limit allows, as one in fewer FLOPs (Winograd) would be.
bool can_be_halves(const RunLimits& limits, size_t run, double least_ns) {
  const int64_t weights_ns = limits.weights_ns[run], data_ns = limits.main_ns[run] - weights_ns;
  return weights_ns == 0 || 100 * least_ns / 2 <= kImpossiblePct * static_cast<double>(std::min(weights_ns, data_ns));
}

}  // namespace

RunLimits RunLimits::compute(const Facts& facts) {
  const Trace& trace = facts.trace();
  const DeviceWork& work = facts.get<DeviceWork>();
  const size_t runs = work.runs.size();
  RunLimits all{std::vector<double>(runs, -1), std::vector<double>(runs, -1), std::vector<Bound>(runs),
                std::vector<bool>(runs),       std::vector<bool>(runs),       std::vector<bool>(runs),
                std::vector<bool>(trace.activity.size()),
                std::vector<bool>(trace.activity.size()),
                std::vector<int64_t>(runs),    std::vector<int64_t>(runs)};
  const DeviceTime* device = device_of(facts);
  if (device == nullptr || runs == 0) return all;
  const std::optional<DeviceLimits>& limits = facts.get<Limits>().device;
  const int32_t multiprocessors = trace.properties(device->id).multiprocessors;
  const std::vector<ActivityId> main = WorkingKernels(facts, *device, all).find();
  Recomputation recomputed(facts);
  for (const WorkRun& run : work.runs) recomputed.note(run.op);
  for (size_t i = 0; i < runs; ++i) {
    const WorkRun& run = work.runs[i];
    if (!is_of(*device, run.first)) continue;
    all.recomputed[i] = recomputed(run.op);
    const std::optional<double> least = limits ? limits->least_ns(*run.work) : std::nullopt;
    if (!least || all.main_ns[i] <= 0) continue;
    const bool computes = limits->computes_longer(*run.work);
    const double pct = computes ? 100 * *least / static_cast<double>(run.device_ns) : 0;
    const bool may_be_boosted = is_whole_product(run) && !facts.get<Limits>().measured;
    all.boosted[i] = may_be_boosted && pct > kImpossiblePct && pct <= kBoostedPct;
    all.impossible[i] = pct > kImpossiblePct && !all.boosted[i];
    if (all.impossible[i]) continue;
    all.least_ns[i] = *least;
    if (!can_be_halves(all, i, *least)) all.weights_ns[i] = 0;
    all.achievable_ns[i] = limits->achievable_ns(*run.work).value_or(*least);
    const bool far_from_limit = *least < kHalf * static_cast<double>(all.main_ns[i]);
    if (far_from_limit && is_too_short(trace, main[i], multiprocessors)) all.bound[i] = Bound::kLatency;
    else all.bound[i] = computes ? Bound::kCompute : Bound::kMemory;
  }
  return all;
}

namespace {

/// Sums of one row.
struct RowSum {
  RooflineRow row;
  double flops = 0, bytes = 0, limit_ns = 0;
  bool knows_flops = true, knows_bytes = true, knows_limit = true;
  std::array<int64_t, 4> bound_ns{};
  std::map<uint32_t, int64_t> kernels;   // by name, for operators

  void add(const OpWork& work, double part, int64_t ns, double least_ns, Bound bound) {
    const auto take = [](double& sum, bool& knows, double value) {
      if (value < 0) knows = false;
      else sum += value;
    };
    take(flops, knows_flops, work.needed_flops() < 0 ? -1 : part * static_cast<double>(work.needed_flops()));
    take(bytes, knows_bytes, work.bytes < 0 ? -1 : part * static_cast<double>(work.bytes));
    take(limit_ns, knows_limit, least_ns < 0 ? -1 : part * least_ns);
    row.flops_is_lower_bound |= work.lower_bound && work.flops > 0 && part > 0;
    bound_ns[static_cast<size_t>(bound)] += ns;
    row.total_ns += ns;
    ++row.count;
  }
  RooflineRow take(const Trace& trace) {
    const auto whole = [](bool known, double x) { return only_if(known, int64_t{std::llround(x)}); };
    row.flops = whole(knows_flops, flops), row.bytes = whole(knows_bytes, bytes);
    row.limit_ns = whole(knows_limit, limit_ns);
    const auto most = std::ranges::max_element(bound_ns);
    row.bound = static_cast<Bound>(most - bound_ns.begin());
    if (!kernels.empty()) {
      const auto by_time = [&](const auto& a, const auto& b) {   // ids differ from file to file, names do not
        if (a.second != b.second) return a.second < b.second;
        return trace.strings[StringId(a.first)] > trace.strings[StringId(b.first)];
      };
      const auto longest = std::ranges::max_element(kernels, by_time);
      row.kernel = short_kernel_name(trace.strings[StringId(longest->first)]);
    }
    return std::move(row);
  }
};

class RowSums {
 public:
  /// Of a name, shapes or none, and a precision; `apart`: not with the others of these.
  size_t index(StringId name, StringId shapes, Precision precision, bool apart) {
    const uint64_t more = static_cast<uint64_t>(precision) << 1 | static_cast<uint64_t>(apart);
    const auto [it, fresh] =
        index_.try_emplace({uint64_t{name.value} << 32 | shapes.value, more}, sums_.size());
    if (fresh) sums_.emplace_back().row.precision = precision;
    return it->second;
  }
  RowSum& operator[](size_t index) { return sums_[index]; }
  std::vector<RooflineRow> rows(const Trace& trace) {
    std::vector<RooflineRow> all;
    for (RowSum& sum : sums_) all.push_back(sum.take(trace));
    std::ranges::sort(all, [](const RooflineRow& a, const RooflineRow& b) {
      if (a.total_ns != b.total_ns) return a.total_ns > b.total_ns;
      return std::tie(a.name, a.shapes, a.precision, a.recomputed) <
             std::tie(b.name, b.shapes, b.precision, b.recomputed);
    });
    return all;
  }

 private:
  struct Hash {
    size_t operator()(const std::pair<uint64_t, uint64_t>& key) const {
      const uint64_t hash = (key.first ^ key.second << 59) * 0x9e3779b97f4a7c15u;
      return hash ^ hash >> 32;
    }
  };
  std::unordered_map<std::pair<uint64_t, uint64_t>, size_t, Hash> index_;
  std::vector<RowSum> sums_;
};

class RooflineMaker {
 public:
  explicit RooflineMaker(const Facts& facts)
      : facts_(facts), trace_(facts.trace()), work_(facts.get<DeviceWork>()), limits_(facts.get<Limits>()),
        of_run_(facts.get<RunLimits>()), row_of_run_(work_.runs.size(), SIZE_MAX) {}

  Roofline make() {
    Roofline roofline;
    const DeviceTime* device = device_of(facts_);
    if (device == nullptr) return roofline;
    add_ops(*device);
    add_kernels(*device);
    roofline.ops = ops_.rows(trace_);
    roofline.kernels = kernels_.rows(trace_);
    if (all_ns_ > 0) {
      roofline.known_pct = percent_of(known_ns_, all_ns_);
      roofline.uncounted_pct = percent_of(uncounted_ns_, all_ns_);
    }
    const int64_t wall_ns = facts_.get<MeasuredSteps>().known_wall_ns();
    if (roofline.known_pct.value_or(0) >= Roofline::kMinKnownPct && peak_.complete() && peak_.all_ns > 0 && wall_ns > 0) {
      roofline.mfu_pct = 100 * peak_.model_ns / static_cast<double>(wall_ns);
      roofline.hfu_pct = 100 * peak_.all_ns / static_cast<double>(wall_ns);
    }
    drop_impossible(roofline);
    add_too_fast(roofline);
    if (!peak_.complete() && limits_.device)
      roofline.missing.push_back(fmt::format("MFU is not known: {} of the FLOPs are in {}, of which the device's rate "
                                             "is not known",
                                             format_percent(100 * peak_.unrated_flops / peak_.flops, 0),
                                             peak_.unrated == Precision::kUnknown ? "an unknown precision"
                                                                                  : precision_name(peak_.unrated)));
    add_decode(*device, roofline);
    add_missing(roofline);
    return roofline;
  }

 private:
  void add_ops(const DeviceTime& device) {
    StepFinder step_of(facts_.get<Steps>(), StepFinder::By::kElapsed);
    for (size_t i = 0; i < work_.runs.size(); ++i) {
      const WorkRun& run = work_.runs[i];
      const int64_t start_ns = trace_.activity.start_ns[run.first.value];
      if (run.device_ns <= 0 || !is_of(device, run.first) || !step_of.measured(start_ns)) continue;
      const StringId name = trace_.host.name[run.op.value], shapes = shapes_of(trace_, run.op);
      const bool again = of_run_.recomputed[i];
      row_of_run_[i] = ops_.index(name, shapes, run.work->precision, again);
      RowSum& sum = ops_[row_of_run_[i]];
      if (sum.row.count == 0) {
        sum.row.name = trace_.strings[name];
        if (shapes.valid()) sum.row.shapes = list_on_one_line(trace_.strings[shapes]);
        sum.row.recomputed = again;
      }
      sum.add(*run.work, 1, run.device_ns, of_run_.least_ns[i], of_run_.bound[i]);
      if (of_run_.impossible[i]) (is_whole_product(run) ? too_fast_ns_ : masked_ns_) += run.device_ns;
      if (of_run_.boosted[i]) boosted_ns_ += run.device_ns;
      if (!of_run_.impossible[i] && limits_.device) peak_.add(*run.work, *limits_.device, again);
    }
  }

  // A run's work belongs to its main kernels.
  void add_kernels(const DeviceTime& device) {
    const Devices& devices = facts_.get<Devices>();
    StepFinder step_of(facts_.get<Steps>(), StepFinder::By::kElapsed);
    for (ActivityId a = device.begin; a < device.end; ++a) {
      if (devices.kind[a.value] != WorkKind::kCompute || !step_of.measured(trace_.activity.start_ns[a.value])) continue;
      const int64_t ns = trace_.activity.duration_ns[a.value];
      all_ns_ += ns;
      const WorkRun* run = work_.run(a);
      if (may_hold_more_flops(facts_, a)) uncounted_ns_ += ns;
      const bool known = run != nullptr && run->device_ns > 0 && of_run_.least_ns[work_.run_of[a.value]] >= 0;
      const Precision precision = run != nullptr ? run->work->precision : Precision::kUnknown;
      const StringId name = trace_.activity.name[a.value];
      const double share = of_run_.share_of_run(trace_, work_, a);
      const bool works = run != nullptr && run->device_ns > 0 && share > 0;   // else it serves other kernels
      RowSum& sum = kernels_[kernels_.index(name, StringId(), precision, known && works)];
      if (sum.row.count == 0) sum.row.name = trace_.strings[name];
      if (known) known_ns_ += ns;
      if (!works) sum.add(OpWork(), 1, ns, -1, Bound::kUnknown);
      if (run == nullptr || run->device_ns <= 0) continue;
      const uint32_t index = work_.run_of[a.value];
      if (works) sum.add(*run->work, share, ns, of_run_.least_ns[index], of_run_.bound[index]);
      if (row_of_run_[index] != SIZE_MAX) ops_[row_of_run_[index]].kernels[name.value] += ns;
    }
  }

  void drop_impossible(Roofline& roofline) const {
    const double most_pct = boosted_ns_ > 0 ? kBoostedPct : kImpossiblePct;
    if (roofline.hfu_pct.value_or(0) <= most_pct) return;
    roofline.missing.push_back(fmt::format("MFU would be {}: operators compute less than their shapes say, as with "
                                           "sliding windows and masks",
                                           format_percent(*roofline.hfu_pct, 0)));
    roofline.mfu_pct.reset(), roofline.hfu_pct.reset();
  }

  // Why work is faster than its FLOPs allow at the peaks.
  void add_too_fast(Roofline& roofline) const {
    if (!limits_.device) return;
    const auto add = [&](int64_t ns, std::string_view what) {
      if (ns > 0)
        roofline.missing.push_back(
            fmt::format("{} of kernel time is in {}", format_percent(percent_of(ns, all_ns_)), what));
    };
    add(masked_ns_, "operators that are faster than their FLOPs allow: they compute less than their shapes say, as with "
                    "masks and sliding windows, and do not count");
    const std::string_view source = limits_.device->source;
    add(too_fast_ns_,
        limits_.measured
            ? fmt::format("GEMMs that are faster than the peak rates in {}, and do not count: measure these again",
                          source.substr(0, source.find(';')))   // the file, without what the table adds
            : "GEMMs that are faster than the peak rate of their precision, as with sums in FP16, and do not count");
    if (limits_.device->clock_mhz > 0)
      add(boosted_ns_, fmt::format("GEMMs above the data sheet's rate: the clock was higher than its {} MHz",
                                   format_count(limits_.device->clock_mhz)));
  }

  // An engine's decode steps read all weights, and the caches of all sequences, for a few tokens.
  void add_decode(const DeviceTime& device, Roofline& roofline) const {
    if (!limits_.device || limits_.device->memory_gbps <= 0) return;
    std::vector<const EngineRange*> steps;
    Intervals time;
    for (const EngineRange& s : facts_.get<Steps>().of_engine)
      if (s.measured && s.batch.kind == StepKind::kDecode) steps.push_back(&s), time.push_back(s.time);
    if (time.empty()) return;
    const auto begin = [](const EngineRange* s) { return s->time.start; };
    double bytes = 0;
    int64_t all_ns = 0, known_ns = 0;
    for (ActivityId a = device.begin; a < device.end; ++a) {
      const int64_t launched = trace_.launched_ns(a);
      const auto next = std::ranges::upper_bound(steps, launched, {}, begin);
      if (next == steps.begin() || launched >= (*(next - 1))->time.end) continue;
      const Interval& step = (*(next - 1))->time;
      time.push_back({step.start, std::max(step.end, trace_.activity.end_ns(a))});
      const int64_t ns = trace_.activity.duration_ns[a.value];
      const WorkRun* run = work_.run(a);
      all_ns += ns;
      if (run == nullptr || run->work->bytes < 0 || run->device_ns <= 0) continue;
      known_ns += ns;
      bytes += static_cast<double>(run->work->bytes) * static_cast<double>(ns) / static_cast<double>(run->device_ns);
    }
    const DeviceIdle& idle = facts_.get<Idle>().devices[static_cast<size_t>(facts_.get<Devices>().busiest)];
    const int64_t wall_ns =
        total_length(subtract(merged(std::move(time)), idle.time_of(IdleCause::kUntracedWork)));
    if (wall_ns == 0 || percent_of(known_ns, all_ns) < Roofline::kMinKnownPct) return;
    roofline.mbu_pct = 100 * bytes / (limits_.device->bytes_per_ns() * static_cast<double>(wall_ns));
    roofline.mbu_is_lower_bound = percent_of(all_ns - known_ns, all_ns) > Roofline::kCountedPct;
  }

  void add_missing(Roofline& roofline) const {
    if (all_ns_ == 0) {
      roofline.missing.emplace_back("no compute kernels were recorded in the measured steps");
      return;
    }
    const bool shapes = facts_.get<OpWorks>().shapes;
    if (!shapes)
      roofline.missing.push_back("FLOPs and bytes of operators are unknown: " +
                                 std::string(recorder_advice(trace_.recorder).shapes));
    if (!limits_.device) roofline.missing.push_back(limits_.why_with_advice());
    else if (limits_.device->memory_gbps <= 0)
      roofline.missing.push_back("no limits without the memory's rate: add memory_gbps to " + limits_.device->source);
    if (!shapes || !limits_.device || *roofline.known_pct >= Roofline::kMinKnownPct) return;
    std::string most;
    for (size_t i = 0; i < std::min<size_t>(work_.unknown.size(), 3); ++i)
      append_listed(most, fmt::format("{} ({}, {})", shortened(work_.unknown[i].name, 60), work_.unknown[i].reason,
                                      format_duration(static_cast<double>(work_.unknown[i].device_ns))));
    roofline.missing.push_back(
        fmt::format("only {} of kernel time has a known limit, so utilization is not known{}",
                    format_percent(*roofline.known_pct, 0), most.empty() ? "" : "; most unknown time: " + most));
  }

  const Facts& facts_;
  const Trace& trace_;
  const DeviceWork& work_;
  const Limits& limits_;
  const RunLimits& of_run_;
  RowSums ops_, kernels_;
  std::vector<size_t> row_of_run_;      // of ops_; SIZE_MAX: not measured
  int64_t all_ns_ = 0, known_ns_ = 0, uncounted_ns_ = 0;   // of compute kernels in measured steps
  int64_t masked_ns_ = 0, too_fast_ns_ = 0, boosted_ns_ = 0;   // of these; see RunLimits
  PeakTime peak_;
};

}  // namespace

bool may_hold_more_flops(const Facts& facts, ActivityId a) {
  const DeviceWork& work = facts.get<DeviceWork>();
  const WorkRun* const run = work.run(a);
  if (run != nullptr && facts.get<RunLimits>().impossible[work.run_of[a.value]]) return true;
  if (run != nullptr && run->work->flops >= 0) return run->work->lower_bound;
  const KernelCategory category = facts.get<Kernels>().category[facts.trace().activity.name[a.value].value];
  return multiplies(category) || category == KernelCategory::kOther;
}

Roofline Roofline::compute(const Facts& facts) { return RooflineMaker(facts).make(); }

}  // namespace profgpu
