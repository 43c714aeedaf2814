// LogReport: what a job's own log says of its speed, of what its steps are made of, of what they stopped for and of how
// the run ended.
//
// Means are over the measured lines (not warm-up) of the process that printed most; a line that stands for several
// iterations counts once, as a step of a report does. A file may hold several runs, one behind the other: figures,
// stalls and memory are of the last one that has steps enough.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analyse/report/document.h"
#include "analyse/run/copy_rates.h"
#include "analyse/run/link_rates.h"
#include "trace/run_log.h"

namespace profgpu {

/// Of the measured steps.
struct LogThroughput {
  int64_t lines = 0, warmup_lines = 0;
  int64_t iterations = 0;                                             ///< that all lines stand for
  std::optional<int64_t> mean_ns, median_ns, p95_ns, min_ns, max_ns;  ///< of one step
  std::optional<double> samples_per_s, tokens_per_s, device_tokens_per_s, tflops,
      mfu_pct;  ///< means of what is printed

  void fields(auto&& v) const {
    v("lines", lines), v("warmup_lines", warmup_lines), v("iterations", iterations), v("mean_ns", mean_ns);
    v("median_ns", median_ns), v("p95_ns", p95_ns), v("min_ns", min_ns), v("max_ns", max_ns);
    v("samples_per_s", samples_per_s), v("tokens_per_s", tokens_per_s);
    v("device_tokens_per_s", device_tokens_per_s), v("tflops", tflops), v("mfu_pct", mfu_pct);
  }
};

struct LogPhaseRow {
  std::string name;  ///< a phase, or "other": what no timer covers
  int64_t mean_ns = 0;
  double step_pct = 0;

  void fields(auto&& v) const { v("name", name), v("mean_ns", mean_ns), v("step_pct", step_pct); }
};

/// One of the program's own timers.
struct LogTimerRow {
  std::string name;
  std::string phase;  ///< empty: within another timer
  int64_t count = 0;
  int64_t mean_ns = 0, min_ns = 0, max_ns = 0;  ///< of one iteration; over ranks where the log states several
  std::optional<double> step_pct;               ///< of the mean step

  void fields(auto&& v) const {
    v("name", name), v("phase", unless_empty(phase)), v("count", count), v("mean_ns", mean_ns), v("min_ns", min_ns);
    v("max_ns", max_ns), v("step_pct", step_pct);
  }
};

struct LogMemoryRow {
  std::optional<int> rank;
  std::optional<int64_t> peak_allocated_bytes, peak_reserved_bytes, capacity_bytes;
  int64_t lines = 0;

  void fields(auto&& v) const {
    v("rank", rank), v("peak_allocated_bytes", peak_allocated_bytes), v("peak_reserved_bytes", peak_reserved_bytes);
    v("capacity_bytes", capacity_bytes), v("lines", lines);
  }
};

struct LogLoss {
  std::optional<double> first, last, lowest;
  std::optional<int64_t> lowest_step;
  int64_t skipped = 0, not_finite = 0;  ///< iterations without an update, with a loss that is no number
  std::optional<int64_t> not_finite_since;  ///< no later step has a loss that is a number; none: the last one's is

  void fields(auto&& v) const {
    v("first", first), v("last", last), v("lowest", lowest), v("lowest_step", lowest_step), v("skipped", skipped);
    v("not_finite", not_finite), v("not_finite_since", not_finite_since);
  }
};

/// Leading lines that took longer than the others.
struct LogWarmup {
  int64_t lines = 0;
  int64_t extra_ns = 0;  ///< beyond as many iterations at the median

  void fields(auto&& v) const { v("lines", lines), v("extra_ns", extra_ns); }
};

/// What the training stopped for, or a step that took long.
struct LogStall {
  std::string kind;  ///< checkpoint, evaluation, slow_step, gap
  std::optional<int64_t> step;
  int64_t line = 0;
  std::optional<int64_t> duration_ns;  ///< of slow steps beyond the median; none: not known
  std::string text;

