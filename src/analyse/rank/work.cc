// Budget: 20 ns per host row and per kernel; the inputs of each distinct set of arguments are parsed once.
#include "analyse/rank/work.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include "analyse/rank/captures.h"
#include "analyse/rank/devices.h"
#include "analyse/rank/engine_step.h"
#include "analyse/rank/kernels.h"
#include "analyse/rank/ops.h"
#include "analyse/rank/recorder_advice.h"
#include "analyse/rank/roofline.h"
#include "base/saturated.h"
#include "base/statistics.h"
#include "base/text.h"

namespace profgpu {
namespace {

struct SameInputs {
  StringId name, shapes, types, values, strides;
  bool operator==(const SameInputs&) const = default;
};
struct HashOfInputs {
  size_t operator()(const SameInputs& k) const {
    uint64_t hash = (uint64_t{k.name.value} << 32 | k.shapes.value) * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 29 ^ k.strides.value;
    return (hash ^ (uint64_t{k.types.value} << 32 | k.values.value)) * 0xBF58476D1CE4E5B9U >> 7;
  }
};

// Bits of the elements of lists, of which no type is recorded, by the name of the kernel that reads them; 0: unknown.
// The first type in it is the elements': FusedAdamMathFunctor<float, ...> has learning rates of type double behind it.
int list_bits(std::string_view kernel) {
  constexpr std::pair<std::string_view, int> kTypes[] = {
      {"OpaqueType<1u>", 8}, {"OpaqueType<2u>", 16}, {"OpaqueType<4u>", 32}, {"OpaqueType<8u>", 64},
      {"BFloat16", 16},      {"c10::Half", 16},      {"__half", 16},         {"double", 64},
      {"<float", 32},        {"<long", 64},          {"<int", 32}};
  size_t first = kernel.npos;
  int bits = 0;
  for (const auto& [type, bits_of_type] : kTypes)
    if (const size_t at = kernel.find(type); at < first) first = at, bits = bits_of_type;
  return bits;
}

OpWork in_precision(OpWork work, Precision precision) {
  work.precision = precision;
  return work;
}

/// The work of every operator's inputs, each parsed once.
class WorkOfOps {
 public:
  explicit WorkOfOps(const Trace& trace) : trace_(trace) {
    works_.known.emplace_back();
    works_.of_host.resize(trace.host.size());
  }

  OpWorks found() && {
    for (uint32_t i = 0; i < trace_.host.size(); ++i) add(i);
    if (!with_lists_.empty()) type_lists();
    leave_out_outer();
    return std::move(works_);
  }

 private:
  void add(uint32_t host) {
    const OpArgsId id = trace_.host.args[host];
    if (!id.valid() || trace_.host.kind[host] != HostKind::kOp) return;
    const OpArgs& args = trace_.op_args[id.value];
    if (!args.shapes.valid()) return;
    works_.shapes = true, works_.values |= args.values.valid();
    const auto [it, fresh] = index_of_.try_emplace(
        {trace_.host.name[host], args.shapes, args.types, args.values, args.strides}, 0);
    if (fresh) it->second = index(op_inputs(trace_, HostId(host)), host);
    works_.of_host[host] = it->second;
  }

  uint32_t index(const OpInputs& inputs, uint32_t host) {
    OpWork work = op_work(inputs);
    if (work == OpWork()) {
      if (!attends_to_cache(inputs.name)) return 0;
      work.lower_bound = true;   // its runs get theirs from the engine's steps
    }
    const auto at = static_cast<uint32_t>(works_.known.size());
    works_.known.push_back(work);
    if (work.bytes < 0 && inputs.has_lists()) with_lists_.emplace(at, host);
    return at;
  }

  // Lists of tensors are recorded without a type; the kernels' names have it.
  void type_lists() {
    std::map<std::pair<uint32_t, StringId>, uint32_t> typed;   // by list and kernel's name
    for (size_t c = 0; c < trace_.launching.size(); ++c) {
      const HostId op = trace_.enclosing(
          trace_.launching[c], [&](HostId at) { return trace_.host.kind[at.value] == HostKind::kOp; });
      if (!op.valid()) continue;
      const auto list = with_lists_.find(works_.of_host[op.value]);
      if (list == with_lists_.end()) continue;
      const StringId kernel = trace_.activity.name[trace_.launched[trace_.launched_first[c]].value];
      const auto [it, fresh] = typed.try_emplace({list->first, kernel}, list->first);
      if (const int bits = fresh ? list_bits(trace_.strings[kernel]) : 0; bits > 0) {
        OpInputs inputs = op_inputs(trace_, HostId(list->second));
        inputs.list_bits = bits;
        it->second = static_cast<uint32_t>(works_.known.size());
        works_.known.push_back(op_work(inputs));
      }
      works_.of_host[op.value] = it->second;
    }
  }

