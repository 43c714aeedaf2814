// Sizes and factors are those of nccl-tests (its PERFORMANCE.md): S is the buffer of one rank for all-reduce, the whole
// (n parts) for all-gather and reduce-scatter, one rank's whole buffer for all-to-all.
#include "analyse/rank/collectives.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <tuple>

#include "analyse/rank/devices.h"
#include "analyse/rank/host_collectives.h"
#include "analyse/rank/phases.h"
#include "analyse/rank/steps.h"
#include "analyse/rank/work.h"
#include "base/saturated.h"
#include "base/statistics.h"
#include "base/text.h"

namespace profgpu {
namespace {

using std::string_view;

// Letters only, lower case: "_allgather_base", "nccl:all_gather" and "AllGather" compare alike.
std::string letters(string_view text) {
  std::string out;
  for (const char c : text)
    if (is_letter(c)) out.push_back(lower(c));
  return out;
}

}  // namespace

std::string collective_name(string_view recorded) {
  const std::string text = letters(recorded);
  constexpr std::pair<string_view, string_view> kNames[] = {
      {"crossdevicereduce", "all_reduce"},   // vLLM's custom all-reduce
      {"allreduce", "all_reduce"},     {"allgather", "all_gather"},   {"reducescatter", "reduce_scatter"},
      {"alltoall", "all_to_all"},      {"broadcast", "broadcast"},    {"barrier", "barrier"},
      {"sendrecv", "send_recv"},       {"gather", "gather"},          {"scatter", "scatter"},
      {"reduce", "reduce"},            {"send", "send"},              {"recv", "recv"}};
  for (const auto& [part, name] : kNames)
    if (text.find(part) != text.npos) return std::string(name);
  return "";
}

int dtype_bytes(string_view dtype) {
  const size_t at = dtype.rfind("::");
  const std::string text = letters(at == dtype.npos ? dtype : dtype.substr(at + 2));
  if (dtype.find("64") != dtype.npos) return 8;
  if (dtype.find("32") != dtype.npos) return 4;
  if (dtype.find("16") != dtype.npos) return 2;
  if (dtype.find('8') != dtype.npos) return 1;
  if (text == "double" || text == "long" || text == "longint") return 8;
  if (text == "float" || text == "int") return 4;
  if (text == "half" || text == "bfloat" || text == "short") return 2;
  if (text == "byte" || text == "char" || text == "bool" || text == "signedchar" || text == "unsignedchar") return 1;
  return 0;
}

std::optional<int64_t> message_bytes(const Collective& c, string_view name, string_view dtype) {
  const int element_bytes = dtype_bytes(dtype);
  if (element_bytes == 0) return std::nullopt;
  int64_t elements = std::max(c.in_elements, c.out_elements);
  if (name == "all_reduce" || name == "reduce" || name == "all_to_all" || name == "send") elements = c.in_elements;
  if (name == "recv") elements = c.out_elements;
  // Where only a part was recorded, the whole is n parts.
  const bool part_only =
      (name == "all_gather" && c.out_elements < 0) || (name == "reduce_scatter" && c.in_elements < 0);
  if (part_only && (c.group_size <= 0 || __builtin_mul_overflow(elements, int64_t{c.group_size}, &elements)))
    return std::nullopt;
  int64_t bytes = 0;
  if (elements < 0 || __builtin_mul_overflow(elements, static_cast<int64_t>(element_bytes), &bytes))
    return std::nullopt;
  return bytes;
}

double bus_factor(string_view name, int64_t n) {
  if (n < 1) return 1;
  const auto ranks = static_cast<double>(n);
  if (name == "all_reduce") return 2 * (ranks - 1) / ranks;
  if (name == "all_gather" || name == "reduce_scatter" || name == "all_to_all") return (ranks - 1) / ranks;
  return 1;
}

std::vector<CollectiveRow> CollectiveRow::rows(const Facts& facts) { return facts.get<Collectives>().rows; }

const CallTiming* CallTimings::find(ActivityId activity, HostId host) const {
  const auto key = [](const CallTiming& call) { return std::pair(call.activity, call.host); };
  const auto at = std::ranges::lower_bound(calls, std::pair(activity, host), {}, key);
  return at != calls.end() && key(*at) == std::pair(activity, host) ? &*at : nullptr;
}

Collectives Collectives::compute(const Facts& facts) {
  return {rated(facts.get<CollectiveCalls>(), facts.get<CallTimings>())};
}

namespace {

std::string dtype_in_name(string_view kernel) {
  constexpr std::pair<string_view, string_view> kTypes[] = {
      {"_bf16", "bfloat16"}, {"bfloat16", "bfloat16"}, {"_f16", "float16"},  {"_half", "float16"}, {"_f32", "float32"},
      {"_float", "float32"}, {"_f64", "float64"},      {"_double", "float64"}, {"_u8", "uint8"},   {"_uint8", "uint8"},
      {"_int8", "int8"},     {"_i8", "int8"},          {"_i32", "int32"},    {"_int32", "int32"}, {"_i64", "int64"},
      {"_u32", "uint32"},    {"_u64", "uint64"}};
  for (const auto& [part, type] : kTypes)
    if (kernel.find(part) != kernel.npos) return std::string(type);
  return "";
}

/// At most kMaxCover pieces: the shortest gaps between them are closed.
Intervals coarse(Intervals pieces) {
  if (pieces.size() <= CollectiveCalls::kMaxCover) return pieces;
  std::vector<size_t> gaps(pieces.size() - 1);   // gap i follows piece i
  std::iota(gaps.begin(), gaps.end(), 0);
  std::ranges::stable_sort(gaps, std::greater(), [&](size_t i) { return pieces[i + 1].start - pieces[i].end; });
  gaps.resize(CollectiveCalls::kMaxCover - 1);
  std::ranges::sort(gaps);
  Intervals kept;
  size_t first = 0;
  for (const size_t gap : gaps) {
    kept.push_back({pieces[first].start, pieces[gap].end});
    first = gap + 1;
  }
  kept.push_back({pieces[first].start, pieces.back().end});
  return kept;
}

class Collector {
 public:
  explicit Collector(const Facts& facts)
      : trace_(facts.trace()), devices_(facts.get<Devices>()), phases_(facts.get<Phases>()),
        of_host_(facts.get<HostCollectives>()), steps_(facts.get<Steps>()), launch_step_(steps_),
        kernel_step_(steps_, StepFinder::By::kElapsed) {}

