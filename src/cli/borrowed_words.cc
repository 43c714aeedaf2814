#include "cli/borrowed_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>

#include "base/text.h"
#include "cli/command.h"

namespace profgpu {
namespace {

/// `theirs`: a tool's command, or its first option. Empty: whatever else follows the tool's name.
struct BorrowedCommand {
  std::string_view tool, theirs;
  std::vector<std::string> ours;
  bool without_tool = false;   ///< their command alone is clear enough: `profgpu dmon`
};

const std::vector<BorrowedCommand>& borrowed_commands() {
  static const std::vector<BorrowedCommand> kAll = {
      {"nvidia-smi", "dmon", {"log"}, true},
      {"nvidia-smi", "pmon", {"stat", "--full", "--watch", "1"}, true},
      {"nvidia-smi", "topo", {"devices"}, true},
      {"nvidia-smi", "nvlink", {"devices"}, true},
      {"nvidia-smi", "-L", {"devices"}, true},
      {"nvidia-smi", "--list-gpus", {"devices"}, true},
      {"nvidia-smi", "-q", {"devices"}},
      {"nvidia-smi", "", {"stat"}},
      {"gpustat", "", {"stat"}},
      {"nvitop", "", {"top"}},
      {"nvtop", "", {"top"}},
      {"rocm-smi", "--showtopo", {"devices"}},
      {"rocm-smi", "", {"stat"}},
      {"amd-smi", "list", {"devices"}},
      {"amd-smi", "static", {"devices"}},
      {"amd-smi", "topology", {"devices"}},
      {"amd-smi", "monitor", {"log"}},
      {"amd-smi", "metric", {"stat"}},
      {"amd-smi", "", {"stat"}},
      {"nsys", "profile", {"run", "--trace"}, true},
      {"nsys", "stats", {"analyze"}, true},
      {"nsys", "analyze", {"analyze"}},
      {"nsys", "export", {"export"}},
      {"nsys-ui", "", {"analyze"}},
      {"tensorboard", "", {"analyze"}},
      {"rocprofv3", "", {"run", "--trace"}},
      {"dcgmi", "dmon", {"log"}},
      {"dcgmi", "discovery", {"devices"}},
      {"dcgmi", "health", {"doctor"}},
      {"dcgmi", "diag", {"doctor"}},
      {"dcgm-exporter", "", {"exporter"}},
      {"py-spy", "record", {"run", "--trace"}, true},   // perf's, too
      {"py-spy", "top", {"top"}},
      {"py-spy", "dump", {"attach"}},
      {"", "trace", {"run", "--trace"}, true},
  };
  return kAll;
}

enum class Takes : uint8_t {
  kNone,
  kNext,        ///< "-l 1", "--loop=1", "-l1"
  kAttached,    ///< "--trace=cuda": without the equals sign it is our own flag
  kOptional,    ///< gpustat's "-i": one second where no number follows
  kList,        ///< nvidia-smi's "--format=csv,noheader,nounits"
};

struct BorrowedFlag {
  std::string_view command;        ///< ours; empty: any that has our flag
  std::string_view theirs;
  Takes value = Takes::kNone;
  std::string_view ours = {};      ///< "--interval {}"; empty: nothing is needed
  std::string_view why = {};       ///< nothing is needed, because
};

constexpr std::string_view kAllEvents = "a recording has all kinds of events";

constexpr BorrowedFlag kBorrowedFlags[] = {
    {"", "--no-color", Takes::kNone, "--color never"},
    {"", "--no-colour", Takes::kNone, "--color never"},
    {"", "--colour", Takes::kNext, "--color {}"},
    {"", "--force-color", Takes::kNone, "--color always"},
    // nvidia-smi
    {"log", "-l", Takes::kNext, "--interval {}"},
    {"log", "--loop", Takes::kNext, "--interval {}"},
    {"log", "-lms", Takes::kNext, "--interval {}ms"},
    {"log", "--loop-ms", Takes::kNext, "--interval {}ms"},
    {"log", "--query-gpu", Takes::kNext, "--query {}"},
    {"log", "--help-query-gpu", Takes::kNone, "--help-query"},
    {"log", "--id", Takes::kNext, "--device {}"},
    {"log", "--format", Takes::kList, "{}"},
    {"log", "-t", Takes::kNone, "", "it has no effect on a log"},
    {"log", "-e", Takes::kNext, "", "--query chooses fields, by name"},
    {"analyze", "--logdir", Takes::kNext, "{}"},
    {"log", "-f", Takes::kNext, "--output {}"},
    {"log", "--filename", Takes::kNext, "--output {}"},
    {"devices", "-m", Takes::kNone, "", "the matrix of links is always shown"},
    // gpustat
    {"stat", "-i", Takes::kOptional, "--watch {}"},
    {"stat", "--interval", Takes::kOptional, "--watch {}"},
    {"stat", "-l", Takes::kNext, "--watch {}"},
    {"stat", "--loop", Takes::kNext, "--watch {}"},
    {"stat", "--id", Takes::kNext, "--device {}"},
    {"stat", "--show-all", Takes::kNone, "--all"},
    // nvitop
    {"top", "-m", Takes::kNext, "", "the layout follows the screen's size"},
    {"top", "--monitor", Takes::kNext, "", "the layout follows the screen's size"},
    {"top", "-1", Takes::kNone, "--once"},
    {"top", "--pid", Takes::kNext, "--filter {}", "--filter shows processes with this text in pid, user or command"},
    {"attach", "--pid", Takes::kNext, "{}"},
    // nsys
    {"run", "--trace", Takes::kAttached, "--trace", kAllEvents},
    {"run", "-t", Takes::kNext, "--trace", kAllEvents},
    {"run", "-c", Takes::kNext, "--capture-range {}"},
    {"run", "--capture-range-end", Takes::kNext, "", "recording stops at each cudaProfilerStop, and the program runs on"},
    {"run", "--cuda-graph-trace", Takes::kNext, "--graphs {}"},
    {"run", "-y", Takes::kNext, "--delay {}"},
    {"run", "-d", Takes::kNext, "--duration {}"},
    {"run", "--gpu-metrics-device", Takes::kNext, "--device {}"},
    {"run", "--gpu-metrics-devices", Takes::kNext, "--device {}"},
    {"run", "--force-overwrite", Takes::kNext, "", "a folder that holds a recording is never overwritten"},
    {"run", "-w", Takes::kNext, "", "the program's output is always shown"},
    {"run", "--stats", Takes::kNext, "", "`profgpu analyze` shows the statistics"},
    {"run", "-s", Takes::kNext, "", "threads are always sampled"},
    {"run", "--sample", Takes::kNext, "", "threads are always sampled"},
    {"run", "--cpuctxsw", Takes::kNext, "", "context switches are recorded where the kernel allows it"},
    {"run", "--backtrace", Takes::kNext, "", "of each sample the line of Python is recorded"},
    {"run", "--cudabacktrace", Takes::kNext, "", "of each sample the line of Python is recorded"},
    {"run", "--python-sampling", Takes::kNext, "", "the training loop's Python stack is always sampled"},
    {"run", "--cuda-memory-usage", Takes::kNext, "", "allocations of CUDA are always recorded"},
    {"run", "--trace-fork-before-exec", Takes::kNext, "", "all child processes are recorded"},
    {"run", "--show-output", Takes::kNext, "", "the program's output is always shown"},
    {"run", "--export", Takes::kNext, "", "`profgpu export` writes other formats"},
};

// nvidia-smi dmon's letters of -s, with its columns of each.
constexpr std::pair<char, std::string_view> kMonitored[] = {
    {'p', "power_w,temperature_c,memory_temperature_c"},
    {'u', "utilization_pct,memory_utilization_pct,encoder_utilization_pct,decoder_utilization_pct,jpeg_utilization_pct,"
          "ofa_utilization_pct"},
    {'c', "memory_clock_mhz,sm_clock_mhz"},
    {'v', "throttle_power_pct,throttle_thermal_pct"},
    {'m', "memory_used_bytes,bar1_used_bytes"},
    {'e', "ecc_corrected_errors,ecc_uncorrected_errors,pcie_replays"},
    {'t', "pcie_rx_bytes_per_second,pcie_tx_bytes_per_second"},
};

constexpr BorrowedFlag kMonitorFlags[] = {
    {"", "-d", Takes::kNext, "--interval {}"}, {"", "--delay", Takes::kNext, "--interval {}"},
    {"", "-c", Takes::kNext, "--count {}"},    {"", "-i", Takes::kNext, "--device {}"},
    {"", "--id", Takes::kNext, "--device {}"}, {"", "-f", Takes::kNext, "--output {}"},
    {"", "-o", Takes::kNext, "--timestamps iso"}, {"", "-s", Takes::kNext, "{}"},
    {"", "--select", Takes::kNext, "{}"},
};

// Options that mean something else to this tool than to others. Those of nvidia-smi for what `profgpu stat` shows.
constexpr BorrowedFlag kSmiFlags[] = {
    {"stat", "-i", Takes::kNext, "--device {}"},
    {"stat", "-lms", Takes::kNext, "--watch {}ms"},
    {"stat", "--loop-ms", Takes::kNext, "--watch {}ms"},
    {"devices", "-s", Takes::kNone, "", "links between GPUs are shown where there are any"},
    {"devices", "--status", Takes::kNone, "", "links between GPUs are shown where there are any"},
    {"devices", "-e", Takes::kNone, "", "`profgpu doctor` reports errors of links"},
    {"devices", "-i", Takes::kNext, "--device {}"},
    {"devices", "-d", Takes::kNext, "", "everything is shown"},
    {"devices", "--display", Takes::kNext, "", "everything is shown"},
    {"devices", "-x", Takes::kNone, "--json"},
    {"devices", "--xml-format", Takes::kNone, "--json"},
    {"stat", "--query-compute-apps", Takes::kNext, "--full"},
    {"stat", "--query-accounted-apps", Takes::kNext, "--full"},
    {"stat", "--format", Takes::kNext, "", "`profgpu log --query` writes CSV, `profgpu stat --json` JSON"},
};
constexpr BorrowedFlag kGpustatFlags[] = {
    {"stat", "--json", Takes::kNone, "--format gpustat-json"},
    {"stat", "--watch", Takes::kOptional, "--watch {}"},
};
constexpr std::string_view kTerminalsColours = "colors are the terminal's own";
constexpr BorrowedFlag kNvitopFlags[] = {
    {"top", "-o", Takes::kNext, "--device {}"},
    {"top", "--only", Takes::kNext, "--device {}"},
    {"top", "-ov", Takes::kNone, "", "CUDA_VISIBLE_DEVICES is followed by --device visible"},
    {"top", "-u", Takes::kNext, "--filter {}"},
    {"top", "--user", Takes::kNext, "--filter {}"},
    {"top", "-p", Takes::kNext, "--filter {}"},
    {"top", "--ascii", Takes::kNone, "", "LC_ALL=C draws in ASCII"},
    {"top", "-U", Takes::kNone, "", "LC_ALL=C draws in ASCII"},
    {"top", "--colorful", Takes::kNone, "", kTerminalsColours},
    {"top", "--light", Takes::kNone, "", kTerminalsColours},
};
constexpr BorrowedFlag kDcgmFlags[] = {
    {"doctor", "-r", Takes::kNext, "", "doctor only reads; `profgpu bench burn` puts load on the GPUs"},
    {"doctor", "-c", Takes::kNone, "", "everything is checked"},
    {"devices", "-l", Takes::kNone, "", "all are listed"},
};
constexpr BorrowedFlag kRocmFlags[] = {
    {"stat", "-d", Takes::kNext, "--device {}"},
    {"stat", "--showuse", Takes::kNone, "", "use is always shown"},
    {"stat", "--showmemuse", Takes::kNone, "", "memory is always shown"},
    {"stat", "--showmeminfo", Takes::kNext, "", "memory is always shown"},
    {"stat", "--showtemp", Takes::kNone, "", "temperature is always shown"},
    {"stat", "--showpower", Takes::kNone, "", "power is always shown"},
    {"stat", "--showpids", Takes::kNone, "", "processes are always shown"},
    {"stat", "--showallinfo", Takes::kNone, "--full"},
};
constexpr BorrowedFlag kSpyFlags[] = {
    {"run", "-r", Takes::kNext, "", "--python-stacks TIME sets the time between samples"},
    {"run", "--rate", Takes::kNext, "", "--python-stacks TIME sets the time between samples"},
    {"run", "-f", Takes::kNext, "", "`profgpu export` writes flame graphs and speedscope profiles of a recording"},
    {"run", "--format", Takes::kNext, "", "`profgpu export` writes flame graphs and speedscope profiles of a recording"},
    {"run", "-s", Takes::kNone, "", "all child processes are recorded"},
    {"run", "--subprocesses", Takes::kNone, "", "all child processes are recorded"},
    {"run", "-n", Takes::kNone, "", "calls of CUDA are recorded, native stacks are not"},
    {"run", "--native", Takes::kNone, "", "calls of CUDA are recorded, native stacks are not"},
    {"run", "-t", Takes::kNone, "", "threads are always sampled"},
    {"run", "--threads", Takes::kNone, "", "threads are always sampled"},
    {"attach", "-p", Takes::kNext, "{}"},
    {"attach", "-d", Takes::kNext, "--duration {}"},
    {"attach", "-r", Takes::kNext, "", "a trace has every call, not samples"},
    {"attach", "--rate", Takes::kNext, "", "a trace has every call, not samples"},
    {"attach", "-f", Takes::kNext, "", "`profgpu export` writes flame graphs and speedscope profiles of a trace"},
    {"attach", "--format", Takes::kNext, "", "`profgpu export` writes flame graphs and speedscope profiles of a trace"},
};
constexpr BorrowedFlag kNsysFlags[] = {
    {"export", "--type", Takes::kNext, "--to {}"},
    {"export", "-t", Takes::kNext, "--to {}"},
    {"analyze", "--report", Takes::kNext, "", "--section NAME shows one table: kernels, copies, api_calls, ops …"},
    {"analyze", "-r", Takes::kNext, "", "--section NAME shows one table: kernels, copies, api_calls, ops …"},
};
constexpr BorrowedFlag kProcessFlags[] = {   // nvidia-smi pmon's
    {"stat", "-d", Takes::kNext, "--watch {}"},
    {"stat", "-c", Takes::kNext, "--count {}"},
    {"stat", "-i", Takes::kNext, "--device {}"},
    {"stat", "-s", Takes::kNext, "", "all of it is shown"},
    {"stat", "-o", Takes::kNext, "", "the time is always shown"},
};

std::optional<std::string> monitored_fields(std::string_view letters) {
  std::string fields = "device";
  for (const char letter : letters) {
    const auto* found = std::find_if(std::begin(kMonitored), std::end(kMonitored),
                                     [&](const auto& group) { return group.first == letter; });
    if (found == std::end(kMonitored)) return std::nullopt;
    fields += "," + std::string(found->second);
  }
  return fields;
}

/// Goes along a line and puts our words in the place of theirs.
class Translation {
 public:
  explicit Translation(const std::vector<std::string>& words) : in_(words) {}

