// PyTorch's flight recorder of NCCL (TORCH_NCCL_TRACE_BUFFER_SIZE): one file a rank, pickle or JSON.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/decimal.h"
#include "base/json_reader.h"
#include "base/text.h"
#include "base/text_source.h"
#include "trace/flight_dump.h"
#include "trace/import/importer.h"
#include "trace/import/input_units.h"
#include "trace/import/pickle_json.h"
#include "trace/import/whole_text.h"
#include "trace/trace_builder.h"

namespace profgpu {
namespace {

constexpr size_t kMostDump = size_t{1} << 30;  // bytes; a buffer of 20,000 calls with stacks takes 100 MB
constexpr size_t kMostCalls = 1'000'000;
constexpr size_t kMostFrames = 8;
constexpr size_t kMostSizes = 120;  // characters of the sizes that are kept for people
constexpr int kMostRanks = 10'000'000;
constexpr std::string_view kCoalesced = "coalesced";

std::string_view unquoted_number(std::string_view token) {
  if (token.size() >= 2 && token.front() == '"' && token.back() == '"') return token.substr(1, token.size() - 2);
  return token;
}

class DumpReader {
 public:
  DumpReader(JsonReader json, FlightDump& out) : json_(json), out_(out) {}

  bool read() {
    const bool whole = read_entries();
    fold_coalesced();
    return whole;
  }
  [[nodiscard]] bool left_out_calls() const { return left_out_; }

 private:
  bool read_entries() {
    return read_object(json_, [&](std::string_view key) {
      if (key == "version") return text(out_.version);
      if (key == "nccl_version" || key == "comm_lib_version") return text(out_.nccl_version);
      if (key == "pg_config" && json_.peek() == '{') return groups();
      if (key == "pg_status" && json_.peek() == '{') return statuses();
      if (key == "entries" && json_.peek() == '[') return read_array(json_, [&] { return call(); });
      return json_.skip_value();
    });
  }
  bool text(std::string& value) {
    if (json_.peek() == '"') return read_text(json_, value);
    std::string_view raw;
    return json_.raw_value(raw) && (raw == "null" || (value = raw, true));
  }
  // A whole number, or a text that is one.
  bool number(std::optional<int64_t>& value) {
    std::string_view raw;
    if (!json_.raw_value(raw)) return false;
    value = whole_number(unquoted_number(raw));
    return true;
  }
  bool number(int64_t& value) {
    std::optional<int64_t> read;
    if (!number(read)) return false;
    value = read.value_or(value);
    return true;
  }

  bool groups() {
    return read_object(json_, [&](std::string_view id) {
      FlightGroup& group = out_.groups[place_of(std::string(id))];
      if (json_.peek() != '{') return json_.skip_value();
      return read_object(json_, [&](std::string_view key) {
        if (key == "desc") return text(group.description);
        if (key == "ranks") return ranks(group.ranks);
        return json_.skip_value();
      });
    });
  }
  // "[0, 1, 2]" as a text, or an array.
  bool ranks(std::vector<int>& all) {
    std::string_view raw;
    if (!json_.raw_value(raw)) return false;
    all.clear();
    for (size_t i = 0; i < raw.size();) {
      size_t end = i;
      while (end < raw.size() && is_digit(raw[end])) ++end;
      const auto rank = end > i ? whole_number(raw.substr(i, end - i)) : std::nullopt;
      if (rank && *rank < kMostRanks) all.push_back(static_cast<int>(*rank));
      i = std::max(end, i + 1);
    }
    return true;
  }
  bool statuses() {
    return read_object(json_, [&](std::string_view id) {
      FlightStatus& status = out_.status.emplace_back();
      status.local_id = whole_number(id).value_or(-1);
      if (json_.peek() != '{') return json_.skip_value();
      return read_object(json_, [&](std::string_view key) {
        if (key == "last_enqueued_collective") return number(status.last_enqueued);
        if (key == "last_completed_collective") return number(status.last_completed);
        return json_.skip_value();
      });
    });
  }

  struct Draft {
    FlightCall call;
    FlightCall output;  // its sizes and type
    std::string group, description, state;
    std::optional<int64_t> local_id, collective, p2p, either, completed_ns, started_ns;
    bool retired = false;
  };

