#include "trace/import/input_units.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <vector>

#include "base/decimal.h"
#include "base/json_reader.h"
#include "base/text.h"
#include "base/text_source.h"
#include "trace/import/recording.h"

namespace profgpu {
namespace {

constexpr size_t kHeadBytes = 64 << 10;   // what a file says of itself stands before its events

struct Listing {
  std::vector<std::string> files;
  bool folder = false;
  std::vector<std::string> passed_over;        ///< what lies there and is no file
  bool has_folders = false;
};

// Why an entry of a folder is not read.
std::string what_is(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return path + ": " + std::strerror(errno);
  return path + (S_ISDIR(info.st_mode) ? ": a folder, which is read where it is named itself" : ": not a regular file");
}

Error empty_folder(const std::string& path, const Listing& listing) {
  if (!listing.has_folders) return {path + ": an empty folder"};
  return {path + ": no files in it, only folders", "name those: " + path + (path.back() == '/' ? "*" : "/*")};
}

Result<Listing> listed(const std::string& path) {
  if (path == "-") return Listing{{path}, false, {}, false};
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0)
    return Error{path + ": " + std::strerror(errno), errno == ENOENT ? "check the path" : ""};
  if (!S_ISDIR(info.st_mode)) return Listing{{path}, false, {}, false};
  DIR* dir = ::opendir(path.c_str());
  if (dir == nullptr) return Error{path + ": " + std::strerror(errno), "check the folder's permissions"};
  Listing listing{{}, true, {}, false};
  while (const dirent* entry = ::readdir(dir)) {
    const std::string name = entry->d_name;
    if (name.front() == '.') continue;
    const std::string file = path + (path.back() == '/' ? "" : "/") + name;
    const bool there = ::stat(file.c_str(), &info) == 0;
    if (there && S_ISREG(info.st_mode)) listing.files.push_back(file);
    else listing.passed_over.push_back(what_is(file)), listing.has_folders |= there && S_ISDIR(info.st_mode);
  }
  ::closedir(dir);
  std::sort(listing.files.begin(), listing.files.end(), natural_less);
  std::sort(listing.passed_over.begin(), listing.passed_over.end(), natural_less);
  return listing;
}

// What `profgpu run` writes beside recordings, and is none.
bool describes_run(const std::string& path, const std::string& word) {
  const std::string name = path.substr(path.rfind('/') + 1);
  return name == word + ".json" || (name.starts_with(word + "-") && name.ends_with(".json"));
}

// Which importer knows a file, how large it is, and what its head says.
struct Head {
  const Importer* importer = nullptr;
  int64_t bytes = 0;
  Peek says;
};

bool holds_recording(const Head& head) { return head.importer == &kRecording; }

Head head_of(const std::string& path) {
  auto source = open_text(path);
  if (!source) return {};
  std::string text(kHeadBytes, '\0');
  text.resize((*source)->read(text.data(), text.size()));
  Head head{nullptr, (*source)->file_bytes(), {}};
  head.importer = find_importer(text);
  const bool broken = (*source)->end() == TextSource::End::kUnreadable;
  if (broken && !holds_recording(head)) head.importer = nullptr;
  if (head.importer != nullptr && head.importer->peek != nullptr) head.says = head.importer->peek(text);
  return head;
}

Result<Imported> imported_file(const InputUnit::File& file, const ImportOptions& options) {
  if (file.importer == nullptr) return import_file(file.path, options);   // which says why
  ImportOptions of_file = options;
  of_file.merged = file.merged;
  auto trace = file.importer->read(file.path, of_file);
  if (!trace) return trace.error();
  return Imported{*std::move(trace), file.importer, file.bytes};
}

// What is named twice, as by patterns that overlap, is read once.
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

// Joins trace files to units by the rank that they are likely of.
class TraceUnits {
 public:
  explicit TraceUnits(InputUnits& all) : all_(all) {}

  void add(const InputUnit::File& file, std::optional<int> stated) {
    const int rank = file.merged ? file.merged->rank : stated.value_or(rank_in_name(file.path));
    const auto [it, fresh] =
        rank >= 0 ? unit_of_.try_emplace(rank, all_.units.size()) : std::pair(unit_of_.end(), true);
    InputUnit& unit = fresh ? all_.units.emplace_back() : all_.units[it->second];
    unit.files.push_back(file);
    unit.bytes += file.bytes;
  }

