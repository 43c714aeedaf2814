#include "trace/import/input_units.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <set>

#include "base/decimal.h"
#include "base/json_reader.h"
#include "base/secrets.h"
#include "base/text.h"
#include "base/text_source.h"
#include "trace/import/execution_trace.h"
#include "trace/import/recording.h"
#include "trace/import/rocprof_csv.h"

namespace profgpu {

extern const Importer kTorchSnapshot, kTorchMemoryTimeline, kTrainingLog, kXlaJson;

namespace {

constexpr size_t kHeadBytes = 64 << 10;   // a file's metadata comes before its events

constexpr int kMaxDepth = 4;                    // of folders that hold only folders

struct Listing {
  std::vector<std::string> files;
  bool folder = false;
  std::vector<std::string> passed_over = {};   ///< entries that are not files, and why they are not read
};

// Adds what is in a folder. One that holds only folders, such as logs/rank_0, logs/rank_1, stands for those.
Status list_folder(const std::string& path, int depth, Listing& listing) {
  DIR* dir = ::opendir(path.c_str());
  if (dir == nullptr) return Error{path + ": " + std::strerror(errno), "check the folder's permissions"};
  std::vector<std::string> folders;
  const size_t files = listing.files.size();
  struct stat info {};
  while (const dirent* entry = ::readdir(dir)) {
    const std::string name = entry->d_name;
    if (name.front() == '.') continue;
    std::string file = path + (path.back() == '/' ? "" : "/") + name;
    if (::stat(file.c_str(), &info) != 0) listing.passed_over.push_back(file + ": " + std::strerror(errno));
    else if (S_ISREG(info.st_mode)) listing.files.push_back(std::move(file));
    else if (S_ISDIR(info.st_mode)) folders.push_back(std::move(file));
    else listing.passed_over.push_back(file + ": not a regular file");
  }
  ::closedir(dir);
  const bool only_folders = listing.files.size() == files && depth < kMaxDepth;
  for (const std::string& folder : folders) {
    if (!only_folders) {
      listing.passed_over.push_back(folder + ": a folder, which is read only if you name it");
    } else if (Status status = list_folder(folder, depth + 1, listing); !status) {
      listing.passed_over.push_back(status.error().message);
    }
  }
  return ok();
}

Result<Listing> listed(const std::string& path) {
  if (path == "-") return Listing{{path}};
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0)
    return Error{path + ": " + std::strerror(errno), errno == ENOENT ? "check the path" : ""};
  if (!S_ISDIR(info.st_mode)) return Listing{{path}};
  Listing listing{{}, true};
  if (Status status = list_folder(path, 1, listing); !status) return status.error();
  std::sort(listing.files.begin(), listing.files.end(), natural_less);
  std::sort(listing.passed_over.begin(), listing.passed_over.end(), natural_less);
  return listing;
}

// Files that `profgpu run` writes beside recordings.
bool describes_run(const std::string& path, const std::string& word) {
  const std::string_view name = base_name(path);
  return name == word + ".json" || (name.starts_with(word + "-") && name.ends_with(".json"));
}

// The start of a file as it can stand in a message: printable, short.
std::string seen(std::string_view head) {
  if (head.empty()) return "is empty";
  std::string text;
  int strange = 0;
  head.remove_prefix(std::min(head.size(), head.find_first_not_of(" \t\r\n")));
  // A key that the cut goes through could no longer be seen to be one.
  const std::string safe = masked_secrets(head.substr(0, 4096));
  const std::string_view shown = std::string_view(safe).substr(0, 24);
  for (size_t i = 0; i < shown.size();) {
    const size_t bytes = std::max<size_t>(utf8_sequence(shown.substr(i)), 1);
    const bool printable = bytes == 1 && shown[i] >= ' ' && shown[i] < 0x7F;
    strange += bytes == 1 && !printable && shown[i] != '\n' && shown[i] != '\t' && shown[i] != '\r';
    text.push_back(printable ? shown[i] : ' ');
    i += bytes;
  }
  if (strange > 4) return "is not text";
  text.erase(text.find_last_not_of(' ') + 1);
  return "starts with \"" + text + (safe.size() > 24 ? "…" : "") + "\"";
}

bool is_web_page(std::string_view head) {
  head.remove_prefix(std::min(head.size(), head.find_first_not_of(" \t\r\n")));
  return head.starts_with("<html") || head.starts_with("<!doctype html") || head.starts_with("<!DOCTYPE html");
}

// Which importer knows a file, how large it is, and what its first bytes say of it.
struct Head {
  const Importer* importer = nullptr;
  int64_t bytes = 0;
  Peek says = {};
  Error why = {};   // it cannot be read, where no importer is given
};

bool holds_recording(const Head& head) { return head.importer == &kRecording; }

// Sources and documents in a folder quote what logs print.
bool is_source(std::string_view path) {
  constexpr std::array<std::string_view, 12> kEndings = {".py",  ".md",   ".rst",  ".ipynb", ".sh", ".yaml",
                                                         ".yml", ".toml", ".html", ".cc",    ".cu", ".h"};
  return std::ranges::any_of(kEndings, [&](std::string_view ending) { return path.ends_with(ending); });
}

// "main;train;forward 120", as flame graphs are made of.
bool is_folded_stacks(std::string_view head) {
  const std::string_view line = head.substr(0, head.find('\n'));
  const size_t blank = line.rfind(' ');
  return blank != line.npos && line.find(';') < blank && all_digits(without_blanks(line.substr(blank + 1)));
}

// A program is recorded first.
std::string hint_for(const std::string& path, std::string_view head) {
  using Pair = std::pair<std::string_view, std::string_view>;
  for (const auto& [ending, interpreter] : {Pair{".py", "python"}, Pair{".sh", "bash"}})
    if (path.ends_with(ending))
      return "to record it: profgpu run --trace -o rec -- " + std::string(interpreter) + " " + path;
  if (path.ends_with(".pftrace")) return "a timeline for Perfetto's viewer: give the file that it was made of";
  if (is_folded_stacks(head))
    return "folded stacks have no times: py-spy record --format speedscope writes a file that profgpu reads";
  if (contains(head, "Time (%)") && contains(head, "Total Time (ns)"))
    return "a summary by nsys stats: give the .sqlite or .nsys-rep file that it was made of";
  return "`profgpu formats` lists what it reads";
}

Head head_of(const std::string& path, bool in_folder) {
  auto source = open_text(path);
  if (!source) return {.why = source.error()};
  std::string text(kHeadBytes, '\0');
  text.resize((*source)->read(text.data(), text.size()));
  Head head{find_importer(text, path), (*source)->file_bytes()};
  const TextSource::End end = (*source)->end();
  if (head.importer == nullptr && end != TextSource::End::kUnreadable && !text.empty())
    head.importer = search_importer(path);
  if (in_folder && head.importer == &kTrainingLog && is_source(path)) {
    head.importer = nullptr;
    head.why = {path + ": a source or a document, which is read as a log only if you name it"};
  } else if (end == TextSource::End::kUnreadable && !holds_recording(head)) {
    head.importer = nullptr;
    head.why = {path + ": " + (*source)->problem()};
  } else if (head.importer != nullptr) {
    if (head.importer->peek != nullptr) head.says = head.importer->peek(text);
  } else if (text.empty() && end != TextSource::End::kComplete) {
    head.why = {path + " " + (*source)->problem() + ", before anything can be read", "copy or record it again"};
  } else if (is_web_page(text)) {
    head.why = {path + ": a web page, not a trace",
                "PyTorch's export_memory_timeline() writes a picture to .html: export .json or .raw.json.gz"};
  } else {
    head.why = {path + ": not a trace that profgpu knows (" + seen(text) + ")", hint_for(path, text)};
  }
  return head;
}

// Files named twice, as by overlapping patterns, are read once.
class Seen {
 public:
  bool again(const std::string& path) {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
           !files_.insert({info.st_dev, info.st_ino}).second;
  }

