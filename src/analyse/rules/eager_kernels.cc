// What eager mode costs on the device: kernels that could be one, unfused attention, small grids, layout copies, sizes
// that don't suit tensor cores.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <utility>

#include "analyse/rank/captures.h"
#include "analyse/rank/frameworks.h"
#include "analyse/rank/kernels.h"
#include "analyse/rank/ops.h"
#include "analyse/rank/roofline.h"
#include "analyse/rank/steps.h"
#include "analyse/rank/work.h"
#include "analyse/report/quantity.h"
#include "analyse/rules/measure.h"
#include "analyse/rules/size_reasons.h"
#include "analyse/work/op_sizes.h"
#include "base/text.h"

namespace profgpu {
namespace {

using enum Framework;

/// A test of names. A trace has few of them: each is tested once, at the first row of that name.
class NameTest {
 public:
  using Test = bool (*)(std::string_view name);
  NameTest(const Trace& trace, Test test) : strings_(trace.strings), test_(test), results_(strings_.size()) {}
  bool operator()(StringId name) {
    if (!name.valid()) return false;
    char& result = results_[name.value];
    if (result == 0) result = test_(strings_[name]) ? 'y' : 'n';
    return result == 'y';
  }

 private:
  const StringPool& strings_;
  Test test_;
  std::vector<char> results_;   // 'y', 'n', or 0: not tested yet
};

/// Compute kernels of one stream in measured steps, in order.
using Stream = std::vector<ActivityId>;

std::vector<Stream> streams_of(const Measured& m) {
  const Trace& trace = m.trace();
  const Devices& devices = m.facts().get<Devices>();
  std::vector<Stream> streams(trace.queues.size());
  for (ActivityId a = m.device().begin; a < m.device().end; ++a)
    if (trace.activity.kind[a.value] == ActivityKind::kKernel && devices.kind[a.value] == WorkKind::kCompute &&
        m.counted(1, m.in_measured_step(trace.launched_ns(a))))
      streams[trace.activity.queue[a.value]].push_back(a);
  return streams;
}

KernelCategory category_of(const Measured& m, ActivityId a) {
  return m.facts().get<Kernels>().category[m.trace().activity.name[a.value].value];
}

/// The kernels that a rule is about, among a device's compute kernels.
struct Chosen {
  explicit Chosen(const Measured& m) : trace(m.trace()), streams(streams_of(m)) {
    for (const Stream& stream : streams)
      for (const ActivityId a : stream) all_ns += trace.activity.duration_ns[a.value];
  }
  void take(ActivityId a) {
    kernels.push_back(a);
    ns += trace.activity.duration_ns[a.value];
  }
  [[nodiscard]] std::optional<double> pct() const { return only_if(all_ns > 0, percent_of(ns, all_ns)); }