  OwnWords whole() {
    if (in_.empty()) return {};
    if (!begin_command()) return {in_};
    while (at_ < in_.size() && is_own(in_[at_])) take_word();
    out_.words.insert(out_.words.end(), in_.begin() + static_cast<ptrdiff_t>(at_), in_.end());
    if (monitors_) out_.words.insert(out_.words.end(), {"--query", timed_ + fields_});
    if (once_ && !has("--interval") && !has("--count") && !has("--help-query"))
      out_.words.insert(out_.words.end(), {"--count", "1"});
    if (monitors_ && !has("--output") && !has("--format")) out_.words.insert(out_.words.end(), {"--format", "table"});
    if (says_) out_.notes.insert(out_.notes.begin(), "read as: profgpu " + joined(out_.words, " "));
    return std::move(out_);
  }

 private:
  [[nodiscard]] bool has(std::string_view word) const {
    return std::find(out_.words.begin(), out_.words.end(), word) != out_.words.end();
  }

  // Of options before a program (`profgpu --trace=cuda -- python ...`) the command is run.
  bool begin_command() {
    const std::string& first = in_.front();
    if (!queries() && !is_borrowed_option(first) && first.starts_with("-")) {
      command_ = find_command("run");
      return command_ != nullptr;
    }
    if ((command_ = find_command(first)) != nullptr) {
      at_ = 1;
      out_.words.push_back(first);
      return true;
    }
    return borrow_command();
  }