 private:
  std::set<std::pair<dev_t, ino_t>> files_;
};

// Groups trace files into units by their likely rank.
class TraceUnits {
 public:
  explicit TraceUnits(InputUnits& all) : all_(all) {}

  void add(const InputUnit::File& file, std::optional<int> stated) {
    const int rank = file.merged ? file.merged->rank : stated.value_or(rank_in_name(file.path));
    const bool alone = file.importer != nullptr && file.importer->beside_traces;   // no window of a rank's trace
    traces_ |= !alone && file.importer != nullptr;
    const size_t next = all_.units.size();
    const size_t at = rank >= 0 && !alone ? unit_of_.try_emplace(rank, next).first->second : next;
    InputUnit& unit = at == next ? all_.units.emplace_back() : all_.units[at];
    unit.files.push_back(file);
    unit.bytes += file.bytes;
  }
  /// Of the unit; -1: none is known.
  [[nodiscard]] int rank_of(size_t unit) const {
    const auto at = std::ranges::find(unit_of_, unit, &std::map<int, size_t>::value_type::second);
    return at != unit_of_.end() ? at->first : -1;
  }
  /// All files are added; `recorded`: there are recordings.
  void finish(bool recorded) {
    if (!traces_ && !recorded) return;
    for (InputUnit& unit : all_.units)
      for (InputUnit::File& file : unit.files)
        file.of_no_rank |= file.importer != nullptr && file.importer->beside_traces;
  }