  // Children come behind their parents.
  void leave_out_outer() {
    const HostTable& h = trace_.host;
    std::vector<bool> inside(h.size());
    for (uint32_t i = static_cast<uint32_t>(h.size()); i-- > 0;) {
      uint32_t& work = works_.of_host[i];
      const bool computes = works_.known[work].flops > 0;
      if (computes && inside[i]) work = 0;
      const HostId parent = h.parent[i];
      if (!parent.valid()) continue;
      if (computes || inside[i]) inside[parent.value] = true;
      // The same call, recorded twice.
      if (work != 0 && h.name[parent.value] == h.name[i]) works_.of_host[parent.value] = 0;
    }
  }

  const Trace& trace_;
  OpWorks works_;
  std::unordered_map<SameInputs, uint32_t, HashOfInputs> index_of_;
  std::unordered_map<uint32_t, uint32_t> with_lists_;   // index into known: a host row with such inputs
};

/// Gives each kernel the run that it belongs to.
class RunsOfKernels {
 public:
  RunsOfKernels(const Facts& facts, DeviceWork& work)
      : trace_(facts.trace()), ops_(facts.get<Ops>()), works_(facts.get<OpWorks>()), kernels_(facts.get<Kernels>()),
        captures_(facts.get<Captures>()), kind_(facts.get<Devices>().kind), work_(work) {}

  void find() {
    find_nearest();
    of_known_.assign(works_.known.size(), nullptr);
    work_.run_of.assign(trace_.activity.size(), DeviceWork::kNone);
    work_.by_name.assign(trace_.strings.size(), Precision::kUnknown);
    named_.assign(trace_.strings.size(), false);
    run_of_op_.assign(trace_.host.size(), DeviceWork::kNone);
    work_.runs.reserve(static_cast<size_t>(std::ranges::count(kind_, WorkKind::kCompute)));
    for (uint32_t i = 0; i < trace_.activity.size(); ++i)
      if (trace_.activity.kind[i] == ActivityKind::kKernel && kind_[i] == WorkKind::kCompute) add(ActivityId(i));
    list_unknown();
  }

 private:
  // Of each host row, the innermost operator around it, or itself, whose work is known.
  void find_nearest() {
    const HostTable& h = trace_.host;
    nearest_.resize(h.size());
    for (uint32_t i = 0; i < h.size(); ++i)
      if (works_.of_host[i] != 0) nearest_[i] = HostId(i);
      else if (h.parent[i].valid()) nearest_[i] = nearest_[h.parent[i].value];
  }

  void add(ActivityId a) {
    const int64_t duration = trace_.activity.duration_ns[a.value];
    add_saturated(work_.kernel_ns, duration);
    const HostId range = ops_.of_activity[a.value];
    const HostId op = range.valid() ? nearest_[range.value] : HostId();
    const OpWork* known = nullptr;
    if (op.valid() && !of_uncertain_size(a)) {
      uint32_t& place = place_of(op, a);
      if (place == DeviceWork::kNone) {
        place = static_cast<uint32_t>(work_.runs.size());
        work_.runs.push_back({op, work_of(op, trace_.activity.launch[a.value]), a, 0});
      }
      work_.run_of[a.value] = place;
      WorkRun& run = work_.runs[place];
      add_saturated(run.device_ns, duration);
      set_precision(run, a);
      known = run.work;
      if (known->flops >= 0) add_saturated(work_.flops_known_ns, duration);
      if (known->bytes >= 0) add_saturated(work_.bytes_known_ns, duration);
    }
    if (known == nullptr || known->flops < 0 || known->bytes < 0)
      add_unknown(a, range, of_uncertain_size(a) ? "several captures of graphs fit" : "");
    else if (known->lower_bound) add_unknown(a, range, reason_of_bound(trace_.name(work_.run(a)->op)));
  }