  CollectiveCalls collect() {
    std::vector<bool> described(trace_.activity.size());
    add_described(described);
    add_bare(described);
    add_of_host();
    finish_rows();
    return std::move(out_);
  }

 private:
  using RowKey = std::tuple<std::string, std::string, int64_t, std::string, int64_t>;
  using KindKey = std::tuple<StringId, StringId, StringId, bool>;   // group, ranks, name; described
  struct Row {
    CollectiveRow row;
    std::map<int32_t, Intervals> time;   // by device: compute on one device hides nothing on another
    std::vector<uint32_t> calls;
  };
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr int32_t kNoDevice = INT32_MIN;

  [[nodiscard]] bool communicates(ActivityId a) const {
    return a.valid() && devices_.kind[a.value] == WorkKind::kCommunication;
  }

  void add_described(std::vector<bool>& described) {
    const bool on_device = !devices_.devices.empty();
    for (const Collective& c : trace_.collectives) {
      const bool kernel = communicates(c.activity);
      if (on_device && !kernel) continue;
      const std::string name = collective_name(trace_.strings[c.name]);
      const std::string dtype(trace_.strings[c.dtype]);
      const auto bytes = message_bytes(c, name, dtype);
      uint32_t call = kNone;
      if (kernel) {
        described[c.activity.value] = true;
        call = add_call(kind(c.name, &c), c.activity, &c);
      } else if (!name.empty() && !c.activity.valid() && is_library_call(c.host)) {
        call = add_host_call(kind(c.name, &c), c);
      }
      if (call != kNone) out_.calls[call].message_bytes = bytes.value_or(-1);
      // "wait" and the like are not collectives, although they come with kernels.
      if (!name.empty())
        count({name, dtype, c.group_size, std::string(trace_.strings[c.group]), bytes.value_or(-1)}, bytes, c.activity,
              call, c.host);
      else if (kernel)
        count_bare(c.activity, call);
    }
  }