  bool call() {
    if (json_.peek() != '{') return json_.skip_value();
    Draft d;
    const bool whole = read_object(json_, [&](std::string_view key) { return field(key, d); });
    if (whole && out_.calls.size() < kMostCalls)
      take(std::move(d));
    else
      left_out_ |= whole;
    return whole;
  }
  bool field(std::string_view key, Draft& d) {
    if (key == "record_id") return number(d.call.record);
    if (key == "pg_id") return number(d.local_id);
    if (key == "process_group") return process_group(d);
    if (key == "collective_seq_id") return number(d.collective);
    if (key == "p2p_seq_id") return number(d.p2p);
    if (key == "seq_id") return number(d.either);
    if (key == "profiling_name") return text(d.call.name);
    if (key == "state") return text(d.state);
    if (key == "time_created_ns") return number(d.call.created_ns);
    if (key == "time_discovered_started_ns") return number(d.started_ns);
    if (key == "time_discovered_completed_ns") return number(d.completed_ns);
    if (key == "timeout_ms") return number(d.call.timeout_ms);
    if (key == "retired") return flag(d.retired);
    if (key == "is_p2p") return flag(d.call.p2p);
    if (key == "input_sizes") return sizes(d.call);
    if (key == "input_dtypes") return dtypes(d.call.dtype);
    if (key == "output_sizes") return sizes(d.output);
    if (key == "output_dtypes") return dtypes(d.output.dtype);
    if (key == "frames" && json_.peek() == '[') return frames(d.call.frames);
    return json_.skip_value();
  }
  bool flag(bool& value) {
    std::string_view raw;
    if (!json_.raw_value(raw)) return false;
    value = raw == "true" || raw == "1";
    return true;
  }
  bool process_group(Draft& d) {
    if (json_.peek() != '[') return text(d.group);
    size_t i = 0;
    return read_array(json_, [&] {
      return i++ == 0 ? text(d.group) : i == 2 ? text(d.description) : json_.skip_value();
    });
  }
  bool sizes(FlightCall& c) {
    std::string_view raw;
    if (!json_.raw_value(raw)) return false;
    c.elements = elements_of(raw);
    for (const char x : raw.substr(0, kMostSizes)) {
      c.sizes += x;
      if (x == ',') c.sizes += ' ';
    }
    std::erase(c.sizes, '\n');
    return true;
  }
  // Of "[[2048,1,5120],[16]]" the sum of each inner list's product; an empty inner list is a scalar.
  static int64_t elements_of(std::string_view raw) {
    double sum = 0, product = 1;
    int depth = 0;
    for (size_t i = 0; i < raw.size();) {
      size_t end = i;
      while (end < raw.size() && is_digit(raw[end])) ++end;
      if (end > i)
        product *= static_cast<double>(whole_number(raw.substr(i, end - i)).value_or(1));
      else if (raw[i] == '[' && ++depth == 2)
        product = 1;
      else if (raw[i] == ']' && depth-- == 2)
        sum += product;
      i = std::max(end, i + 1);
    }
    return sum < 9e18 ? static_cast<int64_t>(sum) : -1;
  }
  bool dtypes(std::string& first) {
    if (json_.peek() != '[') return text(first);
    size_t i = 0;
    return read_array(json_, [&] { return i++ == 0 ? text(first) : json_.skip_value(); });
  }
  // Those of the program: what PyTorch itself adds tells nobody where that is.
  bool frames(std::vector<std::string>& all) {
    return read_array(json_, [&] {
      if (json_.peek() != '{') return json_.skip_value();
      std::string name, file;
      std::optional<int64_t> line;
      const bool whole = read_object(json_, [&](std::string_view key) {
        if (key == "name") return text(name);
        if (key == "filename") return text(file);
        return key == "line" ? number(line) : json_.skip_value();
      });
      const bool own = !is_of_pytorch(file) && file != "??";
      if (own && !name.empty() && all.size() < kMostFrames)
        all.push_back(fmt::format("{} ({}:{})", name, file.substr(file.rfind('/') + 1), line.value_or(0)));
      return whole;
    });
  }

  static bool is_of_pytorch(std::string_view file) {
    return file.starts_with("torch/") || contains(file, "-packages/torch/") || contains(file, "/pytorch/torch/");
  }

