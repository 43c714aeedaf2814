// What the device's limits say: products and memory-bound kernels far from them, and how much of its peak a run uses.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <tuple>

#include "analyse/rank/distance.h"
#include "analyse/rank/frameworks.h"
#include "analyse/rank/kernels.h"
#include "analyse/rank/ops.h"
#include "analyse/rank/roofline.h"
#include "analyse/rank/work.h"
#include "analyse/report/quantity.h"
#include "analyse/rules/measure.h"
#include "analyse/rules/size_reasons.h"

namespace profgpu {

extern const Rule kSlowProducts, kMemoryBound, kLowMfu;

namespace {

constexpr double kSlowPart = 0.5;        // kernels at less than this of their limit are slow
constexpr double kGoodPart = 0.9;        // what a cost takes for reachable
constexpr size_t kNamedOps = 3;

/// Kernels at less than half of their limit that no other rule names.
struct SlowKernels {
  int64_t ns = 0;              ///< of the measured steps
  double lost_ns = 0;          ///< of that, over what good kernels would take
  std::vector<ActivityId> kernels;
  std::vector<SlowOp> ops;     ///< most lost first
};

bool is_busiest(const Measured& m) {
  const Devices& devices = m.facts().get<Devices>();
  return devices.busiest >= 0 && m.device().id == devices.devices[static_cast<size_t>(devices.busiest)].id;
}

struct SlowKernel {
  ActivityId a;
  double part = 0;             ///< of its time, what the limit needs
  double most_part = 0;        ///< of its time, what it needs at achievable rates, at most
};

// Kernels that torch.compile made may write to arguments that they read: at most, all of them move twice.
double most_part(const Trace& trace, const WorkRun& run, double part) {
  return trace.name(run.op).starts_with("triton_") ? std::min(2 * part, 1.0) : part;
}

bool is_below_half(const RunLimits& limits, uint32_t run) {
  return limits.achievable_ns[run] < kSlowPart * static_cast<double>(limits.main_ns[run]);
}

// Those with the bound and at less than half of their limit, or of what is known to be achievable.
std::vector<SlowKernel> below_half(const Measured& m, Bound bound) {
  std::vector<SlowKernel> below;
  if (!is_busiest(m) || !m.facts().get<Limits>().device) return below;
  const DeviceWork& work = m.facts().get<DeviceWork>();
  const RunLimits& limits = m.facts().get<RunLimits>();
  const std::vector<int64_t>& exclusive = m.facts().get<ExclusiveTime>().ns;
  for (ActivityId a = m.device().begin; a < m.device().end; ++a) {
    const std::optional<double> part = exclusive[a.value] > 0 ? limits.needed_part(work, a) : std::nullopt;
    if (!part || limits.bound[work.run_of[a.value]] != bound) continue;
    // What only serves others is slow if those are: of itself it has no limit.
    if (*part <= 0 && !is_below_half(limits, work.run_of[a.value])) continue;
    const double achievable = limits.achievable_part(work, a).value_or(*part);
    const double most = most_part(m.trace(), *work.run(a), achievable);
    if (most < kSlowPart) below.push_back({a, *part, most});
  }
  return below;
}

// Nothing where the rule would not fire: what other rules name is then not asked for.
SlowKernels slow_kernels(const Measured& m, const Rule& rule, Bound bound) {
  SlowKernels slow;
  const Trace& trace = m.trace();
  const DeviceWork& work = m.facts().get<DeviceWork>();
  const std::vector<int64_t>& exclusive = m.facts().get<ExclusiveTime>().ns;
  const std::vector<SlowKernel> below = below_half(m, bound);
  int64_t all_ns = 0;
  for (const SlowKernel& kernel : below) all_ns += exclusive[kernel.a.value];
  if (m.known_wall_pct(all_ns) <= m.threshold(rule)) return slow;
  const std::vector<bool>& named = m.named_kernels();
  std::map<std::tuple<StringId, StringId, Precision>, size_t> index;
  for (const auto& [a, part, most] : below) {
    if (named[a.value]) continue;
    const auto ns = static_cast<double>(exclusive[a.value]);
    const WorkRun& run = *work.run(a);
    const auto [it, fresh] = index.try_emplace(
        {trace.host.name[run.op.value], shapes_of(trace, run.op), run.work->precision}, slow.ops.size());
    if (fresh) slow.ops.push_back({run.op, run.work->precision, a});
    SlowOp& op = slow.ops[it->second];
    if (trace.activity.duration_ns[a.value] > trace.activity.duration_ns[op.kernel.value]) op.kernel = a;
    const double of_run = m.facts().get<RunLimits>().share_of_run(trace, work, a) * ns /
                          static_cast<double>(trace.activity.duration_ns[a.value]);
    op.ns += exclusive[a.value], op.least_ns += ns * part, op.lost_ns += ns * (1 - most / kGoodPart);
    op.flops += of_run * static_cast<double>(run.work->needed_flops());
    op.bytes += of_run * static_cast<double>(run.work->bytes);
    slow.ns += exclusive[a.value], slow.lost_ns += ns * (1 - most / kGoodPart);
    slow.kernels.push_back(a);
  }
  std::ranges::stable_sort(slow.ops, std::greater(), &SlowOp::lost_ns);
  return slow;
}

std::optional<double> slow_pct(const Measured& m, const Rule& rule, Bound bound) {
  const SlowKernels slow = slow_kernels(m, rule, bound);
  return only_if(slow.ns > 0, m.known_wall_pct(slow.ns));
}

std::string op_text(const Measured& m, const SlowOp& op) {
  const Trace& trace = m.trace();
  std::string text(trace.name(op.op));
  if (const StringId shapes = shapes_of(trace, op.op); shapes.valid())
    text += " " + shortened(list_on_one_line(trace.strings[shapes]), 60);
  return text;
}

void add_fix(std::string_view fix, Finding& f) {
  if (std::ranges::count(f.fix, fix) == 0) f.fix.emplace_back(fix);
}

void add_fixes(const Measured& m, const SlowOp& op, const std::optional<SizeReason>& reason, Finding& f) {
  if (!reason) add_fix(other_kernels(m, op), f);
  else for (const std::string& fix : reason->fixes) add_fix(fix, f);
}

// Of these kernels' time, what their work needs at least.
double least_pct(const SlowKernels& slow) {
  double least_ns = 0;
  for (const SlowOp& op : slow.ops) least_ns += op.least_ns;
  return 100 * least_ns / static_cast<double>(slow.ns);
}

void show_and_price(const Measured& m, const SlowKernels& slow, Finding& f) {
  const ActivityId kernel = slow.ops.front().kernel;
  f.seen = {Locator::At::kLongestKernel, std::string(m.trace().name(kernel))};
  see(f, m.trace().activity.interval(kernel));
  show_kernels(m, slow.kernels, f);
  set_kernel_cost(m, slow.kernels, slow.ns, static_cast<int64_t>(slow.lost_ns), f);   // if they take what good ones do
}

/// Of products of one kind, or of several.
struct ProductWords {
  std::string_view name, takes, their;
};

ProductWords words_of(const Measured& m, const SlowKernels& slow) {
  const auto all = [&](std::string_view family) {
    return std::ranges::all_of(slow.ops, [&](const SlowOp& op) { return family_of(m, op) == family; });
  };
  if (all("attention")) return {"attention", "takes", "its"};
  if (all("convolutions")) return {"convolutions", "take", "their"};
  return {"GEMMs", "take", "their"};
}

// "708 TFLOP/s in bf16"; of the precisions of these whose achievable rate is known.
std::string achievable_rates(const Measured& m, const SlowKernels& slow) {
  std::set<Precision> known;
  for (const SlowOp& op : slow.ops)
    if (!measured_by(m, op.precision).empty()) known.insert(op.precision);
  return joined(known, ", ", [&](Precision p) {
    const double rate = m.facts().get<Limits>().device->achievable_per_ns(p);
    return fmt::format("{} TFLOP/s in {}", format_number(rate / 1e3), precision_name(p));
  });
}

void describe_slow_products(const Measured& m, Finding& f) {
  const SlowKernels slow = slow_kernels(m, kSlowProducts, Bound::kCompute);
  const DeviceLimits& limits = *m.facts().get<Limits>().device;
  const ProductWords w = words_of(m, slow);
  const std::string_view vendor = measured_by(m, slow.ops.front().precision);
  const std::string most = vendor.empty() ? "" : fmt::format("the rate that {} measures at most", vendor);
  f.what = fmt::format("{} at less than half of {} {} {:.0f} % of the time", w.name,
                       most.empty() ? fmt::format("{} limit", w.their) : most, w.takes, *f.value);
  f.verdict = fmt::format("{} at less than half of {} {} {} of the time.", w.name,
                          most.empty() ? "the GPU's peak rate" : most, w.takes, format_percent(*f.value, 0));
  f.verdict.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(f.verdict.front())));
  f.why = fmt::format("For their FLOPs these kernels need {} of their time at the peak rates of {}.",
                      format_percent(least_pct(slow), 0), limits.name);
  if (const std::string rates = achievable_rates(m, slow); !rates.empty())
    f.why += fmt::format(" GEMMs reach at most {} ({}).", rates, limits.achievable_source);
  for (size_t i = 0; i < std::min(kNamedOps, slow.ops.size()); ++i) {
    const SlowOp& op = slow.ops[i];
    const std::optional<SizeReason> reason = reason_of(m, op);
    f.evidence.push_back(fmt::format("{}: {}, {}{}", op_text(m, op), rate_text(m, op), per_step_text(m, op.ns),
                                     reason && !reason->text.empty() ? "; " + reason->text : ""));
    add_fixes(m, op, reason, f);
  }
  f.fix.emplace_back("check the clocks during the job: profgpu log");
  show_and_price(m, slow, f);
}

