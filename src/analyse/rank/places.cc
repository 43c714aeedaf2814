#include "analyse/rank/places.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <optional>
#include <string_view>

#include "analyse/rank/devices.h"
#include "analyse/rank/frameworks.h"
#include "analyse/rank/names.h"
#include "analyse/rank/phases.h"
#include "analyse/rank/steps.h"
#include "base/statistics.h"
#include "base/text.h"
#include "trace/intervals.h"

namespace profgpu {
namespace {

using std::string_view;

constexpr size_t kLongestName = 200;
constexpr string_view kModule = "nn.Module: ";

/// "transformers/image_transforms.py(390): normalize"
struct Frame {
  string_view file, function;
  int64_t line = 0;
};

std::optional<Frame> frame_of(string_view name) {
  const size_t close = name.find("): ");
  const size_t open = close == name.npos ? name.npos : name.rfind('(', close);
  if (open == name.npos || open == 0) return std::nullopt;
  Frame frame{name.substr(0, open), name.substr(close + 3), 0};
  const string_view number = name.substr(open + 1, close - open - 1);
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), frame.line);
  if (error != std::errc() || end != number.data() + number.size()) return std::nullopt;
  return frame;
}

// Framework code that every program passes through: no place to change.
bool is_plumbing(string_view file) {
  constexpr string_view kParts[] = {
      "torch/nn/modules/", "torch/nn/functional.py", "torch/_tensor.py", "torch/functional.py", "torch/autograd/",
      "torch/_ops.py", "torch/utils/_contextlib.py", "torch/utils/_device.py", "torch/profiler/", "torch/cuda/",
      "torch/_dynamo/eval_frame.py", "torch/amp/", "torch/overrides.py", "threading.py", "contextlib.py", "runpy.py",
      "<frozen", "<string>", "<__array_function__", "numpy/", "functools.py", "multiprocessing/process.py",
      "concurrent/futures/", "torch/_inductor/utils.py", "triton/runtime/", "json/encoder.py", "json/decoder.py",
      "logging/__init__.py", "tqdm/", "deepspeed/utils/nvtx.py", "transformers/utils/generic.py"};
  constexpr string_view kStandard[] = {"subprocess.py", "socket.py", "ssl.py", "queue.py", "selectors.py", "pickle.py",
                                       "zipfile.py", "shutil.py", "tempfile.py", "copy.py"};
  if (contains_any(file, kParts) || file.empty() || file.front() == '<') return true;
  const bool standard = file.find('/') == file.npos || contains(file, "lib/python3");
  return standard && !contains(file, "-packages/") && std::ranges::count(kStandard, base_name(file)) > 0;
}

}  // namespace

// What calls frameworks that run the loop is the whole program.
bool is_library_file(string_view file) {
  constexpr string_view kLibraries[] = {
      "torch/", "torchvision/", "torchaudio/", "torchmetrics/", "torchtext/", "numpy/", "pandas/", "scipy/", "sklearn/",
      "PIL/", "cv2/", "matplotlib/", "albumentations/", "tqdm/", "wandb/", "tensorboard/", "mlflow/", "h5py/", "pyarrow/",
      "nltk/", "sentencepiece/", "safetensors/", "yaml/", "requests/", "json/", "re/", "logging/", "collections/", "email/",
      "multiprocessing/", "concurrent/", "asyncio/", "encodings/", "importlib/", "http/", "urllib/", "xml/", "html/",
      "sqlite3/", "ctypes/"};
  constexpr string_view kModules[] = {
      "abc.py", "ast.py", "base64.py", "bisect.py", "codecs.py", "contextlib.py", "copy.py", "csv.py", "dataclasses.py",
      "datetime.py", "_pydatetime.py", "decimal.py", "_pydecimal.py", "difflib.py", "enum.py", "fractions.py", "functools.py",
      "genericpath.py", "glob.py", "gzip.py", "hashlib.py", "heapq.py", "inspect.py", "linecache.py", "locale.py",
      "numbers.py", "os.py", "pathlib.py", "pickle.py", "posixpath.py", "pprint.py", "queue.py", "random.py", "re.py",
      "reprlib.py", "selectors.py", "shutil.py", "socket.py", "sre_compile.py", "sre_parse.py", "ssl.py", "struct.py",
      "subprocess.py", "tarfile.py", "tempfile.py", "textwrap.py", "threading.py", "traceback.py", "typing.py",
      "unicodedata.py", "uuid.py", "warnings.py", "weakref.py", "_weakrefset.py", "zipfile.py"};
  if (contains(file, "-packages/"))
    return std::ranges::any_of(kLibraries, [&](string_view p) { return contains(file, "-packages/" + std::string(p)); });
  if (contains(file, "lib/python3") || std::ranges::count(kModules, file) > 0) return true;
  return std::ranges::any_of(kLibraries, [&](string_view p) { return file.starts_with(p); });
}

