#include "analyse/rank/first_use.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "analyse/rank/captures.h"
#include "analyse/rank/idle.h"
#include "analyse/rank/names.h"
#include "base/statistics.h"

namespace profgpu {
namespace {

using std::string_view;

constexpr int64_t kLongNs = 1'000'000;
constexpr int64_t kLongAllocationNs = 100'000'000;   // a cache that is emptied takes milliseconds, again and again
constexpr int64_t kMedians = 20;
constexpr size_t kFewCalls = 3;   // fewer tell no usual duration

bool begins_with_any(string_view name, std::initializer_list<string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](string_view p) { return name.starts_with(p); });
}

bool is_first_use_call(string_view name) {
  return begins_with_any(name, {"cuInit", "hipInit", "cuCtxCreate", "cuDevicePrimaryCtxRetain", "hipCtxCreate",
                                "cuModuleLoad", "cuLibraryLoad", "cudaLibraryLoad", "cuLibraryGet", "hipModuleLoad",
                                "cudaStreamCreate", "cuStreamCreate", "hipStreamCreate", "cudaGraphInstantiate",
                                "cuGraphInstantiate", "hipGraphInstantiate", "cudaGraphExecUpdate", "nvrtcCompile",
                                "hiprtcCompile", "cublasCreate", "cudnnCreate", "hipblasCreate", "miopenCreate",
                                "miopenFind", "cudnnFind"});
}

// What Dynamo and Inductor mark of their own compilation; frames of compilers and tuners.
bool is_first_use_range(string_view name, HostKind kind) {
  if (name.ends_with("(dynamo_timed)")) return true;
  if (kind != HostKind::kPython) return false;
  const size_t colon = name.rfind(": ");
  if (colon == name.npos) return false;
  const string_view file = name.substr(0, colon), function = name.substr(colon + 2);
  const auto in = [&](string_view part) { return file.find(part) != file.npos; };
  const auto is = [&](std::initializer_list<string_view> names) {
    return std::find(names.begin(), names.end(), function) != names.end();
  };
  if (in("torch/_dynamo/convert_frame.py")) return is({"_compile", "compile_inner"});
  if (in("torch/_inductor/")) return is({"compile_fx_inner", "compile_to_module", "benchmark_all_configs", "autotune"});
  if (in("triton/compiler/compiler.py")) return is({"compile"});
  return in("triton/runtime/autotuner.py") && is({"_bench", "benchmark"});
}

/// What a name alone says.
enum class NameKind : uint8_t { kUnseen, kNothing, kFirstUse };

NameKind name_kind(string_view name, HostKind kind, bool call) {
  return (call ? is_first_use_call(name) : is_first_use_range(name, kind)) ? NameKind::kFirstUse : NameKind::kNothing;
}

/// Calls and innermost ops by name, and how long they usually take.
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
    for (auto& [name, durations] : by_name_) {
      const bool few = durations.size() < kFewCalls;
      usual_[name] = few ? 0 : lower_median(std::move(durations));
    }
    if (!calls_.empty()) usual_call_ = lower_median(std::move(calls_));
  }

  /// Of ops of which there are few nothing is known; of calls what calls take.
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
    if (kind == NameKind::kUnseen) kind = name_kind(trace.name(id), h.kind[id.value], h.is_call(id));
    return kind;
  };
  std::vector<bool> has_ops(h.size());
  for (uint32_t i = 0; i < h.size(); ++i) {
    HostId parent = h.parent[i];
    while (parent.valid() && h.kind[parent.value] == HostKind::kPython) parent = h.parent[parent.value];
    if (parent.valid() && h.kind[i] == HostKind::kOp) has_ops[parent.value] = true;
  }
  const Durations durations(trace);
  const bool has_device = trace.activity.size() > 0;
  FirstUse use;
  use.time.resize(trace.threads.size());
  use.capture = facts.get<Captures>().time;
  use.capture.resize(trace.threads.size());
  std::vector<int64_t> covered(trace.threads.size(), INT64_MIN);
  for (uint32_t i = 0; i < h.size(); ++i) {
    const HostId id(i);
    const uint32_t thread = h.thread[i].value, name = h.name[i].value;
    const NameKind kind = kind_of(id);
    bool first = kind == NameKind::kFirstUse;
    if (!first && h.is_call(id) && names.call[name] != CallKind::kSynchronize)
      first = durations.is_unusual(id, names.call[name] == CallKind::kMemory ? kLongAllocationNs : kLongNs);
    // Where nothing runs on a device, an operator's time is its own work.
    if (!first && has_device && h.kind[i] == HostKind::kOp && !has_ops[i] && names.phase[name] == Phase::kOther)
      first = durations.is_unusual(id, kLongNs);
    if (!first) continue;
    use.time[thread].push_back(h.interval(id));
    if (h.end_ns(id) > covered[thread]) use.ranges.push_back(id), covered[thread] = h.end_ns(id);
  }
  const std::vector<ThreadId> stacks = trace.sampled_stacks();
  for (size_t t = 0; t < use.time.size(); ++t) {
    if (stacks[t].valid()) {   // the thread that was sampled has rows before its samples
      const Intervals& sampled = use.time[stacks[t].value];
      use.time[t].insert(use.time[t].end(), sampled.begin(), sampled.end());
    }
    use.time[t] = unite(subtract(merged(std::move(use.time[t])), waits.device_waits[t]), use.capture[t]);
  }
  return use;
}

}  // namespace profgpu
