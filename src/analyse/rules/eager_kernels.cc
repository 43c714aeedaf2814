// What eager mode leaves to the device: neighbours that could be one kernel, attention written out, small grids, copies
// to other layouts, sizes that tensor cores do not divide.
#include <fmt/format.h>

#include <algorithm>

#include "analyse/rank/captures.h"
#include "analyse/rank/frameworks.h"
#include "analyse/rank/kernels.h"
#include "analyse/rank/op_shapes.h"
#include "analyse/rank/ops.h"
#include "analyse/rank/places.h"
#include "analyse/rules/measure.h"

namespace profgpu {
namespace {

bool holds(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

/// Compute kernels of one stream in measured steps, in order.
using Stream = std::vector<ActivityId>;

std::vector<Stream> streams_of(const Measured& m) {
  const Trace& trace = m.trace();
  const Devices& devices = m.facts().get<Devices>();
  std::vector<Stream> streams(trace.queues.size());
  for (uint32_t i = m.device().begin.value; i < m.device().end.value; ++i) {
    const HostId launch = trace.activity.launch[i];
    const int64_t time = launch.valid() ? trace.host.start_ns[launch.value] : trace.activity.start_ns[i];
    if (trace.activity.kind[i] == ActivityKind::kKernel && devices.kind[i] == WorkKind::kCompute &&
        m.counted(1, m.in_measured_step(time)))
      streams[trace.activity.queue[i]].emplace_back(i);
  }
  return streams;
}

KernelCategory category_of(const Measured& m, ActivityId a) {
  return m.facts().get<Kernels>().category[m.trace().activity.name[a.value].value];
}

/// Kernels that a rule is about.
struct Chosen {
  int64_t all_ns = 0;      // of all compute kernels
  int64_t ns = 0, count = 0;
  std::vector<ActivityId> kernels;

  void take(const Trace& trace, ActivityId a) {
    kernels.push_back(a);
    ns += trace.activity.duration_ns[a.value];
    ++count;
  }
  [[nodiscard]] double pct() const { return percent_of(ns, all_ns); }
};

Chosen none_chosen(const Trace& trace, const std::vector<Stream>& streams) {
  Chosen c;
  for (const Stream& stream : streams)
    for (const ActivityId a : stream) c.all_ns += trace.activity.duration_ns[a.value];
  return c;
}

std::vector<Place> launch_places(const Measured& m, const Chosen& c) {
  Places places(m.facts());
  for (const ActivityId a : c.kernels) places.add(a);
  return places.most_expensive();
}

std::string a_step(const Measured& m, int64_t ns) {
  const std::string text = duration_text(static_cast<double>(ns) / static_cast<double>(std::max<int64_t>(m.steps(), 1)));
  return m.facts().get<Steps>().marked() ? text + " a step" : text;
}

constexpr double kWorksPct = 50;

// Reads and writes its tensors once and computes little.
bool is_memory_bound(KernelCategory c) {
  return c == KernelCategory::kElementwise || c == KernelCategory::kNormalization ||
         c == KernelCategory::kReduction || c == KernelCategory::kCopy;
}

constexpr size_t kAttentionReach = 12;   // kernels between the products of one attention

bool is_softmax(std::string_view name) {
  return (holds(name, "oftmax") || holds(name, "oftMax")) && !holds(name, "LogSoft") && !holds(name, "log_softmax") &&
         !holds(name, "attn") && !holds(name, "fmha") && !holds(name, "flash") && !holds(name, "topk");
}

// A product of one attention: batched where the op is known.
bool is_attention_product(const Measured& m, ActivityId a) {
  if (category_of(m, a) != KernelCategory::kGemm) return false;
  const HostId op = m.facts().get<Ops>().of_activity[a.value];
  if (!op.valid() || m.trace().host.kind[op.value] != HostKind::kOp) return true;
  const std::string_view name = m.trace().name(op);
  return holds(name, "bmm") || holds(name, "matmul") || holds(name, "einsum") || holds(name, "attention");
}

// Softmax between two products, and what stands between them.
Chosen unfused_attention(const Measured& m) {
  const Trace& trace = m.trace();
  const std::vector<Stream> streams = streams_of(m);
  Chosen c = none_chosen(trace, streams);
  for (const Stream& stream : streams) {
    size_t done = 0;
    for (size_t i = 0; i < stream.size(); ++i) {
      if (!is_softmax(trace.name(stream[i]))) continue;
      size_t first = i, last = i;
      while (first > done && i - first < kAttentionReach && is_memory_bound(category_of(m, stream[first - 1]))) --first;
      while (last + 1 < stream.size() && last - i < kAttentionReach && is_memory_bound(category_of(m, stream[last + 1])))
        ++last;
      if (first == 0 || last + 1 == stream.size() || !is_attention_product(m, stream[first - 1]) ||
          !is_attention_product(m, stream[last + 1]))
        continue;
      for (size_t k = first; k <= last; ++k) c.take(trace, stream[k]);
      i = last, done = last + 1;
    }
  }
  return c;
}

// Copies to another layout that a library makes for itself are no compiler's to fuse.
bool is_within_product(const Measured& m, ActivityId a) {
  const HostId op = m.facts().get<Ops>().of_activity[a.value];
  if (!op.valid()) return false;
  const std::string_view name = m.trace().name(op);
  return holds(name, "conv") || holds(name, "mm") || holds(name, "linear") || holds(name, "attention");
}

Chosen fusable(const Measured& m) {
  const Trace& trace = m.trace();
  const std::vector<Stream> streams = streams_of(m);
  Chosen c = none_chosen(trace, streams);
  std::vector<bool> of_attention(trace.activity.size());
  for (const ActivityId a : unfused_attention(m).kernels) of_attention[a.value] = true;
  const std::vector<Phase>& phase = m.facts().get<Phases>().of_activity;   // the optimizer has a rule of its own
  const auto fits = [&](ActivityId a) {
    return is_memory_bound(category_of(m, a)) && phase[a.value] != Phase::kOptimizer && !of_attention[a.value] &&
           !trace.name(a).starts_with("triton_") && !is_within_product(m, a);
  };
  for (const Stream& stream : streams)
    for (size_t i = 0; i < stream.size(); ++i)
      if (fits(stream[i]) && ((i > 0 && fits(stream[i - 1])) || (i + 1 < stream.size() && fits(stream[i + 1]))))
        c.take(trace, stream[i]);
  return c;
}

std::optional<double> fusable_value(const Measured& m) {
  const Frameworks& with = m.facts().get<Frameworks>();
  if (with.has(Framework::kTorchCompile) || with.has(Framework::kCudaGraphs)) return std::nullopt;
  const Chosen c = fusable(m);
  return only_if(c.all_ns > 0, c.pct());
}

void say_fusable(const Measured& m, Finding& f) {
  const Chosen c = fusable(m);
  f.what = fmt::format("{:.0f} % of kernel time is elementwise work and copies that follow each other", *f.value);
  f.why = fmt::format("Each of these {} kernels reads its input from memory and writes its result back for the next one. "
                      "Fused, neighbours keep it in registers.",
                      c.count);
  f.fix = {"model = torch.compile(model)   # fuses chains of elementwise operations and copies into one kernel",
           "fused modules where there are some: Liger, Apex, xFormers; kernels for RMSNorm, SwiGLU and RoPE"};
  f.evidence.push_back(fmt::format("{} in {} kernels; how much of it is left depends on what can be fused",
                                   a_step(m, c.ns), c.count));
  f.where = launch_places(m, c);
  // What the device does matters less where it mostly waits.
  if (m.known_utilization_pct() < kWorksPct) f.severity = Severity::kInfo;
}

std::optional<double> unfused_attention_value(const Measured& m) {
  const Chosen c = unfused_attention(m);
  return only_if(c.all_ns > 0, c.pct());
}

void say_unfused_attention(const Measured& m, Finding& f) {
  const Chosen c = unfused_attention(m);
  f.what = fmt::format("attention writes its scores to memory: {:.0f} % of kernel time", *f.value);
  f.why = fmt::format("Between the two products of each attention, scaling, masking and softmax take {}. A fused kernel "
                      "keeps the scores on the chip.",
                      a_step(m, c.ns));
  f.fix = {"torch.nn.functional.scaled_dot_product_attention(q, k, v, …)",
           "Hugging Face: from_pretrained(…, attn_implementation=\"sdpa\") or \"flash_attention_2\""};
  const bool amd = m.device().name.find("MI") != std::string::npos || m.device().name.find("AMD") != std::string::npos;
  if (amd) f.fix.emplace_back("AITER's attention kernels (ROCm)");
  f.evidence.push_back(fmt::format("{} kernels between batched products; at most their {} is to be gained", c.count,
                                   a_step(m, c.ns)));
  f.where = launch_places(m, c);
}

constexpr double kFreePct = 50;   // of the device's memory

// Kernels with fewer blocks than the device has multiprocessors.
std::optional<double> small_batch_value(const Measured& m) {
  const Trace& trace = m.trace();
  const int32_t multiprocessors = trace.properties(m.device().id).multiprocessors;
  if (multiprocessors <= 0 || reserved_pct(m).value_or(100) >= 100 - kFreePct) return std::nullopt;
  int64_t all_ns = 0, small_ns = 0;
  for (const Stream& stream : streams_of(m)) {
    for (const ActivityId a : stream) {
      const ActivityArgsId id = trace.activity.args[a.value];
      if (!id.valid()) continue;
      const ActivityArgs& args = trace.activity_args[id.value];
      const int64_t blocks = int64_t{args.grid[0]} * args.grid[1] * args.grid[2];
      if (blocks <= 0) continue;
      all_ns += trace.activity.duration_ns[a.value];
      if (blocks < multiprocessors) small_ns += trace.activity.duration_ns[a.value];
    }
  }
  return only_if(all_ns > 0, percent_of(small_ns, all_ns));
}

void say_small_batch(const Measured& m, Finding& f) {
  f.what = fmt::format("kernels are too small to fill the GPU: {:.0f} % of compute time", *f.value);
  f.why = fmt::format("Their grids have fewer blocks than {} has multiprocessors ({}), and {:.0f} % of its memory is free.",
                      m.device_label(), m.trace().properties(m.device().id).multiprocessors, 100 - *reserved_pct(m));
  f.fix = {"a larger batch or longer sequences: the same kernels then do more work in about the same time",
           "inference: batch requests; several streams or processes on one GPU (MPS, MIG) where latency forbids it"};
}

bool is_transpose(std::string_view name) {
  return holds(name, "nchwToNhwc") || holds(name, "nhwcToNchw") || holds(name, "batched_transpose") ||
         holds(name, "transpose_readWrite") || holds(name, "ransposeKernel") || holds(name, "im2col") ||
         holds(name, "convertTensor_kernel");
}

// Copies that only change where elements lie: kernels that are made for it, and what contiguous() launches.
Chosen layout_copies(const Measured& m) {
  const Trace& trace = m.trace();
  const std::vector<Stream> streams = streams_of(m);
  Chosen c = none_chosen(trace, streams);
  const auto is_contiguous = [&](ActivityId a) {
    if (category_of(m, a) != KernelCategory::kCopy && category_of(m, a) != KernelCategory::kElementwise) return false;
    for (HostId at = m.facts().get<Captures>().origin(trace, a); at.valid(); at = trace.host.parent[at.value])
      if (trace.name(at) == "aten::contiguous") return true;
    return false;
  };
  for (const Stream& stream : streams)
    for (const ActivityId a : stream)
      if (is_transpose(trace.name(a)) || is_contiguous(a)) c.take(trace, a);
  return c;
}

std::optional<double> layout_copies_value(const Measured& m) {
  const Chosen c = layout_copies(m);
  return only_if(c.all_ns > 0, c.pct());
}

void say_layout_copies(const Measured& m, Finding& f) {
  const Chosen c = layout_copies(m);
  const bool of_library = std::ranges::any_of(c.kernels, [&](ActivityId a) { return is_transpose(m.trace().name(a)); });
  f.what = fmt::format("{:.1f} % of kernel time only changes the layout of tensors", *f.value);
  f.why = fmt::format("{} kernels copy what is there already into another order of dimensions.", c.count);
  if (of_library)
    f.fix = {"model = model.to(memory_format=torch.channels_last), and inputs as well: convolutions on tensor cores want "
             "NHWC and else transpose for themselves"};
  f.fix.emplace_back("fewer .contiguous() and permute(): write and keep tensors in the order in which they are read");
  f.evidence.push_back(fmt::format("{} in {} kernels", a_step(m, c.ns), c.count));
  f.where = launch_places(m, c);
  Removal removal;
  removal.activity.resize(m.trace().activity.size());
  for (const ActivityId a : c.kernels) removal.activity[a.value] = true;
  set_cost(f, m.wall_ns(), std::min(c.ns, m.replay().saved_by(removal)));
}

/// The inner dimensions of a product of weights. Those of attention are as long as sequences are.
struct Product {
  int64_t k = 0, n = 0;
};

std::optional<Product> product_of(const Trace& trace, HostId op) {
  const std::string_view name = op.valid() ? trace.name(op) : "";
  const size_t first = name == "aten::mm" || name == "aten::_scaled_mm" ? 0 : name == "aten::addmm" ? 1 : SIZE_MAX;
  if (first == SIZE_MAX) return std::nullopt;
  const OpShapes shapes = op_shapes(trace, op);
  if (shapes.size() < first + 2 || shapes[first].size() < 2 || shapes[first + 1].size() < 2) return std::nullopt;
  return Product{shapes[first].back(), shapes[first + 1].back()};
}

/// Tensor-core products whose sizes their instructions do not divide.
struct Misaligned {
  Chosen chosen;
  int64_t padding_ns = 0;   // of their time, what goes into padding at least
  std::string example;      // of the longest
  int64_t step = 0;         // what that should be a multiple of
};

Misaligned misaligned_gemm(const Measured& m) {
  const Trace& trace = m.trace();
  const std::vector<Stream> streams = streams_of(m);
  const std::vector<HostId>& ops = m.facts().get<Ops>().of_activity;
  Misaligned all;
  all.chosen = none_chosen(trace, streams);
  int64_t longest = 0;
  for (const Stream& stream : streams) {
    for (const ActivityId a : stream) {
      if (category_of(m, a) != KernelCategory::kGemm) continue;
      const int bits = element_bits(trace, ops[a.value]);
      const std::optional<Product> p = bits == 16 || bits == 8 ? product_of(trace, ops[a.value]) : std::nullopt;
      const int64_t step = bits == 8 ? 16 : 8;   // 16 bytes, the width of an aligned load
      if (!p || p->k <= 0 || p->n <= 1 || (p->k % step == 0 && p->n % step == 0)) continue;
      const auto padded = [&](int64_t size) { return static_cast<double>((size + step - 1) / step * step); };
      const int64_t ns = trace.activity.duration_ns[a.value];
      const double used = static_cast<double>(p->k) / padded(p->k) * (static_cast<double>(p->n) / padded(p->n));
      all.chosen.take(trace, a);
      all.padding_ns += static_cast<int64_t>(static_cast<double>(ns) * (1 - used));
      if (ns <= longest) continue;
      longest = ns, all.step = step;
      all.example = fmt::format("{} {}", trace.name(ops[a.value]),
                                shortened(trace.strings[trace.op_args[trace.host.args[ops[a.value].value].value].shapes]));
    }
  }
  return all;
}

std::optional<double> misaligned_gemm_value(const Measured& m) {
  const Misaligned all = misaligned_gemm(m);
  return only_if(all.chosen.all_ns > 0, all.chosen.pct());
}

void say_misaligned_gemm(const Measured& m, Finding& f) {
  const Misaligned all = misaligned_gemm(m);
  f.what = fmt::format("products of sizes that are no multiple of {} take {:.0f} % of kernel time", all.step, *f.value);
  f.why = "Tensor cores load 16 bytes at a time and work on whole tiles: other sizes are padded, or take slower kernels.";
  f.fix = {fmt::format("pad vocabulary, hidden and head sizes to a multiple of {}, better of 64: "
                       "model.resize_token_embeddings(…, pad_to_multiple_of=64)", all.step),
           "torch.compile pads some of them by itself (torch._inductor.config.shape_padding)"};
  f.evidence.push_back(fmt::format("longest: {}; padding alone takes {}", all.example, a_step(m, all.padding_ns)));
  f.where = launch_places(m, all.chosen);
  if (m.known_utilization_pct() < kWorksPct) f.severity = Severity::kInfo;
}

}  // namespace

extern const Rule kFusableElementwise = {
    .id = "fusable-elementwise",
    .summary = "elementwise kernels and copies follow each other instead of being one",
    .unit = "%",
    .threshold = 25,
    .of_kernels = true,
    .meaning =
        "In eager mode each elementwise operation, copy, normalization and reduction is a kernel of its own, which reads "
        "and writes memory. A compiler fuses neighbours, so that data is read and written once.",
    .computation =
        "Value: share of compute kernel time in elementwise, copy, normalization and reduction kernels that have such a "
        "neighbour on their stream, where neither torch.compile nor a graph is in use. No cost: what a fused kernel "
        "takes is not in the trace.",
    .advice =
        {
            "torch.compile(model); for fixed shapes mode=\"max-autotune\"",
            "fused modules: Liger kernels, Apex, xFormers, Transformer Engine; fused=True in torch.optim",
            "keep one memory format and dtype, so that no copies and casts stand between operations",
            "write chains with in-place or out= operations where autograd allows it",
        },
    .by_framework =
        {
            {Framework::kTrainer, "TrainingArguments(torch_compile=True); use_liger_kernel=True for the models it "
             "knows", Framework::kTorchCompile},
            {Framework::kMegatron, "leave --no-masked-softmax-fusion, --no-bias-gelu-fusion and their like out"},
        },
    .rank = {.value = fusable_value, .say = say_fusable},
};

extern const Rule kUnfusedAttention = {
    .id = "unfused-attention",
    .summary = "attention's scores go through memory instead of a fused kernel",
    .unit = "%",
    .threshold = 5,
    .of_kernels = true,
    .meaning =
        "Attention written as product, softmax, product stores a matrix of sequence length squared for each head and "
        "reads it again several times. Fused attention never writes it.",
    .computation =
        "Value: share of compute kernel time in softmax kernels that stand between two batched products on a stream, and "
        "in the elementwise kernels and copies among them. No cost: that time is the most there is to gain.",
    .advice =
        {
            "torch.nn.functional.scaled_dot_product_attention: flash, memory-efficient and cuDNN back ends",
            "Hugging Face Transformers: attn_implementation=\"sdpa\" or \"flash_attention_2\"",
            "flash-attn; AITER or Composable Kernel's attention on AMD; FlexAttention for own masks",
            "masks as is_causal=True or a boolean mask; output_attentions=False, which else forbids fused kernels",
        },
    .by_framework =
        {
            {Framework::kVllm, "VLLM_ATTENTION_BACKEND chooses a fused backend: FLASH_ATTN, FLASHINFER, ROCM_AITER_FA"},
            {Framework::kSglang, "--attention-backend fa3, flashinfer, triton or aiter"},
            {Framework::kTransformers, "from_pretrained(…, attn_implementation=\"sdpa\"), or \"flash_attention_2\""},
            {Framework::kDiffusers, "pipe.transformer.set_attention_backend(\"flash\"), or AttnProcessor2_0"},
            {Framework::kMegatron, "--use-flash-attn, or --attention-backend flash"},
        },
    .rank = {.value = unfused_attention_value, .say = say_unfused_attention},
};

extern const Rule kSmallBatch = {
    .id = "small-batch",
    .summary = "kernels are too small to fill the device, and memory is free",
    .unit = "%",
    .threshold = 50,
    .severity = Severity::kInfo,
    .meaning =
        "A grid with fewer blocks than the device has multiprocessors leaves some of them without work. Where memory is "
        "free, larger batches use them at little more time.",
    .computation =
        "Value: share of compute time in kernels whose grid has fewer blocks than the device has multiprocessors, where "
        "over half of the device's memory stays free. No cost: what a larger batch takes is not in the trace.",
    .advice =
        {
            "larger batch size or sequence length; larger micro-batches instead of gradient accumulation",
            "inference: continuous batching (vLLM, SGLang), or several model instances on one device",
            "MPS or MIG to share the device with other jobs",
        },
    .by_framework =
        {
            {Framework::kVllm, "raise --max-num-seqs and --max-num-batched-tokens; send more requests at once"},
            {Framework::kSglang, "raise --max-running-requests; send more requests at once"},
            {Framework::kTrainer, "TrainingArguments(per_device_train_batch_size=…, auto_find_batch_size=True)"},
            {Framework::kDeepSpeed, "a larger train_micro_batch_size_per_gpu"},
            {Framework::kMegatron, "a larger --micro-batch-size"},
        },
    .rank = {.value = small_batch_value, .say = say_small_batch},
};

extern const Rule kLayoutCopies = {
    .id = "layout-copies",
    .summary = "kernels only change the layout of tensors",
    .unit = "%",
    .threshold = 3,
    .severity = Severity::kInfo,
    .grave = 10,
    .of_kernels = true,
    .meaning =
        "Transposes between NCHW and NHWC and calls of contiguous() move each element and compute nothing. They stand "
        "where one part of a program writes in another order than the next one reads.",
    .computation =
        "Value: share of compute kernel time in transposing kernels (nchwToNhwc, batched_transpose …) and in copies "
        "launched from aten::contiguous. Cost: the trace is replayed with them taking no time; at most their time.",
    .advice =
        {
            "channels_last for models and inputs with convolutions, throughout",
            "reshape instead of view(…).contiguous(); einsum or SDPA's layouts instead of permute and contiguous",
            "torch.compile: layout changes are fused into what writes or reads the tensor",
        },
    .rank = {.value = layout_copies_value, .say = say_layout_copies},
};

extern const Rule kMisalignedGemm = {
    .id = "misaligned-gemm",
    .summary = "sizes of matrix products do not fit tensor cores",
    .unit = "%",
    .threshold = 5,
    .of_kernels = true,
    .meaning =
        "Tensor cores are fed in pieces of 16 bytes, 8 elements of 16 bits. Products with other sizes are padded or "
        "fall back to kernels that load element by element, up to several times slower.",
    .computation =
        "Value: share of compute kernel time in 16- and 8-bit products of weights (mm, addmm, _scaled_mm) whose "
        "inner dimensions, as recorded, are no multiple of 8 (16 for 8 bits). Needs record_shapes=True. No cost: how "
        "fast the padded product is is not in the trace.",
    .advice =
        {
            "vocabulary: pad_to_multiple_of=64; hidden and feed-forward sizes as multiples of 64 or 128",
            "classes of a last layer: a few unused ones more, cut off after the product",
            "FP8: multiples of 16 in all dimensions, which _scaled_mm asks for anyway",
        },
    .rank = {.value = misaligned_gemm_value, .say = say_misaligned_gemm},
};

}  // namespace profgpu