  // Kernels without arguments are identified by their order among those with the same name and stream. A communicator
  // has its own stream. The stream's number may differ between ranks, its order among communicating streams less so.
  void add_bare(const std::vector<bool>& described) {
    std::vector<uint32_t> bare;
    std::map<Queue, int64_t> index_of;
    for (uint32_t i = 0; i < trace_.activity.size(); ++i) {
      if (described[i] || !communicates(ActivityId(i))) continue;
      bare.push_back(i);
      index_of[trace_.queues[trace_.activity.queue[i]]] = 0;
    }
    int64_t streams = 0;
    for (auto& [queue, index] : index_of) index = streams++;
    for (const uint32_t i : bare) {
      const int64_t stream = index_of.at(trace_.queues[trace_.activity.queue[i]]);
      count_bare(ActivityId(i), add_call(kind(trace_.activity.name[i], nullptr), ActivityId(i), nullptr, -1 - stream));
    }
  }

  // gloo's: operators may run beside them on other threads. Only their names are recorded, and sizes with shapes.
  void add_of_host() {
    for (const HostId host : of_host_.calls) {
      const Interval time = trace_.host.interval(host);
      CollectiveCall c;
      c.host = host;
      c.phase = launched_in_backward(time.start) ? Phase::kBackward : Phase::kOther;
      c.exposed_ns = overlap_length(of_host_.waits, time);
      c.cover_begin = static_cast<uint32_t>(out_.cover.size());
      for (const Interval& i : coarse(clipped(of_host_.operators, time)))
        out_.cover.push_back({i.start + trace_.base_time_ns, i.end + trace_.base_time_ns});
      c.cover_end = static_cast<uint32_t>(out_.cover.size());
      Collective sizes{};
      sizes.in_elements = sizes.out_elements = elements_of(host);
      const StringId range = trace_.host.name[host.value];
      const uint32_t call =
          add_timed(std::move(c), kind(range, nullptr), time, time.start, nullptr, sizes.in_elements);
      const std::string name = collective_name(trace_.strings[range]);
      const std::string dtype = dtype_of(host);
      const auto bytes = message_bytes(sizes, name, dtype);
      out_.calls[call].message_bytes = bytes.value_or(-1);
      count({name, dtype, 0, "", bytes.value_or(-1)}, bytes, {}, call, host);
    }
  }

  // The last one of a pass may start on its thread when the last operator of the pass is done.
  [[nodiscard]] bool launched_in_backward(int64_t start_ns) const {
    constexpr int64_t kStart_ns = 500'000;
    const size_t pass = first_ending_after(phases_.backward, start_ns - kStart_ns);
    return pass < phases_.backward.size() && phases_.backward[pass].start <= start_ns;
  }

  // Of all its tensors; -1: not recorded.
  [[nodiscard]] int64_t elements_of(HostId host) const {
    int64_t sum = -1;
    for (const OpInput& input : op_inputs(trace_, host).at) {
      int64_t product = input.shape.empty() ? 0 : 1;
      for (const int64_t size : input.shape)
        if (__builtin_mul_overflow(product, size, &product)) return -1;
      if (__builtin_add_overflow(std::max<int64_t>(sum, 0), product, &sum)) return -1;
    }
    return sum;
  }

  [[nodiscard]] std::string dtype_of(HostId host) const {
    const OpInputs inputs = op_inputs(trace_, host);
    return inputs.at.empty() ? "" : std::string(inputs.at.front().type);
  }

  void count_bare(ActivityId id, uint32_t call) {
    const string_view kernel = trace_.name(id);
    const std::string name = collective_name(kernel.substr(0, kernel.find('(')));
    count({name.empty() ? "unknown" : name, dtype_in_name(kernel), 0, "", -1}, std::nullopt, id, call);
  }

  uint32_t kind(StringId name, const Collective* c) {
    const KindKey key{c ? c->group : StringId(), c ? c->ranks : StringId(), name, c != nullptr};
    const auto [it, fresh] = kind_of_.try_emplace(key, 0);
    if (!fresh) return it->second;
    CollectiveKind k;
    k.described = c != nullptr;
    if (c != nullptr) {
      k.name = collective_name(trace_.strings[name]);
      k.group = trace_.strings[c->group];
      k.description = trace_.strings[c->group_description];
      k.members = trace_.strings[c->ranks];
      k.group_size = c->group_size;
      k.group_rank = c->group_rank;
    }
    if (k.name.empty()) k.name = trace_.strings[name];
    // Names that mean the same are one kind.
    const auto [known, is_new] = place_of_.try_emplace(k, static_cast<uint32_t>(out_.kinds.size()));
    if (is_new) out_.kinds.push_back(std::move(k));
    return it->second = known->second;
  }