 private:
  InputUnits& all_;
  std::map<int, size_t> unit_of_;
};

void add_merged(InputUnit::File file, TraceUnits& traces, size_t& place) {
  std::vector<MergedRank> ranks = file.importer->merged_ranks(file.path);
  if (ranks.empty()) file.place = place++, traces.add(file, {});   // it cannot be read again
  for (MergedRank& rank : ranks) {
    file.merged = std::move(rank);
    file.place = place++;
    traces.add(file, {});
  }
}

// SGLang merges "ID-TP-0.trace.json.gz" and its like into a "merged-ID.trace.json.gz" beside them.
bool has_parts_beside(const std::string& merged, const std::vector<std::string>& files) {
  constexpr std::string_view kPrefix = "merged-";
  const size_t folder = merged.rfind('/') + 1, dot = merged.find('.', folder);
  if (!std::string_view(merged).substr(folder).starts_with(kPrefix) || dot == merged.npos) return false;
  const std::string id = merged.substr(folder + kPrefix.size(), dot - folder - kPrefix.size());
  return std::any_of(files.begin(), files.end(), [&](const std::string& file) {
    return std::string_view(file).substr(file.rfind('/') + 1).starts_with(id + "-");
  });
}

void leave_out_merged(Listing& listing, std::vector<Head>& heads, std::vector<std::string>& left_out) {
  for (size_t i = heads.size(); i-- > 0 && listing.folder;) {
    if (!heads[i].says.merged || !has_parts_beside(listing.files[i], listing.files)) continue;
    left_out.push_back(listing.files[i] + ": ranks merged into one file; the traces beside it are read");
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

int rank_in_name(std::string_view path) {
  std::string name(path.substr(path.rfind('/') == path.npos ? 0 : path.rfind('/') + 1));
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (const std::string_view word : {"rank", "worker", "r"}) {
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

Result<InputUnits> find_units(const std::vector<std::string>& paths, const ImportOptions& options) {
  InputUnits all;
  TraceUnits traces(all);
  std::vector<InputUnit::File> recordings;
  SessionClocks clocks;
  size_t place = 0;
  Seen seen;
  for (const std::string& path : paths) {
    auto listing = listed(path);
    if (!listing) return listing.error();
    if (listing->folder && listing->files.empty()) return empty_folder(path, *listing);
    std::move(listing->passed_over.begin(), listing->passed_over.end(), std::back_inserter(all.left_out));
    std::erase_if(listing->files, [&](const std::string& file) { return seen.again(file); });
    std::vector<Head> heads;
    for (const std::string& file : listing->files) heads.push_back(head_of(file));
    leave_out_merged(*listing, heads, all.left_out);
    const bool recorded = listing->folder && std::any_of(heads.begin(), heads.end(), holds_recording);
    for (size_t i = 0; i < heads.size(); ++i) {
      InputUnit::File file{.path = listing->files[i], .named = !listing->folder, .importer = heads[i].importer,
                           .bytes = heads[i].bytes, .merged = {}};
      if (holds_recording(heads[i])) recordings.push_back(std::move(file));
      else if (recorded && describes_run(file.path, "session")) clocks.add(file.path);
      else if (heads[i].says.merged) add_merged(file, traces, place);
      else if (!recorded || !describes_run(file.path, "summary"))
        file.place = place++, traces.add(file, heads[i].says.rank);
    }
  }
  for (InputUnit::File& file : recordings) file.place = place++;
  if (Status status = add_recordings(recordings, options, all); !status) return status.error();
  if (!clocks.empty()) {
    const auto shared = std::make_shared<const SessionClocks>(std::move(clocks));
    for (InputUnit& unit : all.units) unit.clocks = shared;
  }
  return all;
}

Result<UnitRead> read_unit(const InputUnit& unit, const ImportOptions& options) {
  if (unit.recording) return read_recording(unit, options);
  UnitRead read;
  for (const InputUnit::File& file : unit.files) {
    auto imported = imported_file(file, options);
    if (!imported && file.named) return imported.error();
    if (!imported) {
      read.left_out.push_back(imported.error().message);
      continue;
    }
    ReadPart& r = read.parts.emplace_back();
    r.trace = std::move(imported->trace);
    if (unit.clocks) r.trace.clock = unit.clocks->of(r.trace.host_name);
    r.trace.cut_off = std::any_of(r.trace.issues.begin(), r.trace.issues.end(),
                                  [](const TraceIssue& i) { return i.kind == TraceIssueKind::kTruncated; });
    InputPart& part = r.part;
    part.place = file.place;
    const std::string label = file.merged ? " [" + file.merged->label + "]" : "";
    part.source = {file.path + label, std::string(imported->importer->name), std::string(imported->importer->noun),
                   imported->file_bytes, r.trace.events, 0, std::move(r.trace.issues)};
    r.trace.issues.clear();
    part.stated_rank = r.trace.distributed.rank;
    part.only_samples = r.trace.only_samples();
    part.on_device = r.trace.activity.size() > 0;
    part.window = window_facts(r.trace);
  }
  return read;
}

namespace {

constexpr size_t kMaxBytes = 1 << 20;
constexpr int64_t kSaysNothing_ns = 16'000'000'000;   // the kernel's largest error: its clock is left to itself

// null, or an object of which other members may come.
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
  all.push_back({*synchronised && *error < kSaysNothing_ns, *error});
  return true;
}

}  // namespace

void SessionClocks::add(const std::string& path) {
  auto source = open_text(path);
  if (!source) return;
  std::string text(kMaxBytes + kJsonPadding, '\0');
  const size_t size = (*source)->read(text.data(), kMaxBytes);
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
  for (const ClockStatement& s : statements) add(host, s);
}

void SessionClocks::add(const std::string& host, ClockStatement statement) {
  const auto [at, fresh] = by_host_.try_emplace(host, statement);
  if (fresh) return;
  at->second.synchronised &= statement.synchronised;
  at->second.error_ns = std::max(at->second.error_ns, statement.error_ns);
}

std::optional<ClockStatement> SessionClocks::of(const std::string& host) const {
  const auto at = by_host_.find(host);
  return at != by_host_.end() ? std::optional(at->second) : std::nullopt;
}

}  // namespace profgpu