  // `nvidia-smi dmon`, `dmon`, `nvidia-smi --query-gpu=...`, `--query-gpu=...`, `nvidia-smi`.
  bool borrow_command() {
    const auto& all = borrowed_commands();
    const bool names_tool = std::any_of(all.begin(), all.end(), [&](const auto& c) { return c.tool == in_.front(); });
    if (names_tool) at_ = 1;
    const std::string_view next = at_ < in_.size() ? std::string_view(in_[at_]) : "";
    if (queries() && (!names_tool || in_.front() == "nvidia-smi")) {
      command_ = find_command("log");
      out_.words = {"log"};
      queries_ = once_ = true;   // without -l it prints one row
      return says_ = true;
    }
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto& c) {
      const bool here = names_tool ? c.tool == in_.front() : c.without_tool;
      return here && (c.theirs == next || (names_tool && c.theirs.empty()));
    });
    if (found == all.end()) return false;
    if (!found->theirs.empty()) ++at_;
    const bool of_process = found->tool == "py-spy" && found->theirs == "record" && names_process();
    out_.words = of_process ? std::vector<std::string>{"attach"} : found->ours;
    command_ = find_command(out_.words.front());
    if (command_ == nullptr) return false;   // is_left_out()
    monitors_ = found->theirs == "dmon";
    if (monitors_) fields_ = *monitored_fields("puc");
    tool_flags_ = flags_of(*found);
    if (found->theirs == "pmon") drop_default_watch();
    return says_ = true;
  }