 private:
  bool traces_ = false;
  InputUnits& all_;
  std::map<int, size_t> unit_of_;
};

// `before`: ranks of such files that came before and do not say which they are.
void add_merged(InputUnit::File file, TraceUnits& traces, size_t& next, int& before) {
  std::vector<MergedRank> ranks = file.importer->merged_ranks(file.path);
  if (ranks.empty()) file.index = next++, traces.add(file, {});   // one rank, or it cannot be read again
  const int own = before;
  for (MergedRank& rank : ranks) {
    if (!rank.numbered) rank.rank += own, ++before;
    file.merged = std::move(rank);
    file.index = next++;
    traces.add(file, {});
  }
}

// Whether the trace of a rank may be in it, which another file says more of.
bool may_be_joined(const InputUnit::File& file) {
  const Importer* i = file.importer;
  return i != nullptr && i->join == nullptr && !i->beside_traces && i != &kTorchSnapshot && i != &kTorchMemoryTimeline;
}

// Files that say more of a trace belong to that of the rank in their name. The only trace takes those that name no
// rank, and if its own is unknown those that all name the same. Without a rank, an execution trace among several stands
// alone; what others have is of no rank that could be told.
void add_companions(std::vector<InputUnit::File> files, bool recorded, size_t& next, TraceUnits& traces,
                    InputUnits& all) {
  std::map<size_t, int> ranks;   // by unit
  for (size_t i = 0; i < all.units.size(); ++i)
    if (std::ranges::any_of(all.units[i].files, may_be_joined)) ranks[i] = traces.rank_of(i);
  std::set<int> named;
  for (const InputUnit::File& file : files) named.insert(rank_in_name(file.path));
  named.erase(-1);
  const size_t one = ranks.size() == 1 && !recorded ? ranks.begin()->first : SIZE_MAX;
  const int rank_of_one = one == SIZE_MAX ? -1 : ranks[one] < 0 && named.size() == 1 ? *named.begin() : ranks[one];
  for (InputUnit::File& file : files) {
    file.index = next++;
    const int rank = rank_in_name(file.path);
    const bool of_one = one != SIZE_MAX && (rank < 0 || rank == rank_of_one);
    if (!of_one) {
      file.of_no_rank = rank < 0 && (!ranks.empty() || recorded) && file.importer != &kExecutionTrace;
      traces.add(file, {});
      continue;
    }
    all.units[one].bytes += file.bytes;
    all.units[one].files.push_back(std::move(file));
  }
}

// SGLang merges "ID-TP-0.trace.json.gz" and so on into a "merged-ID.trace.json.gz" beside them.
bool has_parts_beside(const std::string& merged, const std::vector<std::string>& files) {
  constexpr std::string_view kPrefix = "merged-";
  const std::string_view name = base_name(merged);
  const size_t dot = name.find('.');
  if (!name.starts_with(kPrefix) || dot == name.npos) return false;
  const std::string part = std::string(name.substr(kPrefix.size(), dot - kPrefix.size())) + "-";
  return std::ranges::any_of(files, [&](const std::string& file) { return base_name(file).starts_with(part); });
}

void leave_out_merged(Listing& listing, std::vector<Head>& heads, std::vector<std::string>& left_out) {
  for (size_t i = heads.size(); i-- > 0 && listing.folder;) {
    if (!heads[i].says.merged || !has_parts_beside(listing.files[i], listing.files)) continue;
    left_out.push_back(listing.files[i] + ": ranks merged into one file; the traces beside it are read");
    heads.erase(heads.begin() + static_cast<ptrdiff_t>(i));
    listing.files.erase(listing.files.begin() + static_cast<ptrdiff_t>(i));
  }
}

// `nsys stats` leaves the export of a report beside it.
void leave_out_exported(Listing& listing, std::vector<Head>& heads, std::vector<std::string>& left_out) {
  for (size_t i = heads.size(); i-- > 0 && listing.folder;) {
    const std::string& file = listing.files[i];
    const std::string exported = file.substr(0, file.rfind('.')) + ".sqlite";
    if (!file.ends_with(".nsys-rep") && !file.ends_with(".qdrep")) continue;
    if (std::find(listing.files.begin(), listing.files.end(), exported) == listing.files.end()) continue;
    left_out.push_back(file + ": its export beside it is read");
    heads.erase(heads.begin() + static_cast<ptrdiff_t>(i));
    listing.files.erase(listing.files.begin() + static_cast<ptrdiff_t>(i));
  }
}

bool is_xplane_in(std::string_view folder, std::string_view file) {
  return file.ends_with(".xplane.pb") && folder_of(file) == folder;
}

// JSON of the same profile, with the host's name.
bool has_xla_json_in(std::string_view folder, const Listing& listing, const std::vector<Head>& heads) {
  for (size_t i = 0; i < heads.size(); ++i)
    if (heads[i].importer == &kXlaJson && folder_of(listing.files[i]) == folder &&
        !base_name(listing.files[i]).starts_with("perfetto_trace.json"))
      return true;
  return false;
}

// JAX writes each profile twice, or three times; those in JSON may lack their end.
void leave_out_xla_json(Listing& listing, std::vector<Head>& heads, std::vector<std::string>& left_out) {
  for (size_t i = heads.size(); i-- > 0 && listing.folder;) {
    const std::string& file = listing.files[i];
    const std::string whole = file.substr(0, file.rfind(".trace.json")) + ".xplane.pb";
    if (heads[i].importer != &kXlaJson) continue;
    const bool perfetto = base_name(file).starts_with("perfetto_trace.json");   // without the host's name
    const bool stated = std::ranges::any_of(listing.files, [&](const std::string& other) {
      return perfetto ? is_xplane_in(folder_of(file), other) : other == whole;
    });
    if (!stated && !(perfetto && has_xla_json_in(folder_of(file), listing, heads))) continue;
    left_out.push_back(file + (stated ? ": the .xplane.pb beside it is read" : ": the .trace.json.gz beside it is read"));
    heads.erase(heads.begin() + static_cast<ptrdiff_t>(i));
    listing.files.erase(listing.files.begin() + static_cast<ptrdiff_t>(i));
  }
}

// rocprofv3 writes a file for each kind of record of a process: the first of them stands for all.
void read_together(Listing& listing, std::vector<Head>& heads, std::set<std::string>& firsts) {
  for (size_t i = heads.size(); i-- > 0;) {
    if (heads[i].importer != &kRocprofCsv) continue;
    std::string first = rocprof_csv_first(listing.files[i]);
    if (firsts.insert(first).second) {
      listing.files[i] = std::move(first);
      continue;
    }
    heads.erase(heads.begin() + static_cast<ptrdiff_t>(i));
    listing.files.erase(listing.files.begin() + static_cast<ptrdiff_t>(i));
  }
}

}  // namespace