  const Trace& trace;
  std::vector<Stream> streams;
  int64_t all_ns = 0, ns = 0;   // of all kernels, of the chosen ones
  std::vector<ActivityId> kernels;
};

// What the steps save if these kernels take so much less.
void price(const Measured& m, const Chosen& c, int64_t less_ns, Finding& f) {
  set_kernel_cost(m, c.kernels, c.ns, less_ns, f);
}


// Kernels that read and write each element once and compute little.
bool is_memory_bound(KernelCategory c) {
  return c == KernelCategory::kElementwise || c == KernelCategory::kNormalization ||
         c == KernelCategory::kReduction || c == KernelCategory::kCopy;
}

constexpr size_t kAttentionReach = 12;   // kernels between the softmax and a product of one attention

bool is_softmax(std::string_view name) {
  constexpr std::string_view kSoftmax[] = {"oftmax", "oftMax"};
  constexpr std::string_view kOthers[] = {"LogSoft", "log_softmax", "attn", "fmha", "flash", "topk"};
  return contains_any(name, kSoftmax) && !contains_any(name, kOthers);
}

bool is_batched_product(std::string_view op) {
  constexpr std::string_view kBatched[] = {"bmm", "matmul", "einsum", "attention"};
  return contains_any(op, kBatched);
}

// Whether it can be a product of attention: batched, if the op is known.
bool is_attention_product(const Measured& m, NameTest& is_batched, ActivityId a) {
  if (category_of(m, a) != KernelCategory::kGemm) return false;
  const HostId op = m.facts().get<Ops>().of_activity[a.value];
  if (!op.valid() || m.trace().host.kind[op.value] != HostKind::kOp) return true;
  return is_batched(m.trace().host.name[op.value]);
}

// Experts are chosen so, not weighted values.
bool routes(std::string_view op) {
  constexpr std::string_view kRoutes[] = {"topk", "cumsum", "one_hot", "scatter", "sort"};
  return contains_any(op, kRoutes);
}

/// Softmax between two products, and the memory-bound kernels around it.
struct UnfusedAttention {
  Chosen chosen;
  std::vector<ActivityId> products;   // that write the scores and read them again
};

UnfusedAttention unfused_attention(const Measured& m) {
  UnfusedAttention all{Chosen(m), {}};
  Chosen& c = all.chosen;
  NameTest softmax(c.trace, is_softmax), is_batched(c.trace, is_batched_product), is_routing(c.trace, routes);
  const auto chooses = [&](ActivityId a) {
    const HostId op = m.facts().get<Ops>().of_activity[a.value];
    return op.valid() && is_routing(c.trace.host.name[op.value]);
  };
  const auto joins = [&](ActivityId a) { return is_memory_bound(category_of(m, a)); };
  for (const Stream& stream : c.streams) {
    size_t done = 0;
    for (size_t i = 0; i < stream.size(); ++i) {
      if (!softmax(c.trace.activity.name[stream[i].value])) continue;
      size_t first = i, last = i;
      while (first > done && i - first < kAttentionReach && joins(stream[first - 1])) --first;
      while (last + 1 < stream.size() && last - i < kAttentionReach && joins(stream[last + 1])) ++last;
      if (first == 0 || last + 1 == stream.size() || !is_attention_product(m, is_batched, stream[first - 1]) ||
          !is_attention_product(m, is_batched, stream[last + 1]) ||
          std::ranges::any_of(std::span(stream).subspan(i, last - i + 1), chooses))
        continue;
      for (size_t k = first; k <= last; ++k) c.take(stream[k]);
      all.products.insert(all.products.end(), {stream[first - 1], stream[last + 1]});
      i = last, done = last + 1;
    }
  }
  return all;
}

// What products that memory limits take beyond their FLOPs at achievable rates: they move the scores.
int64_t traffic_ns(const Measured& m, const std::vector<ActivityId>& products) {
  const std::optional<DeviceLimits>& device = m.facts().get<Limits>().device;
  if (!device) return 0;
  const Trace& trace = m.trace();
  const DeviceWork& work = m.facts().get<DeviceWork>();
  const RunLimits& limits = m.facts().get<RunLimits>();
  double ns = 0;
  for (const ActivityId a : products) {
    const WorkRun* run = work.run(a);
    if (run == nullptr || limits.bound[work.run_of[a.value]] != Bound::kMemory) continue;
    const double rate = device->achievable_per_ns(run->work->precision);
    const double flops = limits.share_of_run(trace, work, a) * static_cast<double>(run->work->needed_flops());
    const auto took_ns = static_cast<double>(trace.activity.duration_ns[a.value]);
    if (rate > 0 && flops > 0) ns += std::max(0.0, took_ns - flops / rate);
  }
  return static_cast<int64_t>(ns);
}

// Compilers can't fuse the layout copies that a library makes within an op.
bool is_product(std::string_view op) {
  constexpr std::string_view kProducts[] = {"conv", "mm", "linear", "attention"};
  return contains_any(op, kProducts);
}

bool is_of_triton(std::string_view name) { return name.starts_with("triton_"); }

/// Whether one kernel may read what the one before it on its stream wrote, and how much of it.
class Following {
 public:
  explicit Following(const Measured& m)
      : trace_(m.trace()), ops_(m.facts().get<Ops>().of_activity), step_of_(m.facts().get<Steps>()) {}

  bool operator()(ActivityId before, ActivityId after) {
    if (step_of(before) != step_of(after)) return false;
    const HostId a = ops_[before.value], b = ops_[after.value];
    if (!a.valid() || !b.valid()) return true;
    // An operator again, such as casts of one weight after the other, works on other data.
    if (trace_.host.name[a.value] == trace_.host.name[b.value]) return false;
    const auto [least, most] = std::minmax({tensors(a).elements, tensors(b).elements});
    return least <= 0 || most % least == 0;   // else of shapes that don't broadcast
  }

  /// Bytes that the first writes and the second reads, both ways; 0: not known, or it reads no tensor of that size.
  double bytes_between(ActivityId before, ActivityId after) {
    const HostId a = ops_[before.value], b = ops_[after.value];
    if (!a.valid() || !b.valid()) return 0;
    const int64_t written = tensors(a).written_bytes;
    const bool reads_it = written > 0 && std::ranges::count(tensors(b).read_bytes, written) > 0;
    return reads_it ? 2 * static_cast<double>(written) : 0;
  }

 private:
  struct Tensors {
    int64_t elements = 0;                ///< of the largest input; 0: unknown
    int64_t written_bytes = 0;           ///< of the result; not positive: unknown
    std::vector<int64_t> read_bytes;     ///< of each input; likewise
  };

  const Step* step_of(ActivityId a) { return step_of_(trace_.launched_ns(a)); }