  void fields(auto&& v) const {
    v("kind", kind), v("step", step), v("line", line), v("duration_ns", duration_ns), v("text", unless_empty(text));
  }
};

struct LogEnd {
  std::string kind = "unknown";  ///< or an event's name
  std::optional<int64_t> line;
  std::optional<int64_t> after_step;
  std::optional<int> rank;
  std::string node;
  std::string text;              ///< the line
  std::optional<int64_t> bytes;  ///< out of memory: what was asked for
  std::string peer;              ///< a network error: the other end
  std::string collective;        ///< a timeout: which collective was waited for
  std::vector<int> behind;       ///< likewise: ranks that had not called it
  std::string behind_in;         ///< the group that these are numbers in; empty: they are ranks of the job
  std::string mismatch;          ///< likewise: who called what under one number
  std::vector<int> mismatched;   ///< the fewer ones; without a majority all
  std::string waits;             ///< likewise: who waited in which one, where the log does not say how far each got
  int64_t reporting = 0;         ///< likewise: ranks of which the log says how far they got
  bool first_failure = false;    ///< the launcher names it as what failed first
  /// Of an end that the log does not state: an error above the last steps, which may have been printed later than they
  /// were made, as programs hold back what they write to a file.
  std::string earlier_error;  ///< an event's name
  std::optional<int64_t> earlier_error_line;
  std::string earlier_error_text;
  [[nodiscard]] bool failed() const { return kind != "finished" && kind != "unknown"; }

  void fields(auto&& v) const {
    v("kind", kind), v("line", line), v("after_step", after_step), v("rank", rank), v("node", unless_empty(node));
    v("text", unless_empty(text)), v("bytes", bytes), v("peer", unless_empty(peer));
    v("collective", unless_empty(collective)), v("behind", behind), v("behind_in", unless_empty(behind_in));
    v("mismatch", unless_empty(mismatch)), v("mismatched", mismatched), v("waits", unless_empty(waits));
    v("earlier_error", unless_empty(earlier_error)), v("earlier_error_line", earlier_error_line);
    v("earlier_error_text", unless_empty(earlier_error_text));
  }
};

/// The training began again from an earlier step.
struct LogRestart {
  int64_t line = 0;
  std::optional<int64_t> step, after_step;  ///< the first one again, and the last one before
  LogEnd cause;                             ///< of the run before; "unknown": the log does not say
  std::string file;                         ///< of an earlier log that has the run before; empty: this one

  void fields(auto&& v) const {
    v("line", line), v("step", step), v("after_step", after_step), v("cause", cause.kind);
    v("cause_line", cause.line), v("text", unless_empty(cause.text)), v("file", unless_empty(file));
  }
};

/// One of several runs in a file: by the process that printed most.
struct LogRunRow {
  int64_t line = 0;  ///< of its first step
  int64_t first_step = 0, last_step = 0, lines = 0;
  int64_t median_ns = 0;  ///< of a step
  bool told = false;      ///< the report's figures are of it
  LogEnd end;

  void fields(auto&& v) const {
    v("line", line), v("first_step", first_step), v("last_step", last_step), v("lines", lines);
    v("median_ns", median_ns), v("told", told), v("end", end.kind), v("end_line", end.line);
  }
};

struct LogProcess {
  std::optional<int> rank;
  std::string node;
  int64_t pid = 0;              ///< of a worker of Ray; 0: not known
  int64_t lines = 0;
  int64_t mean_ns = 0, p95_ns = 0;  ///< of the measured steps

  void fields(auto&& v) const {
    v("rank", rank), v("node", unless_empty(node)), v("pid", only_if(pid > 0, pid)), v("lines", lines);
    v("mean_ns", mean_ns), v("p95_ns", p95_ns);
  }
};

struct LogModuleRow {
  int64_t depth = 0;
  std::string name, type;
  std::optional<double> parameters, macs, flops_per_s;
  std::optional<int64_t> latency_ns;
  std::optional<double> latency_pct;  ///< of the whole model's

  void fields(auto&& v) const {
    v("depth", depth), v("name", name), v("type", unless_empty(type)), v("parameters", parameters), v("macs", macs);
    v("flops_per_s", flops_per_s), v("latency_ns", latency_ns), v("latency_pct", latency_pct);
  }
};

/// What a clock on the wall says of the time from the first line of a step to the last.
struct LogWall {
  std::optional<int64_t> wall_ns;  ///< none: lines carry no clock time
  int64_t in_steps_ns = 0;
  std::optional<int64_t> outside_ns;

  void fields(auto&& v) const { v("wall_ns", wall_ns), v("in_steps_ns", in_steps_ns), v("outside_ns", outside_ns); }
};

struct LogSetting {
  std::string name, value;