WindowFacts window_facts(const Trace& trace) {
  WindowFacts facts;
  if (!trace.windows.empty())
    facts.extent = {trace.windows.front().start + trace.base_time_ns, trace.windows.back().end + trace.base_time_ns};
  facts.host = trace.host_name;
  facts.world_size = trace.distributed.world_size;
  facts.calls_collectives = !trace.collectives.empty();
  for (const DeviceProperties& d : trace.devices) facts.devices.insert(d.name);
  if (trace.log && !trace.log_steps.empty()) {
    facts.log.families = trace.log->families, facts.log.dated = trace.log->dated;
    if (!trace.log->ranks.empty()) facts.log.family = trace.log->ranks.front().family;
    if (const auto size = trace.log->setting("world_size"); size && !facts.world_size && *size < INT32_MAX)
      facts.world_size = static_cast<int>(*size);
  }
  for (const LogStep& s : trace.log_steps) {
    facts.first_step = std::min(facts.first_step, s.number);
    facts.last_step = std::max(facts.last_step, s.number);
  }
  if (!trace.log_steps.empty()) return facts;
  for (const Thread& t : trace.threads)
    if (t.begin < t.end && t.process != "0") facts.processes.insert(t.process);
  for (size_t i = 0; i < trace.strings.size(); ++i) {
    const std::string_view name = trace.strings[StringId(i)];
    constexpr std::string_view kPrefix = "ProfilerStep#";
    if (!name.starts_with(kPrefix) || name.size() > kPrefix.size() + 15) continue;
    const int64_t n = std::strtoll(std::string(name.substr(kPrefix.size())).c_str(), nullptr, 10);
    facts.first_step = std::min(facts.first_step, n);
    facts.last_step = std::max(facts.last_step, n);
  }
  return facts;
}