// The operator, or the kernel, of the compute before or after a kernel on its stream.
std::string neighbor(const Measured& m, ActivityId a, int direction) {
  const Trace& trace = m.trace();
  const uint16_t queue = trace.activity.queue[a.value];
  const int64_t begin = m.device().begin.value, end = m.device().end.value;
  for (int64_t i = int64_t{a.value} + direction; i >= begin && i < end; i += direction) {
    const ActivityId other(static_cast<size_t>(i));
    if (trace.activity.queue[other.value] != queue ||
        m.facts().get<Devices>().kind[other.value] != WorkKind::kCompute)
      continue;
    const HostId op = m.facts().get<Ops>().of_activity[other.value], own = m.facts().get<Ops>().of_activity[a.value];
    if (op.valid() && own.valid() && trace.host.name[op.value] == trace.host.name[own.value]) return "";
    return op.valid() ? std::string(trace.name(op)) : short_kernel_name(trace.name(other));
  }
  return "";
}

// What it could be fused with.
std::string partners_of(const Measured& m, ActivityId kernel) {
  const std::string before = neighbor(m, kernel, -1), after = neighbor(m, kernel, 1);
  std::string partners = before.empty() ? "" : "runs after " + before;
  if (!after.empty()) append_listed(partners, (before.empty() ? "runs before " : "before ") + after);
  return partners;
}