  void take(Draft d) {
    FlightCall& c = d.call;
    if (d.group.empty()) d.group = "local " + std::to_string(d.local_id.value_or(0));  // version 1 has no names
    c.group = place_of(d.group);
    FlightGroup& group = out_.groups[c.group];
    if (group.description.empty()) group.description = d.description;
    group.local_id = d.local_id.value_or(-1);
    c.name.erase(0, backend_prefix(c.name));
    for (const std::string_view word : {"send ", "recv "}) peers(word, d);
    c.sequence = (c.p2p ? d.p2p : d.collective).value_or(d.either.value_or(0));
    const bool completed = d.state == "completed" || d.completed_ns.value_or(0) > 0;
    const bool started = d.state == "started" || d.started_ns.value_or(0) > 0;
    c.state = completed ? FlightState::kCompleted : started ? FlightState::kStarted : FlightState::kScheduled;
    if (d.retired) c.state = FlightState::kCompleted;  // the watchdog was done with it
    if (completed || d.retired) out_.only_pending = false;
    out_.calls.push_back(std::move(c));
    numbers_.emplace_back(d.collective.value_or(d.either.value_or(0)), d.p2p.value_or(0));
  }
  // "nccl:", "hccl:", "xccl:".
  static size_t backend_prefix(std::string_view name) {
    const size_t colon = name.find(':');
    const bool word = colon != name.npos && std::ranges::all_of(name.substr(0, colon), [](char x) {
      return x >= 'a' && x <= 'z';
    });
    return word ? colon + 1 : 0;
  }
  // "send 0->1", "recv 1<-0".
  static void peers(std::string_view word, Draft& d) {
    FlightCall& c = d.call;
    if (!c.name.starts_with(word)) return;
    const std::string_view rest = std::string_view(c.name).substr(word.size());
    const size_t arrow = rest.find_first_of("-<");
    if (arrow == rest.npos || arrow + 2 >= rest.size()) return;
    const auto own = whole_number(rest.substr(0, arrow)), peer = whole_number(rest.substr(arrow + 2));
    if (!own || !peer || *own < 0 || *peer < 0 || *own >= kMostRanks || *peer >= kMostRanks) return;
    FlightPart& part = c.parts.emplace_back();
    c.p2p = true, part.sends = word == "send ";
    part.from = static_cast<int>(part.sends ? *own : *peer), part.to = static_cast<int>(part.sends ? *peer : *own);
    const FlightCall& data = part.sends || d.output.elements < 0 ? c : d.output;
    part.elements = data.elements, part.sizes = data.sizes, part.dtype = data.dtype;
    c.name = word.substr(0, 4);
  }

  // PyTorch writes the calls of a coalesced group down without a state of their own ("scheduled", for ever). What
  // follows them under the same numbers, "coalesced", has the state of all of them.
  void fold_coalesced() {
    std::vector<std::vector<size_t>> before(out_.groups.size());  // by group: calls since the last that has a state
    std::vector<bool> folded(out_.calls.size()), whole(out_.calls.size());
    std::vector<bool> batches(out_.groups.size());
    for (size_t i = 0; i < out_.calls.size(); ++i) {
      const FlightCall& c = out_.calls[i];
      std::vector<size_t>& run = before[c.group];
      if (!run.empty() && numbers_[run.back()] != numbers_[i]) run.clear();
      if (c.name == kCoalesced) {
        fold(run, out_.calls[i]);
        for (const size_t part : run) folded[part] = true;
        run.clear();
        whole[i] = batches[c.group] = true;
      } else if (c.state == FlightState::kScheduled) {
        run.push_back(i);
        if (run.size() > 1) batches[c.group] = true;
      } else {
        run.clear();
      }
    }
    // A dump of open calls alone has the parts of a group that has completed, and not what tells so.
    for (size_t i = 0; i < out_.calls.size() && out_.only_pending; ++i)
      if (FlightCall& c = out_.calls[i]; c.p2p && !whole[i] && batches[c.group]) c.state = FlightState::kCompleted;
    std::vector<FlightCall> calls;
    for (size_t i = 0; i < out_.calls.size(); ++i)
      if (!folded[i]) calls.push_back(std::move(out_.calls[i]));
    out_.calls = std::move(calls);
  }
  void fold(const std::vector<size_t>& run, FlightCall& whole) {
    if (run.empty()) return;
    std::vector<std::string> names;
    for (const size_t i : run) {
      FlightCall& part = out_.calls[i];
      std::ranges::move(part.parts, std::back_inserter(whole.parts));
      if (std::ranges::count(names, part.name) == 0) names.push_back(part.name);
    }
    FlightCall& first = out_.calls[run.front()];
    whole.p2p = first.p2p, whole.record = first.record, whole.sequence = first.sequence;
    whole.sizes = std::move(first.sizes), whole.dtype = std::move(first.dtype);
    if (whole.frames.empty()) whole.frames = std::move(first.frames);
    whole.name = joined(names, "+");
    if (!whole.p2p) whole.name = std::string(kCoalesced) + " " + whole.name;
  }

