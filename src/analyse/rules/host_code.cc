// What the program's own code does on the host between data loading, forward, backward and optimizer.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyse/rank/first_use.h"
#include "analyse/rank/host_collectives.h"
#include "analyse/rank/places.h"
#include "analyse/rank/threads.h"
#include "analyse/rules/host_work.h"
#include "analyse/rules/measure.h"
#include "analyse/rules/step_trend.h"

namespace profgpu {
namespace {

constexpr int64_t kMinHostSamples = 8;
constexpr size_t kAllPlaces = 1000;

/// What a function does, by its own name or by what it calls, and how to make that cheaper.
struct HostTask {
  std::string_view what;
  std::vector<std::string_view> own;     // words of a name, or how long ones begin
  std::vector<std::string_view> calls;   // parts of lower-case names
  std::vector<std::string_view> fixes;
};

const HostTask kSleeping = {
    "sleeps",
    {"sleep", "throttle"},
    {"function sleep>", "method sleep"},
    {"remove the sleep; to wait for something, wait for its event, or let another thread wait",
     "to limit the rate of requests, limit them where they arrive, not in the loop"}};

const std::vector<HostTask>& host_tasks() {
  static const std::vector<HostTask> all = {
      {"copies objects deeply",
       {"deepcopy"},
       {"copy.py(", "deepcopy"},
       {"copy less often: when the metric has improved, or every few hundred steps",
        "copy into tensors that exist: torch._foreach_copy_(saved, current), and for an average torch._foreach_lerp_ or "
        "torch.optim.swa_utils.AveragedModel"}},
      {"prints or logs",
       {"log", "logs", "logger", "logging", "print", "report"},
       {"_tensor_str.py(", "__repr__", "__str__", "__format__", "function print>", "logging/", "tqdm/", "wandb/",
        "tensorboard/"},
       {"log every 50 to 100 steps, and only numbers; printing a tensor formats each of its values",
        "collect values as detached tensors, and read them with one .item() when they are printed; write in a background "
        "thread"}},
      {"evaluates the model",
       {"validat", "evaluat"},
       {},
       {"evaluate less often: once per epoch or every few hundred steps, on a part of the data in between",
        "evaluate with torch.inference_mode() and a larger batch size, which needs no memory for gradients"}},
      {"computes metrics",
       {"metric", "accuracy", "confusion", "score", "bleu", "rouge", "auc"},
       {"sklearn/", "torchmetrics/"},
       {"compute metrics on whole tensors, without a Python loop or .item() per element: torch.bincount for confusion counts, "
        "(prediction.argmax(1) == label).sum() for accuracy",
        "compute them every few steps, or once per epoch over the collected predictions"}},
      {"tokenizes or parses text",
       {"token", "parse"},
       {"re.py(", "re/", "json/", "csv.py(", "method findall", "method split", "nltk/", "sentencepiece/"},
       {"prepare the text once, before training, and store the tokens",
        "or do it in DataLoader workers (num_workers=…), with a tokenizer in native code that takes whole batches"}},
      {"prepares inputs",
       {"augment", "collate", "preprocess", "transform", "resize", "normalize", "getitem", "decode", "prepare"},
       {"torchvision/transforms", "pil/", "cv2", "albumentations/", "method tolist"},
       {"work on whole tensors or arrays, without a Python loop over their elements",
        "in training, prepare inputs in the data set or in collate_fn, so that DataLoader workers (num_workers=…) do it beside "
        "the loop"}}};
  return all;
}

// "log_metrics" logs, "compute_logits" does not.
bool is_named_for(const HostTask& task, std::string_view lower_name) {
  constexpr size_t kLongWord = 5;
  for (size_t begin = 0; begin <= lower_name.size();) {
    const size_t end = std::min(lower_name.find_first_of("_.<>", begin), lower_name.size());
    const std::string_view word = lower_name.substr(begin, end - begin);
    for (const std::string_view own : task.own)
      if (word == own || (own.size() >= kLongWord && word.starts_with(own))) return true;
    begin = end + 1;
  }
  return false;
}

bool evaluates(const Place& place) {
  constexpr std::string_view kParts[] = {"validat", "evaluat"};
  return contains_any(lower_case(place.name), kParts);
}

/// A function of the program and the time in it, with the line that has most.
struct HostCode {
  Place place;
  int64_t ns = 0;
  std::vector<std::pair<std::string_view, int64_t>> calls;
};

// Time of the step's thread that neither the phases of training nor other rules explain.
Intervals unexplained_time(const Measured& m, ThreadId thread) {
  Intervals time;
  for (const PhaseSegment& s : m.facts().get<Phases>().segments)
    if (s.phase == Phase::kOther || static_cast<int>(s.phase) >= kPhases) time.push_back({s.start_ns, s.end_ns});
  time = intersect(merged(std::move(time)), m.measured_time());
  Intervals collectives;   // the program may wait for them
  for (const HostId call : m.facts().get<HostCollectives>().calls)
    collectives.push_back(m.trace().host.interval(call));
  time = subtract(std::move(time), merged(std::move(collectives)));
  time = subtract(std::move(time), m.host_time_of_other_rules());
  return subtract(std::move(time), m.facts().get<FirstUse>().time[thread.value]);
}

// By function. What the loop itself does at different lines is different work.
std::vector<HostCode> by_function(const Places& places, const Places& phases) {
  std::map<std::pair<std::string_view, std::string_view>, int64_t> in_phases;
  const std::vector<Place> of_phases = phases.most_expensive(kAllPlaces), rest = places.most_expensive(kAllPlaces);
  for (const Place& p : of_phases) in_phases[{p.name, p.file}] += p.ns;
  std::map<std::pair<std::string_view, std::string_view>, int64_t> outside;
  for (const Place& p : rest) outside[{p.name, p.file}] += p.ns;
  std::map<std::tuple<std::string_view, std::string_view, int64_t>, HostCode> functions;
  for (const Place& p : rest) {
    if (p.file.empty() || p.name.starts_with("backward ")) continue;
    const bool is_loop = 4 * in_phases[{p.name, p.file}] > outside[{p.name, p.file}];
    HostCode& function = functions[{p.name, p.file, is_loop ? p.line.value_or(0) : 0}];
    if (function.ns == 0) function.place = p;
    function.ns += p.ns;
    for (const auto& call : places.calls_of(p)) function.calls.push_back(call);
  }
  std::vector<HostCode> all;
  for (auto& [key, function] : functions) all.push_back(std::move(function));
  std::ranges::stable_sort(all, std::greater(), &HostCode::ns);
  return all;
}

// An evaluation runs forward passes, and is no part of training.
void add_evaluations(const Places& phases, std::vector<HostCode>& all) {
  for (const Place& p : phases.most_expensive(kAllPlaces)) {
    if (!evaluates(p) || p.file.empty()) continue;
    const auto same = [&](const HostCode& c) { return c.place.name == p.name && c.place.file == p.file; };
    auto known = std::ranges::find_if(all, same);
    if (known == all.end()) known = all.insert(all.end(), HostCode{p, 0, {}});
    known->ns += p.ns;
    if (p.ns > known->place.ns) known->place = p;
  }
}

// The most expensive function; none: nothing of it was recorded, or too little to be sure.
std::optional<HostCode> host_code(const Measured& m) {
  const ThreadId thread = m.facts().get<Steps>().thread;
  if (m.has_device() || !thread.valid() || !has_python_frames(m.trace())) return std::nullopt;
  const Intervals unexplained = unexplained_time(m, thread);
  Places outside(m.facts(), PlaceOf::kOwnCode), inside(m.facts(), PlaceOf::kOwnCode);
  outside.add_host_time(thread, unexplained, m.measured_time());
  inside.add_host_time(thread, subtract(m.measured_time(), unexplained), m.measured_time());
  std::vector<HostCode> all = by_function(outside, inside);
  // A sample lasts until the next one, also beyond what it is of.
  for (HostCode& code : all)
    if (!evaluates(code.place)) code.ns = std::min(code.ns, total_length(unexplained));
  add_evaluations(inside, all);
  const auto most = std::ranges::max_element(all, {}, &HostCode::ns);
  if (most == all.end()) return std::nullopt;
  const ThreadId stack = m.trace().sampled_stacks()[thread.value];
  if (stack.valid() && samples_in(m.trace(), stack, most->ns) < kMinHostSamples) return std::nullopt;
  return *most;
}

std::optional<double> host_code_value(const Measured& m) {
  const std::optional<HostCode> code = host_code(m);
  if (!code) return std::nullopt;
  return m.wall_pct(code->ns);
}

// From samples of the thread: whether it sleeps for most of this.
bool sleeps(const Measured& m, const HostCode& code) {
  constexpr std::string_view kCalls[] = {"nanosleep", "clock_nanosleep"};
  const ThreadId thread = m.facts().get<Steps>().thread;
  const Intervals time = unexplained_time(m, thread);
  int64_t all = 0, sleeping = 0;
  for (const ThreadSample& s : m.trace().thread_samples) {
    if (s.thread != thread || !contains(time, s.time_ns)) continue;
    ++all;
    sleeping += s.system_call >= 0 && std::ranges::count(kCalls, system_call_name(s.system_call)) > 0;
  }
  const double slept_ns = percent_of(sleeping, all) / 100 * static_cast<double>(total_length(time));
  return all >= kMinHostSamples && 2 * slept_ns > static_cast<double>(code.ns);
}

// Work that grows with the number of the step is not only expensive: it gets more so.
void add_growth(const Measured& m, Finding& f) {
  std::vector<int64_t> durations;
  for (const Step* s : m.facts().get<Steps>().measured()) durations.push_back(s->elapsed.length());
  const std::optional<StepTrend> trend = step_trend(durations);
  if (!trend || 2 * trend->first_ns > trend->last_ns) return;
  f.verdict += fmt::format(" Steps get longer with their number, from {} to {}: it goes through something that grows.",
                           format_duration(static_cast<double>(trend->first_ns)),
                           format_duration(static_cast<double>(trend->last_ns)));
  f.fix.insert(f.fix.begin(), "something grows with each step and is gone through again: keep a running value, or bound it");
}

const HostTask* task_of(const Measured& m, const HostCode& code) {
  const std::string name = lower_case(code.place.name);
  const auto calls = [&](const HostTask& task) {
    int64_t ns = 0;
    for (const auto& [call, call_ns] : code.calls)
      if (contains_any(lower_case(call), task.calls)) ns += call_ns;
    return 2 * ns > code.ns;
  };
  if (sleeps(m, code) || calls(kSleeping)) return &kSleeping;
  if (const HostTask* task = first_where(host_tasks(), calls)) return task;
  if (is_named_for(kSleeping, name)) return &kSleeping;
  return first_where(host_tasks(), [&](const HostTask& task) { return is_named_for(task, name); });
}

void describe_host_code(const Measured& m, Finding& f) {
  const HostCode code = *host_code(m);
  const HostTask* task = task_of(m, code);
  const bool steps = m.facts().get<Steps>().marked();
  const std::string where = place_text(code.place), pct = format_percent(*f.value, 0);
  f.where = {code.place};
  f.what = task != nullptr ? fmt::format("{} {} for {} of {}", where, task->what, pct, steps ? "the step" : "the time")
                           : fmt::format("{} takes {} of {}", where, pct, steps ? "the step" : "the time");
  f.why = "It is the program's own code on the host, outside data loading and the passes of training, and everything else "
          "waits until it is done.";
  f.verdict = fmt::format("{}{}.", f.what.substr(0, f.what.rfind(" of ")), steps ? " of each step" : " of the time");
  if (task != nullptr) f.fix.assign(task->fixes.begin(), task->fixes.end());
  if (2 * code.ns > m.wall_ns()) add_growth(m, f);
  if (!code.calls.empty()) {
    const auto most = std::ranges::max_element(code.calls, {}, &std::pair<std::string_view, int64_t>::second);
    if (4 * most->second >= code.ns && !most->first.starts_with(code.place.file))
      f.evidence.push_back(fmt::format("{} of it in {}", format_percent(percent_of(most->second, code.ns), 0),
                                       shortened(most->first)));
  }
  set_cost(f, m.wall_ns(), code.ns);
}

}  // namespace

extern const Rule kHostCode = {
    .id = "host-code",
    .summary = "the program's own code on the host takes a large part of the step",
    .unit = "%",
    .threshold = 20,
    .severe = 50,
    .meaning =
        "A function of the program takes much of the step and is neither data loading nor a pass of training: it logs, "
        "copies, sleeps, computes metrics, evaluates or prepares inputs in Python. The loop waits for it.",
    .computation =
        "Only without a device and with Python stacks. Value: the share of the measured steps' wall time in the function of "
        "the program's own code with most, and in what it calls, outside the known phases, garbage collection, calls of gloo "
        "and work of the first use; of a function that evaluates or validates, with its forward passes. Of the function that runs the "
        "loop each line counts by itself. Cost: that time.",
    .advice = {
        "do it less often: every 50 to 100 steps, or once per epoch",
        "move it out of the loop: into DataLoader workers, a background thread, or a step before training",
        "whole tensors or arrays instead of a Python loop over elements; one .item() instead of one per element",
    },
    .rank = {.value = host_code_value, .describe = describe_host_code, .host_alone = true},
};

}  // namespace profgpu