  [[nodiscard]] bool of_uncertain_size(ActivityId a) const {
    return !captures_.sizes_uncertain.empty() && captures_.sizes_uncertain[a.value];
  }

  // A replay launches what was captured once.
  uint32_t& place_of(HostId op, ActivityId a) {
    const HostId launch = trace_.activity.launch[a.value];
    if (!launch.valid() || captures_.origin(trace_, a) == launch) return run_of_op_[op.value];
    return run_of_replay_.try_emplace(uint64_t{launch.value} << 32 | op.value, DeviceWork::kNone).first->second;
  }

  const OpWork* work_of(HostId op, HostId launch) {
    if (works_.of(op).flops < 0 && attends_to_cache(trace_.name(op))) return work_.keep(attended(op, launch));
    const OpWork*& work = of_known_[works_.of_host[op.value]];
    if (work == nullptr) work = work_.keep(works_.of(op));
    return work;
  }

  // By the figures of the engine's step that launched it.
  OpWork attended(HostId op, HostId launch) {
    const auto figures = [&](HostId at) -> const std::optional<AttendedKeys>& {
      static constexpr std::optional<AttendedKeys> kNone;
      if (trace_.host.kind[at.value] != HostKind::kAnnotation) return kNone;
      const auto [it, fresh] = attended_.try_emplace(trace_.host.name[at.value].value);
      if (!fresh) return it->second;
      const auto step = engine_step(trace_.name(at));
      if (step && step->pairs && step->query_pairs && step->context_tokens && step->tokens)
        it->second = {*step->context_tokens, *step->pairs,
                      std::max<int64_t>(*step->query_pairs - *step->tokens, 0) / 2, *step->tokens};
      return it->second;
    };
    const HostId step = trace_.enclosing(launch, [&](HostId at) { return figures(at).has_value(); });
    return step.valid() ? cached_attention(op_inputs(trace_, op), *figures(step)) : OpWork();
  }

  void set_precision(WorkRun& run, ActivityId a) {
    const StringId name = trace_.activity.name[a.value];
    if (!named_[name.value]) {
      named_[name.value] = true;
      if (multiplies(kernels_.category[name.value]))
        work_.by_name[name.value] = precision_in_kernel_name(trace_.strings[name]);
    }
    const Precision shown = work_.by_name[name.value];
    const Precision precision = run.work->precision;
    const bool unknown = precision == Precision::kUnknown && run.work->flops > 0;
    const bool rounded = precision == Precision::kFp32 && shown == Precision::kTf32;
    if (shown != precision && (unknown || rounded)) run.work = work_.keep(in_precision(*run.work, shown));
  }

  static std::string_view reason_of_bound(std::string_view op) {
    const OpFamily* const family = find_family(op);
    const bool attends = family != nullptr && family->name == "attention";
    return attends ? "lengths of sequences not in the trace" : "sizes not in the trace";
  }

  // Without a reason: what is not recorded.
  void add_unknown(ActivityId a, HostId range, std::string_view why) {
    const bool is_op = range.valid() && trace_.host.kind[range.value] == HostKind::kOp;
    const StringId name = is_op ? trace_.host.name[range.value] : trace_.activity.name[a.value];
    const auto [it, fresh] = unknown_.try_emplace(uint64_t{name.value} << 1 | is_op);
    UnknownWorkRow& row = it->second;
    if (fresh) {
      row.name = trace_.strings[name];
      row.reason = !why.empty() ? why : is_op ? reason(range) : "launched outside any operator";
    }
    ++row.kernels;
    add_saturated(row.device_ns, trace_.activity.duration_ns[a.value]);
  }

  [[nodiscard]] std::string reason(HostId op) const {
    const OpArgsId id = trace_.host.args[op.value];
    const OpArgs args = id.valid() ? trace_.op_args[id.value] : OpArgs();
    if (!args.shapes.valid()) return "no shapes recorded";
    if (find_family(trace_.name(op)) == nullptr) return "operator not known";
    // A node of the backward pass has gradients alone.
    const bool in_tensors = args.values.valid() || attends_to_cache(trace_.name(op)) ||
                            trace_.name(op).starts_with("torch::autograd::CppNode<");
    return in_tensors ? "sizes not in the trace" : "no values recorded";
  }

