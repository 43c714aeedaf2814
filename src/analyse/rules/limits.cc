// What the device's limits say: products and memory-bound kernels far from them, and how much of its peak a run uses.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <numeric>
#include <tuple>

#include "analyse/rank/distance.h"
#include "analyse/rank/frameworks.h"
#include "analyse/rank/kernels.h"
#include "analyse/rank/ops.h"
#include "analyse/rank/roofline.h"
#include "analyse/rank/work.h"
#include "analyse/report/quantity.h"
#include "analyse/rules/measure.h"

namespace profgpu {

extern const Rule kSlowProducts, kMemoryBound, kLowMfu;

namespace {

constexpr double kSlowPart = 0.5;        // kernels at less than this of their limit are slow
constexpr double kGoodPart = 0.9;        // what a cost takes for reachable
constexpr size_t kNamedOps = 3;

/// Calls of one operator with the same shapes and precision, of those that a rule is about.
struct SlowOp {
  HostId op;                   ///< one of them
  Precision precision = Precision::kUnknown;
  ActivityId kernel;           ///< the longest of its kernels
  int64_t ns = 0;
  double least_ns = 0, flops = 0, bytes = 0;
  double lost_ns = 0;          ///< over a good kernel's time
};

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
  double most_part = 0;        ///< likewise, at most
};

// Kernels that torch.compile made may write to arguments that they read: at most, all of them move twice.
double most_part(const Trace& trace, const WorkRun& run, double part) {
  return trace.name(run.op).starts_with("triton_") ? std::min(2 * part, 1.0) : part;
}

// Those with the bound and at less than half of their limit.
std::vector<SlowKernel> below_half(const Measured& m, Bound bound) {
  std::vector<SlowKernel> below;
  if (!is_busiest(m) || !m.facts().get<Limits>().device) return below;
  const DeviceWork& work = m.facts().get<DeviceWork>();
  const RunLimits& limits = m.facts().get<RunLimits>();
  const std::vector<int64_t>& exclusive = m.facts().get<ExclusiveTime>().ns;
  for (ActivityId a = m.device().begin; a < m.device().end; ++a) {
    const std::optional<double> part = exclusive[a.value] > 0 ? limits.needed_part(m.trace(), work, a) : std::nullopt;
    if (!part || *part >= kSlowPart || limits.bound[work.run_of[a.value]] != bound) continue;
    const double most = most_part(m.trace(), *work.run(a), *part);
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
  if (m.wall_pct(all_ns) <= m.threshold(rule)) return slow;
  const std::vector<bool>& named = m.named_kernels();
  std::map<std::tuple<StringId, StringId, Precision>, size_t> index;
  for (const auto& [a, part, most] : below) {
    if (named[a.value]) continue;
    const auto ns = static_cast<double>(exclusive[a.value]);
    const WorkRun& run = *work.run(a);
    const auto [it, fresh] = index.try_emplace(
        {trace.host.name[run.op.value], shapes_of(trace, run.op), run.work.precision}, slow.ops.size());
    if (fresh) slow.ops.push_back({run.op, run.work.precision, a});
    SlowOp& op = slow.ops[it->second];
    if (trace.activity.duration_ns[a.value] > trace.activity.duration_ns[op.kernel.value]) op.kernel = a;
    const double of_run = m.facts().get<RunLimits>().share_of_run(trace, work, a) * ns /
                          static_cast<double>(trace.activity.duration_ns[a.value]);
    op.ns += exclusive[a.value], op.least_ns += ns * part, op.lost_ns += ns * (1 - most / kGoodPart);
    op.flops += of_run * static_cast<double>(run.work.needed_flops());
    op.bytes += of_run * static_cast<double>(run.work.bytes);
    slow.ns += exclusive[a.value], slow.lost_ns += ns * (1 - most / kGoodPart);
    slow.kernels.push_back(a);
  }
  std::ranges::stable_sort(slow.ops, std::greater(), &SlowOp::lost_ns);
  return slow;
}

std::optional<double> slow_pct(const Measured& m, const Rule& rule, Bound bound) {
  const SlowKernels slow = slow_kernels(m, rule, bound);
  return only_if(slow.ns > 0, m.wall_pct(slow.ns));
}

std::string op_text(const Measured& m, const SlowOp& op) {
  const Trace& trace = m.trace();
  std::string text(trace.name(op.op));
  if (const StringId shapes = shapes_of(trace, op.op); shapes.valid())
    text += " " + shortened(list_on_one_line(trace.strings[shapes]), 60);
  return text;
}

double limit_part(const SlowOp& op) { return op.least_ns / static_cast<double>(op.ns); }

/// Why a product may be slow, from its sizes and its grid.
struct SizeReason {
  std::string text;              ///< "k is only 64"
  std::string_view fix;
};

constexpr int64_t kTile = 128;     // rows and columns that a block of threads computes at full rate
constexpr int64_t kShortInner = 512;

const OpWork& work_of(const Measured& m, const SlowOp& op) {
  return m.facts().get<DeviceWork>().run(op.kernel)->work;
}

// Products, convolutions and attention have FLOPs; what only moves bytes has none.
bool computes(const Measured& m, const SlowOp& op) { return work_of(m, op).flops > 0; }

std::string_view family_of(const Measured& m, const SlowOp& op) {
  const OpFamily* family = find_family(m.trace().name(op.op));
  return family != nullptr ? family->name : "";
}

bool on_amd(const Measured& m) { return is_amd(m.trace(), m.device().id); }

std::string_view faster_fp32(const Measured& m, const SlowOp& op) {
  if (on_amd(m)) return "torch.autocast(\"cuda\", dtype=torch.bfloat16)";
  return family_of(m, op) == "convolutions"
             ? "torch.backends.cudnn.allow_tf32 = True, or torch.autocast with bfloat16"
             : "torch.set_float32_matmul_precision(\"high\"), or torch.autocast with bfloat16";
}

// Blocks for less than three quarters of the multiprocessors: the others have nothing to do.
std::optional<SizeReason> too_few_blocks(const Measured& m, const SlowOp& op) {
  const int64_t blocks = block_count(m.trace(), op.kernel);
  const int32_t multiprocessors = m.trace().properties(m.device().id).multiprocessors;
  if (blocks <= 0 || 4 * blocks >= 3 * int64_t{multiprocessors}) return std::nullopt;
  return SizeReason{fmt::format("{} blocks for {} multiprocessors", blocks, multiprocessors),
                    "more work in each call (larger batches), or kernels that split the inner size (split-K, stream-K)"};
}

// In the last wave of blocks most multiprocessors have nothing to do, and there are few waves.
std::optional<SizeReason> uneven_waves(const Measured& m, const SlowOp& op) {
  const int64_t blocks = block_count(m.trace(), op.kernel);
  const int64_t multiprocessors = m.trace().properties(m.device().id).multiprocessors;
  if (blocks <= multiprocessors || multiprocessors <= 0) return std::nullopt;
  const int64_t waves = (blocks + multiprocessors - 1) / multiprocessors;
  if (4 * blocks >= 3 * waves * multiprocessors) return std::nullopt;
  const double exact = static_cast<double>(blocks) / static_cast<double>(multiprocessors);
  return SizeReason{fmt::format("{} blocks are {:.1f} waves on {} multiprocessors, which take as long as {}", blocks,
                                exact, multiprocessors, waves),
                    "sizes whose tiles fill whole waves, or kernels that split the inner size (split-K, stream-K)"};
}

std::optional<SizeReason> size_reason(const Measured& m, const SlowOp& op) {
  const auto [batch, rows, columns, inner] = work_of(m, op).product;
  if (batch == 0) return too_few_blocks(m, op);
  const bool half = op.precision == Precision::kBf16 || op.precision == Precision::kFp16;
  const bool eighth = op.precision == Precision::kFp8 || op.precision == Precision::kInt8;
  const int64_t step = eighth ? 16 : 8;
  if ((half || eighth) && (inner % step != 0 || columns % step != 0))
    return SizeReason{fmt::format("sizes that aren't multiples of {}", step), "pad sizes to a multiple of 64"};
  if (auto few = too_few_blocks(m, op)) return few;
  if (std::min(rows, columns) < kTile)
    return SizeReason{fmt::format("skinny: one side is {}", std::min(rows, columns)),
                      "larger batches, or several small products in one (torch.bmm, grouped products)"};
  if (inner < kShortInner)
    return SizeReason{fmt::format("the inner size is only {}", inner),
                      batch > 1 ? "a fused kernel for what surrounds these small products, such as attention"
                                : "join products with small inner sizes: several heads, adapters or experts in one"};
  const int64_t tiles = batch * ((rows + kTile - 1) / kTile) * ((columns + kTile - 1) / kTile);
  if (tiles < m.trace().properties(m.device().id).multiprocessors)
    return SizeReason{fmt::format("only {} tiles of {} x {}", tiles, kTile, kTile),
                      inner > std::max(rows, columns)
                          ? "kernels that split the inner size (split-K, stream-K), or larger batches"
                          : "larger batches, so that every multiprocessor has a tile"};
  return uneven_waves(m, op);
}

// Why a product that computing limits may be slow.
std::optional<SizeReason> reason_of(const Measured& m, const SlowOp& op) {
  const DeviceLimits& limits = *m.facts().get<Limits>().device;
  if (op.precision == Precision::kFp32 && limits.operations_per_ns(Precision::kTf32) > 0)
    return SizeReason{"computed in FP32 without TF32", faster_fp32(m, op)};
  return size_reason(m, op);
}

// Has the library choose other kernels.
std::string_view other_kernels(const Measured& m, const SlowOp& op) {
  const std::string_view of = family_of(m, op);
  if (of == "attention")
    return on_amd(m) ? "other attention kernels: AITER's, or torch.backends.cuda.preferred_rocm_fa_library(\"ck\")"
                     : "other attention kernels: flash-attn's newest, or sdpa_kernel(SDPBackend.CUDNN_ATTENTION)";
  if (of == "convolutions") return "torch.backends.cudnn.benchmark = True tries kernels for each size";
  if (of == "experts") return "tune the kernel's tile sizes for this device and number of experts";
  return on_amd(m) ? "PYTORCH_TUNABLEOP_ENABLED=1 tries the libraries' kernels for each size"
                   : "torch.compile(mode=\"max-autotune\") tries kernels for each size";
}

void add_fix(std::string_view fix, Finding& f) {
  if (std::ranges::count(f.fix, fix) == 0) f.fix.emplace_back(fix);
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
  return {"matrix products", "take", "their"};
}

void describe_slow_products(const Measured& m, Finding& f) {
  const SlowKernels slow = slow_kernels(m, kSlowProducts, Bound::kCompute);
  const DeviceLimits& limits = *m.facts().get<Limits>().device;
  const ProductWords w = words_of(m, slow);
  f.what = fmt::format("{} at less than half of {} limit {} {:.0f} % of the time", w.name, w.their, w.takes, *f.value);
  f.verdict = fmt::format("{} at less than half of the GPU's peak rate {} {} of the time.", w.name, w.takes,
                          format_percent(*f.value, 0));
  f.verdict.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(f.verdict.front())));
  f.why = fmt::format("For their FLOPs these kernels need {} of their time at the peak rates of {}.",
                      format_percent(least_pct(slow), 0), limits.name);
  for (size_t i = 0; i < std::min(kNamedOps, slow.ops.size()); ++i) {
    const SlowOp& op = slow.ops[i];
    const std::optional<SizeReason> reason = reason_of(m, op);
    const auto ns = static_cast<double>(op.ns);
    f.evidence.push_back(fmt::format("{}: at {} of its limit, {} of {} TFLOP/s, {}{}", op_text(m, op),
                                     format_percent(100 * limit_part(op), 0), format_number(op.flops / ns / 1e3),
                                     format_number(op.flops / op.least_ns / 1e3), per_step_text(m, op.ns),
                                     reason ? "; " + reason->text : ""));
    add_fix(reason ? reason->fix : other_kernels(m, op), f);
  }
  f.fix.emplace_back("check the clocks during the job: profgpu log");
  show_and_price(m, slow, f);
}