  uint32_t add_call(uint32_t kind, ActivityId id, const Collective* arguments, int64_t elements = -1) {
    CollectiveCall c;
    c.activity = id;
    c.queue = trace_.activity.queue[id.value];
    c.phase = phases_.of_activity[id.value];
    add_cover(c, trace_.activity.interval(id));
    // All ranks' programs launch it at the same point; on a slow rank the kernel may start a step later.
    return add_timed(std::move(c), kind, trace_.activity.interval(id), trace_.launched_ns(id), arguments, elements);
  }

  // A call that blocks the program: nothing is computed beside it.
  uint32_t add_host_call(uint32_t kind, const Collective& arguments) {
    const Interval time = trace_.host.interval(arguments.host);
    CollectiveCall c;
    c.host = arguments.host;
    c.exposed_ns = time.length();
    c.cover_begin = c.cover_end = static_cast<uint32_t>(out_.cover.size());
    return add_timed(std::move(c), kind, time, time.start, &arguments, -1);
  }

  uint32_t add_timed(CollectiveCall c, uint32_t kind, Interval time, int64_t launch_ns, const Collective* arguments,
                     int64_t elements) {
    const Step* step = launch_step_(launch_ns);
    c.kind = kind;
    c.start_ns = time.start + trace_.base_time_ns;
    c.end_ns = time.end + trace_.base_time_ns;
    c.launch_ns = launch_ns + trace_.base_time_ns;
    if (step != nullptr) c.step_index = static_cast<uint32_t>(step - steps_.steps.data());
    c.measured = step != nullptr && step->measured;
    c.elements = elements;
    c.number = -1;
    if (arguments != nullptr) {
      // What a rank exchanges with all others differs between ranks.
      const bool uneven = out_.kinds[kind].name == "all_to_all";
      c.elements = uneven ? 0 : std::max(arguments->in_elements, arguments->out_elements);
      c.number = arguments->sequence;
      c.peer = out_.kinds[kind].name == "send" ? arguments->destination : arguments->source;
    }
    if (c.number < 0) {
      // Step numbers only mean the same on all ranks if the program's own ranges have them.
      if (step != nullptr && steps_.annotated) c.step = step->index;
      c.number = numbers_[{kind, c.elements, c.step}]++;
    }
    out_.calls.push_back(c);
    return static_cast<uint32_t>(out_.calls.size() - 1);
  }

  void add_cover(CollectiveCall& c, Interval time) {
    c.cover_begin = static_cast<uint32_t>(out_.cover.size());
    if (const DeviceTime* device = devices_.find(trace_.device_of(c.activity))) {
      const Intervals exact = clipped(device->compute, time);
      c.exposed_ns = time.length() - total_length(exact);
      for (const Interval& i : coarse(exact))
        out_.cover.push_back({i.start + trace_.base_time_ns, i.end + trace_.base_time_ns});
    }
    c.cover_end = static_cast<uint32_t>(out_.cover.size());
  }

  // A call of MPI takes its time on the host: the transfer, and the wait for other ranks.
  [[nodiscard]] bool is_library_call(HostId host) const {
    return host.valid() && trace_.host.kind[host.value] == HostKind::kLibrary;
  }
  [[nodiscard]] bool takes_time_of_host(HostId host) const {
    return is_library_call(host) || (host.valid() && trace_.name(host).starts_with("gloo:"));
  }

  void count(const RowKey& key, std::optional<int64_t> bytes, ActivityId activity, uint32_t call, HostId host = {}) {
    Row& r = rows_[key];
    std::tie(r.row.name, r.row.dtype, r.row.group_size, r.row.process_group, std::ignore) = key;
    r.row.message_bytes = bytes;
    ++r.row.calls;
    if (!activity.valid()) {
      if (!takes_time_of_host(host)) return;
      if (call != kNone) r.calls.push_back(call);
      const Interval time = trace_.host.interval(host);
      r.row.measured_calls += launch_step_.measured(time.start);
      r.time[kNoDevice].push_back(time);
      return;
    }
    if (call != kNone) r.calls.push_back(call);
    r.row.measured_calls += kernel_step_.measured(trace_.activity.start_ns[activity.value]);
    r.time[trace_.device_of(activity)].push_back(trace_.activity.interval(activity));
  }