namespace {

// The number after one of the words; -1: none.
int number_in(const std::string& name, std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words) {
    for (size_t at = name.find(word); at != name.npos; at = name.find(word, at + 1)) {
      if (at > 0 && is_letter(name[at - 1])) continue;
      size_t i = at + word.size();
      if (i < name.size() && word != "r" && (name[i] == '-' || name[i] == '_')) ++i;
      size_t end = i;
      while (end < name.size() && is_digit(name[end])) ++end;
      if (end == i || end - i > 6 || (end < name.size() && is_letter(name[end]))) continue;
      return std::atoi(name.substr(i, end - i).c_str());
    }
  }
  return -1;
}

}  // namespace

int rank_in_name(std::string_view path) {
  const int rank = number_in(lower_case(base_name(path)), {"rank", "worker", "r"});
  const size_t slash = path.rfind('/');
  if (rank >= 0 || slash == path.npos) return rank;
  return number_in(lower_case(base_name(path.substr(0, slash))), {"rank", "worker"});
}

int rank_in_folder(std::string_view path, size_t levels) {
  for (size_t level = 0; level <= levels; ++level) {
    const size_t slash = path.rfind('/');
    if (slash == path.npos) return -1;
    path = path.substr(0, slash);
  }
  return number_in(lower_case(base_name(path)), {"rank", "worker", "node"});
}

