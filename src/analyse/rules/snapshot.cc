// Rules of memory snapshots.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <ranges>

#include "analyse/rank/memory.h"
#include "analyse/rank/snapshot.h"
#include "analyse/report/quantity.h"
#include "analyse/rules/measure.h"
#include "base/text.h"

namespace profgpu {
namespace {

const SnapshotSection* snapshot_of(const Measured& m) {
  const auto& section = m.facts().get<Snapshot>().section;
  return section ? &*section : nullptr;
}

std::string bytes_words(int64_t bytes) { return format_bytes(static_cast<double>(bytes)); }

double peak_share_pct(const SnapshotSection& s, int64_t bytes) { return percent_of(bytes, s.peak_allocated_bytes); }

// Which device the section's peak is of, if there are several.
std::string focus_words(const SnapshotSection& s) { return s.peak.device ? on_device(s, *s.peak.device) : ""; }

// How often allocations failed is not the question: one ends the job.
std::optional<double> oom_value(const Measured& m) {
  const SnapshotSection* s = snapshot_of(m);
  return s != nullptr && s->oom ? std::optional(static_cast<double>(s->oom->requested_bytes) / (1 << 30))
                                : std::nullopt;
}

std::string oom_cause_words(const OutOfMemory& oom) {
  const std::string free = bytes_words(oom.device_free_bytes);
  const std::string unused = bytes_words(oom.usable_bytes.value_or(oom.unused_bytes.value_or(0)));
  switch (oom.cause) {
    case OomCause::kFragmentation:
      return fmt::format(
          "The device had {} free and the allocator {} unused, enough together, but in pieces: fragmentation.", free,
          unused);
    case OomCause::kNeed:
      if (oom.fits_in_pieces())
        return fmt::format(
            "The device had {} free and the allocator {} unused. That would have been enough, but it is only {} of the "
            "{} reserved: the program needs nearly all there is.",
            free, unused, format_percent(percent_of(oom.usable_bytes.value_or(*oom.unused_bytes), *oom.reserved_bytes)),
            bytes_words(*oom.reserved_bytes));
      return fmt::format("The device had {} free and the allocator {} unused: the program needs more than there is.",
                         free, unused);
    case OomCause::kLimit:
      return fmt::format("The device had {} free, enough for it: a limit of the process refused it.", free);
    case OomCause::kOutside:
      return fmt::format(
          "{} of the device's {} are held outside this process's PyTorch: other processes, the context, NCCL. PyTorch "
          "had reserved {}, and {} were free.",
          bytes_words(*oom.outside_bytes), bytes_words(*oom.outside_bytes + *oom.reachable_bytes()),
          bytes_words(*oom.reserved_bytes), free);
    case OomCause::kRequest:
      return fmt::format("This request alone is more than the process could have: {} reserved and {} free.",
                         bytes_words(*oom.reserved_bytes), free);
    case OomCause::kGrowth:
      return fmt::format("Memory grows from step to step: {} of the {} that the process could have are kept of earlier "
                         "steps, and without that this request would have been served.",
                         bytes_words(oom.grown_bytes.value_or(0)), bytes_words(*oom.reachable_bytes()));
    case OomCause::kUnknown:
      break;
  }
  return fmt::format("The device had {} free. The allocator's reserved memory at that time is unknown.", free);
}

constexpr std::string_view kExpandable = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True";

// Of the device that ran out of memory; null: none grows.
const GrowingLine* growing_on(const SnapshotSection& s, int32_t device) {
  return first_where(s.growth, [&](const GrowingLine& g) { return !g.device || *g.device == device; });
}

std::vector<std::string> growth_fixes(const SnapshotSection& s, const OutOfMemory& oom) {
  const GrowingLine* const line = growing_on(s, oom.device);
  if (line == nullptr) return {};
  if (line->cause == "retained_graph")
    return {fmt::format("keep no graph of what {} makes: .item() or .detach() what is kept of a step, and "
                        "torch.no_grad() where nothing is trained",
                        line->place())};
  if (line->cause == "reference_cycle")
    return {fmt::format("break the reference cycle around what {} makes, or call gc.collect() after the step",
                        line->place())};
  return {fmt::format("free what {} makes once its step is over: del it, or clear the list or cache that keeps it",
                      line->place()),
          "keep numbers or copies on the host: x.item(), x.detach().cpu()"};
}

std::vector<std::string> oom_fixes(const SnapshotSection& s, const OutOfMemory& oom) {
  const std::vector<std::string> less = {
      "activation checkpointing: torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)",
      "smaller micro-batch with gradient accumulation; bf16; ZeRO or FSDP sharding"};
  std::vector<std::string> fixes;
  if (oom.cause == OomCause::kOutside)
    return {"nvidia-smi shows what holds the device: end it, or take another device (CUDA_VISIBLE_DEVICES)"};
  if (oom.cause == OomCause::kRequest)
    return {fmt::format("check shape and type of what {} allocates", oom.place())};
  if (oom.cause == OomCause::kGrowth) return growth_fixes(s, oom);
  if (oom.in_optimizer && oom.cause == OomCause::kNeed)
    return {"8-bit or paged optimizer states, or an optimizer with fewer of them",
            "ZeRO or FSDP, which shard states, gradients and parameters; offload the states to the host",
            "parameters and gradients in bf16"};
  if (oom.cause == OomCause::kLimit) fixes.emplace_back("raise the limit: torch.cuda.set_per_process_memory_fraction()");
  if (oom.new_state_bytes)
    fixes.emplace_back("8-bit optimizer states, or ZeRO or FSDP, which shard them: every later pass has them too");
  if (oom.cause != OomCause::kFragmentation) fixes.insert(fixes.end(), less.begin(), less.end());
  if (oom.cause == OomCause::kFragmentation || (oom.cause == OomCause::kNeed && oom.fits_in_pieces())) {
    if (!s.expandable_segments) fixes.emplace_back(kExpandable);
    fixes.emplace_back("pad or bucket batches to few shapes");
    if (s.expandable_segments)
      fixes.emplace_back("run the largest batch first; allocate long-lived buffers once, before it");
  }
  return fixes;
}

void add_growth_fact(const SnapshotSection& s, const OutOfMemory& oom, Finding& f) {
  const GrowingLine* const line = growing_on(s, oom.device);
  if (oom.cause != OomCause::kGrowth || line == nullptr) return;
  f.evidence.push_back(fmt::format("{} keeps {} more after each {}: {} in {} blocks after the last one", line->place(),
                                   bytes_words(line->growth_bytes), line->per, bytes_words(line->bytes),
                                   format_count(line->blocks)));
}

void add_oom_facts(const SnapshotSection& s, const OutOfMemory& oom, Finding& f) {
  add_growth_fact(s, oom, f);
  if (oom.new_state_bytes)
    f.evidence.push_back(fmt::format("the first pass with optimizer states: {} that the step before made at its end",
                                     bytes_words(*oom.new_state_bytes)));
  const auto reachable = oom.reachable_bytes();
  if (reachable && !oom.outside_bytes)
    f.evidence.push_back(fmt::format("PyTorch could have {} in all; nvidia-smi shows what holds the rest of the device",
                                     bytes_words(*reachable)));
  else if (reachable && oom.cause != OomCause::kOutside && 10 * *oom.outside_bytes > *reachable + *oom.outside_bytes)
    f.evidence.push_back(fmt::format("{} of the device are held outside this process's PyTorch (nvidia-smi)",
                                     bytes_words(*oom.outside_bytes)));
  if (s.expandable_segments && oom.cause == OomCause::kFragmentation)
    f.evidence.emplace_back("expandable_segments is on already");
}

void describe_oom(const Measured& m, Finding& f) {
  const SnapshotSection& s = *snapshot_of(m);
  const OutOfMemory& oom = *s.oom;
  const SnapshotPeak& peak = peak_of(s, oom.device);
  const std::string place = oom.place() + on_device(s, oom.device);
  f.what = fmt::format("an allocation of {} fails in {}", bytes_words(oom.requested_bytes), place);
  f.why = oom_cause_words(oom);
  if (oom.in_optimizer && oom.cause == OomCause::kNeed)
    f.why += " The optimizer's step asks for it, when the activations are gone: a smaller batch needs as much.";
  if (oom.steps_after > 0) {
    f.severity = Severity::kWarning;
    f.what += ", and the program goes on";
    f.why += fmt::format(" Steps that complete after it: {}.", format_count(oom.steps_after));
  }
  f.fix = oom_fixes(s, oom);
  f.own_fixes = (oom.cause != OomCause::kNeed || oom.in_optimizer) && oom.cause != OomCause::kUnknown;
  add_oom_facts(s, oom, f);
  const bool replayed = peak.device == s.peak.device && s.replay && !s.replay->settings.empty();
  if (replayed && s.replay->settings.front().saved_bytes > 0)
    f.evidence.push_back(fmt::format("replayed with {} the same requests reserve {} less at their peak",
                                     s.replay->settings.front().settings,
                                     bytes_words(s.replay->settings.front().saved_bytes)));
  if (oom.largest_free_block_bytes)
    f.evidence.push_back(fmt::format("largest free block {}; {} allocated", bytes_words(*oom.largest_free_block_bytes),
                                     bytes_words(oom.allocated_bytes)));
  for (size_t i = 0; i < std::min<size_t>(peak.holders.size(), 3); ++i)
    f.evidence.push_back(fmt::format("{} {} holds {} of {}", held_when(s), peak.holders[i].place(),
                                     bytes_words(peak.holders[i].bytes), category_words(peak.holders[i].category)));
  if (oom.steps_after == 0)
    f.verdict = fmt::format("Out of memory: {} in {}. {}", bytes_words(oom.requested_bytes), place, f.why);
}

std::optional<double> peak_spike_value(const Measured& m) {
  const SnapshotSection* s = snapshot_of(m);
  if (s == nullptr || !s->spike) return std::nullopt;
  return peak_share_pct(*s, s->peak_allocated_bytes - s->spike->peak_without_bytes);
}

constexpr std::string_view kSmallCudnnWorkspaces =
    "torch.backends.cudnn.benchmark = False, which tries algorithms with large workspaces; "
    "torch.backends.cudnn.benchmark_limit tries fewer; CUDNN_CONV_WSCAP_DBG=512 limits each to so many MiB";

std::vector<std::string> spike_fixes(const PeakSpike& spike) {
  if (spike.workspace) return {std::string(kSmallCudnnWorkspaces)};
  if (spike.cross_entropy)
    return {"a fused or chunked cross entropy, which never has all logits in float32: Liger's, or torch.compile of the "
            "loss",
            "logits only of the tokens that count; the loss in chunks over the tokens"};
  if (spike.clips)
    return {"torch.nn.utils.clip_grad_norm_(…, foreach=False), which makes one gradient's tensors at a time"};
  return {"work in place or in chunks on that line: out=, foreach=False or a fused kernel instead of temporaries",
          "free unneeded tensors before it: del, or an earlier end of scope"};
}

void describe_peak_spike(const Measured& m, Finding& f) {
  const SnapshotSection& s = *snapshot_of(m);
  const PeakSpike& spike = *s.spike;
  f.what = fmt::format("short-lived allocations in {} set the peak{}", spike.place(), focus_words(s));
  f.why = fmt::format("They hold {} of {} and are freed within {} events; without them the peak would be {}.",
                      bytes_words(spike.bytes), bytes_words(s.peak_allocated_bytes),
                      format_count(spike.lifetime_events), bytes_words(spike.peak_without_bytes));
  f.fix = spike_fixes(spike);
}

const GrowingLine* growing_line(const SnapshotSection& s, std::string_view cause) {
  return first_where(s.growth, [&](const GrowingLine& g) { return cause.empty() || g.cause == cause; });
}

// Of the device on which it is most; 0: none, or too little to matter.
int64_t retained_per_step(const SnapshotSection& s) {
  std::map<std::optional<int32_t>, int64_t> bytes;   // by device
  for (const GrowingLine& g : s.growth)
    if (g.cause == "retained_graph") bytes[g.device] += g.growth_bytes;
  int64_t most = 0;
  for (const auto& [device, grown] : bytes) {
    const int64_t peak = device ? peak_of(s, *device).allocated_bytes : s.peak_allocated_bytes;
    if (!is_little_growth(grown, peak)) most = std::max(most, grown);
  }
  return most;
}

// One that is there once, and does not grow.
const EarlyFreeRow* held_graph(const SnapshotSection& s) {
  constexpr int64_t kSmallPart = 20;   // of the peak
  return first_where(s.early_frees, [&](const EarlyFreeRow& row) {
    return row.graph_lines > 0 && kSmallPart * row.saved_bytes >= s.peak_allocated_bytes;
  });
}

std::optional<double> retained_graph_value(const Measured& m) {
  const SnapshotSection* s = snapshot_of(m);
  if (s == nullptr) return std::nullopt;
  if (const int64_t bytes = retained_per_step(*s); bytes > 0) return static_cast<double>(bytes) / (1 << 20);
  const EarlyFreeRow* graph = held_graph(*s);
  return graph != nullptr ? std::optional(static_cast<double>(graph->bytes) / (1 << 20)) : std::nullopt;
}

void describe_held_graph(const SnapshotSection& s, const EarlyFreeRow& graph, Finding& f) {
  f.what = fmt::format("the graph of an earlier forward pass holds {} at the peak{}", bytes_words(graph.bytes),
                       focus_words(s));
  f.why = fmt::format("Its step is over; {} blocks of {} lines wait for a backward pass that does not come. Without "
                      "them the peak would be {}.",
                      format_count(graph.graph_blocks), graph.graph_lines, bytes_words(graph.peak_bytes));
  f.fix = {"torch.no_grad() around forward passes without a backward pass, such as validation",
           "del loss, outputs at the end of the step; no retain_graph=True without need"};
}

void describe_retained_graph(const Measured& m, Finding& f) {
  const SnapshotSection& s = *snapshot_of(m);
  if (retained_per_step(s) == 0) return describe_held_graph(s, *held_graph(s), f);
  const GrowingLine& line = *growing_line(s, "retained_graph");
  const bool infers = line.per == "forward pass";
  f.what = fmt::format("tensors of the forward pass are kept after every {}, most in {}", infers ? "pass" : "step",
                       line.place());
  f.why = fmt::format("They grow by {:.2f} MiB per {}: something keeps an output or a loss, and with it its graph.",
                      *f.value, line.per);
  if (infers)
    f.fix = {"torch.inference_mode() or torch.no_grad() around the forward pass",
             "keep outputs without their graph: outputs.append(y.detach().cpu())"};
  else
    f.fix = {"keep numbers, not graphs: losses.append(loss.item()) or loss.detach(), never loss",
             "clear lists of outputs at the end of the step"};
  f.evidence.push_back(fmt::format("{} holds {} in {} blocks after the last {}: {} each ({} to {})", line.place(),
                                   bytes_words(line.bytes), format_count(line.blocks), line.per,
                                   bytes_words(line.growth_bytes), bytes_words(line.low_bytes),
                                   bytes_words(line.high_bytes)));
}

int64_t bytes_per_run(const SnapshotSection& s) {
  int64_t bytes = 0;
  for (const CycleRow& row : s.cycles) bytes += row.bytes_per_run();
  return bytes;
}

std::optional<double> reference_cycle_value(const Measured& m) {
  const SnapshotSection* s = snapshot_of(m);
  return s != nullptr && !s->cycles.empty() ? std::optional(peak_share_pct(*s, bytes_per_run(*s))) : std::nullopt;
}

void describe_reference_cycle(const Measured& m, Finding& f) {
  const SnapshotSection& s = *snapshot_of(m);
  const CycleRow& most = s.cycles.front();
  f.what = fmt::format("tensors wait for Python's garbage collector, most from {}{}", most.place(), focus_words(s));
  f.why = fmt::format("Each run of the collector frees {}: reference cycles hold them until then, and del does not free "
                      "a cycle.",
                      bytes_words(bytes_per_run(s)));
  f.fix = {"break the cycle: weakref, or no reference from the tensor's owner back to itself",
           "torch.utils.viz._cycles.warn_tensor_cycles() shows what refers to what"};
  for (size_t i = 0; i < std::min<size_t>(s.cycles.size(), 3); ++i)
    f.evidence.push_back(fmt::format("{}: {} in {} blocks, freed in {} runs; {} at the peak", s.cycles[i].place(),
                                     bytes_words(s.cycles[i].collected_bytes), format_count(s.cycles[i].blocks),
                                     format_count(s.cycles[i].runs), bytes_words(s.cycles[i].bytes)));
}

std::optional<double> duplicate_weights_value(const Measured& m) {
  const SnapshotSection* s = snapshot_of(m);
  if (s == nullptr || !s->duplicate_parameter_bytes) return std::nullopt;
  return peak_share_pct(*s, *s->duplicate_parameter_bytes);
}

void describe_duplicate_weights(const Measured& m, Finding& f) {
  const SnapshotSection& s = *snapshot_of(m);
  f.what = "two sets of parameters of the same shapes are on the device";
  f.why = fmt::format("{} of copies are held {}{} beside parameters of the same shapes.",
                      bytes_words(*s.duplicate_parameter_bytes), held_when(s), focus_words(s));
  f.fix = {"drop the first copy once the model is converted or moved: del, and no reference in a state dict",
           "keep one type: bf16 parameters with an optimizer that needs no master weights"};
}

const CategoryRow* category_row(const SnapshotSection& s, MemoryCategory category) {
  return first_where(s.peak.categories, [&](const CategoryRow& c) { return c.category == category; });
}

std::optional<double> workspace_value(const Measured& m) {
  const SnapshotSection* s = snapshot_of(m);
  const CategoryRow* row = s != nullptr ? category_row(*s, MemoryCategory::kWorkspace) : nullptr;
  return row != nullptr ? std::optional(row->peak_pct) : std::nullopt;
}

void describe_workspace(const Measured& m, Finding& f) {
  const SnapshotSection& s = *snapshot_of(m);
  const CategoryRow& row = *category_row(s, MemoryCategory::kWorkspace);
  f.what = fmt::format("workspaces of libraries hold {} {}{}", bytes_words(row.bytes), held_when(s), focus_words(s));
  f.why = fmt::format("That is {} of {}, in {} blocks: one for each stream and handle.", format_percent(row.peak_pct),
                      s.history_recorded ? "the peak" : "what is held", format_count(row.blocks));
  const HolderRow* const most =
      first_where(s.peak.holders, [](const HolderRow& h) { return h.category == MemoryCategory::kWorkspace; });
  if (most != nullptr)
    f.evidence.push_back(fmt::format("{} holds {}{}", most->place(), bytes_words(most->bytes),
                                     most->op.empty() ? "" : " in " + most->op));
  if (most != nullptr && contains(most->op, "conv")) {
    f.why = fmt::format("That is {} of {}, most of it for convolutions, whose algorithms ask for it.",
                        format_percent(row.peak_pct), s.history_recorded ? "the peak" : "what is held");
    f.fix = {std::string(kSmallCudnnWorkspaces)};
    return;
  }
  f.fix = {"CUBLAS_WORKSPACE_CONFIG=:16:8 (less memory, some GEMMs slower)", "fewer streams that run GEMMs"};
}

std::optional<double> pinned_growth_value(const Measured& m) {
  const SnapshotSection* s = snapshot_of(m);
  if (s == nullptr || !s->pinned || s->pinned->growth.empty()) return std::nullopt;
  int64_t bytes = 0;
  for (const GrowingLine& line : s->pinned->growth) bytes += line.growth_bytes;
  return static_cast<double>(bytes) / (1 << 20);
}

void describe_pinned_growth(const Measured& m, Finding& f) {
  const PinnedMemory& pinned = *snapshot_of(m)->pinned;
  const GrowingLine& line = pinned.growth.front();
  f.what = fmt::format("pinned host memory grows from step to step, most in {}", line.place());
  f.why = fmt::format(
      "It grows by {:.2f} MiB per step, to {} now. The system can neither swap it out nor give it to anybody else.",
      *f.value, bytes_words(pinned.allocated_bytes));
  f.fix = {"keep no batch beyond its step: del, or .clone() into pageable memory what has to stay",
           "one pinned buffer that every step reuses instead of a new .pin_memory() each time"};
  f.evidence.push_back(fmt::format("{} holds {} in {} blocks after the last step: {} per step ({} to {})", line.place(),
                                   bytes_words(line.bytes), format_count(line.blocks), bytes_words(line.growth_bytes),
                                   bytes_words(line.low_bytes), bytes_words(line.high_bytes)));
}

}  // namespace

extern const Rule kMemoryRanOut = {
    .id = "oom",
    .summary = "an allocation of device memory fails",
    .unit = "GiB",
    .threshold = 0,
    .severity = Severity::kCritical,
    .meaning =
        "PyTorch requested device memory and did not get it, even after releasing its cache. Either the program "
        "needs more than there is, or the free memory lies in pieces between live blocks, or others hold the device, or "
        "one request is larger than all of it, or the process has a limit.",
    .computation =
        "Value: the size of the last failing allocation of a memory snapshot. Fragmentation if free blocks that the "
        "request could have had, a tenth of what is reserved or more, and what the device had free would have been enough "
        "together; a limit if the device had enough free; others if they hold over half of it; growth if the request "
        "would have been served without what lines keep of every step, a tenth of the memory or more. A warning if the program "
        "completes steps after it. No cost.",
    .advice =
        {
            "need: activation checkpointing, smaller micro-batch, bf16, 8-bit optimizer, ZeRO or FSDP, offloading",
            "fragmentation: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; few different shapes",
            "others: nvidia-smi shows who holds the device; take another one (CUDA_VISIBLE_DEVICES)",
            "growth: free what a line keeps of each step; an .item() or .detach() too few is the usual cause",
            "limit: torch.cuda.set_per_process_memory_fraction() is called with less than the job needs",
            "`--section snapshot` shows what holds the memory at the peak",
        },
    .seen = {Locator::At::kMemoryPeak, {}},
    .rank = {.value = oom_value, .describe = describe_oom, .host_alone = true},
};

extern const Rule kPeakSpike = {
    .id = "peak-spike",
    .summary = "short-lived allocations set the memory peak",
    .unit = "%",
    .threshold = 10,
    .meaning =
        "A few temporary tensors of one line stand above everything else for a moment. The job needs that much memory "
        "for this moment alone.",
    .computation =
        "Value: how much lower the peak of a memory snapshot's history would be without the temporary tensors of the "
        "line "
        "that holds most of them at the peak, those that live for at most a fiftieth of the events, or 64 of them in a "
        "short history, or that an optimizer's step or the clipping of gradients makes; workspaces that are freed as "
        "soon count, too. Tensors without a recorded stack don't count. No cost.",
    .advice =
        {
            "in-place operations, out=, or a fused kernel instead of a chain of temporaries",
            "chunk the operation: over the batch, the vocabulary or the heads",
            "an optimizer's foreach=True holds temporaries of all parameters at once: fused=True, or foreach=False",
            "a fused cross entropy instead of full logits in float32",
        },
    .seen = {Locator::At::kMemoryPeak, {}},
    .rank = {.value = peak_spike_value, .describe = describe_peak_spike, .host_alone = true},
};

extern const Rule kRetainedGraph = {
    .id = "retained-graph",
    .summary = "tensors of the forward pass are kept after every step",
    .unit = "MiB",
    .threshold = 0,
    .meaning =
        "What a forward pass allocates is freed by the backward pass. If some of it stays after each step, the program "
        "keeps an output, a loss or a hidden state that requires gradients, and with it its graph.",
    .computation =
        "Value: growth per step of what lines of the forward pass hold after the optimizer's steps (Theil-Sen slope, "
        "only where its 95 % interval is above 0, and 1 MiB or a thousandth of the peak), over at least four steps of a memory snapshot's history; without "
        "such steps, at the beginnings of backward passes; of inference, of forward passes, if three of its lines or more, "
        "a quarter of them, grow together. Without growth: what three lines or more of an earlier forward pass hold at the "
        "peak although their step is over, if the peak would be 5 % lower without it. No cost.",
    .advice =
        {
            "total += loss.item() instead of total += loss",
            "detach() what is kept for metrics or for the next step (truncated backpropagation)",
            "retain_graph=True only where a second backward follows",
            "inference and evaluation: torch.inference_mode() or torch.no_grad()",
            "exceptions, hooks and closures keep frames, and frames keep tensors",
        },
    .seen = {Locator::At::kMemoryPeak, {}},
    .rank = {.value = retained_graph_value, .describe = describe_retained_graph, .host_alone = true},
};

extern const Rule kReferenceCycle = {
    .id = "reference-cycle",
    .summary = "tensors wait for Python's garbage collector",
    .unit = "%",
    .threshold = 5,
    .meaning =
        "Python frees an object as soon as nothing refers to it. Objects that refer to each other in a cycle stay until "
        "the garbage collector runs: by then several steps may have piled up, and the peak is that much higher.",
    .computation =
        "Value: bytes that the collector frees in one run, of the peak of a memory snapshot's history. An allocation is "
        "freed by the collector if its frames are in the stack of the free. Needs frames of C++. No cost.",
    .advice =
        {
            "a module, closure or exception that holds a tensor and is held by it: weakref.ref, or clear it by hand",
            "no self in hooks and lambdas that the object itself keeps",
            "gc.collect() after the step frees them earlier, and takes time",
        },
    .seen = {Locator::At::kMemoryPeak, {}},
    .rank = {.value = reference_cycle_value, .describe = describe_reference_cycle, .host_alone = true},
};

extern const Rule kDuplicateWeights = {
    .id = "duplicate-weights",
    .summary = "parameters are on the device twice",
    .unit = "%",
    .threshold = 5,
    .severity = Severity::kInfo,
    .meaning =
        "Two lines allocated parameters of the same shapes, and both sets are held at the peak: a model that was loaded "
        "and then converted, a state dict that is still referred to, or master weights.",
    .computation =
        "Value: bytes of the smaller copies, of the peak. Copies are sets of three sizes or more of which each block of "
        "one has its block of the same, double or fourfold size in the other. No cost.",
    .advice =
        {
            "load straight into the final type: from_pretrained(…, torch_dtype=torch.bfloat16)",
            "del state_dict after load_state_dict(…, assign=True)",
            "FSDP and ZeRO shard master weights over the ranks",
        },
    .seen = {Locator::At::kMemoryPeak, {}},
    .rank = {.value = duplicate_weights_value, .describe = describe_duplicate_weights, .host_alone = true},
};

extern const Rule kOversizedWorkspace = {
    .id = "oversized-workspace",
    .summary = "workspaces of cuBLAS or cuDNN hold much of the peak",
    .unit = "%",
    .threshold = 5,
    .severity = Severity::kInfo,
    .meaning =
        "Libraries keep scratch memory for each handle and stream, and convolutions may ask for large workspaces while "
        "they are tuned.",
    .computation = "Value: bytes allocated for workspaces, of the peak of a memory snapshot's history. No cost.",
    .advice =
        {
            "CUBLAS_WORKSPACE_CONFIG=:16:8",
            "convolutions: torch.backends.cudnn.benchmark = False while memory is short, or benchmark_limit",
            "fewer streams with GEMMs of their own",
        },
    .seen = {Locator::At::kMemoryPeak, {}},
    .rank = {.value = workspace_value, .describe = describe_workspace, .host_alone = true},
};

extern const Rule kHostPinnedGrowth = {
    .id = "host-pinned-growth",
    .summary = "pinned host memory grows from step to step",
    .unit = "MiB",
    .threshold = 0,
    .meaning =
        "Memory of the host that is pinned for copies is never swapped out. Where each step pins more, the host runs "
        "out of memory, and the kernel usually kills a process.",
    .computation =
        "Value: growth per step of what lines have pinned, at the ends of the optimizer's steps (Theil-Sen slope, only "
        "where its 95 % interval is above 0), over at least four steps of a memory snapshot's history. Needs snapshots "
        "of PyTorch 2.14 or later, recorded with record_pinned_host_memory=True. No cost.",
    .advice =
        {
            "batches of DataLoader(pin_memory=True) that a list, a queue or an exception keeps stay pinned",
            "offloading: reuse one buffer per tensor instead of .cpu().pin_memory() in each step",
            "sizes that vary: the allocator keeps a block for each size class; pad to few sizes",
        },
    .seen = {Locator::At::kMemoryPeak, {}},
    .rank = {.value = pinned_growth_value, .describe = describe_pinned_growth, .host_alone = true},
};

}  // namespace profgpu