  static std::span<const BorrowedFlag> flags_of(const BorrowedCommand& of) {
    const std::string_view tool = of.tool;
    if (of.theirs == "pmon") return kProcessFlags;
    if (tool == "nvidia-smi") return kSmiFlags;
    if (tool == "gpustat") return kGpustatFlags;
    if (tool == "nvitop") return kNvitopFlags;
    if (tool == "rocm-smi") return kRocmFlags;
    if (tool == "dcgmi") return kDcgmFlags;
    if (tool == "nsys") return kNsysFlags;
    return tool == "py-spy" ? std::span<const BorrowedFlag>(kSpyFlags) : std::span<const BorrowedFlag>();
  }

  // `py-spy record --pid N`: a process that runs.
  [[nodiscard]] bool names_process() const {
    return std::ranges::any_of(
        in_, [](std::string_view w) { return w == "-p" || w == "--pid" || w.starts_with("--pid="); });
  }

  // nvidia-smi without a command queries: `--query-gpu` may stand anywhere.
  [[nodiscard]] bool queries() const {
    const std::string& first = in_.front();
    if (!first.starts_with("-") && first != "nvidia-smi") return false;
    for (const std::string& word : in_) {
      if (word == "--" || find_command(word) != nullptr) return false;
      if (word.starts_with("--query-gpu") || word == "--help-query-gpu") return true;
    }
    return false;
  }
  [[nodiscard]] static bool is_borrowed_option(const std::string& word) {
    const auto& all = borrowed_commands();
    return word.starts_with("-") &&
           std::any_of(all.begin(), all.end(), [&](const auto& c) { return c.without_tool && c.theirs == word; });
  }
  // `pmon -d 5` has its own interval.
  void drop_default_watch() {
    if (std::any_of(in_.begin() + static_cast<ptrdiff_t>(at_), in_.end(), [](auto& w) { return w.starts_with("-d"); }))
      out_.words.resize(2);
  }

