#include "cli/borrowed_words.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <span>

#include "base/decimal.h"
#include "base/environment.h"
#include "base/secrets.h"
#include "base/text.h"
#include "cli/borrowed_tools.h"
#include "cli/command.h"

namespace profgpu {
namespace {

// What nsys can trace: a list of these after "--trace" is no program.
bool lists_kinds(std::string_view word) {
  constexpr std::array<std::string_view, 24> kKinds = {
      "cuda",     "cuda-hw", "cuda-sw",  "nvtx",   "osrt",   "cublas", "cublas-verbose", "cusolver",
      "cusparse", "cudnn",   "cudla",    "cudla-verbose", "opengl", "openacc", "openmp", "openshmem",
      "mpi",      "nvvideo", "vulkan",   "ucx",    "syscall", "tegra-accelerators", "python-gil", "none"};
  const auto parts = pieces_of(word, ',');
  return parts.size() > 1 && std::ranges::all_of(parts, [&](std::string_view part) {
    return std::ranges::find(kKinds, part) != kKinds.end();
  });
}

std::string this_host() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "host";
}

// nsys' names of results: %q{VARIABLE}, %h the host, %p a process, %n the first number that is free, %%.
std::string expanded_name(std::string_view name) {
  std::string out;
  size_t number = out.npos;
  while (!name.empty()) {
    const size_t close = name.starts_with("%q{") ? name.find('}') : name.npos;
    const bool macro = name.starts_with("%h") || name.starts_with("%p") || name.starts_with("%n") || name.starts_with("%%");
    if (close != name.npos) {
      out += environment(std::string(name.substr(3, close - 3)).c_str());
      name.remove_prefix(close + 1);
      continue;
    }
    if (!macro) out += name.front();
    else if (name[1] == 'h') out += this_host();
    else if (name[1] == 'p') out += std::to_string(::getpid());
    else if (name[1] == '%') out += '%';
    else if (number == out.npos) number = out.size();
    name.remove_prefix(macro ? 2 : 1);
  }
  if (number == out.npos) return out;
  for (int n = 1;; ++n) {
    const std::string numbered = out.substr(0, number) + std::to_string(n) + out.substr(number);
    if (struct stat info{}; ::stat(numbered.c_str(), &info) != 0) return numbered;
  }
}

/// Goes along a line and replaces their words with ours.
class Translation {
 public:
  explicit Translation(const std::vector<std::string>& words) : in_(words) {}

  OwnWords whole() {
    if (in_.empty()) return {};
    if (!begin_command()) return {in_};
    if (!out_.refusal.empty()) return std::move(out_);
    while (at_ < in_.size() && is_own(in_[at_])) take_word();
    begin_program();
    out_.words.insert(out_.words.end(), in_.begin() + static_cast<ptrdiff_t>(at_), in_.end());
    if (of_process_) out_.words.emplace_back("torch");
    if (monitors_) out_.words.insert(out_.words.end(), {"--query", timed_ + fields_});
    if (once_ && !has("--interval") && !has("--count") && !has("--help-query"))
      out_.words.insert(out_.words.end(), {"--count", "1"});
    if (monitors_ && !has("--output") && !has("--format")) out_.words.insert(out_.words.end(), {"--format", "table"});
    if (says_) out_.notes.insert(out_.notes.begin(), "read as: profgpu " + joined(masked_words(out_.words), " "));
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

  // Python's `-m module` is a program, and so is `env` with the variables that nsys sets.
  void begin_program() {
    if (command_ == nullptr || !command_->runs_command || at_ == in_.size()) return;
    if ((in_[at_] == "-m" && !out_.words.empty()) || (!variables_.empty() && in_[at_] != "--")) out_.words.emplace_back("--");
    if (variables_.empty()) return;
    if (in_[at_] == "--") out_.words.push_back(in_[at_++]);
    out_.words.emplace_back("env");
    out_.words.insert(out_.words.end(), variables_.begin(), variables_.end());
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
    if (names_tool && next == "--version") return take_version();
    if (in_.front() == "nvidia-smi" && changes_settings()) return refuse("profgpu changes no settings");
    // nvidia-smi's -q may follow other options.
    const auto query = std::find_if(in_.begin(), in_.end(), [](const auto& w) { return w == "-q" || w == "--query"; });
    const bool asks_all = in_.front() == "nvidia-smi" && next.starts_with("-") && query != in_.end();
    if (asks_all) {
      in_.erase(query);
      in_.insert(in_.begin() + 1, "-q");
      return borrow("-q", names_tool);
    }
    return borrow(next, names_tool);
  }

  bool borrow(std::string_view next, bool names_tool) {
    const auto& all = borrowed_commands();
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto& c) {
      const bool here = names_tool ? c.tool == in_.front() : c.without_tool;
      return here && (c.theirs == next || (names_tool && c.theirs.empty()));
    });
    if (found == all.end()) return false;
    if (found->ours.empty()) return refuse(found->note);
    if (!found->theirs.empty()) ++at_;
    of_process_ = found->tool == "py-spy" && found->theirs == "record" && names_process();
    out_.words = of_process_ ? std::vector<std::string>{"attach"} : found->ours;
    command_ = find_command(out_.words.front());
    if (command_ == nullptr) return false;   // is_left_out()
    monitors_ = found->theirs == "dmon";
    if (monitors_) fields_ = monitored_fields("puc");
    tool_flags_ = flags_of_tool(*found);
    of_nsys_ = found->tool == "nsys";
    if (!found->note.empty()) out_.notes.push_back(fmt::format("{} {}: {}", found->tool, found->theirs, found->note));
    if (found->theirs == "pmon") drop_default_watch();
    return says_ = true;
  }