  void list_unknown() {
    for (auto& [name, row] : unknown_) work_.unknown.push_back(std::move(row));
    std::ranges::sort(work_.unknown, [](const UnknownWorkRow& a, const UnknownWorkRow& b) {
      if (a.device_ns != b.device_ns) return a.device_ns > b.device_ns;
      return std::tie(a.name, a.reason) < std::tie(b.name, b.reason);
    });
  }

  const Trace& trace_;
  const Ops& ops_;
  const OpWorks& works_;
  const Kernels& kernels_;
  const Captures& captures_;
  const std::vector<WorkKind>& kind_;
  DeviceWork& work_;
  std::vector<const OpWork*> of_known_;   // kept ones, by index in works_
  std::vector<HostId> nearest_;
  std::vector<bool> named_;
  std::vector<uint32_t> run_of_op_;
  std::unordered_map<uint64_t, uint32_t> run_of_replay_;   // by launch and operator
  std::unordered_map<uint64_t, UnknownWorkRow> unknown_;
  std::unordered_map<uint32_t, std::optional<AttendedKeys>> attended_;   // by name
};

std::vector<FamilyWorkRow> work_by_family(const Trace& trace, const DeviceWork& work) {
  std::map<std::string_view, FamilyWorkRow> rows;
  for (const WorkRun& run : work.runs) {
    const OpFamily* const family = find_family(trace.name(run.op));
    FamilyWorkRow& row = rows[family->name];
    row.family = family->name;
    ++row.calls;
    add_saturated(row.flops, std::max<int64_t>(run.work->flops, 0));
    add_saturated(row.needed_flops, std::max<int64_t>(run.work->needed_flops(), 0));
    add_saturated(row.bytes, std::max<int64_t>(run.work->bytes, 0));
    row.flops_is_lower_bound |= run.work->lower_bound && run.work->flops > 0;
    add_saturated(row.device_ns, run.device_ns);
  }
  std::vector<FamilyWorkRow> all;
  for (auto& [name, row] : rows) all.push_back(std::move(row));
  std::ranges::stable_sort(all, std::greater(), &FamilyWorkRow::device_ns);
  return all;
}

// FP32 products that are too fast for FP32, and not for TF32, are TF32: not all kernels of these are named so.
void take_tf32(const Trace& trace, const DeviceLimits& limits, DeviceWork& work) {
  for (WorkRun& run : work.runs) {
    const bool says_fp32 = work.by_name[trace.activity.name[run.first.value].value] == Precision::kFp32;
    if (run.work->precision != Precision::kFp32 || run.work->product.batch == 0 || says_fp32) continue;
    const OpWork tf32 = in_precision(*run.work, Precision::kTf32);
    if (limits.peak_pct(*run.work, run.device_ns) > kImpossiblePct &&
        limits.peak_pct(tf32, run.device_ns).value_or(kBoostedPct + 1) <= kBoostedPct)
      run.work = work.keep(tf32);
  }
}

// By the letters of the inputs' type: "nvjet_sm100_qqtst_…" (cuBLAS), "cijk_alik_bljk_b_bs_bh_…" (Tensile, where MX
// behind the type is FP32 in TF32's units). Unknown: no such name, or another type.
Precision precision_by_letters(std::string_view text) {
  struct Letters {
    std::string_view begin;
    Precision precision;
  };
  constexpr Letters kNvjet[] = {{"q", Precision::kFp8}, {"t", Precision::kBf16}, {"h", Precision::kFp16}};
  constexpr Letters kTensile[] = {{"f8", Precision::kFp8},  {"b8", Precision::kFp8},   {"i8", Precision::kInt8},
                                  {"b", Precision::kBf16},  {"h", Precision::kFp16},   {"s_mx", Precision::kTf32},
                                  {"s", Precision::kFp32},  {"d", Precision::kFp64}};
  std::span<const Letters> known;
  std::string_view letters;
  // Of the second, other letters of that length.
  constexpr std::string_view kNewCublas = "nvjet_", kTensileName = "cijk_", kContraction = "cijk_alik_bljk_";
  // "Custom_Cijk_…": kernels written by hand.
  if (text.starts_with("custom")) text.remove_prefix(std::min(text.find(kTensileName), text.size()));
  if (text.starts_with(kNewCublas)) {
    known = kNvjet, letters = text.substr(kNewCublas.size());
    if (letters.starts_with("sm")) letters.remove_prefix(std::min(letters.find('_') + 1, letters.size()));
  } else if (text.starts_with(kTensileName) && text.size() > kContraction.size()) {
    known = kTensile, letters = text.substr(kContraction.size());
  } else {
    return Precision::kUnknown;
  }
  for (const Letters& l : known)
    if (letters.starts_with(l.begin)) return l.precision;
  return Precision::kUnknown;
}

}  // namespace

// Of names of kernels of products, as cuBLAS, cuDNN, CUTLASS and hipBLASLt make them.
Precision precision_in_kernel_name(std::string_view name) {
  const std::string text = lower_case(name);
  if (const Precision shown = precision_by_letters(text); shown != Precision::kUnknown) return shown;
  // The narrowest comes first: inputs are narrower than results and accumulators.
  constexpr std::pair<std::string_view, Precision> kParts[] = {
      {"bf16xmxfp4", Precision::kBf16},   // Triton's matmul_ogs: weights are widened
      {"fp16xmxfp4", Precision::kFp16},   {"e2m1", Precision::kFp4},   {"fp4", Precision::kFp4},
      {"e4m3", Precision::kFp8},    {"e5m2", Precision::kFp8},    {"fp8", Precision::kFp8},
      {"i8816", Precision::kInt8},  {"i16832", Precision::kInt8}, {"imma", Precision::kInt8},
      {"int8", Precision::kInt8},   {"tf32", Precision::kTf32},   {"bf16", Precision::kBf16},
      {"bfloat16", Precision::kBf16}, {"f16", Precision::kFp16},  {"fp16", Precision::kFp16},
      {"half", Precision::kFp16},   {"h884", Precision::kFp16},   {"h1688", Precision::kFp16},
      {"h16816", Precision::kFp16}, {"hgemm", Precision::kFp16},
      {"s1688", Precision::kTf32},   // single precision in tensor cores of that shape, where nothing above says less
      {"dgemm", Precision::kFp64},  {"d884", Precision::kFp64},   {"sgemm", Precision::kFp32},
      {"scudnn", Precision::kFp32}};
  const auto* const it = std::ranges::find_if(kParts, [&](const auto& part) { return contains(text, part.first); });
  return it == std::end(kParts) ? Precision::kUnknown : it->second;
}

OpInputs op_inputs(const Trace& trace, HostId op) {
  const OpArgsId id = op.valid() ? trace.host.args[op.value] : OpArgsId();
  if (!id.valid()) return {.name = op.valid() ? trace.name(op) : "", .at = {}};
  const OpArgs& args = trace.op_args[id.value];
  return op_inputs(trace.name(op), trace.strings[args.shapes], trace.strings[args.types], trace.strings[args.values],
                   trace.strings[args.strides]);
}

size_t HashOfWork::operator()(const OpWork& w) const {
  uint64_t hash = static_cast<uint64_t>(w.precision);
  for (const int64_t part : {w.flops, w.bytes, w.product.m, w.product.n, w.attention.head_size})
    hash = (hash ^ static_cast<uint64_t>(part)) * 0x9E3779B97F4A7C15U, hash ^= hash >> 32;
  return hash;
}

OpWorks OpWorks::compute(const Facts& facts) { return WorkOfOps(facts.trace()).found(); }

DeviceWork DeviceWork::compute(const Facts& facts) {
  DeviceWork work;
  RunsOfKernels(facts, work).find();
  if (const auto& limits = facts.get<Limits>().device) take_tf32(facts.trace(), *limits, work);
  return work;
}

std::optional<WorkSection> WorkSection::compute(const Facts& facts) {
  const DeviceWork& work = facts.get<DeviceWork>();
  const OpWorks& works = facts.get<OpWorks>();
  if (work.kernel_ns == 0) return std::nullopt;
  WorkSection section;
  section.shapes = works.shapes, section.values = works.values;
  section.kernel_ns = work.kernel_ns;
  section.flops_known_pct = percent_of(work.flops_known_ns, work.kernel_ns);
  section.bytes_known_pct = percent_of(work.bytes_known_ns, work.kernel_ns);
  section.families = work_by_family(facts.trace(), work);
  section.per_step = facts.get<WorkPerStep>();
  section.at_least = facts.get<TileBounds>().rows;
  section.unknown.assign(work.unknown.begin(),
                         work.unknown.begin() + std::min(work.unknown.size(), WorkSection::kMaxUnknown));
  if (!works.shapes) section.advice = recorder_advice(facts.trace().recorder).shapes;
  return section;
}

}  // namespace profgpu
