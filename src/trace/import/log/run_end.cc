// How a run ended, or what it survived: errors of Python, CUDA and NCCL, signals, Slurm's, mpirun's and torchrun's last
// words. Which of several such lines is the cause is for the analysis to say; here each is kept, with its line.
#include <algorithm>
#include <array>

#include "base/text.h"
#include "trace/health.h"
#include "trace/import/log/log_family.h"

namespace profgpu {
namespace {

enum class SignForm : uint8_t {
  kWords,
  kRaised,  // an exception's class, as Python prints one that ends a program
  kTraced,  // likewise, as the last line of a traceback
  kShell,   // a shell's report of a process: alone, or behind "script.sh: line 9:  4711 "
};

struct Sign {
  std::string_view words;  // in the line, as printed
  LogEventKind kind;
  std::string_view also = {};  // likewise
  SignForm form = SignForm::kWords;
};

constexpr std::string_view kXid = "NVRM: Xid";

// The first that fits.
constexpr auto kSigns = [] {
  using enum LogEventKind;
  return std::array{
      Sign{"ray.exceptions.OutOfMemoryError", kHostOutOfMemory},
      Sign{"killed due to memory pressure (OOM)", kHostOutOfMemory},
      Sign{"running low on memory", kHostOutOfMemory, "the node"},
      Sign{"out of memory. Tried to allocate", kOutOfMemory},  // CUDA, HIP, XPU, NPU
      Sign{"CUDA out of memory", kOutOfMemory},
      Sign{"HIP out of memory", kOutOfMemory},
      Sign{"MPS backend out of memory", kOutOfMemory},
      Sign{"OutOfMemoryError", kOutOfMemory, "", SignForm::kRaised},
      Sign{"CUDA error: out of memory", kOutOfMemory},
      Sign{"Cuda failure 'out of memory'", kOutOfMemory},
      Sign{"RESOURCE_EXHAUSTED: ", kOutOfMemory, "allocat"},   // XLA's
      Sign{"OOM when allocating tensor", kOutOfMemory},        // TensorFlow's
      Sign{"CUBLAS_STATUS_ALLOC_FAILED", kOutOfMemory},
      Sign{"No available memory for the cache blocks", kOutOfMemory},
      Sign{"larger than the available KV cache memory", kOutOfMemory},
      Sign{"DefaultCPUAllocator: can't allocate memory", kHostOutOfMemory},
      Sign{"oom-kill", kHostOutOfMemory},
      Sign{"oom_kill", kHostOutOfMemory},
      Sign{"OOMKilled", kHostOutOfMemory},
      Sign{"Out Of Memory", kHostOutOfMemory, "slurm"},
      Sign{"OUT_OF_MEMORY", kHostOutOfMemory},
      Sign{"MemoryError", kHostOutOfMemory, "", SignForm::kRaised},
      Sign{"is killed by signal: ", kKilled, "DataLoader worker"},
      Sign{"collective operation timeout", kCollectiveTimeout},
      Sign{"Watchdog caught collective", kCollectiveTimeout},
      Sign{"due to a collective timeout from", kCollectiveTimeout},
      Sign{"watchdog got stuck for", kCollectiveTimeout},
      Sign{"Heartbeat monitor timed out", kCollectiveTimeout},
      Sign{"Timed out initializing process group", kCollectiveTimeout},
      Sign{"wait timeout after", kCollectiveTimeout},
      Sign{"Monitored barrier", kCollectiveTimeout, "timed out"},
      Sign{"DUE TO TIME LIMIT", kTimeLimit},
      Sign{"DUE TO PREEMPTION", kPreempted},
      Sign{"DUE TO NODE FAILURE", kNodeFailure},
      Sign{"NODE_FAIL", kNodeFailure},
      Sign{"Node failure on ", kNodeFailure},
      Sign{"CANCELLED AT", kTerminated},
      Sign{"ncclUnhandledCudaError", kNcclError},
      Sign{"ncclSystemError", kNcclError},
      Sign{"ncclInternalError", kNcclError},
      Sign{"ncclRemoteError", kNcclError},
      Sign{"ncclInvalidUsage", kNcclError},
      Sign{"NCCL error:", kNcclError},
      Sign{"NCCL error in", kNcclError},
      Sign{"NCCL Error ", kNcclError},
      Sign{"Got completion from peer", kNcclError, " status="},
      Sign{"Connection closed by remote peer", kNcclError},
      Sign{"CUDA error:", kDeviceError},
      Sign{"HIP error:", kDeviceError},
      Sign{"CUDNN_STATUS_", kDeviceError},
      Sign{"CUBLAS_STATUS_", kDeviceError},
      Sign{kXid, kDeviceError},
      Sign{"fallen off the bus", kDeviceError, "NVRM"},
      Sign{"Memory access fault by GPU", kDeviceError},
      Sign{"HSA_STATUS_ERROR_", kDeviceError},
      Sign{"exited on signal 15", kTerminated},
      Sign{"exited on signal ", kKilled},
      Sign{"Segmentation fault", kKilled, "", SignForm::kShell},
      Sign{"Bus error", kKilled, "", SignForm::kShell},
      Sign{"Fatal Python error: Segmentation fault", kKilled},
      Sign{"Fatal Python error: Bus error", kKilled},
      Sign{"Signal: Segmentation fault", kKilled},   // Open MPI's
      Sign{"Signal: Bus error", kKilled},
      Sign{"Caught signal ", kKilled, "Segmentation fault"},   // UCX's
      Sign{"Caught signal ", kKilled, "Bus error"},
      Sign{": Segmentation fault", kKilled, "srun: error:"},
      Sign{": Bus error", kKilled, "srun: error:"},
      Sign{": Killed", kKilled, "srun: error:"},
      Sign{"died with <Signals.SIGTERM", kTerminated},
      Sign{"died with <Signals.SIG", kKilled},
      Sign{"terminated with exit code 137", kKilled},
      Sign{"terminated with exit code 139", kKilled},
      Sign{"double free or corruption", kKilled},
      Sign{"Killed", kKilled, "", SignForm::kShell},
      Sign{"Aborted", kKilled, "", SignForm::kShell},
      Sign{"Signal 9 (SIGKILL)", kKilled},
      Sign{"Signal 11 (SIGSEGV)", kKilled},
      Sign{"Signal 7 (SIGBUS)", kKilled},
      Sign{"exits with return code = ", kExitCode},
      Sign{"(exitcode: ", kExitCode, "failed "},
      Sign{"Exited with exit code ", kExitCode, "srun: error:"},
      Sign{"CalledProcessError", kExitCode, "returned non-zero exit status", SignForm::kTraced},
      Sign{"SignalException", kTerminated, "", SignForm::kRaised},
      Sign{"received SIGTERM", kTerminated},
      Sign{"Received signal 15", kTerminated},
      Sign{"KeyboardInterrupt", kTerminated, "", SignForm::kRaised},
      Sign{"Training completed", kFinished},
      Sign{"[after training is done]", kFinished},
      Sign{"epochs completed in", kFinished, " hours"},   // Ultralytics
      Sign{"[exiting program at iteration", kFinished},
      Sign{"exiting program after", kFinished},
  };
}();

constexpr std::string_view kTraceback = "Traceback (most recent call last)", kElastic = "errors.ChildFailedError:",
                           kRootCause = "Root Cause (first observed failure)";

// Above a traceback of what ends no process: a request that fails, a destructor at the interpreter's exit, a task whose
// result is not asked for, a message that cannot be formatted.
constexpr std::array<std::string_view, 5> kHandled = {"Exception in ASGI application", "Exception ignored in",
                                                      "exception was never retrieved", "--- Logging error ---",
                                                      "Exception in callback "};
// A server's engine is gone, whatever it is that says so.
constexpr std::array<std::string_view, 4> kEngineGone = {"EngineDeadError", "EngineCore encountered",
                                                         "Engine core initialization failed", "MQEngineDeadError"};

// What a line has that is worth a look.
std::vector<std::string_view> end_words() {
  std::vector<std::string_view> words = {kTraceback,    kElastic,      kRootCause,   "Error: ",    "Exception: ",
                                         "loss is nan", "Loss is NaN", "NaN in loss", "loss is inf"};
  for (const Sign& s : kSigns) words.push_back(s.words);
  words.insert(words.end(), kHandled.begin(), kHandled.end());
  return words;
}

// The name of an exception class: "RuntimeError: …", "torch.distributed.DistBackendError: …".
bool is_exception(std::string_view text) {
  const size_t colon = text.find(": ");
  if (colon == text.npos || colon == 0) return false;
  const std::string_view name = text.substr(0, colon);
  if (name.find(' ') != name.npos) return false;
  return name.ends_with("Error") || name.ends_with("Exception");
}

bool is_name(char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '.'; }

// "MemoryError", "numpy.core._ArrayMemoryError: Unable …", also behind "[rank3]: " or "ERROR | ": the class begins what
// is printed, and the message or nothing follows. `end`: of the class.
bool is_raised(std::string_view text, size_t end) {
  if (end != text.size() && !text.substr(end).starts_with(": ")) return false;
  size_t begin = end;
  while (begin > 0 && is_name(text[begin - 1])) --begin;
  return begin == 0 || (begin > 1 && text[begin - 1] == ' ' && contains(":]|)>-", text.substr(begin - 2, 1)));
}

// "Killed", "Aborted (core dumped)", "job.sh: line 9:  4711 Killed        python train.py"
bool is_shells(std::string_view text, size_t begin, size_t end) {
  const std::string_view before = without_blanks(text.substr(0, begin)), behind = text.substr(end);
  if (before.empty()) return behind.empty() || behind == " (core dumped)";
  const size_t line = before.find(": line ");
  return line != before.npos && is_digit(before.back()) && before.find(": ", line + 1) != before.npos;
}

// "No CUDA error", "CUDNN_STATUS_SUCCESS"
bool says_none(std::string_view text, size_t at, size_t end) {
  const std::string before = lower_case(text.substr(0, at));
  return before.ends_with("no ") || before.ends_with("without ") || text.substr(end).starts_with("SUCCESS");
}

// Advice quotes the words alone; a value of JSON stands behind its key.
bool is_quoted(std::string_view text, size_t at) {
  if (at == 0 || !contains("\"'`", text.substr(at - 1, 1)) || has(text, "Tried to allocate")) return false;
  const std::string_view before = without_blanks(text.substr(0, at - 1));
  return text[at - 1] != '"' || !before.ends_with("\":");
}

bool fits(const Sign& s, const LogLine& line, bool in_traceback) {
  const std::string_view text = line.text;
  const size_t at = place_of(text, s.words);
  if (at == text.npos || (!s.also.empty() && !has(text, s.also))) return false;
  if (has(text, "Warning: ") || has(text, "(Triggered internally")) return false;   // PyTorch goes on another way
  const size_t end = at + s.words.size();
  if (s.form == SignForm::kRaised) return is_raised(text, end);
  if (s.form == SignForm::kTraced) return in_traceback && is_raised(text, end);
  if (s.form == SignForm::kShell) return is_shells(text, at, end);
  if (says_none(text, at, end)) return false;
  // "NODE_FAIL_COUNT" is another name.
  if (is_upper(s.words.back()) && end < text.size() && text[end] == '_') return false;
  if (at == 0) return true;
  if (is_quoted(text, at) && s.kind != LogEventKind::kFinished) return false;
  return !is_name(s.words.front()) || !is_name(text[at - 1]);
}

// What a process says when another one has gone.
bool follows_another(std::string_view text) {
  constexpr std::array<std::string_view, 8> kWords = {
      "See root cause above",   "See stack trace above",      "remote process exited",
      "process exiting prematurely", "Connection closed by remote peer", "Connection closed by peer",
      "Connection reset by peer", " status=5 "};
  return contains_any(text, kWords);
}

// A signal that no process sends itself because another one failed.
bool is_sudden(int64_t exit_code) {
  constexpr std::array<int64_t, 5> kSignals = {-4, -7, -8, -9, -11};
  return std::ranges::count(kSignals, exit_code) > 0;
}

// "NVRM: Xid (PCI:0000:44:00): 63, …"
bool is_note_of_driver(std::string_view text) {
  const auto behind = after(text, kXid);
  const auto code = behind ? integer_after(*behind, "): ") : std::nullopt;
  return code && *code > 0 && *code < 10'000 && !xid_ends_programs(static_cast<int>(*code));
}

// Launchers give the signal as a negative code, shells as 128 and more.
LogEventKind kind_of_exit(int64_t code) {
  if (code > 128 && code < 128 + 64) code = 128 - code;
  if (code == -15) return LogEventKind::kTerminated;
  return code < 0 ? LogEventKind::kKilled : LogEventKind::kExitCode;
}

// "31.75 GiB total capacity", "0 bytes already allocated": what stands before the words.
std::optional<int64_t> bytes_before(std::string_view text, std::string_view words) {
  const size_t end = place_of(text, words);
  if (end == text.npos || end == 0) return std::nullopt;
  const size_t unit = text.rfind(' ', end - 1);
  if (unit == text.npos || unit == 0) return std::nullopt;
  const size_t begin = text.find_last_not_of("0123456789.", unit - 1);
  const size_t number = begin == text.npos ? 0 : begin + 1;
  return number < unit ? leading_bytes(text.substr(number, end - number)) : std::nullopt;
}

std::optional<int64_t> bytes_behind(std::string_view text, std::string_view words) {
  const auto rest = after(text, words);
  return rest ? leading_bytes(*rest) : std::nullopt;
}

// What an error of PyTorch or XLA says of the device's memory.
void add_memory(LogEvent& e, const LogLine& line, LogBuilder& rows) {
  const std::string_view text = line.text;
  for (const std::string_view words : {"Tried to allocate ", "trying to allocate ", "Out of memory allocating "})
    if (const auto asked = bytes_behind(text, words)) e.bytes = asked;
  LogMemory row{};
  row.capacity_bytes = bytes_behind(text, "total capacity of ");
  if (!row.capacity_bytes) row.capacity_bytes = bytes_before(text, " total capacity");
  row.allocated_bytes = bytes_behind(text, "allocated memory ");
  if (!row.allocated_bytes) row.allocated_bytes = bytes_before(text, " already allocated");
  row.reserved_bytes = bytes_before(text, " reserved in total");
  if (row.capacity_bytes || row.allocated_bytes) rows.memory(row, line);
}

// A word up to a blank or what cannot be in a host's name.
std::string host_at(std::string_view text) {
  return quotable(text.substr(0, std::min(text.find_first_of(" ,:;<>()"), text.size())));
}

std::optional<int> rank_in(std::string_view text) {
  const auto number = leading_integer(text);
  return number && *number >= 0 && *number < 10'000'000 ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

// Launchers and NCCL tell of processes other than the one that prints: where that is known, the event is theirs.
void set_place(LogEvent& e, const LogLine& line) {
  const std::string_view text = line.text;
  if (const auto task = after(text, "srun: error: "); task && has(*task, ": task")) {  // "node18: task 11: Killed"
    e.node = host_at(*task);
    e.rank = rank_in(after(*task, ": task ").value_or(""));
  } else if (const auto process = after(text, "process rank ")) {  // mpirun's "7 with PID 0 on node gpu17 exited on"
    e.rank = rank_in(*process);
    if (const auto node = after(*process, " on node ")) e.node = host_at(*node);
  } else if (const auto local = after(text, "--local_rank="); local && e.node.empty()) {
    e.rank = rank_in(*local);
  } else if (const auto failed = after(text, "Node failure on ")) {
    e.node = host_at(*failed);
  } else if (const auto from = after(text, "due to a collective timeout from")) {
    if (const auto rank = after(*from, "rank ")) e.rank = rank_in(*rank);
  } else if (e.kind == LogEventKind::kHostOutOfMemory && e.node.empty()) {
    if (const auto node = after(text, "IP: ")) e.node = quotable(node->substr(0, node->find_first_of(",) ")));
  }
  for (const std::string_view words : {"Got completion from peer ", "closed by remote peer ", "closed by peer "})
    if (const auto peer = after(text, words)) e.peer = quotable(peer->substr(0, peer->find_first_of(" <")));
  if (e.node.empty() && has(text, " NCCL WARN ")) e.node = host_at(text);
}

// torchrun's list of the processes that failed, and the one that it saw first.
class ElasticSummary {
 public:
  [[nodiscard]] bool is_open(int64_t line) const { return line <= until_; }
  void open(const LogLine& line) {
    until_ = line.number + kLines;
    root_ = false;
  }
  /// Whether the line is of it.
  bool read(const LogLine& line, LogBuilder& rows) {
    std::string_view text = without_blanks(line.message);
    if (has(text, kRootCause)) {
      until_ = line.number + kLines, root_ = true, host_.clear(), rank_.reset();
      return true;
    }
    const size_t colon = text.find(": ");
    const std::string_view key = without_blanks(text.substr(0, colon));
    if (colon == text.npos || std::ranges::count(kKeys, key) == 0) return is_between(text);
    const std::string_view value = without_blanks(text.substr(colon + 2));
    until_ = line.number + kLines;
    if (key == "host") host_ = quotable(value);
    if (key == "rank") rank_ = rank_in(value);
    if (key == "exitcode" && root_) add(leading_integer(value).value_or(1), line, rows);
    return true;
  }

 private:
  static constexpr int64_t kLines = 12;  // between two of it
  static constexpr std::array<std::string_view, 6> kKeys = {"time",     "host",       "rank",
                                                            "exitcode", "error_file", "traceback"};
  static bool is_between(std::string_view text) {
    return text.starts_with("===") || text.starts_with("---") || text.starts_with("Failures:") ||
           text.ends_with(" FAILED") || text.starts_with("<NO_OTHER") || (text.starts_with('[') && text.ends_with("]:"));
  }

  // Each node's agent prints it.
  void add(int64_t exit_code, const LogLine& line, LogBuilder& rows) {
    root_ = false;
    std::vector<LogEvent>& all = rows.log().events;
    if (!all.empty() && all.back().first_failure && all.back().rank == rank_ && all.back().node == host_) return;
    LogEvent& e = rows.event(kind_of_exit(exit_code), line);
    e.node = host_, e.rank = rank_;
    e.first_failure = exit_code >= 0 || is_sudden(exit_code);
  }

  int64_t until_ = 0;
  bool root_ = false;
  std::string host_;
  std::optional<int> rank_;
};

class RunEnd : public LogReading {
 public:
  bool read(const LogLine& line, LogBuilder& rows) override {
    const std::string_view text = line.text;
    line_ = line.number;
    if (contains_any(text, kHandled)) return handled_line_ = line.number, false;
    if (line.message.starts_with(kTraceback) || line.message.ends_with("Traceback (most recent call last):")) {
      is_handled_ = line.number - handled_line_ <= kBetweenTracebacks && handled_line_ > 0;
      return in_traceback_ = true;
    }
    if (has(text, kElastic) || has(text, kRootCause)) {
      if (!summary_.is_open(line.number)) summary_.open(line);
      in_traceback_ = false;
      return summary_.read(line, rows), true;
    }
    if (summary_.is_open(line.number) && summary_.read(line, rows)) return false;
    if (is_handled(line)) return false;
    for (const Sign& s : kSigns) {
      if (!fits(s, line, in_traceback_)) continue;
      if (s.words == kXid && is_note_of_driver(text)) return true;
      add(s, line, rows);
      return true;
    }
    return read_loss(line, rows) || read_exception(line, rows);
  }

  [[nodiscard]] bool expects_more() const override { return summary_.is_open(line_ + 1); }

 private:
  // The last line of a traceback of what was handled, and of those that it is the cause of, which stand right below.
  bool is_handled(const LogLine& line) {
    if (!in_traceback_ || !is_handled_ || !is_exception(line.message)) return false;
    if (contains_any(line.text, kEngineGone)) return false;
    handled_line_ = line.number;
    in_traceback_ = false;
    return true;
  }

  static bool read_loss(const LogLine& line, LogBuilder& rows) {
    constexpr std::array<std::string_view, 4> kLost = {"loss is nan", "Loss is NaN", "NaN in loss", "loss is inf"};
    if (!contains_any(line.text, kLost)) return false;
    rows.event(LogEventKind::kNotFinite, line);
    return true;
  }

  // Beside a traceback it is its last line; else programs that go on print such words too.
  bool read_exception(const LogLine& line, LogBuilder& rows) {
    if (!is_exception(line.message)) return false;
    const bool traced = in_traceback_;
    in_traceback_ = false;
    if (traced) add_event(LogEventKind::kException, line, rows);
    return traced;
  }

  void add(const Sign& s, const LogLine& line, LogBuilder& rows) {
    if (s.kind != LogEventKind::kExitCode) return add_event(s.kind, line, rows);
    auto code = integer_after(line.text, s.words);  // subprocess's has a blank between
    if (!code && !s.also.empty()) code = integer_after(line.text, s.also);
    const int64_t exit_code = code.value_or(1);
    if (exit_code != 0) add_event(kind_of_exit(exit_code), line, rows);
  }

  void add_event(LogEventKind kind, const LogLine& line, LogBuilder& rows) {
    LogEvent& e = rows.event(kind, line);
    in_traceback_ = false;
    set_place(e, line);
    e.follows = (kind == LogEventKind::kException || kind == LogEventKind::kNcclError) && follows_another(line.text);
    if (kind == LogEventKind::kOutOfMemory) add_memory(e, line, rows);
  }

  static constexpr int64_t kBetweenTracebacks = 6;   // lines: "During handling of the above exception, …"
  bool in_traceback_ = false, is_handled_ = false;
  int64_t line_ = 0, handled_line_ = 0;
  ElasticSummary summary_;
};

}  // namespace

extern const LogFamily kRunEnd = {"run_end", "how a run ended: out of memory, NCCL timeouts, errors, signals, launchers' words",
                                  end_words(), [] { return std::unique_ptr<LogReading>(new RunEnd); }, false};

}  // namespace profgpu