namespace {

// "<listcomp>" and its kin belong to the function around them.
bool is_comprehension(string_view function) {
  constexpr string_view kNames[] = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<lambda>"};
  return std::ranges::count(kNames, function) > 0;
}

// What autograd's engine wraps around each op of the backward pass.
bool is_engine_plumbing(string_view op) { return op.starts_with("autograd::engine::"); }

/// The first link of each backward op, by that op.
struct ForwardOps {
  std::vector<BackwardLink> links;

  [[nodiscard]] const BackwardLink* link(HostId backward) const {
    const auto it = std::ranges::lower_bound(links, backward, {}, &BackwardLink::backward);
    return it != links.end() && it->backward == backward ? &*it : nullptr;
  }
  static ForwardOps compute(const Facts& facts) {
    ForwardOps all{facts.trace().backward_links};
    std::ranges::stable_sort(all.links, {}, &BackwardLink::backward);
    const auto rest = std::ranges::unique(all.links, {}, &BackwardLink::backward);
    all.links.erase(rest.begin(), rest.end());
    return all;
  }
};

// "aten::mm", "ConvolutionBackward0", "Optimizer.step#SGD.step": older profilers write ranges that a program marks as
// operators.
bool is_operator(string_view name) {
  return contains(name, "::") || contains(name, "Backward") || name.starts_with("Optimizer.");
}

constexpr string_view kBackwardOf = "backward of ", kBackwardStarted = "backward pass started in ";

// Such a frame is the whole program.
bool is_whole_program(string_view function) { return function == "<module>"; }

}  // namespace

Places::Places(const Facts& facts, PlaceOf of)
    : facts_(facts),
      trace_(facts.trace()),
      names_(facts.get<Names>()),
      captures_(facts.get<Captures>()),
      of_(of),
      stacks_(trace_.sampled_stacks()),
      sampled_(trace_.threads.size()),
      steps_(trace_.strings.size()),
      frame_kinds_(trace_.strings.size()) {
  for (const ThreadId stack : stacks_)
    if (stack.valid()) sampled_[stack.value] = true;
  const Steps& steps = facts.get<Steps>();
  for (const Step& step : steps.steps)
    if (step.range.valid()) steps_[trace_.host.name[step.range.value].value] = true;
  if (!steps.thread.valid() || !stacks_[steps.thread.value].valid()) return;
  loop_stack_ = stacks_[steps.thread.value];
  backward_ = &facts.get<Phases>().backward;
}

Places::FrameKind Places::kind_of(StringId name) const {
  FrameKind& kind = frame_kinds_[name.value];
  if (kind != FrameKind::kNotParsed) return kind;
  const auto frame = frame_of(trace_.strings[name]);
  if (!frame || is_plumbing(frame->file)) kind = FrameKind::kFramework;
  else if (is_whole_program(frame->function)) kind = FrameKind::kWholeProgram;
  else if (is_library_file(frame->file)) kind = FrameKind::kLibrary;
  else kind = is_comprehension(frame->function) ? FrameKind::kComprehension : FrameKind::kFunction;
  return kind;
}

// The innermost frame of the program's own code. In a stack of samples, the script's own lines are such, too.
HostId Places::own_function(HostId range) const {
  const HostTable& h = trace_.host;
  HostId comprehension;
  for (HostId at = range; at.valid(); at = h.parent[at.value]) {
    if (h.kind[at.value] != HostKind::kPython) continue;
    const FrameKind kind = kind_of(h.name[at.value]);
    if (kind == FrameKind::kFunction) return at;
    if (kind == FrameKind::kComprehension && !comprehension.valid()) comprehension = at;
    if (kind != FrameKind::kWholeProgram || !is_sampled(at)) continue;
    const string_view file = frame_of(trace_.name(at))->file;
    if (file.ends_with(".py") && !is_library_file(file)) return at;
  }
  return comprehension;
}

