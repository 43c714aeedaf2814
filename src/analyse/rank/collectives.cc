// Sizes and factors are those of nccl-tests (its PERFORMANCE.md): S is the buffer of one rank for all-reduce, the whole
// (n parts) for all-gather and reduce-scatter, one rank's whole buffer for all-to-all.
#include "analyse/rank/collectives.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "analyse/rank/devices.h"
#include "analyse/rank/phases.h"
#include "analyse/rank/steps.h"
#include "base/statistics.h"

namespace profgpu {
namespace {

using std::string_view;

// Letters only, lower case: "_allgather_base", "nccl:all_gather" and "AllGather" compare alike.
std::string letters(string_view text) {
  std::string out;
  for (const char c : text) {
    if (c >= 'A' && c <= 'Z') out.push_back(static_cast<char>(c + 32));
    if (c >= 'a' && c <= 'z') out.push_back(c);
  }
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
  // The whole is n parts where only the part was recorded.
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

Collectives Collectives::compute(const Facts& facts) {
  return {rated(facts.get<CollectiveCalls>(), facts.get<MetCalls>().calls)};
}

namespace {

using std::string_view;

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

/// Which step a host time belongs to; steps are in order of time.
class StepAt {
 public:
  explicit StepAt(const Steps& steps)
      : steps_(steps.steps), measured_(steps.steps.size()), annotated_(steps.annotated) {
    for (const Step* s : steps.measured()) measured_[static_cast<size_t>(s - steps_.data())] = true;
  }
  [[nodiscard]] uint32_t place(int64_t time) const {
    auto it = std::upper_bound(steps_.begin(), steps_.end(), time,
                               [](int64_t t, const Step& s) { return t < s.start_ns; });
    if (it == steps_.begin()) return CollectiveCall::kNoStep;
    --it;
    return time < it->interval().end ? static_cast<uint32_t>(it - steps_.begin()) : CollectiveCall::kNoStep;
  }
  [[nodiscard]] bool measured(uint32_t place) const { return place != CollectiveCall::kNoStep && measured_[place]; }
  /// Numbers only mean the same on all ranks if they come from ranges of the program.
  [[nodiscard]] int64_t number(uint32_t place) const {
    return annotated_ && place != CollectiveCall::kNoStep ? steps_[place].index : -1;
  }

 private:
  const std::vector<Step>& steps_;
  std::vector<bool> measured_;
  bool annotated_;
};

/// At most kMostCover pieces: the shortest gaps between them are given up.
Intervals coarse(Intervals pieces) {
  const size_t most = CollectiveCalls::kMaxCover;
  if (pieces.size() <= most) return pieces;
  std::vector<int64_t> gaps;
  for (size_t i = 1; i < pieces.size(); ++i) gaps.push_back(pieces[i].start - pieces[i - 1].end);
  const auto limit = gaps.end() - static_cast<int64_t>(most - 1);
  std::nth_element(gaps.begin(), limit, gaps.end());
  const int64_t shortest = *limit;
  size_t longer = 0;   // as many as may stay beside those of just the limit's length
  for (size_t i = 1; i < pieces.size(); ++i) longer += pieces[i].start - pieces[i - 1].end > shortest;
  size_t equal_left = most - 1 - longer;
  Intervals kept{pieces.front()};
  for (size_t i = 1; i < pieces.size(); ++i) {
    const int64_t gap = pieces[i].start - pieces[i - 1].end;
    const bool keep = gap > shortest || (gap == shortest && equal_left > 0);
    if (gap == shortest && keep) --equal_left;
    if (keep) kept.push_back(pieces[i]);
    else kept.back().end = pieces[i].end;
  }
  return kept;
}

class Collector {
 public:
  explicit Collector(const Facts& facts)
      : trace_(facts.trace()), devices_(facts.get<Devices>()), phases_(facts.get<Phases>()),
        step_at_(facts.get<Steps>()), counts_(facts.get<Steps>()), measured_(facts.get<Steps>().measured()) {}

  CollectiveCalls collect() {
    std::vector<bool> described(trace_.activity.size());
    add_described(described);
    add_bare(described);
    finish_rows();
    return std::move(out_);
  }

 private:
  using RowKey = std::tuple<std::string, std::string, int64_t, std::string, int64_t>;
  struct Row {
    CollectiveRow row;
    std::map<int32_t, Intervals> time;   // by device: compute of one device hides nothing on another
    std::vector<uint32_t> calls;
  };

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
        call = add_call(kind({c.group, c.ranks, c.name}, &c), c.activity, &c);
        out_.calls[call].message_bytes = bytes.value_or(-1);
      }
      // "wait" and the like are no collectives, though their kernels pair up.
      if (!name.empty())
        count({name, dtype, c.group_size, std::string(trace_.strings[c.group]), bytes.value_or(-1)}, bytes, c.activity,
              call);
      else if (kernel)
        count_bare(c.activity, call);
    }
  }

