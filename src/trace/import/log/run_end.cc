// How a run ended, or what it survived: errors of Python, CUDA and NCCL, signals, Slurm's and torchrun's last words.
// Which of several such lines is the cause is for the analysis to say; here each is kept, with its line.
#include <algorithm>
#include <array>

#include "base/text.h"
#include "trace/import/log/log_family.h"

namespace profgpu {
namespace {

struct Sign {
  std::string_view words;  // in the line, as printed
  LogEventKind kind;
  std::string_view also = {};  // likewise
  bool raised = false;         // an exception's class, as Python prints one that ends a program
};

// The first that fits.
constexpr std::array kSigns = {
    Sign{"CUDA out of memory", LogEventKind::kOutOfMemory},
    Sign{"HIP out of memory", LogEventKind::kOutOfMemory},
    Sign{"OutOfMemoryError", LogEventKind::kOutOfMemory, "", true},
    Sign{"CUDA error: out of memory", LogEventKind::kOutOfMemory},
    Sign{"RESOURCE_EXHAUSTED: ", LogEventKind::kOutOfMemory, "allocat"},   // XLA's
    Sign{"CUBLAS_STATUS_ALLOC_FAILED", LogEventKind::kOutOfMemory},
    Sign{"DefaultCPUAllocator: can't allocate memory", LogEventKind::kHostOutOfMemory},
    Sign{"oom-kill", LogEventKind::kHostOutOfMemory},
    Sign{"oom_kill", LogEventKind::kHostOutOfMemory},
    Sign{"Out Of Memory", LogEventKind::kHostOutOfMemory, "slurm"},
    Sign{"OUT_OF_MEMORY", LogEventKind::kHostOutOfMemory},
    Sign{"MemoryError", LogEventKind::kHostOutOfMemory, "", true},
    Sign{"collective operation timeout", LogEventKind::kCollectiveTimeout},
    Sign{"Watchdog caught collective", LogEventKind::kCollectiveTimeout},
    Sign{"Timed out initializing process group", LogEventKind::kCollectiveTimeout},
    Sign{"wait timeout after", LogEventKind::kCollectiveTimeout},
    Sign{"Monitored barrier", LogEventKind::kCollectiveTimeout, "timed out"},
    Sign{"DUE TO TIME LIMIT", LogEventKind::kTimeLimit},
    Sign{"DUE TO PREEMPTION", LogEventKind::kPreempted},
    Sign{"DUE TO NODE FAILURE", LogEventKind::kNodeFailure},
    Sign{"NODE_FAIL", LogEventKind::kNodeFailure},
    Sign{"CANCELLED AT", LogEventKind::kTerminated},
    Sign{"ncclUnhandledCudaError", LogEventKind::kNcclError},
    Sign{"ncclSystemError", LogEventKind::kNcclError},
    Sign{"ncclInternalError", LogEventKind::kNcclError},
    Sign{"ncclRemoteError", LogEventKind::kNcclError},
    Sign{"ncclInvalidUsage", LogEventKind::kNcclError},
    Sign{"NCCL error", LogEventKind::kNcclError},
    Sign{"NCCL Error", LogEventKind::kNcclError},
    Sign{"CUDA error:", LogEventKind::kDeviceError},
    Sign{"HIP error:", LogEventKind::kDeviceError},
    Sign{"CUDNN_STATUS_", LogEventKind::kDeviceError},
    Sign{"CUBLAS_STATUS_", LogEventKind::kDeviceError},
    Sign{"NVRM: Xid", LogEventKind::kDeviceError},
    Sign{"Segmentation fault", LogEventKind::kKilled},
    Sign{"Bus error", LogEventKind::kKilled},
    Sign{": Killed", LogEventKind::kKilled, "srun: error:"},
    Sign{"exitcode: -9", LogEventKind::kKilled},
    Sign{"exitcode  : -9", LogEventKind::kKilled},
    Sign{"Signal 9 (SIGKILL)", LogEventKind::kKilled},
    Sign{"Signal 11 (SIGSEGV)", LogEventKind::kKilled},
    Sign{"Signal 7 (SIGBUS)", LogEventKind::kKilled},
    Sign{"SignalException", LogEventKind::kTerminated},
    Sign{"received SIGTERM", LogEventKind::kTerminated},
    Sign{"Received signal 15", LogEventKind::kTerminated},
    Sign{"KeyboardInterrupt", LogEventKind::kTerminated},
    Sign{"Training completed", LogEventKind::kFinished},
    Sign{"[after training is done]", LogEventKind::kFinished},
    Sign{"epochs completed in", LogEventKind::kFinished, " hours"},   // Ultralytics
    Sign{"[exiting program at iteration", LogEventKind::kFinished},
    Sign{"exiting program after", LogEventKind::kFinished},
    Sign{"ChildFailedError", LogEventKind::kException},
};

// What a line has that is worth a look.
std::vector<std::string_view> end_words() {
  std::vector<std::string_view> words = {"Traceback (most recent call last)",
                                         "Error: ",
                                         "Exception: ",
                                         "loss is nan",
                                         "Loss is NaN",
                                         "NaN in loss",
                                         "loss is inf"};
  for (const Sign& s : kSigns) words.push_back(s.words);
  return words;
}

// The name of an exception class: "RuntimeError: …", "torch.distributed.DistBackendError: …".
bool is_exception(std::string_view text) {
  const size_t end = text.find(": ");
  if (end == text.npos || end > 96) return false;
  const std::string_view name = text.substr(0, end);
  if (!name.ends_with("Error") && !name.ends_with("Exception")) return false;
  return std::ranges::all_of(name, [](char c) { return is_letter(c) || is_digit(c) || c == '.' || c == '_'; });
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

bool fits(const Sign& s, std::string_view text) {
  const size_t at = place_of(text, s.words);
  if (at == text.npos || (!s.also.empty() && !has(text, s.also))) return false;
  if (s.raised) return is_raised(text, at + s.words.size());
  if (at == 0) return true;
  // Advice quotes the words alone.
  const bool quoted = contains("\"'`", text.substr(at - 1, 1)) && !has(text, "Tried to allocate");
  if (quoted && s.kind == LogEventKind::kOutOfMemory) return false;
  return !is_name(s.words.front()) || !is_name(text[at - 1]);
}

class RunEnd : public LogReading {
 public:
  bool read(const LogLine& line, LogBuilder& rows) override {
    const std::string_view text = line.text;
    line_ = line.number;
    if (line.message.starts_with("Traceback (most recent call last)")) return in_traceback_ = true;
    if (line.number <= summary_until_ && read_summary(line.message, rows)) return false;
    // torchrun's error beside a worker that a signal ended: no exception of the program's.
    if (has(text, "ChildFailedError")) {
      summary_until_ = line.number + kSummaryLines;
      if (!rows.events().empty() && rows.events().back().kind == LogEventKind::kKilled) return in_traceback_ = false;
    }
    for (const Sign& s : kSigns) {
      if (!fits(s, text)) continue;
      add(s.kind, line, rows);
      return s.kind != LogEventKind::kException;
    }
    if ((has(text, "loss is nan") || has(text, "Loss is NaN") || has(text, "NaN in loss") ||
         has(text, "loss is inf"))) {
      add(LogEventKind::kNotFinite, line, rows);
      return true;
    }
    if (!is_exception(line.message)) return false;
    // Beside a traceback it is its last line; else programs that go on print such words too.
    const bool traced = in_traceback_;
    in_traceback_ = false;
    if (traced) add(LogEventKind::kException, line, rows);
    return traced;
  }

  [[nodiscard]] bool expects_more() const override { return line_ < summary_until_; }

 private:
  static constexpr int64_t kSummaryLines = 20;

  // "host      : node7", "rank      : 13 (local_rank: 5)", of the failure that torchrun saw first.
  static bool read_summary(std::string_view text, LogBuilder& rows) {
    std::vector<LogEvent>& events = rows.log().events;
    text = without_blanks(text);
    const size_t colon = text.find(": ");
    if (events.empty() || colon == text.npos) return false;
    const std::string_view key = without_blanks(text.substr(0, colon)), value = text.substr(colon + 2);
    LogEvent& e = events.back();
    if (key == "host" && e.node.empty()) e.node = quotable(value);
    else if (key == "rank" && !e.rank) e.rank = static_cast<int>(leading_integer(value).value_or(0));
    else return false;
    return true;
  }

  void add(LogEventKind kind, const LogLine& line, LogBuilder& rows) {
    LogEvent& e = rows.event(kind, line);
    in_traceback_ = false;
    if (kind != LogEventKind::kOutOfMemory) return;
    for (const std::string_view words : {"Tried to allocate ", "trying to allocate "})
      if (const auto asked = after(line.text, words)) e.bytes = leading_bytes(*asked);
    LogMemory row{};
    if (const auto all = after(line.text, "total capacity of ")) row.capacity_bytes = leading_bytes(*all);
    if (const auto all = after(line.text, "GiB total capacity"))
      row.capacity_bytes = before_unit(line.text, " GiB total capacity");
    if (const auto used = after(line.text, "allocated memory ")) row.allocated_bytes = leading_bytes(*used);
    if (!row.allocated_bytes) row.allocated_bytes = before_unit(line.text, " GiB already allocated");
    row.reserved_bytes = before_unit(line.text, " GiB reserved in total");
    if (row.capacity_bytes || row.allocated_bytes) rows.memory(row, line);
  }

  // "31.75 GiB total capacity": the number before the words.
  static std::optional<int64_t> before_unit(std::string_view text, std::string_view words) {
    const size_t end = text.find(words);
    if (end == text.npos || end == 0) return std::nullopt;
    const size_t begin = text.find_last_not_of("0123456789.", end - 1);
    return leading_bytes(std::string(text.substr(begin == text.npos ? 0 : begin + 1, end - begin - 1)) + " GiB");
  }

  bool in_traceback_ = false;
  int64_t line_ = 0, summary_until_ = 0;
};

}  // namespace

extern const LogFamily kRunEnd;
const LogFamily kRunEnd = {"run_end", "how a run ended: out of memory, NCCL timeouts, errors, signals, Slurm's words",
                           end_words(), [] { return std::unique_ptr<LogReading>(new RunEnd); }, false};

}  // namespace profgpu