// Of a kernel that memory limits and that computes nothing.
void explain_moving(const Measured& m, const SlowOp& op, std::string& why, Finding& f) {
  const std::string layout = layout_text(m, op);
  const std::string partners = partners_of(m, op.kernel);
  const bool compiled = m.facts().get<Frameworks>().has(Framework::kTorchCompile);
  why = layout.empty() ? partners : layout;
  if (!layout.empty()) add_fix(kMemoryBound.advice[1], f);
  if (m.facts().get<Kernels>().category[m.trace().activity.name[op.kernel.value].value] == KernelCategory::kEmbedding)
    add_fix("sorted indices, longer rows, or fused lookups of several tables (FBGEMM)", f);
  else if (compiled) add_fix(kMemoryBound.advice[1], f);
  else if (!partners.empty()) add_fix(kMemoryBound.advice.front(), f);
  else if (layout.empty())
    add_fix(fmt::format("see what its memory requests wait for: {}",
                        is_amd(m.trace(), m.device().id) ? "rocprof-compute" : "ncu"),
            f);
}

// Where most of this time is in products of few blocks, memory is not what is slow.
void name_idle_multiprocessors(const Measured& m, const SlowKernels& slow, Finding& f) {
  const SlowOp& first = slow.ops.front();
  const std::optional<SizeReason> reason = computes(m, first) ? size_reason(m, first) : std::nullopt;
  if (!reason || reason->busy_multiprocessors == 0 || 2 * first.ns <= slow.ns) return;
  const ProductWords w = words_of(m, slow);
  const DeviceWords& words = device_words(m);
  f.what = fmt::format("{} that keep {} of {} {} busy {} {:.0f} % of the time", w.name, reason->busy_multiprocessors,
                       m.trace().properties(m.device().id).multiprocessors, words.multiprocessors, w.takes, *f.value);
  f.verdict = f.what + ".";
  f.verdict.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(f.verdict.front())));
}