  [[nodiscard]] bool is_own(const std::string& word) const {
    return word != "--" && (!command_->runs_command || word.starts_with("-"));
  }

  void take_word() {
    const std::string& word = in_[at_];
    const BorrowedFlag* flag = word.starts_with("-") ? borrowed(word) : nullptr;
    if (flag != nullptr) return replace(*flag);
    // A value that looks like one of their flags is none.
    const size_t taken = word.starts_with("-") && value_follows(*command_, word) && at_ + 1 < in_.size() ? 2 : 1;
    out_.words.insert(out_.words.end(), in_.begin() + static_cast<ptrdiff_t>(at_),
                      in_.begin() + static_cast<ptrdiff_t>(at_ + taken));
    at_ += taken;
  }

  [[nodiscard]] const BorrowedFlag* borrowed(const std::string& word) const {
    const std::string_view name = std::string_view(word).substr(0, word.find('='));
    const auto fits = [&](const BorrowedFlag& f) {
      if (f.value == Takes::kAttached && name.size() == word.size()) return false;
      if (f.value == Takes::kList)   // our own --format, but nvidia-smi's "csv" where it queries
        return name == f.theirs && (value_of(word).find(',') != std::string::npos || queries_);
      if (f.value == Takes::kOptional || f.value == Takes::kAttached || monitors_) return name == f.theirs;
      const bool attached = f.theirs.size() == 2 && f.value == Takes::kNext && word.size() > 2 && word[1] != '-' &&
                            word.starts_with(f.theirs) && is_digit(word[2]);
      return (name == f.theirs || attached) && !has_flag(*command_, std::string(name));
    };
    if (const auto own = std::ranges::find_if(
            tool_flags_, [&](const BorrowedFlag& f) { return f.command == command_->name && f.theirs == name; });
        own != tool_flags_.end())
      return &*own;
    if (monitors_) {
      const auto* found = std::find_if(std::begin(kMonitorFlags), std::end(kMonitorFlags), fits);
      if (found != std::end(kMonitorFlags)) return found;
    }
    for (const BorrowedFlag& f : kBorrowedFlags) {
      const bool here = f.command.empty() ? has_flag(*command_, std::string(f.ours.substr(0, f.ours.find(' '))))
                                          : f.command == command_->name;
      if (here && fits(f)) return &f;
    }
    return nullptr;
  }