  const Tensors& tensors(HostId op) {
    const OpArgsId args = trace_.host.args[op.value];
    if (!args.valid()) return unknown_;
    const OpArgs& of_op = trace_.op_args[args.value];
    const auto [it, added] = tensors_.try_emplace({trace_.host.name[op.value], of_op.shapes, of_op.types});
    if (!added) return it->second;
    Tensors& t = it->second;
    const OpInputs inputs = op_inputs(trace_, op);
    Amount all_read = 0;
    for (size_t i = 0; i < inputs.at.size(); ++i) {
      t.elements = std::max(t.elements, elements_of(inputs[i]).or_unknown());
      t.read_bytes.push_back(bytes_of(inputs, i).or_unknown());
      all_read = all_read + bytes_of(inputs, i);
    }
    const bool copies = inputs.name == "aten::copy_";   // to its first input
    if (copies && !t.read_bytes.empty()) t.written_bytes = t.read_bytes.front();
    if (!copies) t.written_bytes = (Amount(op_work(inputs).bytes) - all_read).or_unknown();
    return t;
  }

  const Trace& trace_;
  const std::vector<HostId>& ops_;
  StepFinder step_of_;
  std::map<std::array<StringId, 3>, Tensors> tensors_;   // by operator, shapes and types
  const Tensors unknown_;
};

// A normalization over the whole batch: every element is read before any is written.
bool sums_over_batch(std::string_view kernel) {
  constexpr std::string_view kParts[] = {"collect_statistics", "bn_fw_tr", "bn_bw", "BatchNormFwdTrain", "BatchNormBwd",
                                         "batch_norm_reduce", "batch_norm_backward"};
  return contains_any(kernel, kParts);
}

struct Fusable {
  explicit Fusable(const Measured& m) : chosen(m) {}
  Chosen chosen;
  bool in_one_kernel = true;   // a chain needs no more, as far as the kinds of its kernels tell
  int64_t longest_ns = 0;   // of the longest kernel of each chain: a kernel for the whole chain moves as much
  int64_t between_ns = 0;   // at the memory's rate, for what each kernel leaves to the next; at most the others' time
};

Fusable fusable(const Measured& m) {
  const Trace& trace = m.trace();
  Fusable all(m);
  std::vector<bool> of_attention(trace.activity.size());
  for (const ActivityId a : unfused_attention(m).chosen.kernels) of_attention[a.value] = true;
  const std::vector<Phase>& phase = m.facts().get<Phases>().of_activity;   // the optimizer has a rule of its own
  const std::vector<HostId>& ops = m.facts().get<Ops>().of_activity;
  const std::optional<DeviceLimits>& limits = m.facts().get<Limits>().device;
  const double bytes_per_ns = limits ? limits->memory_gbps : 0;
  NameTest triton(trace, is_of_triton), product(trace, is_product), over_batch(trace, sums_over_batch);
  const auto fits = [&](ActivityId a) {
    return is_memory_bound(category_of(m, a)) && phase[a.value] != Phase::kOptimizer && !of_attention[a.value] &&
           !triton(trace.activity.name[a.value]) &&
           !(ops[a.value].valid() && product(trace.host.name[ops[a.value].value]));
  };
  Following follows(m);
  const auto take_chain = [&](std::span<const ActivityId> chain) {
    int64_t ns = 0, longest_ns = 0;
    double bytes = 0;
    int normalizations = 0;
    for (size_t k = 0; k < chain.size(); ++k) {
      all.chosen.take(chain[k]);
      normalizations += category_of(m, chain[k]) == KernelCategory::kNormalization;
      if (over_batch(trace.activity.name[chain[k].value])) all.in_one_kernel = false;
      ns += trace.activity.duration_ns[chain[k].value];
      longest_ns = std::max(longest_ns, trace.activity.duration_ns[chain[k].value]);
      if (k > 0) bytes += follows.bytes_between(chain[k - 1], chain[k]);
    }
    if (normalizations > 1) all.in_one_kernel = false;
    all.longest_ns += longest_ns;
    if (bytes_per_ns > 0)
      all.between_ns += static_cast<int64_t>(std::min(static_cast<double>(ns - longest_ns), bytes / bytes_per_ns));
  };
  for (const Stream& stream : all.chosen.streams) {
    for (size_t i = 0; i < stream.size();) {
      size_t end = i + 1;
      if (fits(stream[i]))
        while (end < stream.size() && fits(stream[end]) && follows(stream[end - 1], stream[end])) ++end;
      if (end - i > 1) take_chain(std::span(stream).subspan(i, end - i));
      i = end;
    }
  }
  return all;
}

std::optional<double> fusable_value(const Measured& m) {
  if (m.facts().get<Frameworks>().compiles()) return std::nullopt;
  return fusable(m).chosen.pct();
}

// "elementwise and reduction kernels and copies": those with a part of the time that is worth a word.
std::string kinds_text(const Measured& m, const Chosen& c) {
  constexpr std::pair<KernelCategory, std::string_view> kKinds[] = {
      {KernelCategory::kElementwise, "elementwise"},
      {KernelCategory::kNormalization, "normalization"},
      {KernelCategory::kReduction, "reduction"}};
  constexpr double kWorthAWordPct = 5;
  std::map<KernelCategory, int64_t> ns;
  for (const ActivityId a : c.kernels) ns[category_of(m, a)] += c.trace.activity.duration_ns[a.value];
  const auto counts = [&](KernelCategory kind) { return percent_of(ns[kind], c.ns) >= kWorthAWordPct; };
  std::vector<std::string_view> kinds;
  for (const auto& [kind, word] : kKinds)
    if (counts(kind)) kinds.push_back(word);
  std::string text;
  for (size_t i = 0; i < kinds.size(); ++i)
    text += (i == 0 ? "" : i + 1 == kinds.size() ? " and " : ", ") + std::string(kinds[i]);
  if (kinds.empty()) return "copies";
  return text + (counts(KernelCategory::kCopy) ? " kernels and copies" : " kernels");
}

void describe_fusable(const Measured& m, Finding& f) {
  const auto [c, in_one_kernel, longest_ns, between_ns] = fusable(m);
  const std::string kernels = format_count(static_cast<int64_t>(c.kernels.size()));
  f.what = fmt::format("{:.0f} % of kernel time is in chains of {}", *f.value, kinds_text(m, c));
  f.why = fmt::format("Each of these {} kernels reads its input from memory and writes its result back for the next. "
                      "{}",
                      kernels, in_one_kernel ? "A fused kernel keeps it in registers."
                                             : "Fused kernels read and write it less often.");
  const std::string most = in_one_kernel ? fmt::format("at most {}, if one kernel for each chain takes as long as the "
                                                       "longest of it",
                                                       per_step_text(m, c.ns - longest_ns))
                                         : "";
  f.evidence.push_back(fmt::format("{} in {} kernels", per_step_text(m, c.ns), kernels));
  if (between_ns > 0)
    f.evidence.push_back(fmt::format("fusing saves at least {}, what moves between them at the device's bandwidth{}{}",
                                     per_step_text(m, between_ns), most.empty() ? "" : ", and ", most));
  else if (!most.empty())
    f.evidence.push_back("fusing saves " + most);
  show_kernels(m, c.kernels, f);
  if (between_ns > 0) price(m, c, between_ns, f);
  demote_on_idle_device(m, f);
}

void describe_unfused_attention(const Measured& m, Finding& f) {
  const auto [c, products] = unfused_attention(m);
  const std::string time = per_step_text(m, c.ns);
  f.what = fmt::format("attention writes its scores to memory: {:.0f} % of kernel time", *f.value);
  f.why = fmt::format("Scaling, masking and softmax between the two GEMMs of attention take {}. A fused kernel "
                      "keeps the scores on the chip.",
                      time);
  f.evidence.push_back(fmt::format("{} kernels between batched GEMMs", c.kernels.size()));
  const int64_t moves_ns = traffic_ns(m, products);
  if (moves_ns > 0)
    f.evidence.push_back(fmt::format("the GEMMs take {} longer than their FLOPs need, to write and read the scores",
                                     per_step_text(m, moves_ns)));
  show_kernels(m, c.kernels, f);
  std::vector<ActivityId> all = c.kernels;
  all.insert(all.end(), products.begin(), products.end());
  const auto duration_ns = [&](ActivityId a) { return m.trace().activity.duration_ns[a.value]; };
  set_kernel_cost(m, all, sum_of(all, duration_ns), c.ns + moves_ns, f);
}

constexpr double kMinFreePct = 50;   // of the device's memory

/// Kernels with fewer blocks than the device has multiprocessors.
struct SmallGrids {
  int64_t all_ns = 0, ns = 0;   // of kernels whose grid is known, of the small ones
  std::vector<ActivityId> kernels;
};

SmallGrids small_grids(const Measured& m) {
  const Trace& trace = m.trace();
  const int32_t multiprocessors = trace.properties(m.device().id).multiprocessors;
  SmallGrids small;
  for (const Stream& stream : streams_of(m)) {
    for (const ActivityId a : stream) {
      const int64_t blocks = block_count(trace, a);
      if (blocks <= 0) continue;
      small.all_ns += trace.activity.duration_ns[a.value];
      if (blocks >= multiprocessors) continue;
      small.ns += trace.activity.duration_ns[a.value];
      small.kernels.push_back(a);
    }
  }
  return small;
}

std::optional<double> small_batch_value(const Measured& m) {
  const int32_t multiprocessors = m.trace().properties(m.device().id).multiprocessors;
  if (multiprocessors <= 0 || reserved_pct(m).value_or(100) >= 100 - kMinFreePct) return std::nullopt;
  const SmallGrids small = small_grids(m);
  return only_if(small.all_ns > 0, percent_of(small.ns, small.all_ns));
}

void describe_small_batch(const Measured& m, Finding& f) {
  f.what = fmt::format("kernels are too small to fill the GPU: {:.0f} % of compute time", *f.value);
  const DeviceWords& words = device_words(m);
  f.why = fmt::format("Their grids have fewer {} than {} has {} ({}), and {:.0f} % of its memory is free.", words.blocks,
                      m.device_label(), words.multiprocessors, m.trace().properties(m.device().id).multiprocessors,
                      100 - *reserved_pct(m));
  show_kernels(m, small_grids(m).kernels, f);
}

bool is_transpose(std::string_view name) {
  constexpr std::string_view kTransposes[] = {"nchwToNhwc", "nhwcToNchw", "batched_transpose", "transpose_readWrite",
                                              "ransposeKernel", "im2col", "convertTensor_kernel"};
  return contains_any(name, kTransposes);
}

// Copies that only change the layout: special kernels, and those launched by contiguous().
Chosen layout_copies(const Measured& m) {
  const Trace& trace = m.trace();
  Chosen c(m);
  const StringId contiguous = trace.strings.find("aten::contiguous");
  const auto is_contiguous = [&](ActivityId a) {
    if (category_of(m, a) != KernelCategory::kCopy && category_of(m, a) != KernelCategory::kElementwise) return false;
    if (!contiguous.valid()) return false;
    const HostId origin = m.facts().get<Captures>().origin(trace, a);
    return trace.enclosing(origin, [&](HostId at) { return trace.host.name[at.value] == contiguous; }).valid();
  };
  NameTest transpose(trace, is_transpose);
  for (const Stream& stream : c.streams)
    for (const ActivityId a : stream)
      if (transpose(trace.activity.name[a.value]) || is_contiguous(a)) c.take(a);
  return c;
}

// Those of a library's own file its users do not write: then nothing is said, unless it is `all` that is said.
std::string fewer_copies(const std::vector<Place>& where, bool all) {
  const std::string_view library = where.empty() ? std::string_view() : library_of(where.front().file);
  if (library.empty())
    return "fewer .contiguous() and permute(): write and keep tensors in the order in which they are read";
  if (library == "transformers" && contains(where.front().file, "sdpa_attention"))
    return "from_pretrained(…, attn_implementation=\"flash_attention_2\"): its kernels take the model's own order";
  return all ? fmt::format("{} of {} makes these copies: torch.compile fuses them, or another version has fewer",
                           where.front().name, library)
             : "";
}

void describe_layout_copies(const Measured& m, Finding& f) {
  const Chosen c = layout_copies(m);
  f.what = fmt::format("{:.1f} % of kernel time only changes tensor layouts", *f.value);
  f.why = fmt::format("{} kernels copy tensors into another order of dimensions.", c.kernels.size());
  if (std::ranges::any_of(c.kernels, [&](ActivityId a) { return is_transpose(m.trace().name(a)); }))
    f.fix = {is_amd(m.trace(), m.device().id)
                 ? "model = model.to(memory_format=torch.channels_last), and inputs as well, with "
                   "PYTORCH_MIOPEN_SUGGEST_NHWC=1 and PYTORCH_MIOPEN_SUGGEST_NHWC_BATCHNORM=1: without these variables "
                   "PyTorch hands MIOpen NCHW"
                 : "model = model.to(memory_format=torch.channels_last), and inputs as well: convolutions on tensor "
                   "cores need NHWC and otherwise transpose internally"};
  f.evidence.push_back(fmt::format("{} in {} kernels", per_step_text(m, c.ns), c.kernels.size()));
  show_kernels(m, c.kernels, f);
  if (std::string fix = fewer_copies(f.where, f.fix.empty()); !fix.empty()) f.fix.push_back(std::move(fix));
  price(m, c, c.ns, f);
}

/// The inner dimensions of a product with weights. Those of attention are sequence lengths.
struct Product {
  int64_t k = 0, n = 0;
};

std::optional<Product> product_of(const OpInputs& in) {
  const std::string_view name = in.name;
  const size_t first = name == "aten::mm" || name == "aten::_scaled_mm" ? 0 : name == "aten::addmm" ? 1 : SIZE_MAX;
  if (first == SIZE_MAX) return std::nullopt;
  if (in[first].shape.size() < 2 || in[first + 1].shape.size() < 2) return std::nullopt;
  return Product{in[first].shape.back(), in[first + 1].shape.back()};
}

/// Tensor-core products with sizes that are not multiples of what a load brings.
struct Misaligned {
  explicit Misaligned(const Measured& m) : chosen(m) {}
  Chosen chosen;
  HostId longest;           // op of the longest
  ActivityId kernel;        // the longest
  Product product;          // its sizes
  int64_t step = 0;         // its sizes should be multiples of this
  double padded = 1;        // times as many FLOPs as it has with such sizes
};

Misaligned misaligned_gemm(const Measured& m) {
  const Trace& trace = m.trace();
  const std::vector<HostId>& ops = m.facts().get<Ops>().of_activity;
  Misaligned all(m);
  int64_t longest_ns = 0;
  // Most matrix products of a trace have the same sizes.
  std::map<std::array<StringId, 3>, std::pair<int, std::optional<Product>>> known;
  const auto sizes_of = [&](HostId op) {
    const OpArgsId args = op.valid() ? trace.host.args[op.value] : OpArgsId();
    if (!args.valid()) return std::pair<int, std::optional<Product>>();
    const OpArgs& of_op = trace.op_args[args.value];
    const auto [it, added] = known.try_emplace({trace.host.name[op.value], of_op.shapes, of_op.types});
    if (added) {
      const OpInputs inputs = op_inputs(trace, op);
      const int bits = inputs[0].element_bits();
      it->second = {bits, bits == 16 || bits == 8 ? product_of(inputs) : std::nullopt};
    }
    return it->second;
  };
  for (const Stream& stream : all.chosen.streams) {
    for (const ActivityId a : stream) {
      if (category_of(m, a) != KernelCategory::kGemm) continue;
      const HostId op = ops[a.value];
      const auto [bits, p] = sizes_of(op);
      const int64_t step = bits == 8 ? 16 : 8;   // 16 bytes, the width of an aligned load
      if (!p || p->k <= 0 || p->n <= 1 || (p->k % step == 0 && p->n % step == 0)) continue;
      const auto padded = [&](int64_t size) {
        return static_cast<double>((size + step - 1) / step * step) / static_cast<double>(size);
      };
      const int64_t ns = trace.activity.duration_ns[a.value];
      all.chosen.take(a);
      if (ns <= longest_ns) continue;
      longest_ns = ns, all.step = step, all.longest = op, all.padded = padded(p->k) * padded(p->n);
      all.kernel = a, all.product = *p;
    }
  }
  return all;
}

constexpr int64_t kVocabulary = 8192;   // columns of the product to it, at least
constexpr double kMuchPadding = 0.1;    // of tiles
constexpr int64_t kWholeTiles = 1024;   // a multiple of every tile's side

// How fast the longest is, where its work and limit are known.
std::string misaligned_rate(const Measured& m, const Misaligned& all) {
  const DeviceWork& work = m.facts().get<DeviceWork>();
  const RunLimits& limits = m.facts().get<RunLimits>();
  const std::optional<double> part = limits.needed_part(work, all.kernel);
  if (!part || *part <= 0 || limits.bound[work.run_of[all.kernel.value]] != Bound::kCompute) return "";
  const OpWork& of = *work.run(all.kernel)->work;
  SlowOp op{.op = all.longest, .precision = of.precision, .kernel = all.kernel};
  op.ns = m.trace().activity.duration_ns[all.kernel.value];
  op.least_ns = *part * static_cast<double>(op.ns);
  op.flops = limits.share_of_run(m.trace(), work, all.kernel) * static_cast<double>(of.needed_flops());
  return rate_text(m, op) + "; ";
}

/// Of the tiles of the longest.
struct Padding {
  double part = 0;
  int64_t rows = 0;   ///< most of it is of these rows: the tokens of a batch, which no layer's size changes; else 0
};

Padding padding_of(const Measured& m, const Misaligned& all) {
  const WorkRun* const run = m.facts().get<DeviceWork>().run(all.kernel);
  if (run == nullptr) return {};
  ProductSizes product = run->work->product;
  const std::string_view kernel = m.trace().name(all.kernel);
  Padding padding{tile_padding(kernel, product), 0};
  if (padding.part < kMuchPadding) return {};
  const int64_t rows = product.m;
  product.n *= kWholeTiles;   // whole tiles that way
  if (2 * tile_padding(kernel, product) > padding.part) padding.rows = rows;
  return padding;
}

std::string padding_text(const Padding& padding) {
  if (padding.part <= 0) return "";
  const std::string of = padding.rows > 0 ? fmt::format(", most of it in its {} rows", padding.rows) : "";
  return fmt::format("; {} of its tiles is padding{}", format_percent(100 * padding.part, 0), of);
}

void describe_misaligned_gemm(const Measured& m, Finding& f) {
  const Trace& trace = m.trace();
  const Misaligned all = misaligned_gemm(m);
  f.what = fmt::format("GEMMs with sizes that aren't multiples of {} take {:.0f} % of kernel time", all.step, *f.value);
  const std::string_view cores = device_words(m).tensor_cores;
  f.why = fmt::format("{}{} load 16 bytes at a time and work on whole tiles: other sizes are padded or use slower "
                      "kernels.",
                      upper(cores.front()), cores.substr(1));
  const bool vocabulary = all.product.n >= kVocabulary;
  f.fix = {fmt::format("pad {}hidden and head sizes to a multiple of {}, better of 64: {}",
                       vocabulary ? "vocabulary, " : "", all.step,
                       vocabulary ? "model.resize_token_embeddings(…, pad_to_multiple_of=64)"
                                  : "other sizes of the layers, or torch.nn.functional.pad"),
           "torch.compile pads some sizes automatically (torch._inductor.config.shape_padding)"};
  const Padding padding = padding_of(m, all);
  if (padding.rows > 0)
    f.fix.emplace_back(fmt::format("choose batches whose token count fills the tiles: most of the padding is in the {} rows, "
                                   "which other layer sizes do not change",
                                   padding.rows));
  const OpArgs& args = trace.op_args[trace.host.args[all.longest.value].value];
  const std::string rate = misaligned_rate(m, all);
  f.evidence.push_back(fmt::format("longest: {} {}{}with padded sizes it has {} more FLOPs{}", trace.name(all.longest),
                                   shortened(list_on_one_line(trace.strings[args.shapes])),
                                   rate.empty() ? "; " : ": " + rate, format_percent(100 * (all.padded - 1)),
                                   padding_text(padding)));
  show_kernels(m, all.chosen.kernels, f);
  set_cost_at_limit(m, all.chosen.kernels, f);
  demote_on_idle_device(m, f);
}

}  // namespace

extern const Rule kFusableElementwise = {
    .id = "fusable-elementwise",
    .summary = "chains of elementwise kernels and copies are not fused",
    .unit = "%",
    .threshold = 25,
    .of_kernels = true,
    .meaning =
        "In eager mode each elementwise operation, copy, normalization and reduction is a kernel of its own that reads "
        "and writes memory. A compiler fuses neighbors, so that data is read and written once.",
    .computation =
        "Value: share of compute kernel time in elementwise, copy, normalization and reduction kernels next to another "
        "such kernel on their stream, in the same step, of another operator and of shapes that broadcast, if no "
        "compiler (torch.compile, XLA) and no graph is in use. Cost: replay of the trace without the time that the "
        "memory takes, at its peak rate, to write what each kernel leaves to the next and to read it again, as far as "
        "recorded shapes tell; a chain still takes as long as its longest kernel. No cost without shapes, or where the "
        "device isn't known.",
    .advice = {
        "model = torch.compile(model)   # fuses chains of elementwise operations and copies; mode=\"max-autotune\" for "
        "fixed shapes",
        "fused modules: Liger, Apex, xFormers, Transformer Engine (RMSNorm, SwiGLU, RoPE)",
        "fused=True in torch.optim",
        "keep one memory format and dtype, so that no copies and casts stand between operations",
        "write chains with in-place or out= operations where autograd allows it",
    },
    .by_framework = {
        {kVllm, "start without --enforce-eager: vLLM then compiles the model and fuses these kernels", kTorchCompile},
        {kSglang, "--enable-torch-compile fuses these kernels for small batches", kTorchCompile},
        {kTrainer, "TrainingArguments(torch_compile=True); use_liger_kernel=True for supported models", kTorchCompile},
        {kAccelerate, "Accelerator(dynamo_backend=\"inductor\")", kTorchCompile},
        {kLightning, "trainer.fit(torch.compile(module))", kTorchCompile},
        {kDiffusers, "pipe.transformer = torch.compile(pipe.transformer), or pipe.unet", kTorchCompile},
        {kMegatron, "don't use --no-masked-softmax-fusion, --no-bias-gelu-fusion and similar"},
    },
    .native_advice = {"fuse neighbors by hand: one kernel that reads and writes each value once"},
    .verdict_of = [](const Finding& f, const Job*) { return f.what + " that a compiler would fuse."; },
    .rank = {.value = fusable_value, .describe = describe_fusable},
};

extern const Rule kUnfusedAttention = {
    .id = "unfused-attention",
    .summary = "attention writes its scores to memory instead of using a fused kernel",
    .unit = "%",
    .threshold = 5,
    .of_kernels = true,
    .meaning =
        "Attention written as GEMM, softmax, GEMM stores a matrix of sequence length squared for each head and "
        "reads it several times. Fused attention never writes it.",
    .computation =
        "Value: share of compute kernel time in softmax kernels between two batched GEMMs on a stream, and in the "
        "elementwise kernels and copies among them. Cost: replay of the trace without these kernels, and where memory limits those GEMMs, with what "
        "they need for their FLOPs at achievable rates: the rest moves the scores.",
    .advice = {
        "torch.nn.functional.scaled_dot_product_attention(q, k, v, …): flash, memory-efficient and cuDNN backends",
        "flash-attn; on AMD, AITER or Composable Kernel's attention; FlexAttention for custom masks",
        "masks as is_causal=True or a boolean mask; output_attentions=False, which otherwise forbids fused kernels",
    },
    .by_framework = {
        {kVllm, "--attention-backend selects a fused backend: FLASH_ATTN, FLASHINFER, ROCM_AITER_FA"},
        {kSglang, "--attention-backend fa3, flashinfer, triton or aiter"},
        {kTransformers, "from_pretrained(…, attn_implementation=\"sdpa\"), or \"flash_attention_2\""},
        {kDiffusers, "pipe.transformer.set_attention_backend(\"flash\"), or AttnProcessor2_0"},
        {kMegatron, "--use-flash-attn, or --attention-backend flash"},
    },
    .verdict = "{} of kernel time goes into attention that writes its scores to memory.",
    .rank = {.value = [](const Measured& m) { return unfused_attention(m).chosen.pct(); },
             .describe = describe_unfused_attention},
};

extern const Rule kSmallBatch = {
    .id = "small-batch",
    .summary = "kernels are too small to fill the device, and memory is free",
    .unit = "%",
    .threshold = 50,
    .severity = Severity::kInfo,
    .meaning =
        "A grid with fewer blocks than the device has multiprocessors leaves some of them idle. With free memory, "
        "larger batches can use them at little extra time.",
    .computation =
        "Value: share of compute time in kernels whose grid has fewer blocks than the device has multiprocessors, if "
        "over half of the device's memory stays free. No cost: the trace does not show how long a larger batch takes.",
    .advice = {
        "larger batches or longer sequences: more work in about the same time",
        "larger micro-batches instead of gradient accumulation",
        "inference: continuous batching (vLLM, SGLang), or several model instances on one device",
        "share the device with other jobs (MPS, MIG)",
    },
    .by_framework = {
        {kVllm, "raise --max-num-seqs and --max-num-batched-tokens; send more requests at once"},
        {kSglang, "raise --max-running-requests; send more requests at once"},
        {kTrainer, "TrainingArguments(per_device_train_batch_size=…, auto_find_batch_size=True)"},
        {kDeepSpeed, "a larger train_micro_batch_size_per_gpu"},
        {kMegatron, "a larger --micro-batch-size"},
    },
    .rank = {.value = small_batch_value, .describe = describe_small_batch},
};

extern const Rule kLayoutCopies = {
    .id = "layout-copies",
    .summary = "kernels only change tensor layouts",
    .unit = "%",
    .threshold = 3,
    .severity = Severity::kInfo,
    .severe = 10,
    .of_kernels = true,
    .meaning =
        "Transposes between NCHW and NHWC and calls of contiguous() move every element and compute nothing. They "
        "appear where one part of a program writes in another order than the next one reads.",
    .computation =
        "Value: share of compute kernel time in transposing kernels (nchwToNhwc, batched_transpose …) and in copies "
        "launched from aten::contiguous. Cost: replay of the trace with them taking no time; at most their time.",
    .advice = {
        "channels_last for models and inputs with convolutions, throughout",
        "reshape instead of view(…).contiguous(); einsum or SDPA's layouts instead of permute and contiguous",
        "torch.compile: layout changes are fused into the kernels that write or read the tensor",
    },
    .rank = {.value = [](const Measured& m) { return layout_copies(m).pct(); }, .describe = describe_layout_copies},
};

extern const Rule kMisalignedGemm = {
    .id = "misaligned-gemm",
    .summary = "sizes of GEMMs don't suit tensor cores",
    .unit = "%",
    .threshold = 5,
    .of_kernels = true,
    .meaning =
        "Tensor cores load 16 bytes at a time, 8 elements of 16 bits. GEMMs of other sizes are padded or fall back "
        "to kernels that load element by element, up to several times slower.",
    .computation =
        "Value: share of compute kernel time in 16- and 8-bit GEMMs with weights (mm, addmm, _scaled_mm) whose "
        "inner dimensions, as recorded, are not multiples of 8 (16 for 8 bits). Needs record_shapes=True. Cost: replay of "
        "the trace with these kernels at 90 % of their limit, or of what GEMMs reach at most where the vendor "
        "publishes that, times the part of the device that their grids fill; none where the device isn't known.",
    .advice = {
        "vocabulary: pad_to_multiple_of=64; hidden and feed-forward sizes as multiples of 64 or 128",
        "last layer: add a few unused classes and drop them after the GEMM",
        "FP8: multiples of 16 in all dimensions, as _scaled_mm requires",
    },
    .by_framework = {
        {kVllm, "choose a --tensor-parallel-size that leaves each GPU multiples of 64; else pad the checkpoint"},
        {kSglang, "choose a --tp-size that leaves each GPU multiples of 64; else pad the checkpoint"},
    },
    .rank = {.value = [](const Measured& m) { return misaligned_gemm(m).chosen.pct(); },
             .describe = describe_misaligned_gemm},
};

std::vector<bool> find_named_kernels(const Measured& measured) {
  std::vector<bool> named(measured.trace().activity.size());
  const auto take = [&](const Rule& rule, const std::vector<ActivityId>& kernels, std::optional<double> value) {
    if (value.value_or(0) <= measured.threshold(rule)) return;
    for (const ActivityId a : kernels) named[a.value] = true;
  };
  const UnfusedAttention attention = unfused_attention(measured);
  const Chosen copies = layout_copies(measured);
  take(kUnfusedAttention, attention.chosen.kernels, attention.chosen.pct());
  take(kUnfusedAttention, attention.products, attention.chosen.pct());
  take(kLayoutCopies, copies.kernels, copies.pct());
  const Chosen misaligned = misaligned_gemm(measured).chosen;
  take(kMisalignedGemm, misaligned.kernels, misaligned.pct());
  take(kFusableElementwise, fusable(measured).chosen.kernels, fusable_value(measured));
  take(kSmallBatch, small_grids(measured).kernels, small_batch_value(measured));
  name_full_precision_kernels(measured, named);
  name_unfused_optimizer(measured, named);
  return named;
}

}  // namespace profgpu