  bool refuse(std::string_view why) {
    out_.refusal = why;
    out_.instead = "use " + joined(masked_words(in_), " ");
    return true;
  }

  // As `nvidia-smi -i 0 -pl 300`. Words of its commands, such as dmon's -c, are none of these.
  [[nodiscard]] bool changes_settings() const {
    if (in_.size() < 2 || !in_[1].starts_with("-")) return false;
    return std::any_of(in_.begin() + 1, in_.end(), [](const auto& word) { return is_setting_of_smi(word); });
  }

  bool take_version() {
    ++at_;
    out_.words = {"--version"};
    return true;
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
    if (command_ == nullptr || word == "--") return false;
    return !command_->runs_command || (word.starts_with("-") && word != "-m");
  }

  void take_word() {
    const std::string& word = in_[at_];
    const BorrowedFlag* flag = word.starts_with("-") ? borrowed(word) : nullptr;
    if (flag != nullptr) return replace(*flag);
    // A value that looks like one of their flags is none.
    const size_t taken = word.starts_with("-") && value_follows(*command_, word) && at_ + 1 < in_.size() ? 2 : 1;
    const bool names_result = of_nsys_ && (word.starts_with("-o") || word.starts_with("--output"));
    for (const size_t end = at_ + taken; at_ < end; ++at_)
      out_.words.push_back(names_result ? expanded_name(in_[at_]) : in_[at_]);
  }

  // Of a short option with its value in one word, as "-tcuda"; "-cp" is two options.
  [[nodiscard]] static bool has_value_attached(const BorrowedFlag& f, const std::string& word, bool of_tool) {
    const bool one = f.theirs.size() == 2 && word.size() > 2 && word[1] != '-' && word.starts_with(f.theirs);
    if (!one || f.value == Takes::kNone || f.value == Takes::kOptional) return false;
    return is_digit(word[2]) || (of_tool && f.value != Takes::kNumber);
  }

  [[nodiscard]] const BorrowedFlag* borrowed(const std::string& word) const {
    const std::string_view name = std::string_view(word).substr(0, word.find('='));
    const auto fits = [&](const BorrowedFlag& f) {
      if (f.value == Takes::kAttached && name.size() == word.size()) return false;
      if (f.value == Takes::kKinds) return word == f.theirs && lists_kinds(value_of(word));
      if (f.value == Takes::kList)   // our own --format, but nvidia-smi's "csv" where it queries
        return name == f.theirs && (value_of(word).find(',') != std::string::npos || queries_);
      const bool exact = f.value == Takes::kNumber || f.value == Takes::kAttached || monitors_;
      if (exact && name == f.theirs) return true;
      if (monitors_ || f.value == Takes::kAttached) return false;
      return (name == f.theirs || has_value_attached(f, word, false)) && !has_flag(*command_, std::string(name));
    };
    if (const BorrowedFlag* own = flag_of_tool(name, word); own != nullptr) return own;
    if (monitors_)
      if (const auto found = std::ranges::find_if(monitor_flags(), fits); found != monitor_flags().end()) return &*found;
    for (const BorrowedFlag& f : borrowed_flags()) {
      const bool here = f.command.empty() ? has_flag(*command_, std::string(f.ours.substr(0, f.ours.find(' '))))
                                          : f.command == command_->name;
      if (here && fits(f)) return &f;
    }
    return nullptr;
  }