  // Kernels without arguments: the place among those of one name and stream is all there is. A communicator has a
  // stream of its own; its number may differ from rank to rank, its place among the streams that communicate less so.
  void add_bare(const std::vector<bool>& described) {
    std::map<uint16_t, int64_t> place_of_queue;
    for (uint32_t i = 0; i < trace_.activity.size(); ++i)
      if (!described[i] && communicates(ActivityId(i))) place_of_queue[trace_.activity.queue[i]] = 0;
    std::vector<uint16_t> queues;
    for (const auto& [queue, unused] : place_of_queue) queues.push_back(queue);
    std::sort(queues.begin(), queues.end(),
              [&](uint16_t a, uint16_t b) { return trace_.queues[a] < trace_.queues[b]; });
    for (size_t q = 0; q < queues.size(); ++q) place_of_queue[queues[q]] = static_cast<int64_t>(q);
    for (uint32_t i = 0; i < trace_.activity.size(); ++i) {
      if (described[i] || !communicates(ActivityId(i))) continue;
      const uint32_t call = add_call(kind({StringId(), StringId(), trace_.activity.name[i]}, nullptr), ActivityId(i),
                                     nullptr, -1 - place_of_queue[trace_.activity.queue[i]]);
      count_bare(ActivityId(i), call);
    }
  }

  void count_bare(ActivityId id, uint32_t call) {
    const string_view kernel = trace_.name(id);
    const std::string name = collective_name(kernel.substr(0, kernel.find('(')));
    count({name.empty() ? "unknown" : name, dtype_in_name(kernel), 0, "", -1}, std::nullopt, id, call);
  }

  uint32_t kind(const std::tuple<StringId, StringId, StringId>& key, const Collective* c) {
    const auto [it, fresh] = kind_of_.try_emplace({key, c != nullptr}, static_cast<uint32_t>(out_.kinds.size()));
    if (!fresh) return it->second;
    const string_view recorded = trace_.strings[std::get<2>(key)];
    CollectiveKind k;
    k.name = c != nullptr ? collective_name(recorded) : "";
    if (k.name.empty()) k.name = recorded;
    k.described = c != nullptr;
    if (c != nullptr) {
      k.group = trace_.strings[c->group];
      k.description = trace_.strings[c->group_description];
      k.members = trace_.strings[c->ranks];
      k.group_size = c->group_size;
      k.group_rank = c->group_rank;
    }
    // Names that mean the same are one kind.
    const auto known = std::find(out_.kinds.begin(), out_.kinds.end(), k);
    it->second = static_cast<uint32_t>(known - out_.kinds.begin());
    if (known == out_.kinds.end()) out_.kinds.push_back(std::move(k));
    return it->second;
  }

  uint32_t add_call(uint32_t kind, ActivityId id, const Collective* arguments, int64_t elements = -1) {
    const Interval time = trace_.activity.interval(id);
    const HostId launch = trace_.activity.launch[id.value];
    // The launch is at the same place of every rank's program; the kernel may start a step later on a slow one.
    const int64_t launch_ns = launch.valid() ? trace_.host.start_ns[launch.value] : time.start;
    CollectiveCall c;
    c.kind = kind;
    c.activity = id;
    c.start_ns = time.start + trace_.base_time_ns;
    c.end_ns = time.end + trace_.base_time_ns;
    c.launch_ns = launch_ns + trace_.base_time_ns;
    c.queue = trace_.activity.queue[id.value];
    c.phase = phases_.of_activity[id.value];
    c.step_place = step_at_.place(launch_ns);
    c.measured = step_at_.measured(c.step_place);
    c.elements = elements;
    c.number = -1;
    if (arguments != nullptr) {
      // What each rank exchanges with all differs from rank to rank.
      const bool uneven = out_.kinds[kind].name == "all_to_all";
      c.elements = uneven ? 0 : std::max(arguments->in_elements, arguments->out_elements);
      c.number = arguments->sequence;
      c.peer = out_.kinds[kind].name == "send" ? arguments->destination : arguments->source;
    }
    if (c.number < 0) {
      c.step = step_at_.number(c.step_place);
      c.number = numbers_[{kind, c.elements, c.step}]++;
    }
    add_cover(c, time);
    out_.calls.push_back(c);
    return static_cast<uint32_t>(out_.calls.size() - 1);
  }