HostId Places::caller_outside(HostId frame, string_view library) const {
  const HostTable& h = trace_.host;
  HostId other;
  for (HostId at = h.parent[frame.value]; at.valid(); at = h.parent[at.value]) {
    if (h.kind[at.value] != HostKind::kPython) continue;
    const FrameKind kind = kind_of(h.name[at.value]);
    if (kind == FrameKind::kFramework || kind == FrameKind::kLibrary) continue;
    const string_view file = frame_of(trace_.name(at))->file;
    const string_view of = library_of(file);
    if (of.empty() && (kind != FrameKind::kWholeProgram || file.ends_with(".py"))) return at;
    if (!other.valid() && !of.empty() && of != library) other = at;
  }
  return other;
}

HostId Places::representative(HostId range) const {
  const HostTable& h = trace_.host;
  if (of_ == PlaceOf::kOwnCode)
    if (const HostId own = own_function(range); own.valid()) return own;
  constexpr int64_t kLongCall_ns = 1'000'000;   // shorter calls of the C library are no waits
  HostId framework, program, call, system;
  for (HostId at = range; at.valid(); at = h.parent[at.value]) {
    if (h.kind[at.value] == HostKind::kPython) {
      const FrameKind kind = kind_of(h.name[at.value]);
      if (kind == FrameKind::kWholeProgram) program = at;
      else if (kind != FrameKind::kFramework) return at;
    } else if (steps_[h.name[at.value].value]) {
      continue;
    } else if (h.kind[at.value] == HostKind::kOp && !is_engine_plumbing(trace_.name(at))) {
      framework = at;   // the outermost: "aten::batch_norm" rather than the "aten::view" within
    } else if (!framework.valid() && h.kind[at.value] == HostKind::kAnnotation) {
      framework = at;
    } else if (h.is_call(at) && names_.call[h.name[at.value].value] != CallKind::kLaunch) {
      call = at;
    } else if (h.kind[at.value] == HostKind::kSystem && h.duration_ns[at.value] >= kLongCall_ns) {
      system = at;
    } else if (h.is_call(at)) {
      system = {};   // what the launch itself calls
    }
  }
  if (framework.valid() || program.valid()) return framework.valid() ? framework : program;
  return call.valid() ? call : system;
}

Place Places::place_of(HostId range) const {
  const HostTable& h = trace_.host;
  const auto is_python = [&](HostId at) { return h.kind[at.value] == HostKind::kPython; };
  Place place;
  const string_view name = trace_.name(range);
  const auto frame = is_python(range) ? frame_of(name) : std::nullopt;
  place.name = shortened(frame ? frame->function : name, kLongestName);
  if (frame) place.file = shortened(frame->file, kLongestName), place.line = frame->line;
  const HostKind kind = h.kind[range.value];
  place.is_range = kind == HostKind::kAnnotation || kind == HostKind::kSystem ||
                   (kind == HostKind::kOp && !is_operator(name));
  const HostId module = trace_.enclosing(range, [&](HostId at) {
    return is_python(at) && trace_.name(at).starts_with(kModule) && trace_.name(at).size() > kModule.size();
  });
  if (module.valid()) place.module = shortened(trace_.name(module).substr(kModule.size()), kLongestName);
  return place;
}

// Rows of a sampled stack are in order of time: per sample the frames that are new, and always the innermost.
HostId Places::sampled_in(HostId range, ThreadId stack) const {
  const HostTable& h = trace_.host;
  const Thread& t = trace_.threads[stack.value];
  const HostId after = trace_.first_from(t, h.end_ns(range) + 1);
  if (after == t.begin) return {};
  const HostId last(size_t{after.value} - 1);
  if (h.start_ns[last.value] > h.start_ns[range.value]) return last;
  if (after == t.end) return {};
  // `after` is the outermost frame that began with the sample after the range.
  const HostId frame =
      trace_.enclosing(last, [&](HostId at) { return h.parent[at.value] == h.parent[after.value]; });
  return frame.valid() && h.name[frame.value] == h.name[after.value] ? frame : h.parent[after.value];
}