  uint32_t place_of(const std::string& name) {
    const auto [at, fresh] = place_.try_emplace(name, static_cast<uint32_t>(out_.groups.size()));
    if (fresh) out_.groups.push_back({name, "", {}, -1});
    return at->second;
  }

  JsonReader json_;
  FlightDump& out_;
  std::map<std::string, uint32_t> place_;
  std::vector<std::pair<int64_t, int64_t>> numbers_;  // of each call: of its group's collectives, and of the others
  bool left_out_ = false;
};

// The last number of a name: PyTorch appends the rank to TORCH_NCCL_DEBUG_INFO_TEMP_FILE, others put a suffix behind
// it.
std::optional<int> rank_of_dump(std::string_view path) {
  std::string_view name = path.substr(path.rfind('/') + 1);
  for (const std::string_view suffix : {".gz", ".zst", ".json", ".pickle", ".pkl", ".txt"})
    if (name.ends_with(suffix)) name.remove_suffix(suffix.size());
  const int named = rank_in_name(name);
  if (named >= 0) return named;
  size_t begin = name.size();
  while (begin > 0 && is_digit(name[begin - 1])) --begin;
  const auto rank = whole_number(name.substr(begin));
  return rank && *rank < kMostRanks ? std::optional(static_cast<int>(*rank)) : std::nullopt;
}

Result<std::shared_ptr<const FlightDump>> read_dump(const std::string& path) {
  auto source = open_text(path);
  if (!source) return source.error();
  std::string head(16, '\0');
  head.resize((*source)->read(head.data(), head.size()));
  source = open_text(path);
  if (!source) return source.error();
  auto dump = std::make_shared<FlightDump>();
  dump->path = path;
  dump->rank = rank_of_dump(path);
  std::string text;
  if (looks_like_pickle(head)) {
    auto json = pickle_as_json(**source);
    if (!json) return Error{path + ": " + json.error().message, json.error().hint};
    text = std::move(json->json);
    if (json->cut) dump->problem = "is not whole: the pickle ends early";
  } else {
    text = whole_text(**source, kMostDump);
  }
  if ((*source)->end() == TextSource::End::kUnreadable) return Error{path + ": " + (*source)->problem()};
  DumpReader reader(JsonReader::over(text), *dump);
  const bool whole = reader.read();
  if (!dump->problem.empty() && !dump->calls.empty()) dump->calls.pop_back();  // what was cut may be its state
  if (!whole && dump->problem.empty()) dump->problem = "is not whole: the JSON ends early, or stops being JSON";
  if (reader.left_out_calls() && dump->problem.empty())
    dump->problem = fmt::format("has more than {} calls: the others are left out", kMostCalls);
  return std::shared_ptr<const FlightDump>(std::move(dump));
}

Result<Trace> read_flight(const std::string& path, const ImportOptions&) {
  auto dump = read_dump(path);
  if (!dump) return dump.error();
  TraceBuilder builder;
  Trace& header = builder.header();
  header.distributed.rank = (*dump)->rank;
  if (!(*dump)->problem.empty()) header.issues.push_back({TraceIssueKind::kTruncated, 1, (*dump)->problem});
  Trace trace = builder.finish(1);
  trace.events = static_cast<int64_t>((*dump)->calls.size());
  trace.flight = *std::move(dump);
  return trace;
}

// A profiler's trace states process groups and NCCL's version too, in its distributedInfo.
bool looks_like_flight(std::string_view head) {
  const size_t begin = head.find_first_not_of(" \t\r\n");
  if (begin == head.npos || (head[begin] != '{' && !looks_like_pickle(head))) return false;
  const auto says = [&](std::string_view word) { return head.find(word) != head.npos; };
  if (says("schemaVersion") || says("traceEvents") || says("distributedInfo")) return false;
  if (says("pg_status") || (says("record_id") && says("profiling_name"))) return true;
  // Version 1 has nothing else if the rank had no call open.
  return says("entries") && (says("pg_config") || (looks_like_pickle(head) && says("version")));
}

}  // namespace

extern const Importer kFlightRecorder = {
    .name = "flight-recorder",
    .noun = "NCCL flight recorder dump",
    .summary = "what each rank had called when a job hung: PyTorch's flight recorder of NCCL, pickle or JSON",
    .examples = "nccl_trace_rank_3, one per rank",
    .sniff = looks_like_flight,
    .read = read_flight,
    .beside_traces = true};

}  // namespace profgpu
