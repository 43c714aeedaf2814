// Logs of trainings: a Trace that has steps and phases as ranges, and the log itself.
//
// A line that stands for several iterations is one step, whose range is as long as all of them; its phases follow each
// other in it, as a log says how long they took and not when.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/json_reader.h"
#include "base/text.h"
#include "base/text_source.h"
#include "trace/import/importer.h"
#include "trace/import/input_units.h"
#include "trace/import/log/log_reader.h"
#include "trace/import/whole_text.h"
#include "trace/trace_builder.h"

namespace profgpu {
namespace {

constexpr size_t kMaxState = 256 << 20;  // of a trainer_state.json

bool is_trainer_state(std::string_view head) {
  const size_t begin = head.find_first_not_of(" \t\r\n");
  return begin != head.npos && head[begin] == '{' && head.find("\"log_history\"") != head.npos;
}

// Its history is what the Trainer prints, a dict each.
Result<RunLog> read_trainer_state(const std::string& path) {
  auto source = open_text(path);
  if (!source) return source.error();
  std::string text = whole_text(**source, kMaxState);
  JsonReader json = JsonReader::over(text);
  LogReader log;
  const bool whole = read_object(json, [&](std::string_view key) {
    if (key != "log_history") return json.skip_value();
    return read_array(json, [&] {
      std::string_view entry;
      if (!json.raw_value(entry)) return false;
      std::string line(entry);
      std::ranges::replace(line, '\n', ' ');
      line += '\n';
      const size_t size = line.size();
      line.append(kJsonPadding, '\0');
      log.feed({line.data(), size});
      return true;
    });
  });
  log.end();
  RunLog out = log.taken();
  out.path = path;
  if (!whole) out.problem = "is not whole: the JSON ends early, or stops being JSON";
  if (!whole && (*source)->end() > TextSource::End::kComplete) out.problem = (*source)->problem();
  return out;
}

Result<std::shared_ptr<const RunLog>> read_any(const std::string& path, const ImportOptions& options) {
  auto source = open_text(path);
  if (!source) return source.error();
  std::string head(64 << 10, '\0');
  head.resize((*source)->read(head.data(), head.size()));
  source = Error{};
  auto log = is_trainer_state(head) ? read_trainer_state(path) : read_log(path, options.progress);
  if (!log) return log.error();
  return std::make_shared<const RunLog>(*std::move(log));
}

std::string label_of(const LogRank& process) {
  std::string label = process.rank ? "rank " + std::to_string(*process.rank) : "";
  if (process.pid > 0) label += (label.empty() ? "" : ", ") + fmt::format("pid {}", process.pid);
  if (!process.node.empty()) label += (label.empty() ? "" : " on ") + process.node;
  return label;
}

constexpr std::array<std::string_view, kLogPhases> kRanges = {
    "data_loading", "forward", "backward", "optimizer", "communication", "checkpoint", "forward-backward"};

using PhaseShares = std::array<double, kLogPhases>;

// Of the steps with timers: programs print them at every tenth line only.
PhaseShares usual_shares(const LogRank& process) {
  PhaseShares sum{};
  double all_ns = 0;
  for (const LogStep& s : process.steps) {
    if (!s.timed()) continue;
    all_ns += static_cast<double>(*s.duration_ns);
    for (size_t p = 0; p < kLogPhases; ++p) sum[p] += static_cast<double>(std::min(s.phase_ns[p], *s.duration_ns));
  }
  if (all_ns > 0)
    for (double& share : sum) share /= all_ns;
  return sum;
}

void add_ranges(const LogStep& step, const PhaseShares& usual, uint32_t thread, Shard& shard) {
  const int64_t whole = step.whole_ns();
  std::array<int64_t, kLogPhases> phase_ns = step.phase_ns;
  if (!step.timed())
    for (size_t p = 0; p < kLogPhases; ++p)
      phase_ns[p] = static_cast<int64_t>(usual[p] * static_cast<double>(*step.duration_ns));
  const auto add = [&](std::string_view name, int64_t start, int64_t duration) {
    HostRow row;
    row.start_ns = start, row.duration_ns = duration;
    row.name = shard.strings.intern(name);
    row.thread = static_cast<uint16_t>(thread);
    row.kind = HostKind::kAnnotation;
    shard.host.push_back(row);
  };
  add("step " + std::to_string(step.number), step.start_ns, whole);
  int64_t at = step.start_ns;
  for (size_t p = 0; p < kLogPhases; ++p) {
    const int64_t left = step.start_ns + whole - at;
    const int64_t duration =
        std::min(left, phase_ns[p] < left / step.iterations + 1 ? phase_ns[p] * step.iterations : left);
    if (duration <= 0) continue;
    add(kRanges[p], at, duration);
    at += duration;
  }
}

void say(TraceIssueKind kind, int64_t count, std::string text, Trace& trace) {
  if (count > 0) trace.issues.push_back({kind, count, std::move(text)});
}

void add_issues(const RunLog& log, const LogRank* process, Trace& trace) {
  say(TraceIssueKind::kTruncated, !log.problem.empty(), log.problem, trace);
  say(TraceIssueKind::kDamaged, log.cut_lines,
      fmt::format("lines longer than {} MiB, of which only the beginning was read: {}", LogReader::kMaxLine >> 20,
                  log.cut_lines),
      trace);
  say(TraceIssueKind::kNote, log.untimed,
      fmt::format("lines that report a step without its number and its time: {} (left out)", log.untimed), trace);
  say(TraceIssueKind::kNote, log.events_left_out(),
      fmt::format("lines that tell of events of which there are many: {} (counted, and not kept)",
                  log.events_left_out()),
      trace);
  say(TraceIssueKind::kDropped, log.serving_left_out,
      fmt::format("lines of a server's engines beyond the first {}: {} (left out)", log.serving.size(),
                  log.serving_left_out),
      trace);
  if (process == nullptr) return;
  say(TraceIssueKind::kNote, process->untimed,
      fmt::format("lines that report a step without a known time: {} (left out)", process->untimed), trace);
  const auto timed = std::ranges::count_if(process->steps, &LogStep::timed);
  const auto all = static_cast<int64_t>(process->steps.size());
  say(TraceIssueKind::kNote, timed > 0 ? all - timed : 0,
      fmt::format("lines without the program's timers: {} of {}; their phases are taken to be as in the others",
                  all - timed, all),
      trace);
  const auto derived = std::ranges::count_if(process->steps, &LogStep::derived);
  const auto how = log.settings.find("step_time");
  const std::string_view step_time = how != log.settings.end() ? std::string_view(how->second) : "";
  say(TraceIssueKind::kNote, step_time == "micro_batch" ? all : 0,
      "no line has the times of a whole step: each row is one micro-batch", trace);
  say(TraceIssueKind::kNote, derived,
      step_time == "mean"
          ? "no line states the time of a step: each has the mean of the whole training"
          : fmt::format("{} step {} derived from rates, timestamps or a progress bar", derived,
                        derived == 1 ? "time was" : "times were"),
      trace);
}

Trace trace_of(std::shared_ptr<const RunLog> log, int place) {
  const LogRank* process = place >= 0 ? &log->ranks[static_cast<size_t>(place)] : nullptr;
  TraceBuilder builder;
  Shard& shard = builder.shard();
  Trace& header = builder.header();
  header.base_time_ns = log->base_ns;
  if (const auto world = log->setting("world_size"); world && *world > 0 && *world < 10'000'000)
    header.distributed.world_size = static_cast<int>(*world);
  std::vector<LogStep> steps;
  if (process != nullptr) {
    if (process->rank) header.distributed.rank = process->rank;
    header.host_name = process->node;
    steps = process->steps;
    const uint32_t thread = shard.thread("log", "steps");
    const PhaseShares usual = usual_shares(*process);
    for (const LogStep& s : steps) add_ranges(s, usual, thread, shard);
    header.windows = {{steps.front().start_ns, steps.back().start_ns + steps.back().whole_ns()}};
  }
  add_issues(*log, process, header);
  Trace trace = builder.finish(1);
  trace.events = log->records;
  trace.log_steps = std::move(steps);
  trace.log = std::move(log);
  return trace;
}

Result<Trace> read_training_log(const std::string& path, const ImportOptions& options) {
  if (options.merged && options.merged->log) {
    const int here = options.merged->place;
    return trace_of(options.merged->log, here);
  }
  auto log = read_any(path, options);
  if (!log) return log.error();
  const int first = (*log)->ranks.empty() ? -1 : 0;
  return trace_of(*std::move(log), first);
}

std::vector<MergedRank> processes_of(const std::string& path) {
  auto log = read_any(path, {});
  if (!log) return {};
  const std::vector<LogRank>& all = (*log)->ranks;
  std::vector<MergedRank> merged;
  for (size_t i = 0; i < std::max<size_t>(all.size(), 1); ++i) {
    MergedRank& m = merged.emplace_back();
    if (all.size() > 1) m.label = label_of(all[i]);
    m.rank = i < all.size() ? all[i].rank.value_or(-1) : -1;
    m.ranks = static_cast<int>(all.size());
    m.first = i == 0;
    m.log = *log;
    m.place = i < all.size() ? static_cast<int>(i) : -1;
  }
  return merged;
}

// An object a line, of which the head has two or more.
bool is_json_lines(std::string_view head) {
  const size_t end = head.find('\n');
  if (end == head.npos) return false;
  const std::string_view line = without_blanks(head.substr(0, end));
  const size_t next = head.find_first_not_of(" \t\r\n", end);
  return line.starts_with('{') && line.ends_with('}') && next != head.npos && head[next] == '{';
}

// A JSON document of another kind may well have a log's words in it.
bool is_json_document(std::string_view head) {
  if (is_json_lines(head)) return false;
  const size_t begin = head.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  if (begin == head.npos) return false;
  const size_t next = head.find_first_not_of(" \t\r\n", begin + 1);
  const char second = next == head.npos ? '\0' : head[next];
  return (head[begin] == '{' && second == '"') || (head[begin] == '[' && second == '{');
}

bool looks_like_log(std::string_view head) {
  return is_trainer_state(head) || (!is_json_document(head) && head_of_log(head));
}

}  // namespace

extern const Importer kTrainingLog = {
    .name = "training-log",
    .noun = "log",
    .summary =
        "what a training prints: Megatron, DeepSpeed, torchtitan, Hugging Face, Lightning, NeMo, MaxText, MLPerf, verl, "
        "fairseq, Keras, OpenMMLab, Detectron2, PaddlePaddle, timm, torchtune, OLMo, Composer, loops; and vLLM, SGLang, "
        "llama.cpp",
    .examples = "train.log, slurm-123.out, trainer_state.json",
    .sniff = looks_like_log,
    .read = read_training_log,
    .peek =
        [](std::string_view) {
          return Peek{{}, true};
        },
    .merged_ranks = processes_of,
    .search = holds_log,
    .beside_traces = true};

}  // namespace profgpu