HostId Places::forward_function(HostId range) const {
  if (trace_.backward_links.empty()) return {};
  const ForwardOps& forward = facts_.get<ForwardOps>();
  const HostId op = trace_.enclosing(range, [&](HostId at) { return forward.link(at) != nullptr; });
  if (!op.valid()) return {};
  const HostId function = representative(forward.link(op)->forward);
  return function.valid() && trace_.host.kind[function.value] == HostKind::kPython ? function : HostId();
}

bool Places::has_ops(ThreadId thread) {
  const auto [known, added] = has_ops_.try_emplace(thread.value, false);
  const Thread& t = trace_.threads[thread.value];
  for (HostId i = t.begin; added && i < t.end && !known->second; ++i)
    known->second = trace_.host.kind[i.value] == HostKind::kOp;
  return known->second;
}

void Places::add(HostId range, int64_t ns) {
  if (!range.valid() || ns <= 0) return;
  const HostTable& h = trace_.host;
  HostId place = representative(range);
  const bool function_known = place.valid() && h.kind[place.value] == HostKind::kPython;
  if (const HostId forward = function_known ? HostId() : forward_function(range); forward.valid())
    return sum_up(forward, forward, ns, kBackwardOf);
  const ThreadId own = stacks_[h.thread[range.value].value];
  const bool of_engine = !own.valid() && !place.valid() && backward_ != nullptr &&
                         contains(*backward_, h.start_ns[range.value]);
  if (const ThreadId stack = of_engine ? loop_stack_ : own; stack.valid())
    if (const HostId frame = sampled_in(range, stack); frame.valid())
      if (const HostId function = representative(frame); function.valid())
        return sum_up(function, frame, ns, of_engine ? kBackwardStarted : string_view());
  if (place.valid()) sum_up(place, range, ns);
}

void Places::sum_up(HostId representative, HostId range, int64_t ns, string_view prefix) {
  Place*& sum = sum_of_[{trace_.host.name[representative.value], prefix}];
  if (sum == nullptr) {
    Place place = place_of(representative);
    place.name.insert(0, prefix);
    sum = &sums_.try_emplace(key_of(place), std::move(place)).first->second;
  }
  sum->ns += ns;
  ++sum->count;
  if (of_ != PlaceOf::kOwnCode || range == representative) return;
  const HostId called =
      trace_.enclosing(range, [&](HostId at) { return trace_.host.parent[at.value] == representative; });
  if (called.valid()) calls_[key_of(*sum)][trace_.host.name[called.value]] += ns;
}

void Places::add(ActivityId activity) {
  add(captures_.origin(trace_, activity), trace_.activity.duration_ns[activity.value]);
}

void Places::add_samples(ThreadId stack, Interval part, string_view prefix) {
  const HostTable& h = trace_.host;
  const Thread& t = trace_.threads[stack.value];
  for (HostId row = trace_.first_from(t, part.start); row < t.end && h.start_ns[row.value] < part.end; ++row) {
    const HostId next(size_t{row.value} + 1);
    if (next < t.end && h.parent[next.value] == row) continue;   // a frame that it called, in the same sample
    // The last sample lasts until the process ends.
    if (const HostId place = representative(row); place.valid())
      sum_up(place, row, overlap_length(h.interval(row), part), prefix);
  }
}

void Places::add_host_time(ThreadId thread, Interval part) {
  if (stacks_[thread.value].valid()) return add_samples(stacks_[thread.value], part);
  if (backward_ != nullptr && !has_ops(thread)) {
    for (const Interval& pass : intersect(*backward_, {part})) add_samples(loop_stack_, pass, kBackwardStarted);
    return;
  }
  for (const auto& [row, ns] : self_times(trace_, thread, part)) add(HostId(row), ns);
}

void Places::add_host_time(ThreadId thread, const Intervals& parts, const Intervals& whole) {
  const ThreadId stack = stacks_[thread.value];
  if (!stack.valid()) {
    for (const Interval& part : parts) add_host_time(thread, part);
    return;
  }
  const HostTable& h = trace_.host;
  for (HostId row = trace_.threads[stack.value].begin; row < trace_.threads[stack.value].end; ++row) {
    const HostId next(size_t{row.value} + 1);
    if (next < trace_.threads[stack.value].end && h.parent[next.value] == row) continue;
    if (!contains(parts, h.start_ns[row.value])) continue;
    if (const HostId place = representative(row); place.valid())
      sum_up(place, row, overlap_length(whole, h.interval(row)));
  }
}

