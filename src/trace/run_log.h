// RunLog: what a job printed of itself. One file's lines, as the readers of src/trace/import/log/ understood them.
//
// Times are those that the log states: durations as printed, clock times as the log's own clock has them, whose zone is
// not known. What a log does not state is absent.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace profgpu {

/// What a step's time is spent on, as far as a log's own timers tell it. Named as the phases of a report.
enum class LogPhase : uint8_t {
  kDataLoading,
  kForward,
  kBackward,
  kOptimizer,
  kCommunication,
  kCheckpoint,
  kForwardBackward,  ///< both, where the log does not part them
};
constexpr size_t kLogPhases = 7;
std::string_view log_phase_name(LogPhase phase);

/// What a line states beside the time of a step.
struct LogFigures {
  std::optional<double> loss, learning_rate, grad_norm, loss_scale;
  std::optional<double> samples_per_s, tokens_per_s;       ///< of the whole job
  std::optional<double> device_tokens_per_s;               ///< of one device
  std::optional<double> tflops;                            ///< of one device: 1e12 operations a second
  std::optional<double> mfu_pct;                           ///< of the peak that the program assumes
  std::optional<int64_t> samples;                          ///< of one iteration: the global batch
  std::optional<int64_t> skipped, not_finite;              ///< iterations of the line without an update, with a NaN
  std::optional<int64_t> allocated_bytes, reserved_bytes;  ///< peaks on one device

  /// Takes what `other` states and this does not.
  void complete(const LogFigures& other);
};

/// A line that reports on one iteration, or on several by their mean.
struct LogStep {
  int64_t number = 0;                  ///< as printed; of several the last
  int64_t iterations = 1;              ///< that the line stands for
  int64_t line = 0;                    ///< from 1
  std::optional<int64_t> printed_ns;   ///< when, on the log's clock
  int64_t start_ns = 0;                ///< of the first of the iterations; on the clock of RunLog::base_ns
  std::optional<int64_t> duration_ns;  ///< of one iteration
  bool derived = false;                ///< the duration is none that the log states, but follows from others
  bool begins_epoch = false;           ///< the time since the line before is more than that of steps
  bool other_run = false;              ///< than the one that a report's figures are of
  LogFigures figures;
  std::array<int64_t, kLogPhases> phase_ns{};  ///< of one iteration; 0: none, or not timed

  [[nodiscard]] int64_t& phase(LogPhase p) { return phase_ns[static_cast<size_t>(p)]; }
  [[nodiscard]] int64_t phase(LogPhase p) const { return phase_ns[static_cast<size_t>(p)]; }
  [[nodiscard]] bool timed() const;  ///< any phase is
  /// Of all iterations, which have a duration; what is out of all reason is cut to 30 days.
  [[nodiscard]] int64_t whole_ns() const;
  static constexpr int64_t kLongest_ns = int64_t{30} * 86400 * 1'000'000'000;
};

/// Values of a timer, of one iteration each.
struct LogTimerValues {
  int64_t count = 0;
  double sum_ns = 0, min_ns = 0, max_ns = 0;

  void add(double least_ns, double most_ns);
  void add(const LogTimerValues& others);
};

/// One of the program's own timers, over the lines that state it.
struct LogTimer {
  std::string name;               ///< as printed: "backward-params-all-reduce"
  std::optional<LogPhase> phase;  ///< none: it belongs to none, or lies within another timer
  struct Value {
    int64_t line = 0;
    double least_ns = 0, most_ns = 0;
  };
  static constexpr size_t kLeading = 256;
  std::vector<Value> leading;  ///< the first ones, of which some are of a warm-up
  LogTimerValues later;

  /// From a line on, as far as leading ones can be left out; all, if there would be none.
  [[nodiscard]] LogTimerValues from(int64_t line) const;
};

/// What one process printed, or one node where processes are not told apart.
struct LogRank {
  std::optional<int> rank;     ///< none: the lines do not say
  std::string node;            ///< empty: likewise
  int64_t pid = 0;             ///< of a worker of Ray, which has no other number; 0: likewise
  std::string family;          ///< whose lines the steps are: "megatron"
  std::vector<LogStep> steps;  ///< in the order of lines; each has a duration
  std::vector<LogTimer> timers;
  int64_t untimed = 0;  ///< lines that report on a step, but of which no duration is known
  std::optional<double> first_loss;  ///< of all lines, those included
};

enum class LogEventKind : uint8_t {
  kCheckpoint,
  kEvaluation,
  kRestart,
  kSkipped,
  kFinished,
  kOutOfMemory,
  kHostOutOfMemory,
  kCollectiveTimeout,
  kNcclError,
  kDeviceError,
  kException,
  kKilled,
  kExitCode,
  kTerminated,
  kTimeLimit,
  kPreempted,
  kNodeFailure,
  kNotFinite,
};
std::string_view log_event_name(LogEventKind kind);
/// Whether a run ends by it.
constexpr bool ends_run(LogEventKind kind) { return kind >= LogEventKind::kFinished; }