  void fields(auto&& v) const { v("name", name), v("value", value); }
};

struct NcclTransport {
  std::string transport;                        ///< "P2P/direct pointer", "NET/IB/GDRDMA"
  int64_t connections = 0;

  void fields(auto&& v) const { v("transport", transport), v("connections", connections); }
};

struct NcclRemark {
  std::string kind, text;
  int64_t line = 0, count = 0;                  ///< of the first such line

  void fields(auto&& v) const { v("kind", kind), v("text", text), v("line", line), v("count", count); }
};

/// What NCCL says of itself (NCCL_DEBUG=INFO).
struct NcclReport {
  std::string version, network, network_devices;
  std::optional<int64_t> ranks, hosts, channels;
  std::vector<NcclTransport> transports;        ///< most connections first
  std::vector<NcclRemark> remarks;              ///< fall-backs and warnings, by line
  std::map<std::string, std::string> environment;
  int64_t lines = 0;

  void fields(auto&& v) const {
    v("version", unless_empty(version)), v("network", unless_empty(network));
    v("network_devices", unless_empty(network_devices)), v("ranks", ranks), v("hosts", hosts), v("channels", channels);
    v("transports", transports), v("remarks", remarks), v("environment", settings()), v("lines", lines);
  }
  [[nodiscard]] std::vector<LogSetting> settings() const {
    std::vector<LogSetting> all;
    for (const auto& [name, value] : environment) all.push_back({name, value});
    return all;
  }
};

/// One line of an inference server.
struct LogServingRow {
  int64_t line = 0;
  std::optional<int> rank;
  std::optional<int64_t> start_ns;  ///< since the first such line, by the log's clock
  std::optional<double> prompt_tokens_per_s, generated_tokens_per_s, running, waiting, cache_pct, prefix_hit_pct;

  void fields(auto&& v) const {
    v("line", line), v("rank", rank), v("start_ns", start_ns), v("prompt_tokens_per_s", prompt_tokens_per_s);
    v("generated_tokens_per_s", generated_tokens_per_s), v("running", running), v("waiting", waiting);
    v("cache_pct", cache_pct), v("prefix_hit_pct", prefix_hit_pct);
  }
};

/// Of the lines that state them: shares and lengths are weighted by drafted tokens, where lines state those.
struct LogSpeculation {
  std::optional<double> drafted_tokens, accepted_tokens;  ///< in all
  std::optional<double> accepted_pct;                     ///< of the drafted tokens
  std::optional<double> length;  ///< tokens that a step gives a request, with the one of the model itself
  std::vector<double> position_pct;  ///< how often the first drafted token of a step was accepted, the second, …

  void fields(auto&& v) const {
    v("drafted_tokens", drafted_tokens), v("accepted_tokens", accepted_tokens), v("accepted_pct", accepted_pct);
    v("length", length), v("position_pct", position_pct);
  }
};

/// What an inference server's lines say; of those while there were requests. Rates and requests are of all engines.
struct LogServing {
  std::string program;
  int64_t engines = 0;  ///< that share the work and print lines of their own
  int64_t lines = 0, busy_lines = 0;  ///< busy: requests run, wait or ran since the line before
  std::optional<double> prompt_tokens_per_s, generated_tokens_per_s, most_generated_tokens_per_s;  ///< means; the most
  std::optional<double> running, most_running, waiting, most_waiting;
  std::optional<double> cache_pct, most_cache_pct, prefix_hit_pct;  ///< the last is that of the last line
  int64_t waiting_lines = 0;  ///< with requests that wait
  int64_t full_lines = 0;     ///< of these, with a full key-value cache
  std::optional<double> preempted;
  bool preempted_at_least = false;  ///< of several engines, of which lines do not say whose counts they are
  std::optional<LogSpeculation> speculation;

  /// Of the key-value cache, from which on it counts as full.
  static constexpr double kFull_pct = 95;

