#include "analyse/rank/first_use.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "analyse/rank/captures.h"
#include "analyse/rank/idle.h"
#include "analyse/rank/names.h"
#include "base/statistics.h"
#include "base/text.h"

namespace profgpu {
namespace {

using std::string_view;

constexpr int64_t kLongNs = 1'000'000;
constexpr int64_t kLongAllocationNs = 100'000'000;   // emptying a cache takes milliseconds, again and again
constexpr int64_t kRareOpNs = 50'000'000;
constexpr int64_t kMedians = 20;
constexpr size_t kMinCalls = 3;   // fewer have no usual duration

bool is_first_use_call(string_view name) {
  constexpr string_view kPrefixes[] = {
      "cuInit", "hipInit", "cuCtxCreate", "cuDevicePrimaryCtxRetain", "hipCtxCreate", "cuModuleLoad", "cuLibraryLoad",
      "cudaLibraryLoad", "cuLibraryGet", "hipModuleLoad", "cudaStreamCreate", "cuStreamCreate", "hipStreamCreate",
      "cudaGraphInstantiate", "cuGraphInstantiate", "hipGraphInstantiate", "cudaGraphExecUpdate", "nvrtcCompile",
      "hiprtcCompile", "cublasCreate", "cudnnCreate", "hipblasCreate", "miopenCreate", "miopenFind", "cudnnFind"};
  return starts_with_any(name, kPrefixes);
}

// Functions that compile, tune, load or initialize, by a part of their file's path; empty function: any.
struct FirstUseFrame {
  string_view file, function;
};
constexpr FirstUseFrame kFirstUseFrames[] = {
    {"torch/_dynamo/convert_frame.py", "_compile"},     {"torch/_dynamo/convert_frame.py", "compile_inner"},
    {"torch/_inductor/", "compile_fx_inner"},           {"torch/_inductor/", "compile_to_module"},
    {"torch/_inductor/", "benchmark_all_configs"},      {"torch/_inductor/", "autotune"},
    {"triton/compiler/compiler.py", "compile"},         {"triton/runtime/autotuner.py", "_bench"},
    {"triton/runtime/autotuner.py", "benchmark"},       {"torch/utils/cpp_extension.py", "_jit_compile"},
    {"torch/utils/cpp_extension.py", "load"},           {"torch/utils/cpp_extension.py", "load_inline"},
    {"aiter/jit/core.py", "build_module"},              {"flashinfer/jit/core.py", "build_and_load"},
    {"flashinfer/jit/core.py", "build"},                {"deep_gemm/jit/compiler.py", ""},
    {"tilelang/jit/kernel.py", "__init__"},             {"tilelang/cache/kernel_cache.py", "cached"},
    {"torch/cuda/__init__.py", "_lazy_init"},           {"ctypes/__init__.py", "LoadLibrary"},
    {"torch/_ops.py", "load_library"},                  {"importlib._bootstrap>", "_find_and_load"},
};

// "FILE(LINE): FUNCTION", or a function of Python's own.
bool is_first_use_frame(string_view name) {
  if (name == "<built-in function dlopen>" || name == "<built-in function _cuda_init>") return true;
  const size_t colon = name.rfind(": ");
  if (colon == name.npos) return false;
  const string_view file = name.substr(0, colon), function = name.substr(colon + 2);
  return std::ranges::any_of(kFirstUseFrames, [&](const FirstUseFrame& f) {
    return contains(file, f.file) && (f.function.empty() || f.function == function);
  });
}

// Ranges in which Dynamo and Inductor compile; frames of compilers and tuners.
bool is_first_use_range(string_view name, HostKind kind) {
  if (name.ends_with("(dynamo_timed)")) return true;
  if (kind == HostKind::kOverhead)   // CUDA's own, and how Nsight Systems begins with a process
    return name == "Runtime Triggered Module Loading" || name == "Lazy Function Loading" || name == "Driver Compiler" ||
           name == "CUDA profiling initialization";
  return kind == HostKind::kPython && is_first_use_frame(name);
}

/// What an op that calls no other op does: launches of its own, and waits for events.
struct OwnCalls {
  uint32_t launches = 0, event_waits = 0;
};

// By host row; of rows that are no such ops, nothing.
std::vector<OwnCalls> own_calls(const Trace& trace, const Names& names) {
  const HostTable& h = trace.host;
  std::vector<OwnCalls> calls(h.size());
  const auto op_around = [&](HostId call) {
    return trace.enclosing(h.parent[call.value], [&](HostId at) { return h.kind[at.value] == HostKind::kOp; });
  };
  for (uint32_t i = 0; i < h.size(); ++i) {
    if (!h.is_call(HostId(i))) continue;
    const CallKind kind = names.call[h.name[i].value];
    if (kind != CallKind::kLaunch && kind != CallKind::kSynchronize) continue;
    const HostId op = op_around(HostId(i));
    if (op.valid() && kind == CallKind::kLaunch) ++calls[op.value].launches;
    else if (op.valid() && contains(trace.name(HostId(i)), "EventSynchronize")) ++calls[op.value].event_waits;
  }
  return calls;
}

// cuDNN and MIOpen time each of their kernels before they choose one.
bool tunes(string_view op, const OwnCalls& calls) {
  constexpr uint32_t kMinTrials = 3;
  return calls.launches >= kMinTrials && calls.event_waits >= kMinTrials && contains(lower_case(op), "conv");
}

/// Whether a name alone shows first use.
enum class NameKind : uint8_t { kUnseen, kNothing, kFirstUse };

/// Usual durations of calls and innermost ops, by name.
class Durations {
 public:
  explicit Durations(const Trace& trace) : trace_(trace), is_long_(trace.strings.size()) {
    const HostTable& h = trace.host;
    for (uint32_t i = 0; i < h.size(); ++i)
      if (h.duration_ns[i] >= kLongNs && h.kind[i] != HostKind::kPython) is_long_[h.name[i].value] = true;
    for (uint32_t i = 0; i < h.size(); ++i) {
      if (is_long_[h.name[i].value]) by_name_[h.name[i].value].push_back(h.duration_ns[i]);
      if (h.is_call(HostId(i))) calls_.push_back(h.duration_ns[i]);
    }
    for (auto& [name, durations] : by_name_)
      usual_[name] = durations.size() < kMinCalls ? 0 : lower_median(std::move(durations));
    if (!calls_.empty()) usual_call_ = lower_median(std::move(calls_));
  }

