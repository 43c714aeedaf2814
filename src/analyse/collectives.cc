// Sizes and factors are those of nccl-tests (its PERFORMANCE.md): S is the buffer of one rank for all-reduce, the whole
// (n parts) for all-gather and reduce-scatter, one rank's whole buffer for all-to-all.
#include "analyse/collectives.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "analyse/devices.h"
#include "analyse/steps.h"

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

struct Calls {
  CollectiveRow row;
  std::map<int32_t, Intervals> time;   // by device: compute of one device hides nothing on another
  std::vector<int64_t> transfers_ns;   // of calls that the whole group shows
  int64_t met = 0;
  int64_t wait_ns = 0;
};

void take(const MetCall& met, Calls& c) {
  ++c.met;
  c.wait_ns += met.wait_ns;
  if (met.whole_group && met.transfer_ns > 0) c.transfers_ns.push_back(met.transfer_ns);
  if (!met.whole_group) c.row.wait_is_lower_bound = true;
}

// Waiting and rates as far as the ranks in hand tell them. A median, since first calls also set up connections.
void add_rates(Calls& c) {
  CollectiveRow& row = c.row;
  if (row.group_size == 1 && row.message_bytes && row.total_ns > 0) {
    // Nobody to wait for: all of it is transfer.
    row.wait_ns = 0;
    row.algbw_gbps = static_cast<double>(*row.message_bytes * row.calls) / static_cast<double>(row.total_ns);
  }
  if (c.met > 0) {
    row.wait_ns = c.wait_ns;
    row.wait_is_lower_bound |= c.met < row.calls;
  }
  if (!c.transfers_ns.empty() && row.message_bytes) {
    const auto median = c.transfers_ns.begin() + static_cast<int64_t>(c.transfers_ns.size() / 2);
    std::nth_element(c.transfers_ns.begin(), median, c.transfers_ns.end());
    row.algbw_gbps = static_cast<double>(*row.message_bytes) / static_cast<double>(*median);
  }
  if (row.algbw_gbps) row.busbw_gbps = *row.algbw_gbps * bus_factor(row.name, row.group_size);
}

using Key = std::tuple<std::string, std::string, int64_t, std::string, int64_t>;

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
  const bool part_only = (name == "all_gather" && c.out_elements < 0) || (name == "reduce_scatter" && c.in_elements < 0);
  if (part_only && elements > 0 && __builtin_mul_overflow(elements, int64_t{std::max(c.group_size, 1)}, &elements))
    return std::nullopt;
  int64_t bytes = 0;
  if (elements < 0 || __builtin_mul_overflow(elements, static_cast<int64_t>(element_bytes), &bytes)) return std::nullopt;
  return bytes;
}

double bus_factor(string_view name, int64_t n) {
  if (n < 1) return 1;
  const auto ranks = static_cast<double>(n);
  if (name == "all_reduce") return 2 * (ranks - 1) / ranks;
  if (name == "all_gather" || name == "reduce_scatter" || name == "all_to_all") return (ranks - 1) / ranks;
  return 1;
}

Collectives Collectives::compute(const Facts& facts) {
  const Trace& trace = facts.trace();
  const Devices& devices = facts.get<Devices>();
  const std::vector<MetCall>& all_met = facts.get<MetCalls>().calls;
  const std::vector<const Step*> measured_steps = facts.get<Steps>().measured();
  StepFinder step_of(facts.get<Steps>());
  std::map<Key, Calls> groups;
  std::vector<bool> described(trace.activity.size());
  const auto add = [&](const Key& key, std::optional<int64_t> bytes, ActivityId activity) {
    Calls& c = groups[key];
    std::tie(c.row.name, c.row.dtype, c.row.group_size, c.row.process_group, std::ignore) = key;
    c.row.message_bytes = bytes;
    ++c.row.calls;
    if (!activity.valid()) return;
    if (step_of(trace.activity.start_ns[activity.value]) >= 0) ++c.row.measured_calls;
    c.time[trace.device_of(activity)].push_back(trace.activity.interval(activity));
    const auto met = std::lower_bound(all_met.begin(), all_met.end(), activity,
                                      [](const MetCall& m, ActivityId a) { return m.activity < a; });
    if (met != all_met.end() && met->activity == activity) take(*met, c);
  };
  const bool on_device = !devices.devices.empty();
  for (const Collective& c : trace.collectives) {
    const std::string name = collective_name(trace.strings[c.name]);
    if (name.empty()) continue;   // "wait" and the like
    if (on_device && (!c.activity.valid() || devices.kind[c.activity.value] != WorkKind::kCommunication)) continue;
    const std::string dtype(trace.strings[c.dtype]);
    const auto bytes = message_bytes(c, name, dtype);
    add({name, dtype, c.group_size, std::string(trace.strings[c.group]), bytes.value_or(-1)}, bytes, c.activity);
    if (c.activity.valid()) described[c.activity.value] = true;
  }
  for (uint32_t i = 0; i < trace.activity.size(); ++i) {
    if (described[i] || devices.kind[i] != WorkKind::kCommunication) continue;
    const std::string_view kernel = trace.name(ActivityId(i));
    std::string name = collective_name(kernel.substr(0, kernel.find('(')));
    add({name.empty() ? "unknown" : name, dtype_in_name(kernel), 0, "", -1}, std::nullopt, ActivityId(i));
  }
  Collectives result;
  for (auto& [key, c] : groups) {
    for (auto& [device, intervals] : c.time) {
      const Intervals time = merged(std::move(intervals));
      c.row.total_ns += total_length(time);
      for (const Step* step : measured_steps) c.row.measured_ns += total_length(clipped(time, step->interval()));
      for (const DeviceTime& d : devices.devices)
        if (d.id == device) c.row.exposed_ns += total_length(subtract(time, d.compute));
    }
    add_rates(c);
    result.rows.push_back(std::move(c.row));
  }
  std::stable_sort(result.rows.begin(), result.rows.end(),
                   [](const CollectiveRow& a, const CollectiveRow& b) { return a.total_ns > b.total_ns; });
  return result;
}

}  // namespace profgpu