void describe_memory_bound(const Measured& m, Finding& f) {
  const SlowKernels slow = slow_kernels(m, kMemoryBound, Bound::kMemory);
  const DeviceLimits& limits = *m.facts().get<Limits>().device;
  f.what =
      fmt::format("memory-bound kernels at less than half of the memory's rate take {:.0f} % of the time", *f.value);
  f.why = fmt::format("To read their inputs and write their outputs once they need {} of their time at {}.",
                      format_percent(least_pct(slow), 0), format_gbps(limits.memory_gbps));
  name_idle_multiprocessors(m, slow, f);
  for (size_t i = 0; i < std::min(kNamedOps, slow.ops.size()); ++i) {
    const SlowOp& op = slow.ops[i];
    Finding too_little;   // what an operator with a tenth of the loss would need is not advice
    Finding& fixed = 10 * op.lost_ns >= slow.lost_ns ? f : too_little;
    std::string why;
    if (computes(m, op)) {
      const std::optional<SizeReason> reason = size_reason(m, op);
      why = reason ? reason->text : "";
      add_fixes(m, op, reason, fixed);
    } else {
      explain_moving(m, op, why, fixed);
    }
    f.evidence.push_back(fmt::format("{}: at {} of its limit, {}, {}{}", op_text(m, op),
                                     format_percent(100 * op.limit_part(), 0),
                                     format_gbps(op.bytes / static_cast<double>(op.ns)), per_step_text(m, op.ns),
                                     why.empty() ? "" : "; " + why));
  }
  show_and_price(m, slow, f);
}

std::optional<double> mfu_value(const Measured& m) {
  const bool served = m.facts().get<Frameworks>().serves();   // decoding is bound by memory
  if (served || !is_busiest(m) || !m.facts().get<Distance>().is_known()) return std::nullopt;
  const Roofline& roofline = m.facts().get<Roofline>();
  // Whether it is low must not depend on what is not counted: that could run at the peak rate.
  if (roofline.mfu_pct && *roofline.mfu_pct + roofline.uncounted_pct >= m.threshold(kLowMfu))
    return std::nullopt;
  return roofline.mfu_pct;
}

void describe_low_mfu(const Measured& m, Finding& f) {
  const Distance& d = m.facts().get<Distance>();
  f.what = fmt::format("the run uses {}{} of the GPU's peak FLOP rate (MFU)",
                       m.facts().get<Roofline>().mfu_is_lower_bound() ? "at least " : "", format_percent(*f.value));
  std::vector<const DistancePart*> parts;
  for (const DistancePart& p : d.parts)
    if (p.name != "necessary_work") parts.push_back(&p);
  std::ranges::stable_sort(parts, std::greater(), &DistancePart::total_ns);
  parts.resize(std::min<size_t>(parts.size(), 3));
  f.why = fmt::format("The time is {}{:.1f} times the least that its work needs. Most of the rest: {}.",
                      d.times_limit_is_lower_bound ? "at least " : "", *d.times_limit,
                      joined(parts, ", ", [](const DistancePart* p) {
                        return fmt::format("{} {}", words(p->name), format_percent(p->wall_pct, 0));
                      }));
}

// Of the multiprocessors' time, what a grid's blocks can use at most: the last wave may be a small one.
double filled_part(const Measured& m, ActivityId a) {
  const int64_t blocks = block_count(m.trace(), a);
  const int64_t multiprocessors = m.trace().properties(m.device().id).multiprocessors;
  if (blocks <= 0 || multiprocessors <= 0) return 1;
  const int64_t waves = (blocks + multiprocessors - 1) / multiprocessors;
  return static_cast<double>(blocks) / static_cast<double>(waves * multiprocessors);
}

}  // namespace

void set_cost_at_limit(const Measured& m, const std::vector<ActivityId>& kernels, Finding& f) {
  SlowKernels below;
  if (!is_busiest(m) || !m.facts().get<Limits>().device) return;
  const std::vector<int64_t>& exclusive = m.facts().get<ExclusiveTime>().ns;
  for (const ActivityId a : kernels) {
    const auto part = m.facts().get<RunLimits>().achievable_part(m.facts().get<DeviceWork>(), a);
    const double reachable = kGoodPart * filled_part(m, a);
    if (exclusive[a.value] <= 0 || part.value_or(1) >= reachable) continue;
    below.kernels.push_back(a);
    below.ns += exclusive[a.value];
    below.lost_ns += static_cast<double>(exclusive[a.value]) * (1 - *part / reachable);
  }
  if (!below.kernels.empty()) set_kernel_cost(m, below.kernels, below.ns, static_cast<int64_t>(below.lost_ns), f);
}