  [[nodiscard]] const BorrowedFlag* flag_of_tool(std::string_view name, const std::string& word) const {
    const BorrowedFlag* attached = nullptr;
    for (const BorrowedFlag& f : tool_flags_) {
      if (f.command != command_->name) continue;
      if (f.theirs == name) return &f;
      if (has_value_attached(f, word, true)) attached = &f;
    }
    return attached;
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
      else if (flag.value == Takes::kNumber) value = more && is_digit(in_[at_][0]) ? in_[at_++] : flag.otherwise;
      else if (flag.value == Takes::kOptional) value = more && !in_[at_].starts_with("-") ? in_[at_++] : flag.otherwise;
      else if (more) value = in_[at_++];
    }
    if (flag.value == Takes::kVariables) return take_variables(value);
    if (flag.value == Takes::kGpus) return take_gpus(flag, value);
    if (is_switched_off(flag, value)) return;
    if (!flag.why.empty()) out_.notes.push_back(fmt::format("{}: {}", flag.theirs, flag.why));
    if (flag.value == Takes::kList) return choose_format(value);
    if (monitors_ && flag.ours == "{}") return choose_fields(word, value);
    if (monitors_ && flag.ours == "--timestamps iso") timed_ = "timestamp,";
    if (flag.ours.empty()) return;
    if (flag.ours == "{}") return out_.words.push_back(value);
    says_ = says_ || !is_as_ours(flag);
    const std::string ours(flag.ours);
    const size_t blank = ours.find(' ');
    if (ours != "--trace" || !has(ours)) out_.words.push_back(ours.substr(0, blank));
    if (ours == "--trace") preload_for(value);
    if (blank == ours.npos) return;
    std::string rest = ours.substr(blank + 1);
    if (const size_t hole = rest.find("{}"); hole != rest.npos) rest.replace(hole, 2, value);
    out_.words.push_back(std::move(rest));
  }

  // A range of NVTX is named by an option of its own; "none" and "false" choose nothing.
  [[nodiscard]] static bool is_switched_off(const BorrowedFlag& flag, const std::string& value) {
    return flag.ours.starts_with("--capture-range") && (value == "nvtx" || value == "none" || value == "false");
  }

  // Nothing need be said of gpustat's "-i" and of colors.
  [[nodiscard]] static bool is_as_ours(const BorrowedFlag& flag) {
    const bool repeats = flag.value == Takes::kNumber && flag.theirs != "-l" && flag.theirs != "--loop";
    return repeats || flag.ours.starts_with("--color");
  }

  void take_variables(const std::string& list) {
    for (const std::string_view variable : pieces_of(list, ',')) variables_.emplace_back(variable);
  }

  // "g:0,1" are GPUs; "f", "g" and "i" are all of them, which is what is shown anyway.
  void take_gpus(const BorrowedFlag& flag, const std::string& which) {
    says_ = true;
    if (which.starts_with("g:") && which.find('+') == which.npos)
      out_.words.insert(out_.words.end(), {"--device", which.substr(2)});
    else if (which != "f" && which != "g" && which != "i")
      out_.notes.push_back(
          fmt::format("{} {}: not understood; all GPUs are shown, --device chooses them", flag.theirs, which));
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

  // `dcgmi dmon -e 100,155`
  void choose_dcgm_fields(const std::string& flag, const std::string& ids) {
    std::string fields, unknown;
    for (const std::string_view id : pieces_of(ids, ',')) {
      const std::string_view ours = dcgm_field(whole_number(id).value_or(0));
      append_listed(ours.empty() ? unknown : fields, ours.empty() ? id : ours, ",");
    }
    if (!fields.empty()) fields_ = "device," + fields;
    if (!unknown.empty())
      out_.notes.push_back(
          fmt::format("{} {}: no such field here; `profgpu log --help-query` lists fields", flag, unknown));
  }

  // What is no letter of theirs stays, so that the parser refuses it.
  void choose_fields(const std::string& flag, const std::string& letters) {
    if (!letters.empty() && is_digit(letters.front())) return choose_dcgm_fields(flag, letters);
    if (std::string fields = monitored_fields(letters); !fields.empty()) {
      fields_ = std::move(fields);
      return;
    }
    out_.words.insert(out_.words.end(), {flag, letters});
    out_.notes.push_back(flag + ": letters are p (power, temperature), u (utilization), c (clocks), v (violations), "
                                "m (memory), e (errors), t (PCIe)");
  }

  std::vector<std::string> in_;
  size_t at_ = 0;
  const Command* command_ = nullptr;
  OwnWords out_;
  bool says_ = false, monitors_ = false;
  bool queries_ = false, once_ = false;   // nvidia-smi --query-gpu
  bool of_nsys_ = false, of_process_ = false;   // py-spy record --pid
  std::string timed_, fields_;   // of dmon
  std::vector<std::string> variables_;   // of nsys --env-var, for the program
  std::span<const BorrowedFlag> tool_flags_;
};

}  // namespace

OwnWords own_words_for(const std::vector<std::string>& words) { return Translation(words).whole(); }

}  // namespace profgpu