  // Of the word at hand, or the next one.
  [[nodiscard]] std::string value_of(const std::string& word) const {
    if (const size_t equals = word.find('='); equals != word.npos) return word.substr(equals + 1);
    return at_ + 1 < in_.size() ? in_[at_ + 1] : "";
  }

  void replace(const BorrowedFlag& flag) {
    const std::string& word = in_[at_++];
    std::string value;
    if (flag.value != Takes::kNone) {
      const size_t equals = word.find('=');
      const bool more = at_ < in_.size();
      if (equals != word.npos) value = word.substr(equals + 1);
      else if (flag.theirs.size() == 2 && word.size() > 2) value = word.substr(2);
      else if (flag.value == Takes::kOptional) value = more && is_digit(in_[at_][0]) ? in_[at_++] : "1";
      else if (more) value = in_[at_++];
    }
    if (!flag.why.empty()) out_.notes.push_back(fmt::format("{}: {}", flag.theirs, flag.why));
    if (flag.value == Takes::kList) return choose_format(value);
    if (monitors_ && flag.ours == "{}") return choose_fields(word, value);
    if (monitors_ && flag.ours == "--timestamps iso") timed_ = "timestamp,";
    if (flag.ours.empty()) return;
    if (flag.ours == "{}") return out_.words.push_back(value);
    says_ = says_ || (flag.value != Takes::kOptional && !flag.ours.starts_with("--color"));
    const std::string ours(flag.ours);
    const size_t blank = ours.find(' ');
    out_.words.push_back(ours.substr(0, blank));
    if (flag.why == kAllEvents) preload_for(value);
    if (blank == ours.npos) return;
    std::string rest = ours.substr(blank + 1);
    if (const size_t hole = rest.find("{}"); hole != rest.npos) rest.replace(hole, 2, value);
    out_.words.push_back(std::move(rest));
  }

  // Calls of libraries are recorded where the recorder is preloaded.
  void preload_for(const std::string& kinds) {
    const std::string parts = "," + kinds + ",";
    for (const std::string_view kind : {"cublas", "cudnn", "mpi"})
      if (parts.find(fmt::format(",{}", kind)) != parts.npos && !has("--preload")) out_.words.emplace_back("--preload");
  }

  // Without nounits nvidia-smi prints a unit after each value of its csv.
  void choose_format(const std::string& list) {
    const std::string parts = "," + list + ",";
    const auto names = [&](std::string_view part) { return parts.find(fmt::format(",{},", part)) != parts.npos; };
    out_.words.insert(out_.words.end(), {"--format", list.substr(0, list.find(','))});
    if (names("noheader")) out_.words.emplace_back("--no-header");
    if (names("csv") && !names("nounits")) out_.words.emplace_back("--units");
    says_ = true;
  }

  // What is no letter of theirs stays, so that the parser refuses it.
  void choose_fields(const std::string& flag, const std::string& letters) {
    if (const auto fields = monitored_fields(letters)) {
      fields_ = *fields;
      return;
    }
    out_.words.insert(out_.words.end(), {flag, letters});
    out_.notes.push_back(flag + ": letters are p (power, temperature), u (utilization), c (clocks), v (violations), "
                                "m (memory), e (errors), t (PCIe)");
  }

  const std::vector<std::string>& in_;
  size_t at_ = 0;
  const Command* command_ = nullptr;
  OwnWords out_;
  bool says_ = false, monitors_ = false;
  bool queries_ = false, once_ = false;   // nvidia-smi --query-gpu
  std::string timed_, fields_;   // of dmon
  std::span<const BorrowedFlag> tool_flags_;
};

}  // namespace

OwnWords own_words_for(const std::vector<std::string>& words) { return Translation(words).whole(); }

}  // namespace profgpu