struct LogEvent {
  LogEventKind kind = LogEventKind::kException;
  int64_t line = 0;
  std::optional<int> rank;
  std::string node;
  std::optional<int64_t> printed_ns;
  std::optional<int64_t> duration_ns;  ///< of checkpoints and evaluations, where it is stated
  std::optional<int64_t> step;         ///< that is stated, else the last one before it
  std::string text;                    ///< of the line, for people: without control characters and secrets, short
  std::optional<int64_t> bytes;        ///< of an out-of-memory error: what was asked for
  std::string peer;                    ///< of a network error: the other end
  bool follows = false;                ///< by its own words it follows from another process's end
  bool first_failure = false;          ///< the launcher names it as the failure that it saw first
};

/// What PyTorch's watchdog says of a process's collectives when one takes too long.
struct CollectiveState {
  std::string group;  ///< "0(default_pg)"; empty: the line does not say
  int rank = 0;
  bool of_group = false;  ///< `rank` counts within the group, as the line has no label
  int64_t line = 0;
  std::optional<int64_t> timed_out, enqueued, completed;  ///< numbers of collectives; the last two: the newest
  std::string op;                                         ///< of the one that timed out: "ALLREDUCE"
  int64_t elements = 0;
};

/// What a line says of one device's memory. Of a program that does not say which rank it is: of the one that prints.
struct LogMemory {
  int64_t line = 0;
  std::optional<int> rank;
  std::string node;
  std::optional<int64_t> step;
  std::optional<int64_t> allocated_bytes, max_allocated_bytes, reserved_bytes, max_reserved_bytes;
  std::optional<int64_t> capacity_bytes;  ///< of the device, where the line lets it be known
  std::optional<int64_t> host_bytes;      ///< used on the host
};

/// A module of a profile of operations (DeepSpeed's flops_profiler).
struct LogModule {
  int depth = 0;
  std::string name;  ///< "(attention)"
  std::string type;  ///< "SelfAttention"
  std::optional<double> parameters, macs, flops_per_s;
  std::optional<int64_t> latency_ns;  ///< of its forward pass
};

/// What a server says of tokens that it drafted for its model to check. What it does not say is absent.
struct Speculation {
  std::optional<double> drafted, accepted;  ///< tokens
  std::optional<double> accepted_pct;       ///< of the drafted tokens
  std::optional<double> length;             ///< tokens that a step gives a request, with the one of the model itself
  bool in_all = false;                      ///< since the server began, not since the line before
  std::vector<double> position_pct;         ///< how often the first drafted token of a step was accepted, the second, …
};

/// A line in which an inference server says how it is doing, over the time since the line before or at that moment.
struct ServingLine {
  int64_t line = 0;
  std::string program;                ///< "vllm", "sglang"
  std::optional<int> rank;            ///< of the engines that share the work
  std::optional<int64_t> printed_ns;  ///< on the log's clock
  std::optional<double> prompt_tokens_per_s, generated_tokens_per_s;
  std::optional<double> running, waiting;  ///< requests
  std::optional<double> cache_pct;         ///< of the key-value cache that is in use
  std::optional<double> prefix_hit_pct;    ///< of the tokens of prompts: found in the prefix cache
  std::optional<double> prompt_tokens;     ///< of which that is said; absent: of those of the last while
  std::optional<double> preempted;         ///< requests, since the line before
  std::optional<double> preempted_in_all;  ///< likewise, since the start
  std::vector<Speculation> speculation;    ///< since the line before
};

/// A measured collective: a row of nccl-tests, all_reduce_bench or DeepSpeed's comms logger.
struct LinkRate {
  std::string op;     ///< nccl-tests' term: "all_reduce"
  int64_t bytes = 0;  ///< S as nccl-tests has it
  int64_t count = 0;  ///< elements; 0: not stated
  std::string dtype, reduction;
  int ranks = 0;  ///< 0: not known
  bool in_place = false;
  int64_t time_ns = 0;                           ///< of one operation
  std::optional<double> algbw_gbps, busbw_gbps;  ///< 1e9 bytes a second
  std::optional<int64_t> wrong;                  ///< elements that were wrong; none: not checked
  int64_t calls = 0;                             ///< of a program's own traffic; 0: a benchmark's row
  int64_t line = 0;
};

