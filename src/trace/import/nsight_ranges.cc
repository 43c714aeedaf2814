#include "trace/import/nsight_ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "base/json_quoted.h"
#include "base/json_reader.h"
#include "trace/import/nsight_payloads.h"
#include "trace/import/recording_ranges.h"
#include "trace/import/torch_range.h"

namespace profgpu {
namespace {

using std::string_view;

// ENUM_NSYS_EVENT_TYPE. The last two are of NVTX text files.
enum : int64_t { kCategory = 33, kMark = 34, kThreadName = 39, kPushPop = 59, kStartEnd = 60, kDomain = 75 };
enum : int { kFrom, kTo, kThread, kType, kText, kTextId, kDomainId, kCategoryId, kUint64, kInt64, kDouble, kUint32,
             kInt32, kFloat, kJson, kJsonId, kBytes };

void add_member(std::string& members, const std::string& member) {
  members += (members.empty() ? "" : ", ") + member;
}

// The number that the range's author gave it.
std::string payload_number(const SqliteScan& row) {
  for (const int column : {kUint64, kInt64, kUint32, kInt32})
    if (const auto value = row.integer(column)) {
      return column == kUint64 ? fmt::format("{}", static_cast<uint64_t>(*value)) : fmt::format("{}", *value);
    }
  for (const int column : {kDouble, kFloat})
    if (const auto value = row.real(column)) return fmt::format("{}", *value);
  return {};
}

}  // namespace

void NsightRecords::nvtx(const SqliteScan& row) {
  const int64_t type = row.integer(kType, 0), process = nsight_process(row.integer(kThread, 0));
  const auto own_text = [&] {
    // Old exports have a 0 where there is no text's number.
    if (const string_view text = row.text(kText); !text.empty()) return std::string(text);
    const auto id = row.integer(kTextId);
    return std::string(id ? shared_.names[*id] : string_view());
  };
  if (type == kDomain) {
    ++shard_.events;
    domains.try_emplace({process, row.integer(kDomainId, 0)}, own_text());
  } else if (type == kCategory) {
    ++shard_.events;
    categories.try_emplace({{process, row.integer(kDomainId, 0)}, row.integer(kCategoryId, 0)}, own_text());
  } else if (type == kThreadName) {
    ++shard_.events;
    const int64_t thread = row.integer(kThread, 0);
    shard_.name_thread(std::to_string(nsight_pid(thread)), std::to_string(nsight_tid(thread)), own_text());
  } else if (type == kPushPop || type == kStartEnd || type == kMark || type == 0) {
    const bool open = type != kMark && row.is_null(kTo);
    Times at;
    if (type == kMark || open ? !instant(row, at.start_ns) : !times(row, at)) return;
    HostRow host;
    host.start_ns = at.start_ns;
    host.duration_ns = at.duration_ns;
    host.kind = HostKind::kAnnotation;
    host.name = name_of(row, {{kText, Use::kText}, {kTextId, Use::kText}}, "(no name)");
    host.thread = thread(row.integer(kThread, 0));
    last_range_ns = std::max(last_range_ns, at.start_ns + at.duration_ns);
    if (open) open_ranges.push_back({shard_.host.size(), process, 0, 0, {}});
    if (open || (type != kMark && at.start_ns + at.duration_ns == shared_.session_ns)) {
      ++unclosed;
      if (first_unclosed_name.empty()) first_unclosed_name = shard_.strings[host.name].substr(0, 100);
    }
    add_range(row, host);
  } else {
    ++shard_.events;
    ++shard_.issues[TraceIssueKind::kUnknownRows];
  }
}

void NsightRecords::add_range(const SqliteScan& row, const HostRow& host) {
  NsightRange range{shard_.host.size(), nsight_process(row.integer(kThread, 0)), row.integer(kDomainId, 0),
                    row.integer(kCategoryId, 0), {}};
  HostRow added = host;
  if (const auto made = range.domain == 0 ? pyprof_range(shard_.strings[host.name]) : std::nullopt) {
    added.name = shard_.strings.intern(made->name);
    if (made->is_call) describe_torch_range({.name = {}, .shapes = made->shapes}, shard_, added);
    if (!made->lines.empty()) add_member(range.arguments, "\"lines\": " + made->lines);
  } else if (range.domain == 0) {
    const TorchRange torch = torch_range(shard_.strings[host.name]);
    if (torch.operation >= 0) add_member(range.arguments, fmt::format("\"op_id\": {}", torch.operation));
    if (torch.is_op || torch.operation >= 0) {
      describe_torch_range(torch, shard_, added);
      added.name = shard_.strings.intern(torch.name);
    }
  }
  if (const std::string number = payload_number(row); !number.empty())
    add_member(range.arguments, "\"payload\": " + number);
  const auto json_id = row.integer(kJsonId);
  const string_view json = json_id ? shared_.names[*json_id] : row.text(kJson);
  constexpr size_t kLongestJson = 16 << 10;
  if (!json.empty() && json.size() <= kLongestJson)
    add_member(range.arguments, "\"payload\": " + (is_json(json) ? std::string(json) : json_quoted(json)));
  if (const string_view bytes = row.text(kBytes); !bytes.empty() && shared_.payloads != nullptr)
    if (const std::string said = shared_.payloads->text_of(bytes); !said.empty()) add_member(range.arguments, said);
  shard_.host.push_back(added);
  if (range.domain != 0 || range.category != 0 || !range.arguments.empty()) ranges.push_back(std::move(range));
}

namespace {

using Domains = std::map<std::pair<int64_t, int64_t>, std::string>;
using Categories = std::map<std::pair<std::pair<int64_t, int64_t>, int64_t>, std::string>;

/// A range of NCCL's own, in the order in which they end.
struct NcclRange {
  int64_t end_ns = 0;
  size_t part = 0, host_row = 0;
  std::string name;
  const std::string* arguments = nullptr;
};

// The end of the last NVTX event, whichever process it is of.
int64_t last_nvtx_ns(SqliteSource& source, const NsightScope& scope, const std::deque<NsightRecords>& parts) {
  int64_t last = INT64_MIN;
  for (const NsightRecords& part : parts) last = std::max(last, part.last_range_ns);
  if (scope.condition("globalTid").empty()) return last;
  SqliteScan scan(source, "NVTX_EVENTS", {"start", "end"});
  while (scan.next()) last = std::max({last, scan.integer(0, INT64_MIN), scan.integer(1, INT64_MIN)});
  return last;
}

void close_open_ranges(int64_t last, std::deque<NsightRecords>& parts) {
  for (NsightRecords& part : parts)
    for (const NsightRange& range : part.open_ranges) {
      HostRow& row = part.shard().host[range.host_row];
      row.duration_ns = std::clamp<int64_t>(last - row.start_ns, 0, (int64_t{1} << 50) - 1);
    }
}

// Gives ranges the names of their domains, and says what else is known of them.
void name_ranges(const Domains& domains, const Categories& categories, size_t place, NsightRecords& part,
                 std::vector<NcclRange>& nccl) {
  Shard& shard = part.shard();
  std::map<std::tuple<int64_t, int64_t, StringId>, StringId> named;
  for (NsightRange& range : part.ranges) {
    HostRow& row = shard.host[range.host_row];
    const auto domain = domains.find({range.process, range.domain});
    if (domain != domains.end() && domain->second == kNcclDomain && !range.arguments.empty())
      nccl.push_back({row.start_ns + row.duration_ns, place, range.host_row, std::string(shard.strings[row.name]),
                      &range.arguments});
    if (domain != domains.end() && !domain->second.empty()) {
      StringId& name = named[{range.process, range.domain, row.name}];
      if (!name.valid())
        name = shard.strings.intern(domain->second + ": " + std::string(shard.strings[row.name]));
      row.name = name;
    }
    if (const auto category = categories.find({{range.process, range.domain}, range.category});
        category != categories.end())
      add_member(range.arguments, "\"category\": " + json_quoted(category->second));
    if (!range.arguments.empty())
      shard.host_arguments.emplace_back(range.host_row, shard.strings.intern("{" + range.arguments + "}"));
  }
  std::sort(shard.host_arguments.begin(), shard.host_arguments.end());
}

}  // namespace

void finish_nsight_ranges(SqliteSource& source, const NsightScope& scope, std::deque<NsightRecords>& parts) {
  Domains domains;
  Categories categories;
  bool open = false;
  for (NsightRecords& part : parts) {
    domains.merge(part.domains), categories.merge(part.categories);
    open |= !part.open_ranges.empty();
  }
  if (open) close_open_ranges(last_nvtx_ns(source, scope, parts), parts);
  std::vector<NcclRange> nccl;
  for (size_t i = 0; i < parts.size(); ++i) name_ranges(domains, categories, i, parts[i], nccl);
  std::stable_sort(nccl.begin(), nccl.end(), [](const auto& a, const auto& b) { return a.end_ns < b.end_ns; });
  NcclRanges calls;
  for (const NcclRange& range : nccl) {
    const auto call = calls.call_of(range.name, *range.arguments);
    if (!call) continue;
    Shard& shard = parts[range.part].shard();
    shard.host_collectives.emplace_back(range.host_row, static_cast<uint32_t>(shard.collectives.size()));
    shard.collectives.push_back(collective_of(*call, shard.strings));
  }
  for (NsightRecords& part : parts) std::sort(part.shard().host_collectives.begin(), part.shard().host_collectives.end());
}

void link_nsight_graphs(const std::deque<NsightRecords>& parts, Trace& trace) {
  std::unordered_map<uint64_t, const NsightGraphNode*> nodes;
  for (const NsightRecords& part : parts)
    for (const NsightGraphNode& node : part.graph_nodes) nodes.emplace(node.node, &node);
  if (nodes.empty()) return;
  std::map<std::pair<std::string, std::string>, const Thread*> threads;
  for (const Thread& t : trace.threads) threads[{t.process, t.id}] = &t;
  const auto call_at = [&](const NsightGraphNode& node) {
    const auto at = threads.find({std::to_string(nsight_pid(node.thread)), std::to_string(nsight_tid(node.thread))});
    if (at == threads.end()) return HostId();
    const HostTable& h = trace.host;
    const auto first = h.start_ns.begin() + at->second->begin.value, end = h.start_ns.begin() + at->second->end.value;
    const auto after = std::upper_bound(first, end, node.time_ns);
    if (after == first) return HostId();
    HostId row(static_cast<size_t>(after - h.start_ns.begin() - 1));
    while (row.valid() && h.end_ns(row) < node.time_ns) row = h.parent[row.value];
    return row;
  };
  std::unordered_map<uint64_t, HostId> known;
  for (uint32_t a = 0; a < trace.activity.size(); ++a) {
    if (!trace.activity.args[a].valid()) continue;
    const ActivityArgs& args = trace.activity_args[trace.activity.args[a].value];
    if (args.graph_node == 0) continue;
    const auto [at, fresh] = known.try_emplace(uint64_t{args.graph} << 32 | args.graph_node);
    if (fresh) {
      auto node = nodes.find(at->first);
      if (node == nodes.end()) node = nodes.find(args.graph_node);
      // A clone of a clone, and so on; a circle is damage.
      for (int i = 0; node != nodes.end() && node->second->original != 0 && i < 16; ++i) {
        const auto original = nodes.find(node->second->original);
        if (original == nodes.end()) break;
        node = original;
      }
      if (node != nodes.end()) at->second = call_at(*node->second);
    }
    if (at->second.valid()) trace.captured_calls.push_back({ActivityId(a), at->second});
  }
}

}  // namespace profgpu