  void finish_rows() {
    const Intervals measured = steps_.measured_time();
    std::vector<Row*> order;
    for (auto& [key, r] : rows_) {
      for (auto& [device, intervals] : r.time) {
        const Intervals time = merged(std::move(intervals));
        r.row.total_ns += total_length(time);
        r.row.measured_ns += total_length(intersect(time, measured));
        const DeviceTime* d = devices_.find(device);
        if (d == nullptr && device != kNoDevice) continue;
        const bool blocks = d == nullptr && of_host_.calls.empty();   // a call of MPI
        const Intervals exposed = d != nullptr ? subtract(time, d->compute)
                                  : blocks     ? time
                                               : intersect(time, of_host_.waits);
        r.row.exposed_ns += total_length(exposed);
        r.row.measured_exposed_ns += total_length(intersect(exposed, measured));
      }
      order.push_back(&r);
    }
    std::ranges::stable_sort(order, std::greater(), [](const Row* r) { return r->row.total_ns; });
    for (Row* r : order) {
      for (const uint32_t call : r->calls) out_.calls[call].row = static_cast<uint32_t>(out_.rows.size());
      out_.rows.push_back(std::move(r->row));
    }
  }

  const Trace& trace_;
  const Devices& devices_;
  const Phases& phases_;
  const HostCollectives& of_host_;
  const Steps& steps_;
  StepFinder launch_step_, kernel_step_;
  CollectiveCalls out_;
  std::map<RowKey, Row> rows_;
  std::map<KindKey, uint32_t> kind_of_;
  std::map<CollectiveKind, uint32_t> place_of_;   // in out_.kinds
  std::map<std::tuple<uint32_t, int64_t, int64_t>, int64_t> numbers_;   // calls so far, by kind, elements, step
};

/// Sums over the calls of one row that have timings.
struct RowTimings {
  std::vector<int64_t> transfers_ns;   // only of calls whose whole group is here
  int64_t calls = 0, wait_ns = 0;
  bool whole = true;
};

// Waits and rates. A rate is that of the median call, because first calls also set up connections.
void add_rates(CollectiveRow& row, const RowTimings& timings) {
  if (row.group_size == 1 && row.message_bytes && row.total_ns > 0) {
    // A group of one waits for no rank: all of the time is transfer.
    row.wait_ns = 0;
    row.algbw_gbps = static_cast<double>(*row.message_bytes) * static_cast<double>(row.calls) /
                     static_cast<double>(row.total_ns);
  }
  if (timings.calls > 0) {
    row.wait_ns = timings.wait_ns;
    row.wait_is_lower_bound = !timings.whole || timings.calls < row.calls;
  }
  if (!timings.transfers_ns.empty() && row.message_bytes)
    row.algbw_gbps = static_cast<double>(*row.message_bytes) / static_cast<double>(upper_median(timings.transfers_ns));
  if (row.algbw_gbps) row.busbw_gbps = *row.algbw_gbps * bus_factor(row.name, row.group_size);
}

}  // namespace

CollectiveCalls CollectiveCalls::compute(const Facts& facts) { return Collector(facts).collect(); }

std::vector<CollectiveRow> rated(const CollectiveCalls& calls, const CallTimings& timings) {
  std::vector<CollectiveRow> rows = calls.rows;
  std::vector<RowTimings> of_row(rows.size());
  for (const CollectiveCall& c : calls.calls) {
    const CallTiming* timing = timings.find(c.activity, c.host);
    if (timing == nullptr || c.row >= rows.size()) continue;
    RowTimings& sum = of_row[c.row];
    ++sum.calls;
    add_saturated(sum.wait_ns, timing->wait_ns);
    if (timing->whole_group && timing->transfer_ns > 0) sum.transfers_ns.push_back(timing->transfer_ns);
    sum.whole &= timing->whole_group;
  }
  for (size_t i = 0; i < rows.size(); ++i) add_rates(rows[i], of_row[i]);
  return rows;
}

}  // namespace profgpu