Result<InputUnits> find_units(const std::vector<std::string>& paths, const ImportOptions& options) {
  InputUnits all;
  TraceUnits traces(all);
  std::vector<InputUnit::File> recordings, companions;
  SessionClocks clocks;
  size_t next = 0;   // index of a file
  int unnumbered = 0;
  std::set<std::string> csv_firsts;
  Seen seen;
  for (const std::string& path : paths) {
    auto listing = listed(path);
    if (!listing) return listing.error();
    if (listing->folder && listing->files.empty()) return Error{path + ": the folder is empty", "name a file, or the folder that holds them"};
    std::move(listing->passed_over.begin(), listing->passed_over.end(), std::back_inserter(all.left_out));
    std::erase_if(listing->files, [&](const std::string& file) { return seen.again(file); });
    std::vector<Head> heads;
    for (const std::string& file : listing->files) heads.push_back(head_of(file, listing->folder));
    leave_out_merged(*listing, heads, all.left_out);
    leave_out_exported(*listing, heads, all.left_out);
    leave_out_xla_json(*listing, heads, all.left_out);
    read_together(*listing, heads, csv_firsts);
    const bool recorded = listing->folder && std::any_of(heads.begin(), heads.end(), holds_recording);
    for (size_t i = 0; i < heads.size(); ++i) {
      InputUnit::File file{.path = listing->files[i], .named = !listing->folder, .importer = heads[i].importer,
                           .why_unknown = std::move(heads[i].why), .bytes = heads[i].bytes};
      if (holds_recording(heads[i])) recordings.push_back(std::move(file));
      else if (recorded && describes_run(file.path, "session")) clocks.add(file.path);
      else if (file.importer != nullptr && file.importer->join != nullptr)
        companions.push_back(std::move(file));
      else if (heads[i].says.merged) add_merged(file, traces, next, unnumbered);
      else if (!recorded || !describes_run(file.path, "summary"))
        file.index = next++, traces.add(file, heads[i].says.rank);
    }
  }
  add_companions(std::move(companions), !recordings.empty(), next, traces, all);
  for (InputUnit::File& file : recordings) file.index = next++;
  traces.finish(!recordings.empty());
  if (Status status = add_recordings(recordings, options, all); !status) return status.error();
  if (!clocks.empty()) {
    const auto shared = std::make_shared<const SessionClocks>(std::move(clocks));
    for (InputUnit& unit : all.units) unit.clocks = shared;
  }
  return all;
}

namespace {

const Importer* importer_of(const ReadPart& r) {
  for (const Importer* i : importers())
    if (i->name == r.part.source.format) return i;
  return nullptr;
}

// What stands for itself takes what the others have; they stay if there is nothing else.
void join_companions(std::vector<ReadPart>& parts) {
  const auto first = std::stable_partition(parts.begin(), parts.end(), [&](const ReadPart& r) {
    const Importer* i = importer_of(r);
    return i == nullptr || i->join == nullptr;
  });
  if (first == parts.begin() || first == parts.end()) return;
  for (auto beside = first; beside != parts.end(); ++beside) {
    InputSource source = beside->part.source;
    // Notes are of it alone: what it lacks is in the trace.
    std::erase_if(source.issues, [](const TraceIssue& i) { return i.kind == TraceIssueKind::kNote; });
    TraceIssue best;
    for (auto r = parts.begin(); r != first; ++r)
      if (TraceIssue issue = importer_of(*beside)->join(beside->trace, source.path, r->trace);
          r == parts.begin() || issue.count > best.count)
        best = std::move(issue);
    source.issues.push_back(std::move(best));
    parts.front().part.beside.push_back(std::move(source));
  }
  parts.erase(first, parts.end());
}

}  // namespace

Result<Imported> import_file(const std::string& path, const ImportOptions& options) {
  const Head head = head_of(path, false);
  if (head.importer == nullptr) return head.why;
  auto trace = head.importer->read(path, options);
  if (!trace) return trace.error();
  return Imported{*std::move(trace), head.importer, head.bytes};
}