  void fields(auto&& v) const {
    v("program", program), v("engines", engines), v("lines", lines), v("busy_lines", busy_lines);
    v("prompt_tokens_per_s", prompt_tokens_per_s), v("generated_tokens_per_s", generated_tokens_per_s);
    v("most_generated_tokens_per_s", most_generated_tokens_per_s), v("running", running);
    v("most_running", most_running), v("waiting", waiting), v("most_waiting", most_waiting);
    v("cache_pct", cache_pct), v("most_cache_pct", most_cache_pct), v("prefix_hit_pct", prefix_hit_pct);
    v("waiting_lines", waiting_lines), v("full_lines", full_lines), v("preempted", preempted);
    v("preempted_at_least", preempted_at_least), v("speculation", speculation);
  }
};

/// Lines on steps of a log that states no step's time: rates are medians.
struct LogUntimed {
  int64_t lines = 0, last_step = 0;
  std::optional<double> samples_per_s, tokens_per_s, device_tokens_per_s, tflops, mfu_pct;

  void fields(auto&& v) const {
    v("lines", lines), v("last_step", last_step), v("samples_per_s", samples_per_s), v("tokens_per_s", tokens_per_s);
    v("device_tokens_per_s", device_tokens_per_s), v("tflops", tflops), v("mfu_pct", mfu_pct);
  }
};

struct LogReport {
  std::string path;
  std::vector<std::string> families;
  int64_t lines = 0;
  std::vector<LogSetting> settings;
  LogThroughput throughput;
  std::optional<LogUntimed> untimed;   ///< where no step has a time
  std::vector<LogPhaseRow> breakdown;  ///< of the mean measured step; empty: the log has no timers
  std::vector<LogTimerRow> timers;     ///< longest first
  std::vector<LogMemoryRow> memory;    ///< fullest first
  std::optional<int64_t> host_memory_bytes;
  LogWarmup warmup;
  LogLoss loss;
  std::vector<LogStall> stalls;  ///< by line
  LogWall wall;
  std::vector<LogRunRow> runs;       ///< by line; empty: one alone
  std::vector<LogRestart> restarts;  ///< by line
  LogEnd end;
  std::vector<LogProcess> processes;  ///< slowest first; empty: one alone
  std::vector<LogModuleRow> modules;
  std::vector<LinkSummary> links;               ///< of measured collectives
  std::vector<LinkRow> link_rates;
  CopyReport copies;
  std::optional<NcclReport> nccl;
  std::optional<LogServing> serving;
  std::vector<LogServingRow> serving_lines;
  std::shared_ptr<const RunLog> log;  ///< what it is of
  bool has_dumps = false;             ///< NCCL's flight recorder dumps of the run lie beside it
  std::optional<int> rank;            ///< of whose process alone it is, where it is one of several
  bool one_of_several = false;        ///< other logs of the run lie beside it
  bool tells_end = true;              ///< its end is that of the run
  bool goes_on = false;               ///< in a later log of the job, which was started again
  /// Of a run that has a log for each process, in the log of the slowest: all of them, slowest first.
  std::vector<LogProcess> beside;

  [[nodiscard]] bool has_steps() const { return throughput.lines > 0; }
  [[nodiscard]] std::optional<int64_t> setting(const std::string& name) const { return log->setting(name); }
  [[nodiscard]] std::string setting_text(const std::string& name) const;
  [[nodiscard]] const LogTimerRow* timer(std::string_view name) const;
  /// The one that the figures are of; null: there is one alone.
  [[nodiscard]] const LogRunRow* told_run() const;
  /// Of the mean step; 0: not timed.
  [[nodiscard]] double phase_pct(LogPhase phase) const;

  void fields(auto&& v) const {
    v("path", path), v("families", families), v("lines", lines), v("settings", settings);
    v("throughput", only_if(has_steps(), throughput)), v("untimed", untimed);
    v("breakdown", breakdown), v("timers", timers), v("memory", memory), v("host_memory_bytes", host_memory_bytes);
    v("warmup", only_if(has_steps(), warmup)), v("loss", only_if(loss.last.has_value(), loss)), v("stalls", stalls);
    v("wall", only_if(has_steps(), wall)), v("runs", runs), v("restarts", restarts), v("end", end);
    v("processes", processes), v("modules", modules);
    v("links", links), v("link_rates", link_rates);
    v("copies", copies.tests), v("slow_pairs", copies.slow), v("copy_rates", copies.cells), v("nccl", nccl);
    v("serving", serving), v("serving_lines", serving_lines);
  }
};

LogReport log_report(std::shared_ptr<const RunLog> log);

/// Of logs that are each of one process, compares these.
void compare_processes(std::vector<LogReport>& logs);

}  // namespace profgpu