// Of kernels that memory limits.
std::string_view fix_of_moving(const Measured& m, const SlowOp& op) {
  const std::optional<SizeReason> reason = size_reason(m, op);
  if (computes(m, op)) return reason ? reason->fix : other_kernels(m, op);
  if (m.facts().get<Kernels>().category[m.trace().activity.name[op.kernel.value].value] == KernelCategory::kEmbedding)
    return "sorted indices, longer rows, or fused lookups of several tables (FBGEMM)";
  if (!m.facts().get<Frameworks>().has(Framework::kTorchCompile)) return kMemoryBound.advice.front();
  return reason ? reason->fix : kMemoryBound.advice[1];
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

void describe_memory_bound(const Measured& m, Finding& f) {
  const SlowKernels slow = slow_kernels(m, kMemoryBound, Bound::kMemory);
  const DeviceLimits& limits = *m.facts().get<Limits>().device;
  f.what =
      fmt::format("memory-bound kernels at less than half of the memory's rate take {:.0f} % of the time", *f.value);
  f.why = fmt::format("To read their inputs and write their outputs once they need {} of their time at {}.",
                      format_percent(least_pct(slow), 0), format_gbps(limits.memory_gbps));
  for (size_t i = 0; i < std::min(kNamedOps, slow.ops.size()); ++i) {
    const SlowOp& op = slow.ops[i];
    const std::optional<SizeReason> reason = size_reason(m, op);
    const std::string more = computes(m, op) ? reason ? reason->text : "" : partners_of(m, op.kernel);
    f.evidence.push_back(fmt::format("{}: at {} of its limit, {}, {}{}", op_text(m, op),
                                     format_percent(100 * limit_part(op), 0),
                                     format_gbps(op.bytes / static_cast<double>(op.ns)), per_step_text(m, op.ns),
                                     more.empty() ? "" : "; " + more));
    add_fix(fix_of_moving(m, op), f);
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

}  // namespace

void set_cost_at_limit(const Measured& m, const std::vector<ActivityId>& kernels, Finding& f) {
  SlowKernels below;
  if (!is_busiest(m) || !m.facts().get<Limits>().device) return;
  const std::vector<int64_t>& exclusive = m.facts().get<ExclusiveTime>().ns;
  for (const ActivityId a : kernels) {
    const auto part = m.facts().get<RunLimits>().needed_part(m.trace(), m.facts().get<DeviceWork>(), a);
    if (exclusive[a.value] <= 0 || part.value_or(1) >= kGoodPart) continue;
    below.kernels.push_back(a);
    below.ns += exclusive[a.value];
    below.lost_ns += static_cast<double>(exclusive[a.value]) * (1 - *part / kGoodPart);
  }
  if (!below.kernels.empty()) set_kernel_cost(m, below.kernels, below.ns, static_cast<int64_t>(below.lost_ns), f);
}

extern const Rule kSlowProducts = {
    .id = "slow-products",
    .summary = "matrix products far from what the device can do",
    .unit = "%",
    .threshold = 5,
    .severity = Severity::kInfo,
    .severe = 10,
    .of_kernels = true,
    .meaning =
        "Matrix products, convolutions and attention come near the device's peak rate at sizes that suit it. Less than "
        "half means that sizes leave parts of it unused, that the precision is slower than need be, or that the library "
        "chose a slow kernel.",
    .computation =
        "Value: share of the measured steps' wall time in kernels of compute-bound operators that take more than twice "
        "the least time for their FLOPs at the peak rate of their precision. Needs recorded shapes and a device whose "
        "peak rates are known, or --peaks. Kernels that another finding names do not count. Cost: replay of the trace "
        "with these kernels at 90 % of their limit.",
    .advice = {
        "sizes in multiples of 64, better of 128 and 256; larger batches",
        "torch.autocast(\"cuda\", dtype=torch.bfloat16); TF32 for what stays in float32",
        "torch.compile(model, mode=\"max-autotune\") tries kernels; torch.backends.cudnn.benchmark = True",
        "join small products: QKV in one, torch.bmm or grouped products for experts and adapters",
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
        "Model FLOPs utilization is the share of the device's peak rate that a run's products use. Small models, small "
        "batches and models without large products leave most of it unused, however busy the device is.",
    .computation =
        "Value: time that the products of the measured steps, without recomputation, take at the peak rates of their "
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
