// Rules of which only a job's own log can tell.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "analyse/report/quantity.h"
#include "analyse/rules/log_checks.h"
#include "analyse/rules/measure.h"
#include "base/decimal.h"
#include "base/text.h"
#include "trace/health.h"

namespace profgpu {
namespace {

struct EndWords {
  std::string_view kind, what, fix;
};
constexpr std::array kEnds = {
    EndWords{"out_of_memory", "a device ran out of memory",
             "smaller micro-batch or sequence, activation checkpointing, more sharding; expandable_segments:True where "
             "much is reserved and not allocated"},
    EndWords{"host_out_of_memory", "the host ran out of memory",
             "fewer loader workers, smaller prefetch; look for a list that grows; --mem of the job"},
    EndWords{"collective_timeout", "a collective timed out",
             "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1, and give the dumps to analyze: they say "
             "which rank never came"},
    EndWords{"nccl_error", "NCCL reported an error", "run again with NCCL_DEBUG=INFO and give that log to analyze"},
    EndWords{"device_error", "a device reported an error",
             "CUDA_LAUNCH_BLOCKING=1 names the operator; look for Xid messages on that node: profgpu doctor"},
    EndWords{"exception", "the program raised an exception", "see the traceback above that line"},
    EndWords{"killed", "a process was killed",
             "look for the out-of-memory killer in the host's kernel log (dmesg), and for a limit of the job's memory"},
    EndWords{"exit_code", "a process ended with an error code",
             "see what that process printed before; torchrun's --tee 3 and srun's --label keep each one's output apart"},
    EndWords{"terminated", "the job was terminated from outside", "the scheduler's log shows what ended it, and why"},
    EndWords{"time_limit", "the job's time limit was reached",
             "checkpoint before the limit (--signal), or ask for more time"},
    EndWords{"preempted", "the job was preempted", "checkpoint on the signal that comes before, and requeue"},
    EndWords{"node_failure", "a node failed", "leave that node out and start again from the last checkpoint"},
    EndWords{"not_finite", "the loss was no longer a number",
             "lower learning rate, gradient clipping, bf16 instead of fp16"},
};

const EndWords* words_of(std::string_view kind) {
  return first_where(kEnds, [&](const EndWords& e) { return e.kind == kind; });
}

// What the line itself lets be known more closely.
struct LineWords {
  std::string_view kind, words, what, fix;
};
constexpr std::string_view kCrashFix = "a crash in native code: a core dump (ulimit -c unlimited) and gdb name the place",
                           kHardwareFix = "drain the node: reset the device, test it, and replace it if it recurs",
                           kPeerFix = "look at what the other end printed before: its process ended, or the network "
                                      "between the two failed",
                           kNetworkFix = "check the network's ports, cables and switches between the two hosts (ibstat, "
                                         "perfquery, dmesg), and leave out the host whose port has errors";
constexpr std::array kLineWords = {
    LineWords{"killed", "Segmentation fault", "a process crashed", kCrashFix},
    LineWords{"killed", "SIGSEGV", "a process crashed", kCrashFix},
    LineWords{"killed", "exitcode: -11", "a process crashed", kCrashFix},
    LineWords{"killed", "exitcode  : -11", "a process crashed", kCrashFix},
    LineWords{"killed", "signal 11", "a process crashed", kCrashFix},
    LineWords{"killed", "exit code 139", "a process crashed", kCrashFix},
    LineWords{"killed", "double free", "a process crashed", kCrashFix},
    LineWords{"killed", "Aborted", "a process aborted", "see what it printed before: an abort has a reason of its own"},
    LineWords{"killed", "DataLoader worker", "a loader worker was killed",
              "fewer loader workers and a smaller prefetch_factor; the host's kernel log (dmesg) shows whether memory ran out"},
    LineWords{"device_error", "ECC", "a device's memory has an uncorrectable error", kHardwareFix},
    LineWords{"device_error", "fallen off the bus", "a device is lost", kHardwareFix},
    LineWords{"device_error", "Memory access fault by GPU", "a kernel touched memory that is not mapped",
              "AMD_SERIALIZE_KERNEL=3 names the kernel"},
    LineWords{"device_error", "HSA_STATUS_ERROR", "a device reported an error",
              "AMD_SERIALIZE_KERNEL=3 names the kernel; look at the host's kernel log (dmesg)"},
    LineWords{"nccl_error", "status=12", "the other end of a network connection did not answer", kNetworkFix},
    LineWords{"nccl_error", "status=13", "the other end of a network connection was not ready", kNetworkFix},
    LineWords{"nccl_error", "status=10", "the other end of a network connection refused an access to its memory",
              kNetworkFix},
    LineWords{"nccl_error", "Got completion from peer", "a network connection failed", kNetworkFix},
    LineWords{"nccl_error", "closed by remote peer", "another process closed its connection", kPeerFix},
    LineWords{"nccl_error", "remote process exited", "another process closed its connection", kPeerFix},
    LineWords{"nccl_error", "ncclRemoteError", "another process closed its connection", kPeerFix},
    LineWords{"exception", "closed by peer", "another process closed its connection", kPeerFix},
    LineWords{"collective_timeout", "watchdog got stuck", "NCCL's watchdog got no answer from the driver",
              "a call into CUDA or NCCL hangs, or another thread holds the GIL: py-spy dump --native shows which"},
    LineWords{"collective_timeout", "Heartbeat monitor", "NCCL's watchdog got no answer from the driver",
              "a call into CUDA or NCCL hangs, or another thread holds the GIL: py-spy dump --native shows which"},
    LineWords{"out_of_memory", "for the cache blocks", "a device has no memory left for the key-value cache",
              "a larger --gpu-memory-utilization, a smaller --max-model-len, or more GPUs (--tensor-parallel-size)"},
    LineWords{"out_of_memory", "To serve at least one request", "the key-value cache of one request does not fit the device",
              "a smaller --max-model-len, a larger --gpu-memory-utilization, or more GPUs (--tensor-parallel-size)"},
};

// "NVRM: Xid (PCI:0000:44:00): 79, …": the code.
std::optional<XidMeaning> xid_of(std::string_view text) {
  const size_t at = text.find("NVRM: Xid");
  const size_t close = at == text.npos ? at : text.find("): ", at);
  if (close == text.npos) return std::nullopt;
  const std::string_view behind = text.substr(close + 3);
  const auto code = whole_number(behind.substr(0, behind.find_first_not_of("0123456789")));
  return code && *code < 10'000 ? std::optional(xid_meaning(static_cast<int>(*code))) : std::nullopt;
}

// Of a server memory is divided by options.
std::string_view server_memory_fix(std::string_view program) {
  if (program == "tensorrt_llm") return "a smaller kv_cache_free_gpu_mem_fraction leaves more for the rest; a smaller max_batch_size";
  return program == "sglang"
             ? "a smaller --mem-fraction-static leaves more for the rest; fewer --max-running-requests, a smaller "
               "--chunked-prefill-size"
             : "a smaller --gpu-memory-utilization leaves more for the rest; fewer --max-num-seqs, fewer "
               "--max-num-batched-tokens";
}

}  // namespace

EndSaid said_of(const LogReport& log) {
  const LogEnd& end = log.end;
  if (const auto xid = xid_of(end.text))
    return {fmt::format("the driver reported Xid {}: {}", xid->code, xid->what), std::string(xid->advice)};
  const LineWords* line =
      first_where(kLineWords, [&](const LineWords& w) { return w.kind == end.kind && contains(end.text, w.words); });
  if (line != nullptr) return {std::string(line->what), std::string(line->fix)};
  const EndWords* usual = words_of(end.kind);
  if (usual == nullptr) return {end.kind, ""};
  if (end.kind == "collective_timeout" && log.has_dumps)
    return {std::string(usual->what), "collective-hang says which rank never came, by the dumps beside this log"};
  const bool server = log.serving && end.kind == "out_of_memory";
  return {std::string(usual->what), std::string(server ? server_memory_fix(log.serving->program) : usual->fix)};
}

namespace {

std::optional<double> run_failure(const LogReport& log) {
  return only_if(log.end.failed() && log.tells_end, 1.0);
}

// "line 7", of several logs "line 7 of rank_2.log"
std::string named_line_of_end(const LogReport& log) {
  const std::string line = fmt::format("line {}", log.end.line.value_or(0));
  return log.one_of_several ? fmt::format("{} of {}", line, base_name(log.path)) : line;
}

std::string place_of_end(const LogEnd& end) {
  if (end.rank && !end.node.empty()) return fmt::format("rank {} on {}", *end.rank, end.node);
  if (end.rank) return fmt::format("rank {}", *end.rank);
  return end.node;
}

// "ranks 1, 3"; of a group whose members the log does not state "rank 1 of TENSOR_MODEL_PARALLEL_GROUP".
std::string behind_text(const LogEnd& end) {
  return ranks_text(end.behind) + (end.behind_in.empty() ? "" : " of " + end.behind_in);
}

// Whom to look at, where that is another than the one that prints the line.
std::string others_of_end(const LogEnd& end) {
  if (!end.behind.empty()) return fmt::format("; {} had not called it", behind_text(end));
  if (!end.mismatch.empty()) return "; " + end.mismatch;
  if (!end.waits.empty()) return "; " + end.waits;
  if (!end.peer.empty()) return "; the other end is " + end.peer;
  return end.first_failure && !place_of_end(end).empty() ? fmt::format("; {} failed first", place_of_end(end)) : "";
}

// Who is behind is told only where the log says how far each got.
void describe_timeout(const LogEnd& end, Finding& f) {
  f.evidence.push_back("waited for: " + end.collective);
  if (!end.behind.empty()) {
    const bool one = end.behind.size() == 1;
    std::string who = behind_text(end);
    who.front() = upper(who.front());
    f.why = fmt::format("{} had not called {}, which the others waited for: look at what {} then.", who, end.collective,
                        one ? "it did" : "they did");
    f.ranks = end.behind_in.empty() ? end.behind : std::vector<int>();
    return;
  }
  if (!end.mismatch.empty()) {
    f.why = fmt::format("The ranks called different things as {}: {}.", end.collective, end.mismatch);
    f.fix.insert(f.fix.begin(), "make every rank call the same collectives with the same sizes in the same order");
    f.ranks = end.mismatched;
    return;
  }
  f.ranks.clear();
  if (!end.waits.empty()) {
    f.why = fmt::format("The log has what each rank waited in, but not of which group that was: {}. In one group, the "
                        "ranks with the lowest number hold the others up.", end.waits);
    f.fix.insert(f.fix.begin(), "make every rank call the same collectives with the same sizes in the same order");
    return;
  }
  f.why += end.reporting > 1 ? fmt::format(" All {} ranks that say how far they got had called it; which one holds the "
                                           "others up, the log does not say.", end.reporting)
                             : " That rank waited; which one it waited for, the log does not say.";
}

void describe_run_failure(const LogReport& log, Finding& f) {
  const LogEnd& end = log.end;
  const EndSaid said = said_of(log);
  const bool server = log.serving && !log.has_steps();
  const std::string when = end.after_step && !server ? fmt::format(" after step {}", *end.after_step) : "";
  f.what = fmt::format("the {} ended{}: {}{}", server ? "server" : "run", when, said.what, others_of_end(end));
  f.severity = end.kind == "terminated" || end.kind == "time_limit" || end.kind == "preempted" ? Severity::kWarning
                                                                                               : Severity::kCritical;
  const std::string place = place_of_end(end);
  std::string line = named_line_of_end(log);
  if (end.first_failure) {
    f.why = fmt::format("The launcher names {} as the first that failed ({}).", place.empty() ? "it" : place, line);
  } else {
    line.front() = upper(line.front());
    f.why = fmt::format("{}{} is the first of its kind{}, and the likely cause of those that follow.", line,
                        place.empty() ? "" : " (" + place + ")",
                        server           ? " behind the last line on requests"
                        : end.after_step ? " behind the last step"
                                         : "");
  }
  if (end.rank) f.ranks = {*end.rank};
  if (!server) f.seen.step = end.after_step;
  if (!said.fix.empty()) f.fix.push_back(said.fix);
  if (contains(end.text, "shared memory") || contains(end.text, "shm"))
    f.fix.insert(f.fix.begin(), "more shared memory (docker run --shm-size=16g, or --ipc=host), or fewer loader workers");
  f.evidence.push_back(fmt::format("{}: {}", named_line_of_end(log), end.text));
  if (end.bytes) f.evidence.push_back("asked for: " + format_bytes(static_cast<double>(*end.bytes)));
  if (!end.collective.empty()) describe_timeout(end, f);
}

// The first updates are skipped on purpose, until a dynamic loss scale is found; from 2^32 that takes about so many.
constexpr int64_t kScaleSearch = 20;

std::optional<double> skipped_pct(const LogReport& log) {
  if (!log.has_steps() || log.throughput.iterations <= 0) return std::nullopt;
  int64_t skipped = log.loss.skipped, all = log.throughput.iterations;
  bool counted = false, from_the_start = false;
  const auto& ranks = log.log->ranks;
  const std::span<const LogStep> steps = ranks.empty() ? std::span<const LogStep>() : ranks.front().steps;
  if (const auto first = std::ranges::find(steps, false, &LogStep::other_run); first != steps.end()) {
    skipped -= first->figures.skipped.value_or(0), all -= first->iterations;
    counted = std::any_of(first + 1, steps.end(), [](const LogStep& s) { return !s.other_run && s.figures.skipped; });
    from_the_start = first->number <= first->iterations;
  }
  // DeepSpeed says each, or how many there were so far, which may be before a restart.
  if (skipped == 0 && !counted) {
    const auto is_skipped = [](const LogEvent& e) { return e.kind == LogEventKind::kSkipped; };
    const auto counted_lines = log.log->event_lines.find(LogEventKind::kSkipped);
    const int64_t of_all_runs = counted_lines != log.log->event_lines.end() ? counted_lines->second : 0;
    const int64_t left_out = of_all_runs - std::ranges::count_if(log.log->events, is_skipped);   // of the last run
    const int64_t lines = left_out + std::ranges::count_if(log.log->events, [&](const LogEvent& e) {
                            return is_skipped(e) && log.log->is_told(e.line);
                          });
    const int64_t said = from_the_start ? log.setting("skipped_steps").value_or(lines) : lines;
    skipped = std::max<int64_t>(said - kScaleSearch, 0);
  }
  if (all <= 0) return std::nullopt;
  return std::min(100 * static_cast<double>(skipped) / static_cast<double>(all), 100.0);
}

void describe_skipped(const LogReport& log, Finding& f) {
  f.what = fmt::format("{} of the iterations are skipped because gradients overflow", format_percent(*f.value));
  f.why = "Their work is thrown away, and the loss scale falls each time.";
  f.fix = {"bf16 instead of fp16: it needs no loss scale",
           "a larger loss_scale_window, gradient clipping, a lower learning rate"};
  set_log_cost(f, log, *f.value / 100 * static_cast<double>(log.throughput.mean_ns.value_or(0)));
}

std::optional<double> not_finite_losses(const LogReport& log) {
  return only_if(log.has_steps(), static_cast<double>(log.loss.not_finite));
}

void describe_not_finite(const LogReport& log, Finding& f) {
  const std::string count = format_count(log.loss.not_finite);
  if (!log.loss.not_finite_since) {
    f.what = fmt::format("the loss of {} {} is not a number", count,
                         log.loss.not_finite == 1 ? "iteration" : "iterations");
    f.why = "Later ones have a loss again.";
  } else {
    f.severity = Severity::kCritical;
    f.what = fmt::format("the loss is not a number from step {} on", *log.loss.not_finite_since);
    f.verdict = fmt::format("The training has diverged: from step {} on the loss is not a number.",
                            *log.loss.not_finite_since);
    f.why = "The weights are lost from there on; every later step is time without a result.";
    f.seen.step = log.loss.not_finite_since;
  }
}

std::optional<double> offload_pct(const LogReport& log) {
  const std::string offload = log.setting_text("offload_optimizer");
  if (offload.empty() || offload == "none" || offload == "false") return std::nullopt;
  return only_if(!log.breakdown.empty(), log.phase_pct(LogPhase::kOptimizer));
}

void describe_offload(const LogReport& log, Finding& f) {
  f.what = fmt::format("the offloaded optimizer takes {} of the step", format_percent(*f.value));
  f.why = "Its states lie in the host's memory: gradients go there, the CPU updates, parameters come back.";
  f.fix = {
      "keep the states on the devices if memory allows: \"offload_optimizer\": {\"device\": \"none\"}, or more ranks "
      "to share them",
      "\"pin_memory\": true, DeepSpeedCPUAdam, and CPU cores bound to each rank (deepspeed --bind_cores_to_rank)",
      "more micro-batches per step: one update for more work"};
  set_log_cost(f, log, *f.value / 100 * static_cast<double>(log.throughput.mean_ns.value_or(0)));
}

std::optional<double> full_cache_pct(const LogReport& log) {
  constexpr int64_t kFewest = 3;  // lines: a moment tells nothing
  const auto& s = log.serving;
  if (!s || s->busy_lines < kFewest || !s->cache_pct) return std::nullopt;
  return 100 * static_cast<double>(s->full_lines) / static_cast<double>(s->busy_lines);
}

void describe_full_cache(const LogReport& log, Finding& f) {
  const LogServing& s = *log.serving;
  f.what = fmt::format("requests wait while the key-value cache is full, in {} of the lines", format_percent(*f.value));
  f.why = "A request starts once the cache has room for it: the cache limits how many run at once.";
  const bool sglang = s.program == "sglang";
  if (s.program == "tensorrt_llm")
    f.fix = {"more memory for the cache: a larger kv_cache_free_gpu_mem_fraction",
             "a smaller cache per token: an engine with an FP8 key-value cache, where the accuracy allows it",
             "more GPUs: tensor parallelism leaves more memory for the cache on each, replicas share the requests"};
  else f.fix = {sglang ? "more memory for the cache: a larger --mem-fraction-static"
                  : "more memory for the cache: a larger --gpu-memory-utilization",
           "a smaller cache per token: --kv-cache-dtype fp8, where the accuracy allows it",
           sglang ? "more GPUs: --tp-size leaves more memory for the cache on each, replicas share the requests"
                  : "more GPUs: --tensor-parallel-size leaves more memory for the cache on each, replicas share the "
                    "requests"};
  f.evidence.push_back(fmt::format("{} of {} lines with requests; at most {} wait, {} run on average",
                                   format_count(s.full_lines), format_count(s.busy_lines),
                                   format_number(s.most_waiting.value_or(0)), format_number(s.running.value_or(0))));
  if (s.preempted)
    f.evidence.push_back(fmt::format("{}{} requests were preempted and start again",
                                     s.preempted_at_least ? "at least " : "", format_number(*s.preempted)));
}

}  // namespace

extern const Rule kRunFailure = {
    .id = "run-failure",
    .summary = "the log says that the run ended with an error, a signal or the scheduler",
    .unit = "count",
    .threshold = 0,
    .severity = Severity::kCritical,
    .meaning =
        "A failing job prints a lot: one rank's error breaks the others' collectives, and the launcher kills the rest. "
        "The line named here is the likely first cause.",
    .computation =
        "Among the lines after the last step, in this order: a node's failure, the scheduler's limits, a device's or "
        "host's memory, a device's error, an exception, NCCL's errors, a collective's timeout, a signal, an error code; "
        "of one kind the first line. A process that a signal ended goes before errors and timeouts that follow it, or if "
        "torchrun names it as the first failure; errors that say that another process has gone come last. Of a timeout, "
        "ranks that had not called the collective by PyTorch's watchdogs. No cost.",
    .advice = {"follow the line named in the evidence; later messages are mostly consequences",
               "checkpoint often enough that a restart is cheap, and test the restart",
               "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 keeps what each rank waited for, for when it hangs again"},
    .log = {.value = run_failure, .describe = describe_run_failure},
};

extern const Rule kLossNotFinite = {
    .id = "loss-not-finite",
    .summary = "the loss is NaN or infinite",
    .unit = "count",
    .threshold = 0,
    .meaning =
        "From the first such loss on the weights are mostly lost: each further step is time without a result. A few "
        "in between, with fp16 and a loss scale that falls, can be harmless.",
    .computation =
        "Value: iterations whose loss is NaN or infinite. Critical where no later one has a number. No cost.",
    .advice = {"go back to the last checkpoint before that step, with a lower learning rate or a longer warm-up",
               "clip gradients (max_norm=1.0); bf16 instead of fp16",
               "torch.autograd.set_detect_anomaly(True) for a few steps names the operator; look at that step's data"},
    .log = {.value = not_finite_losses, .describe = describe_not_finite},
};

extern const Rule kSkippedSteps = {
    .id = "skipped-updates",
    .summary = "many iterations are skipped because gradients overflow",
    .unit = "%",
    .threshold = 5,
    .meaning =
        "With fp16 a dynamic loss scale is halved, and the update left out, whenever a gradient overflows. "
        "Occasional overflows are normal; frequent ones waste time or mean that training diverges.",
    .computation =
        "Value: share of skipped iterations, not counting the first log line (or the first 20 iterations), while the "
        "loss scale settles. Cost: their time.",
    .advice = {"bf16 instead of fp16",
               "a larger loss_scale_window; gradient clipping; a lower learning rate or longer warm-up"},
    .verdict = "{} of the iterations are skipped because gradients overflow.",
    .log = {.value = skipped_pct, .describe = describe_skipped},
};

extern const Rule kCacheFull = {
    .id = "kv-cache-full",
    .summary = "requests to an inference server wait while its key-value cache is full",
    .unit = "%",
    .threshold = 10,
    .severe = 50,
    .meaning =
        "The cache of keys and values holds the tokens of all requests that run. When it is full, others wait, or "
        "requests are preempted and computed again: latency grows while the devices could do more at once.",
    .computation =
        "Value: lines with requests that wait and at least 95 % of the cache in use, of the engine's lines with requests. "
        "No cost: the log does not say how many more would run.",
    .advice = {"more memory for the cache: --gpu-memory-utilization (vLLM), --mem-fraction-static (SGLang)",
               "a smaller cache per token: --kv-cache-dtype fp8, where the accuracy allows it",
               "more GPUs per replica, so that weights take less memory of each, or more replicas"},
    .verdict = "Requests wait while the key-value cache is full, in {} of the engine's lines.",
    .log = {.value = full_cache_pct, .describe = describe_full_cache},
};

extern const Rule kOptimizerOffload = {
    .id = "optimizer-offload",
    .summary = "an optimizer that is offloaded to the CPU takes much of the step",
    .unit = "%",
    .threshold = 20,
    .severe = 50,
    .meaning =
        "Offloading saves device memory and costs time: the update runs on the CPU, and gradients and parameters "
        "cross the bus.",
    .computation =
        "Value: the optimizer's share of the mean step by the program's timers, where its configuration says that "
        "it is offloaded. Cost: that time; an update on the devices takes a small part of it.",
    .advice = {"states on the devices if they fit: more ranks, ZeRO stage 2 or 3 without offloading, 8-bit states",
               "pinned memory, DeepSpeedCPUAdam, cores bound to ranks",
               "larger batches: fewer updates for the same work"},
    .verdict = "The update on the CPU takes {} of each step.",
    .log = {.value = offload_pct, .describe = describe_offload},
};

namespace {

// Those have a sentence of their own in the verdict.
}  // namespace

extern const Rule kNcclWarnings;

namespace {

bool tells_end(const Rule* rule) { return rule == &kRunFailure || rule == &kLossNotFinite; }

// " in the last of 3 runs"
std::string place_of_run(const LogReport& log) {
  const LogRunRow* run = log.told_run();
  if (run == nullptr) return "";
  const auto place = run - log.runs.data() + 1;
  return place == std::ssize(log.runs) ? fmt::format(" in the last of {} runs", log.runs.size())
                                       : fmt::format(" in run {} of {}", place, log.runs.size());
}

std::string log_speed(const LogReport& log) {
  const LogThroughput& t = log.throughput;
  std::string speed = fmt::format("A step takes {}", format_duration(static_cast<double>(t.mean_ns.value_or(0))));
  speed += place_of_run(log);
  if (t.samples_per_s) speed += ", " + format_number(*t.samples_per_s) + " samples per second";
  if (t.tflops) speed += ", " + format_number(*t.tflops) + " TFLOP/s per GPU";
  if (t.mfu_pct) speed += fmt::format(", MFU {:.1f} %", *t.mfu_pct);
  if (t.mfu_pct.value_or(0) > 100) speed += " (more than a device can do: the program assumes too low a peak, or too much work)";
  return speed;
}

// "A profiled iteration takes 185 ms: forward 76.7 ms, backward 108 ms, optimizer 34.1 µs; 433 samples per second"
std::string profiled_speed(const LogReport& log) {
  const auto time = [&](const char* name) {
    const auto ns = log.setting(name);
    return ns ? std::optional(format_duration(static_cast<double>(*ns))) : std::nullopt;
  };
  const auto forward = time("profiled_forward_ns"), whole = time("profiled_iteration_ns");
  if (!forward) return "";
  std::string text = whole ? fmt::format("A profiled iteration takes {}: forward {}", *whole, *forward)
                           : fmt::format("A profiled forward pass takes {}", *forward);
  if (const auto backward = time("profiled_backward_ns")) text += ", backward " + *backward;
  if (const auto update = time("profiled_optimizer_ns")) text += ", optimizer " + *update;
  if (const auto rate = real_number(log.setting_text("profiled_samples_per_s")))
    text += fmt::format("; {} samples per second", format_number(*rate));
  if (const auto tflops = real_number(log.setting_text("profiled_tflops")))
    text += fmt::format(", {} TFLOP/s per GPU", format_number(*tflops));
  return text;
}

// "Each GPU processes 411 tokens per second. "; empty: no line states a rate.
std::string untimed_rate(const LogUntimed& s) {
  std::string text;
  if (s.tokens_per_s) text = fmt::format("The job processes {} tokens per second", format_number(*s.tokens_per_s));
  else if (s.device_tokens_per_s)
    text = fmt::format("Each GPU processes {} tokens per second", format_number(*s.device_tokens_per_s));
  else if (s.samples_per_s)
    text = fmt::format("The job processes {} samples per second", format_number(*s.samples_per_s));
  if (s.tflops) text += fmt::format("{}{} TFLOP/s per GPU", text.empty() ? "" : ", ", format_number(*s.tflops));
  if (s.mfu_pct) text += fmt::format("{}MFU {:.1f} %", text.empty() ? "" : ", ", *s.mfu_pct);
  return text.empty() ? text : text + ". ";
}

// Where no line states the time of a step.
std::string other_evidence(const LogReport& log) {
  if (log.untimed)
    return untimed_rate(*log.untimed) +
           fmt::format("The file has {} {} of steps up to step {} and no time of any. Give the log that the program "
                       "printed, or trainer_state.json of the finished run.",
                       log.untimed->lines, log.untimed->lines == 1 ? "line" : "lines", log.untimed->last_step);
  return "The log reports no step. Have the program print its step number and time, or record a trace with `profgpu run "
         "--trace`.";
}

ReportVerdict sentence_without_steps(const LogReport& log, const std::vector<RuleFinding>& findings) {
  const RuleFinding* worst = first_where(
      findings, [](const RuleFinding& a) { return a.rule != &kRunFailure && a.finding.severity != Severity::kInfo; });
  const std::string profiled = profiled_speed(log);
  if (worst == nullptr && !profiled.empty()) return {profiled + ".", VerdictKind::kHealthy};
  if (worst == nullptr) return {other_evidence(log), VerdictKind::kInconclusive};
  return {fmt::format("{}{}.", upper(worst->finding.what.front()), worst->finding.what.substr(1)),
          VerdictKind::kBottleneck};
}

ReportVerdict sentence_on_links(const LogReport& log, const std::vector<RuleFinding>& findings) {
  const LinkSummary& link =
      *std::ranges::max_element(log.links, {}, [](const LinkSummary& s) { return s.peak_busbw_gbps.value_or(0); });
  std::string text = link.text();
  text.front() = upper(text.front());
  text += fmt::format(" {} {:.1f} GB/s bus bandwidth", link.op.empty() ? "reach" : "reaches",
                      link.peak_busbw_gbps.value_or(0));
  const ReportVerdict worst = sentence_without_steps(log, findings);
  if (worst.kind == VerdictKind::kBottleneck) return {text + ". " + worst.text, worst.kind};
  return {text + ".", VerdictKind::kHealthy};
}

// "GPUs copy from each other at 394 GB/s, from the host at 55.3 GB/s": medians of the pairs.
ReportVerdict sentence_on_copies(const LogReport& log, const std::vector<RuleFinding>& findings) {
  struct Way {
    std::string_view test, words;
  };
  constexpr std::array kWays = {Way{"device_to_device_memcpy", "from each other"},
                                Way{"host_to_device_memcpy", "from the host"},
                                Way{"device_to_host_memcpy", "to the host"}};
  std::string ways;
  for (const Way& way : kWays) {
    const CopyRow* row =
        first_where(log.copies.tests, [&](const CopyRow& r) { return r.test.starts_with(way.test) && r.median; });
    if (row != nullptr) append_listed(ways, fmt::format("{} at {} GB/s", way.words, format_number(*row->median)));
  }
  const std::string text = ways.empty() ? fmt::format("nvbandwidth measured {} tests", log.copies.tests.size())
                                        : "GPUs copy " + ways;
  const RuleFinding* worst = first_where(
      findings, [](const RuleFinding& a) { return !tells_end(a.rule) && a.finding.severity != Severity::kInfo; });
  if (worst != nullptr)
    return {fmt::format("{}; but {}.", text, worst->finding.what), VerdictKind::kBottleneck};
  return {text + ".", VerdictKind::kHealthy};
}

// Lines of llama.cpp and of Text Generation Inference are of one request each, and do not say how many run at once.
ReportVerdict sentence_on_requests(const LogServing& s) {
  std::string text = s.generated_tokens_per_s
                         ? fmt::format("A request gets {} tokens per second", format_number(*s.generated_tokens_per_s))
                         : "The server read prompts";
  if (s.prompt_tokens_per_s)
    text += fmt::format(", and its prompt is read at {}", format_number(*s.prompt_tokens_per_s));
  return {text + "; how many run at once and what limits them, the log does not say.", VerdictKind::kInconclusive};
}

ReportVerdict sentence_on_serving(const LogServing& s, const std::vector<RuleFinding>& findings) {
  const RuleFinding* worst = first_where(
      findings, [](const RuleFinding& a) { return !tells_end(a.rule) && a.finding.severity != Severity::kInfo; });
  if (s.busy_lines == 0) return {"The server had no requests.", VerdictKind::kInconclusive};
  if (s.program == "llama.cpp" || s.program == "tgi") return sentence_on_requests(s);
  std::string text = s.engines > 1 ? fmt::format("The server's {} engines together ", s.engines) : "The server ";
  text += s.generated_tokens_per_s
              ? fmt::format("{} {} tokens per second", s.engines > 1 ? "generate" : "generates",
                            format_number(*s.generated_tokens_per_s))
              : fmt::format("{} not say how many tokens {}", s.engines > 1 ? "do" : "does",
                            s.engines > 1 ? "they generate" : "it generates");
  const std::string running = format_number(s.running.value_or(0));
  if (running == "1") text += ", with one request at a time";
  else if (running != "0") text += fmt::format(", with {} requests at once", running);
  if (worst != nullptr) return {fmt::format("{}; {}.", text, worst->finding.what), VerdictKind::kBottleneck};
  return {text + "; what limits it, the log does not say. Record a trace with `profgpu run --trace`.",
          VerdictKind::kInconclusive};
}

ReportVerdict sentence_on_speed(const LogReport& log, const std::vector<RuleFinding>& findings) {
  if (!log.has_steps() && !log.links.empty()) return sentence_on_links(log, findings);
  if (!log.has_steps() && !log.copies.tests.empty()) return sentence_on_copies(log, findings);
  if (!log.has_steps() && log.serving) return sentence_on_serving(*log.serving, findings);
  if (!log.has_steps()) return sentence_without_steps(log, findings);
  const std::string speed = log_speed(log);
  const RuleFinding* worst = first_where(findings, [&](const RuleFinding& a) {
    return !tells_end(a.rule) && a.finding.severity != Severity::kInfo && !a.rule->symptom;
  });
  if (worst != nullptr) return {fmt::format("{}; {}.", speed, worst->finding.what), VerdictKind::kBottleneck};
  if (log.breakdown.empty() && !log.timers.empty() && log.timers.front().step_pct)
    return {fmt::format("{}; the longest of the program's timers is {} ({:.0f} % of the step).", speed,
                        shortened(log.timers.front().name), *log.timers.front().step_pct),
            VerdictKind::kHealthy};
  if (log.breakdown.empty())
    return {speed + "; the log has no timers that say where the time goes. Turn on the program's timers, or record a "
            "trace with `profgpu run --trace`.",
            VerdictKind::kInconclusive};
  const auto largest = std::ranges::max_element(log.breakdown, {}, &LogPhaseRow::mean_ns);
  if (largest->name == "other" && log.breakdown.size() == 2)
    return {fmt::format("{}, of which {} is {:.0f} %; nothing stands out, and no timer says what the rest is made of.",
                        speed, words(log.breakdown.front().name), log.breakdown.front().step_pct),
            VerdictKind::kHealthy};
  return {fmt::format("{}; nothing stands out, the largest part is {} ({:.0f} %).", speed, words(largest->name),
                      largest->step_pct),
          VerdictKind::kHealthy};
}

}  // namespace

ReportVerdict verdict_of_logs(const std::vector<LogReport>& logs, const std::vector<RuleFinding>& findings) {
  // Of a job of several logs, one after the other, the last one that has steps.
  const LogReport* newest = first_where(logs, [](const LogReport& l) { return !l.goes_on; });
  const LogReport& log = logs.front().goes_on && newest != nullptr ? *newest : logs.front();
  const ReportVerdict speed = sentence_on_speed(log, findings);
  const RuleFinding* failure = first_where(findings, [](const RuleFinding& a) { return a.rule == &kRunFailure; });
  const RuleFinding* diverged = first_where(
      findings, [](const RuleFinding& a) { return a.rule == &kLossNotFinite && !a.finding.verdict.empty(); });
  if (failure == nullptr && diverged != nullptr)
    return {diverged->finding.verdict + " " + speed.text, VerdictKind::kFailure};
  const RuleFinding* setup = first_where(
      findings, [](const RuleFinding& a) { return a.rule == &kNcclWarnings && !a.finding.verdict.empty(); });
  if (failure == nullptr && setup != nullptr && !log.has_steps()) return {setup->finding.verdict, VerdictKind::kHang};
  if (failure == nullptr && log.end.earlier_error_line)
    return {fmt::format("{} Line {} has an error above the last steps ({}): if the program's output is buffered, it ended "
                        "the run.", speed.text, *log.end.earlier_error_line, words(log.end.earlier_error)), speed.kind};
  if (failure == nullptr) return speed;
  const std::string& what = failure->finding.what;
  std::string text = std::string(1, upper(what.front())) + what.substr(1);
  const LogReport* ended = first_where(logs, [](const LogReport& l) { return l.tells_end && l.end.failed(); });
  if (ended != nullptr && ended->end.line) text += fmt::format(" ({})", named_line_of_end(*ended));   // else of no log
  text += ".";
  if (log.has_steps()) text += " " + speed.text;
  return {std::move(text), VerdictKind::kFailure};
}

}  // namespace profgpu