  void add_cover(CollectiveCall& c, Interval time) {
    c.cover_begin = c.cover_end = static_cast<uint32_t>(out_.cover.size());
    const int32_t device = trace_.device_of(c.activity);
    for (const DeviceTime& d : devices_.devices) {
      if (d.id != device) continue;
      const Intervals exact = clipped(d.compute, time);
      c.exposed_ns = time.length() - total_length(exact);
      for (const Interval& i : coarse(exact))
        out_.cover.push_back({i.start + trace_.base_time_ns, i.end + trace_.base_time_ns});
    }
    c.cover_end = static_cast<uint32_t>(out_.cover.size());
  }

  void count(const RowKey& key, std::optional<int64_t> bytes, ActivityId activity, uint32_t call) {
    Row& r = rows_[key];
    std::tie(r.row.name, r.row.dtype, r.row.group_size, r.row.process_group, std::ignore) = key;
    r.row.message_bytes = bytes;
    ++r.row.calls;
    if (!activity.valid()) return;
    if (call != kNone) r.calls.push_back(call);
    if (counts_(trace_.activity.start_ns[activity.value]) >= 0) ++r.row.measured_calls;
    r.time[trace_.device_of(activity)].push_back(trace_.activity.interval(activity));
  }

  void finish_rows() {
    std::vector<Row*> order;
    for (auto& [key, r] : rows_) {
      for (auto& [device, intervals] : r.time) {
        const Intervals time = merged(std::move(intervals));
        r.row.total_ns += total_length(time);
        for (const Step* step : measured_) r.row.measured_ns += total_length(clipped(time, step->interval()));
        for (const DeviceTime& d : devices_.devices)
          if (d.id == device) r.row.exposed_ns += total_length(subtract(time, d.compute));
      }
      order.push_back(&r);
    }
    std::stable_sort(order.begin(), order.end(),
                     [](const Row* a, const Row* b) { return a->row.total_ns > b->row.total_ns; });
    for (Row* r : order) {
      for (const uint32_t call : r->calls) out_.calls[call].row = static_cast<uint32_t>(out_.rows.size());
      out_.rows.push_back(std::move(r->row));
    }
  }

  static constexpr uint32_t kNone = UINT32_MAX;
  const Trace& trace_;
  const Devices& devices_;
  const Phases& phases_;
  StepAt step_at_;
  StepFinder counts_;
  std::vector<const Step*> measured_;
  CollectiveCalls out_;
  std::map<RowKey, Row> rows_;
  std::map<std::pair<std::tuple<StringId, StringId, StringId>, bool>, uint32_t> kind_of_;
  std::map<std::tuple<uint32_t, int64_t, int64_t>, int64_t> numbers_;
};

/// What met calls of one row add up to.
struct Met {
  std::vector<int64_t> transfers_ns;   // of calls that the whole group shows
  int64_t calls = 0, wait_ns = 0;
  bool whole = true;
};

// Waiting and rates as far as the ranks in hand tell them. A median, since first calls also set up connections.
void add_rates(CollectiveRow& row, Met& met) {
  if (row.group_size == 1 && row.message_bytes && row.total_ns > 0) {
    // Nobody to wait for: all of it is transfer.
    row.wait_ns = 0;
    row.algbw_gbps = static_cast<double>(*row.message_bytes * row.calls) / static_cast<double>(row.total_ns);
  }
  if (met.calls > 0) {
    row.wait_ns = met.wait_ns;
    row.wait_is_lower_bound = !met.whole || met.calls < row.calls;
  }
  if (!met.transfers_ns.empty() && row.message_bytes)
    row.algbw_gbps = static_cast<double>(*row.message_bytes) / static_cast<double>(upper_median(met.transfers_ns));
  if (row.algbw_gbps) row.busbw_gbps = *row.algbw_gbps * bus_factor(row.name, row.group_size);
}

}  // namespace

CollectiveCalls CollectiveCalls::compute(const Facts& facts) { return Collector(facts).collect(); }

std::vector<CollectiveRow> rated(const CollectiveCalls& calls, const std::vector<MetCall>& met) {
  std::vector<CollectiveRow> rows = calls.rows;
  std::vector<Met> of_row(rows.size());
  for (const CollectiveCall& c : calls.calls) {
    const auto known = std::lower_bound(met.begin(), met.end(), c.activity,
                                        [](const MetCall& m, ActivityId a) { return m.activity < a; });
    if (known == met.end() || known->activity != c.activity || c.row >= rows.size()) continue;
    Met& m = of_row[c.row];
    ++m.calls;
    m.wait_ns += known->wait_ns;
    if (known->whole_group && known->transfer_ns > 0) m.transfers_ns.push_back(known->transfer_ns);
    m.whole &= known->whole_group;
  }
  for (size_t i = 0; i < rows.size(); ++i) add_rates(rows[i], of_row[i]);
  return rows;
}

}  // namespace profgpu