  /// An op too rare to have a usual duration, which launches little but takes long: not by its own work on the host.
  [[nodiscard]] bool is_rare_and_long(HostId op, const OwnCalls& calls) const {
    constexpr uint32_t kFewLaunches = 8;
    return calls.launches > 0 && calls.launches <= kFewLaunches && trace_.host.duration_ns[op.value] >= kRareOpNs &&
           usual_.at(trace_.host.name[op.value].value) == 0;
  }
  /// A rare op is none; a rare call is compared with all calls.
  [[nodiscard]] bool is_unusual(HostId id, int64_t least) const {
    const int64_t ns = trace_.host.duration_ns[id.value];
    if (ns < least) return false;
    int64_t usual = usual_.at(trace_.host.name[id.value].value);
    if (usual == 0 && trace_.host.is_call(id)) usual = usual_call_;
    return usual > 0 && ns / kMedians >= usual;
  }

 private:
  const Trace& trace_;
  std::vector<bool> is_long_;
  std::unordered_map<uint32_t, std::vector<int64_t>> by_name_;
  std::unordered_map<uint32_t, int64_t> usual_;
  std::vector<int64_t> calls_;
  int64_t usual_call_ = 0;
};

}  // namespace

FirstUse FirstUse::compute(const Facts& facts) {
  const Trace& trace = facts.trace();
  const HostTable& h = trace.host;
  const Names& names = facts.get<Names>();
  const Waits& waits = facts.get<Waits>();
  std::vector<NameKind> named(trace.strings.size(), NameKind::kUnseen);
  const auto kind_of = [&](HostId id) {
    NameKind& kind = named[h.name[id.value].value];
    if (kind != NameKind::kUnseen) return kind;
    const string_view name = trace.name(id);
    const bool call = h.is_call(id) || h.kind[id.value] == HostKind::kLibrary;
    const bool first = call ? is_first_use_call(name) : is_first_use_range(name, h.kind[id.value]);
    return kind = first ? NameKind::kFirstUse : NameKind::kNothing;
  };
  std::vector<bool> has_ops(h.size());
  for (uint32_t i = 0; i < h.size(); ++i) {
    if (h.kind[i] != HostKind::kOp) continue;
    const HostId parent =
        trace.enclosing(h.parent[i], [&](HostId at) { return h.kind[at.value] != HostKind::kPython; });
    if (parent.valid()) has_ops[parent.value] = true;
  }
  const Durations durations(trace);
  const std::vector<OwnCalls> calls = own_calls(trace, names);
  std::vector<Intervals> tuning(trace.threads.size());
  const bool has_device = trace.activity.size() > 0;
  FirstUse use;
  use.time.resize(trace.threads.size());
  use.capture = facts.get<Captures>().time;
  use.capture.resize(trace.threads.size());
  std::vector<int64_t> covered(trace.threads.size(), INT64_MIN);
  for (uint32_t i = 0; i < h.size(); ++i) {
    const HostId id(i);
    const uint32_t thread = h.thread[i].value, name = h.name[i].value;
    bool first = kind_of(id) == NameKind::kFirstUse;
    if (!first && h.is_call(id) && names.call[name] != CallKind::kSynchronize)
      first = durations.is_unusual(id, names.call[name] == CallKind::kMemory ? kLongAllocationNs : kLongNs);
    // Without device work an operator's time is its own work.
    if (!first && has_device && h.kind[i] == HostKind::kOp && !has_ops[i] && names.phase[name] == Phase::kOther)
      first = durations.is_unusual(id, kLongNs) || durations.is_rare_and_long(id, calls[i]);
    if (h.kind[i] == HostKind::kOp && tunes(trace.name(id), calls[i])) {
      tuning[thread].push_back(h.interval(id));
      first = true;
    }
    if (!first) continue;
    use.time[thread].push_back(h.interval(id));
    if (h.end_ns(id) > covered[thread]) use.ranges.push_back(id), covered[thread] = h.end_ns(id);
  }
  const std::vector<ThreadId> stacks = trace.sampled_stacks();
  for (size_t t = 0; t < use.time.size(); ++t) {
    if (stacks[t].valid()) {   // a sampled thread's rows come before its samples
      const Intervals& sampled = use.time[stacks[t].value];
      use.time[t].insert(use.time[t].end(), sampled.begin(), sampled.end());
    }
    use.time[t] = unite(subtract(merged(std::move(use.time[t])), waits.device_waits[t]), use.capture[t]);
    use.time[t] = unite(std::move(use.time[t]), merged(std::move(tuning[t])));
  }
  return use;
}

}  // namespace profgpu