std::vector<Place> Places::most_expensive(size_t most) const {
  std::vector<Place> all;
  for (const auto& [key, place] : sums_) all.push_back(place);
  std::ranges::stable_sort(all, std::greater(), &Place::ns);
  const auto negligible = [&](const Place& p) { return p.ns < all.front().ns / 100; };
  all.resize(std::min<size_t>(most, std::ranges::find_if(all, negligible) - all.begin()));
  return all;
}

std::vector<std::pair<string_view, int64_t>> Places::calls_of(const Place& place) const {
  std::vector<std::pair<string_view, int64_t>> all;
  if (const auto of_place = calls_.find(key_of(place)); of_place != calls_.end())
    for (const auto& [name, ns] : of_place->second) all.emplace_back(trace_.strings[name], ns);
  std::ranges::stable_sort(all, std::greater(), [](const auto& call) { return call.second; });
  return all;
}

std::optional<Place> Places::caller_of(const Place& place, const Intervals& time) const {
  const StringId name =
      trace_.strings.find(fmt::format("{}({}): {}", place.file, place.line.value_or(0), place.name));
  if (!name.valid()) return std::nullopt;
  std::map<StringId, std::pair<HostId, int64_t>> callers;   // by name: one of its rows, and the time
  for (uint32_t i = 0; i < trace_.host.size(); ++i) {
    if (trace_.host.name[i] != name || trace_.host.kind[i] != HostKind::kPython) continue;
    const int64_t ns = overlap_length(time, trace_.host.interval(HostId(i)));
    const HostId caller = ns > 0 ? caller_outside(HostId(i), library_of(place.file)) : HostId();
    if (!caller.valid()) continue;
    auto& [row, sum] = callers[trace_.host.name[caller.value]];
    row = caller, sum += ns;
  }
  const auto most = std::ranges::max_element(callers, {}, [](const auto& c) { return c.second.second; });
  return most == callers.end() ? std::nullopt : std::optional(place_of(most->second.first));
}

HostPlaces HostPlaces::compute(const Facts& facts) {
  constexpr size_t kMost = 200;
  const ThreadId thread = facts.get<Steps>().thread;
  if (!thread.valid() || !facts.trace().log_steps.empty()) return {};   // a log's ranges are its steps
  if (!facts.get<Devices>().devices.empty() && !facts.trace().sampled_stacks()[thread.value].valid()) return {};
  Places places(facts, PlaceOf::kOwnCode);
  for (const Interval& step : facts.get<Steps>().measured_time()) places.add_host_time(thread, step);
  return {places.most_expensive(kMost)};
}

int64_t samples_in(const Trace& trace, ThreadId stack, int64_t ns) {
  const HostTable& h = trace.host;
  std::vector<int64_t> durations;   // of one sample or, where it stayed the same, several
  for (HostId row = trace.threads[stack.value].begin; row < trace.threads[stack.value].end; ++row) {
    const HostId next(size_t{row.value} + 1);
    const bool calls = next < trace.threads[stack.value].end && h.parent[next.value] == row;
    if (!calls && h.duration_ns[row.value] > 0) durations.push_back(h.duration_ns[row.value]);
  }
  const double interval_ns = percentile(std::move(durations), 25).value_or(0);
  return interval_ns > 0 ? static_cast<int64_t>(static_cast<double>(ns) / interval_ns) : 0;
}

std::unordered_map<uint32_t, int64_t> self_times(const Trace& trace, ThreadId thread, Interval part, bool python) {
  const HostTable& h = trace.host;
  const Thread& t = trace.threads[thread.value];
  std::unordered_map<uint32_t, int64_t> self;
  const auto counts = [&](HostId id) { return python || h.kind[id.value] != HostKind::kPython; };
  const auto take = [&](HostId id) {
    const int64_t ns = overlap_length(h.interval(id), part);
    if (ns == 0 || !counts(id)) return;
    self[id.value] += ns;
    if (const HostId parent = trace.enclosing(h.parent[id.value], counts); parent.valid()) self[parent.value] -= ns;
  };
  const HostId first = trace.first_from(t, part.start + 1);
  HostId open = first == t.begin ? HostId() : HostId(size_t{first.value} - 1);
  for (; open.valid(); open = h.parent[open.value]) take(open);
  for (HostId id = first; id < t.end && h.start_ns[id.value] < part.end; ++id) take(id);
  return self;
}

}  // namespace profgpu