extern const Rule kSlowProducts = {
    .id = "slow-products",
    .summary = "GEMMs, convolutions or attention far from what the device can do",
    .unit = "%",
    .threshold = 5,
    .severity = Severity::kInfo,
    .severe = 10,
    .of_kernels = true,
    .meaning =
        "GEMMs, convolutions and attention come near the device's peak rate at sizes that suit it. Less than "
        "half means that sizes leave parts of it unused, that the precision is slower than need be, or that the library "
        "chose a slow kernel.",
    .computation =
        "Value: share of the measured steps' wall time in kernels of compute-bound operators that take more than twice "
        "the least time for their FLOPs at the peak rate of their precision, or at the rate that the vendor measures at "
        "most, where it publishes that (MI300X: see docs/roofline.md). Needs recorded shapes and a device whose peak "
        "rates are known, or --peaks. Kernels that another finding names do not count. Cost: replay of the trace with "
        "these kernels at 90 % of that rate.",
    .advice = {
        "sizes in multiples of 64, better of 128 and 256; larger batches",
        "torch.autocast(\"cuda\", dtype=torch.bfloat16); TF32 for what stays in float32",
        "torch.compile(model, mode=\"max-autotune\") tries kernels; torch.backends.cudnn.benchmark = True",
        "join small GEMMs: QKV in one, torch.bmm or grouped GEMMs for experts and adapters",
        "the device's clocks during the job: profgpu log, and pass the samples to analyze",
    },
    .rank = {.value = [](const Measured& m) { return slow_pct(m, kSlowProducts, Bound::kCompute); },
             .describe = describe_slow_products},
};

extern const Rule kMemoryBound = {
    .id = "memory-bound",
    .summary = "memory-bound kernels that take much longer than their bytes need",
    .unit = "%",
    .threshold = 5,
    .severity = Severity::kInfo,
    .severe = 10,
    .of_kernels = true,
    .meaning =
        "Elementwise operations, norms, softmax and copies are as fast as the memory. Kernels far below its rate read "
        "in small or scattered pieces, move data more than once, or keep too few requests in flight.",
    .computation =
        "Value: share of the measured steps' wall time in kernels of memory-bound operators that take more than twice "
        "the time in which the memory moves their inputs and outputs once; of kernels that torch.compile made, twice: they "
        "may write to what they read. Needs recorded shapes and a device whose memory bandwidth is known, or --peaks. "
        "Kernels that another finding names do not count. Cost: replay of the trace with these kernels at 90 % of their "
        "limit.",
    .advice = {
        "fuse it with the operators that run before and after it: torch.compile(model), or a fused module",
        "contiguous inputs: strided and transposed views are read in small pieces",
        "vectorized kernels: sizes in multiples of 8 elements, aligned tensors",
        "fused kernels for norms, activations and losses: Liger, Apex, Transformer Engine",
    },
    .verdict = "Memory-bound kernels at less than half of the memory's rate take {} of the time.",
    .rank = {.value = [](const Measured& m) { return slow_pct(m, kMemoryBound, Bound::kMemory); },
             .describe = describe_memory_bound},
};

extern const Rule kLowMfu = {
    .id = "low-mfu",
    .summary = "the run uses little of the device's peak FLOP rate",
    .unit = "%",
    .threshold = 20,
    .below = true,
    .severity = Severity::kInfo,
    .meaning =
        "Model FLOPs utilization is the share of the device's peak rate that a run's GEMMs, convolutions and attention use. Small models, small "
        "batches and models without large GEMMs leave most of it unused, however busy the device is.",
    .computation =
        "Value: time that GEMMs, convolutions and attention of the measured steps, without recomputation, take at the peak rates of their "
        "precisions, as a share of the steps' wall time. Needs a known limit for 70 % of kernel time. Silent where kernels "
        "whose FLOPs are not known could raise it to the threshold. No cost: other "
        "findings and `--section distance` have what it is made of.",
    .advice = {
        "look at what the time is made of, with --section distance, and at each operator, with --section roofline",
        "larger batches or longer sequences, if most kernels are small",
    },
    .rank = {.value = mfu_value, .describe = describe_low_mfu},
};

}  // namespace profgpu