Result<UnitRead> read_unit(const InputUnit& unit, const ImportOptions& options) {
  if (unit.recording) return read_recording(unit, options);
  UnitRead read;
  for (const InputUnit::File& file : unit.files) {
    ImportOptions of_file = options;
    of_file.merged = file.merged;
    auto trace = file.importer != nullptr ? file.importer->read(file.path, of_file) : file.why_unknown;
    if (!trace && file.named) return trace.error();
    if (!trace) {
      read.left_out.push_back(trace.error().message);
      continue;
    }
    ReadPart& r = read.parts.emplace_back();
    r.trace = *std::move(trace);
    if (unit.clocks) r.trace.clock = unit.clocks->of(r.trace.host_name);
    const auto has = [&](TraceIssueKind kind) {
      return std::any_of(r.trace.issues.begin(), r.trace.issues.end(),
                         [kind](const TraceIssue& i) { return i.kind == kind; });
    };
    r.trace.cut_off = has(TraceIssueKind::kTruncated);
    r.trace.hardware_counters =
        has(TraceIssueKind::kHardwareCounters) ||
        std::any_of(r.trace.metadata.begin(), r.trace.metadata.end(),
                    [](const auto& field) { return field.first == kHardwareCountersField; });
    InputPart& part = r.part;
    part.index = file.index;
    const std::string label = file.merged && !file.merged->label.empty() ? " [" + file.merged->label + "]" : "";
    // In the format of PyTorch's traces other tools say other things.
    const bool of_another = file.importer->name == "kineto" && r.trace.recorder == Recorder::kOther;
    part.source = {file.path + label, std::string(file.importer->name),
                   of_another ? "another tool's Chrome trace" : std::string(file.importer->noun), file.bytes,
                   r.trace.events, 0, std::move(r.trace.issues)};
    r.trace.issues.clear();
    part.stated_rank = r.trace.distributed.rank;
    part.only_samples = r.trace.only_samples();
    part.has_samples = !r.trace.samples.empty();
    part.of_no_rank = part.only_samples || file.of_no_rank || (file.importer->beside_traces && r.trace.log_steps.empty());
    if (file.of_no_rank && file.importer->join != nullptr)
      part.source.issues.push_back({TraceIssueKind::kOther, 1,
                                    "it was not used: more than one trace, or a recording, is beside it; with the rank "
                                    "in its name, as in rank-0, it is joined with that rank's trace"});
    part.has_notes = r.trace.log != nullptr || r.trace.flight != nullptr;
    part.only_snapshot = r.trace.only_snapshots();
    part.on_device = r.trace.activity.size() > 0;
    part.window = window_facts(r.trace);
  }
  join_companions(read.parts);
  return read;
}

namespace {

constexpr size_t kMaxSessionBytes = 1 << 20;
constexpr int64_t kMaxKernelError_ns = 16'000'000'000;   // the kernel reports no larger one: nothing keeps its clock

// null, or an object, which may have further members.
bool read_statement(JsonReader& reader, std::vector<ClockStatement>& all) {
  std::string_view token;
  if (reader.peek() != '{') return reader.skip_value();
  std::optional<bool> synchronised;
  std::optional<int64_t> error;
  const bool whole = read_object(reader, [&](std::string_view key) {
    const bool known = key == "synchronised" || key == "max_error_ns";
    if (!known || !reader.raw_value(token)) return !known && reader.skip_value();
    if (key == "synchronised" && (token == "true" || token == "false")) synchronised = token == "true";
    if (key == "max_error_ns") error = whole_number(token);
    return true;
  });
  if (!whole) return false;
  if (!synchronised || !error || *error < 0) return true;
  all.push_back({*synchronised && *error < kMaxKernelError_ns, *error});
  return true;
}

}  // namespace

void SessionClocks::add(const std::string& path) {
  auto source = open_text(path);
  if (!source) return;
  std::string text(kMaxSessionBytes + kJsonPadding, '\0');
  const size_t size = (*source)->read(text.data(), kMaxSessionBytes);
  JsonReader reader(text.data(), text.data() + size);
  std::string host;
  std::vector<ClockStatement> statements;
  const bool whole = read_object(reader, [&](std::string_view key) {
    if (key == "host" && reader.peek() == '"') {
      JsonString name;
      int64_t replaced = 0;
      if (!reader.string(name)) return false;
      host = unescaped(name, replaced);
      return true;
    }
    if (key != "clock" || reader.peek() != '{') return reader.skip_value();
    return read_object(reader, [&](std::string_view) { return read_statement(reader, statements); });
  });
  if (!whole || host.empty()) return;
  for (const ClockStatement& s : statements) {
    ClockStatement& known = by_host_.try_emplace(host, s).first->second;
    known.synchronised &= s.synchronised;
    known.error_ns = std::max(known.error_ns, s.error_ns);
  }
}

std::optional<ClockStatement> SessionClocks::of(const std::string& host) const {
  const auto at = by_host_.find(host);
  return at != by_host_.end() ? std::optional(at->second) : std::nullopt;
}

}  // namespace profgpu
