#include "cli/borrowed_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "cli/command.h"

namespace profgpu {
namespace {

struct BorrowedCommand {
  std::string_view theirs;
  std::vector<std::string> ours;
};

const std::vector<BorrowedCommand>& borrowed_commands() {
  static const std::vector<BorrowedCommand> kAll = {
      {"dmon", {"log"}},                          // nvidia-smi
      {"pmon", {"stat", "--full", "--watch", "1"}},
      {"topo", {"devices"}},
      {"gpustat", {"stat"}},
      {"nvitop", {"top"}},
      {"nvtop", {"top"}},
      {"profile", {"run", "--trace"}},           // nsys
      {"record", {"run", "--trace"}},            // py-spy, perf
      {"trace", {"run", "--trace"}},
      {"stats", {"analyze"}},
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
    {"log", "-f", Takes::kNext, "--output {}"},
    {"log", "--filename", Takes::kNext, "--output {}"},
    {"devices", "-m", Takes::kNone, "", "the matrix of links is always shown"},
    // gpustat
    {"stat", "-i", Takes::kOptional, "--watch {}"},
    {"stat", "--interval", Takes::kOptional, "--watch {}"},
    // nvitop
    {"top", "-m", Takes::kNext, "", "the layout follows the screen's size"},
    {"top", "--monitor", Takes::kNext, "", "the layout follows the screen's size"},
    {"top", "-1", Takes::kNone, "--once"},
    // nsys
    {"run", "--trace", Takes::kAttached, "--trace", "a recording has all kinds of events"},
    {"run", "-t", Takes::kNext, "--trace", "a recording has all kinds of events"},
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
};

// nvidia-smi dmon's letters of -s, with its columns of each.
constexpr std::pair<char, std::string_view> kMonitored[] = {
    {'p', "power_w,temperature_c,memory_temperature_c"},
    {'u', "utilization_pct,memory_utilization_pct,encoder_utilization_pct,decoder_utilization_pct,jpeg_utilization_pct,"
          "ofa_utilization_pct"},
    {'c', "memory_clock_mhz,sm_clock_mhz"},
    {'v', "throttle_power_ns,throttle_thermal_ns"},
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
    if (first.starts_with("-")) {
      command_ = find_command("run");
      return command_ != nullptr;
    }
    at_ = 1;
    if ((command_ = find_command(first)) != nullptr) {
      out_.words.push_back(first);
      return true;
    }
    const auto& all = borrowed_commands();
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto& c) { return c.theirs == first; });
    if (found == all.end()) return false;
    command_ = find_command(found->ours.front());
    if (command_ == nullptr) return false;   // is_left_out()
    out_.words = found->ours;
    monitors_ = first == "dmon";
    if (monitors_) fields_ = *monitored_fields("puc");
    return says_ = true;
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
      if (f.value == Takes::kList) return name == f.theirs && value_of(word).find(',') != std::string::npos;
      if (f.value == Takes::kOptional || f.value == Takes::kAttached || monitors_) return name == f.theirs;
      const bool attached = f.theirs.size() == 2 && f.value == Takes::kNext && word.size() > 2 && word[1] != '-' &&
                            word.starts_with(f.theirs) && is_digit(word[2]);
      return (name == f.theirs || attached) && !has_flag(*command_, std::string(name));
    };
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
    says_ = says_ || (flag.value != Takes::kOptional && !flag.ours.starts_with("--color"));
    const std::string ours(flag.ours);
    const size_t blank = ours.find(' ');
    out_.words.push_back(ours.substr(0, blank));
    if (blank == ours.npos) return;
    std::string rest = ours.substr(blank + 1);
    if (const size_t hole = rest.find("{}"); hole != rest.npos) rest.replace(hole, 2, value);
    out_.words.push_back(std::move(rest));
  }

  // Without nounits nvidia-smi prints a unit after each value.
  void choose_format(const std::string& list) {
    const std::string parts = "," + list + ",";
    const auto names = [&](std::string_view part) { return parts.find(fmt::format(",{},", part)) != parts.npos; };
    out_.words.insert(out_.words.end(), {"--format", list.substr(0, list.find(','))});
    if (names("noheader")) out_.words.emplace_back("--no-header");
    if (!names("nounits")) out_.words.emplace_back("--units");
    says_ = true;
  }

  // What is no letter of theirs stays, so that the parser refuses it.
  void choose_fields(const std::string& flag, const std::string& letters) {
    if (const auto fields = monitored_fields(letters)) fields_ = *fields;
    else out_.words.insert(out_.words.end(), {flag, letters});
  }

  const std::vector<std::string>& in_;
  size_t at_ = 0;
  const Command* command_ = nullptr;
  OwnWords out_;
  bool says_ = false, monitors_ = false;
  std::string timed_, fields_;   // of dmon
};

}  // namespace

OwnWords own_words_for(const std::vector<std::string>& words) { return Translation(words).whole(); }

}  // namespace profgpu