/// A matrix of nvbandwidth: copies between each of the rows and each of the columns, or how long one access takes.
struct CopyMatrix {
  std::string test;         ///< "device_to_device_memcpy_read_ce"
  std::string description;  ///< "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)"
  std::vector<std::vector<std::optional<double>>> rows;  ///< none: not measured; 1e9 bytes a second, or nanoseconds
  std::optional<double> sum;                             ///< as stated
  int64_t line = 0;
  std::string node;                                      ///< of the line's label; empty: it has none

  [[nodiscard]] bool is_latency() const { return description.find("(ns)") != description.npos; }
};

/// What NCCL says of itself (NCCL_DEBUG=INFO), of all communicators together.
struct NcclLog {
  std::string version;          ///< "2.27.7+cuda13.0"; empty: it did not say
  std::string network;          ///< "IB", "Socket", "AWS Libfabric"
  std::string network_devices;  ///< "[0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE"
  int ranks = 0;                ///< of the largest communicator
  int hosts = 0;
  int channels = 0;                           ///< collective channels of a communicator; 0: not said
  std::map<std::string, int64_t> transports;  ///< "P2P/CUMEM" to connections between ranks
  struct Remark {
    std::string kind;  ///< "no_gpu_direct_rdma"
    std::string text;  ///< of the first such line
    int64_t line = 0;
    int64_t count = 0;
  };
  std::vector<Remark> remarks;                     ///< by line
  std::map<std::string, std::string> environment;  ///< NCCL_* as set by the user
  int64_t lines = 0;
};

/// Of a log in which no step has a time: the process that printed most.
struct StepsWithoutTimes {
  int64_t lines = 0, last_step = 0, last_line = 0;
  std::optional<double> first_loss, last_loss;
  /// Medians of the lines that state them.
  std::optional<double> samples_per_s, tokens_per_s, device_tokens_per_s, tflops, mfu_pct;
};

struct RunLog {
  std::string path;
  std::vector<std::string> families;  ///< whose lines were found
  int64_t lines = 0, text_bytes = 0;
  int64_t records = 0;    ///< lines that a reader understood
  int64_t cut_lines = 0;  ///< that are too long to be read whole
  int64_t untimed = 0;    ///< lines that report on a step of which neither the number nor the time is known
  std::string problem;    ///< why the file could not be read to its end; empty: it could
  int64_t base_ns = 0;    ///< the log's clock at start_ns 0, as if it showed UTC; 0: it shows none
  bool dated = false;     ///< lines carry clock times
  std::vector<LogRank> ranks;
  StepsWithoutTimes no_times;                   ///< where `ranks` is empty
  std::vector<LogEvent> events;                 ///< by line; of each kind the first ones
  std::map<LogEventKind, int64_t> event_lines;  ///< by kind: of all
  std::vector<CollectiveState> collectives;     ///< one of each group and rank, in each run of a job that is restarted
  std::vector<LogMemory> memory;                ///< by line
  std::map<std::string, std::string> settings;  ///< what is known of the job's set-up: "world_size", "zero_stage"
  struct Settings {
    int64_t until_line = 0;
    std::map<std::string, std::string> values;
  };
  std::vector<Settings> settings_before;  ///< of runs before: what held above a line
  /// Where step numbers begin again, or a training is resumed: lines of the first steps of all runs but the first.
  std::vector<int64_t> run_lines;
  int64_t told_run = 0;  ///< the run that figures are of: the last one that has steps enough
  std::vector<LogModule> modules;               ///< in the order of the tree
  std::vector<ServingLine> serving;             ///< by line
  int64_t serving_left_out = 0;                 ///< lines beyond the most that are kept
  std::map<int64_t, double> preempted;          ///< requests of each engine of vLLM, where lines count them so far
  bool preempted_mixed = false;                 ///< of several engines, and lines do not say whose they are
  int64_t last_answer = 0;                      ///< the last line by which a server answered a request; 0: none
  std::vector<LinkRate> rates;
  std::vector<CopyMatrix> copies;
  std::map<std::string, std::string> rate_notes;  ///< "program", "devices", "average_busbw_gbps", "out_of_bounds"
  NcclLog nccl;

  [[nodiscard]] bool empty() const {
    return ranks.empty() && events.empty() && memory.empty() && rates.empty() && modules.empty() && nccl.lines == 0 &&
           serving.empty() && copies.empty();
  }
  /// Lines that tell of events and are not among `events`.
  [[nodiscard]] int64_t events_left_out() const;
  /// A whole number among the settings.
  [[nodiscard]] std::optional<int64_t> setting(const std::string& name) const;
  /// As it holds for a line.
  [[nodiscard]] std::optional<int64_t> setting(const std::string& name, int64_t line) const;
  /// The number of the run that a line is of, from 0.
  [[nodiscard]] int64_t run_of(int64_t line) const;
  [[nodiscard]] bool is_told(int64_t line) const { return run_of(line) == told_run; }
};

}  // namespace profgpu
