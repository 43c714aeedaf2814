#include "present/overview.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "present/wording.h"
#include "report/quantity.h"

namespace profgpu {
namespace {

constexpr double kVisiblePct = 0.05;  // less would read 0.0 %
constexpr double kAlikePct = 2;       // ranks whose steps differ by less are in no order of length
constexpr double kNotablePct = 1;     // whether less than that hides behind compute does not matter

std::optional<double> known(const Value& value) {
  if (!value.integer() && !value.real()) return std::nullopt;
  const double x = value.number();
  return std::isfinite(x) ? std::optional(x) : std::nullopt;
}

std::optional<double> percent_of(std::optional<double> part, std::optional<double> whole) {
  if (!part || !whole || *whole <= 0) return std::nullopt;
  return 100 * *part / *whole;
}

struct MeanStep {
  std::optional<double> ns;
  const Table* phases = nullptr;
};

// Without the section made for this: the mean of what is no warm-up, divided as all steps are.
MeanStep mean_step(const RankReport& rank) {
  if (const Section* s = rank.section("average_step"))
    if (const Record* r = s->content.record()) return {known(r->at("duration_ns")), r->at("phases").table()};
  MeanStep mean{std::nullopt, table_of(rank, "phases")};
  const Table* steps = table_of(rank, "steps");
  double sum = 0;
  int64_t count = 0;
  for (size_t i = 0; steps && i < steps->rows.size(); ++i) {
    const bool* warmup = steps->at(i, "warmup").boolean();
    if (warmup && *warmup) continue;
    sum += steps->at(i, "duration_ns").number();
    ++count;
  }
  if (count > 0) mean.ns = sum / static_cast<double>(count);
  return mean;
}

std::vector<Share> causes_of(const RankReport& rank, const Value& device) {
  std::vector<Share> out;
  const Table* idle = table_of(rank, "idle");
  for (size_t i = 0; idle && i < idle->rows.size(); ++i) {
    if (idle->at(i, "device").number(-1) != device.number(-2)) continue;
    const std::optional<double> pct = known(idle->at(i, "span_pct"));
    if (pct && *pct >= kVisiblePct)
      out.push_back({words(format_value(idle->at(i, "cause"), Unit::kNone)), known(idle->at(i, "total_ns")), *pct});
  }
  std::stable_sort(out.begin(), out.end(), [](const Share& a, const Share& b) { return a.pct > b.pct; });
  return out;
}

void add_note(DeviceOverview& device, const char* name, std::optional<double> pct, std::optional<double> exposed) {
  if (!pct || *pct < kVisiblePct) return;
  std::string note = std::string(name) + " " + format_percent(*pct);
  if (exposed && *exposed >= kVisiblePct && *pct >= kNotablePct)
    note += std::abs(*exposed - *pct) < kVisiblePct ? ", all exposed" : ", " + format_percent(*exposed) + " exposed";
  device.notes.push_back(std::move(note));
}

DeviceOverview device_overview(const RankReport& rank, const Table& devices, size_t row) {
  DeviceOverview out;
  const auto field = [&](std::string_view column) { return known(devices.at(row, column)); };
  const std::optional<double> span = field("span_ns");
  out.name = "GPU " + format_value(devices.at(row, "id"), Unit::kNone);
  out.title = out.name + (span ? ", " + format_duration(*span) : "");
  out.busy_pct = field("utilization_pct");
  out.idle_pct = percent_of(field("idle_ns"), span);
  out.causes = causes_of(rank, devices.at(row, "id"));
  add_note(out, "communication", percent_of(field("communication_ns"), span),
           percent_of(field("exposed_communication_ns"), span));
  add_note(out, "copies", percent_of(field("memory_ns"), span), percent_of(field("exposed_memory_ns"), span));
  return out;
}

// By rank, looked up once: a job may have thousands.
struct Cluster {
  std::map<std::string, double, std::less<>> step_ns;
  std::map<int, StragglerOverview> stragglers;

  explicit Cluster(const Report& report) {
    if (const Record* means = cluster_field(report, "step_mean_ns_by_rank").record())
      for (const auto& [rank, ns] : means->fields)
        if (const std::optional<double> mean = known(ns)) step_ns.emplace(rank, *mean);
    const Table& t = cluster_table(report, "stragglers");
    for (size_t i = 0; i < t.rows.size(); ++i)
      stragglers.try_emplace(static_cast<int>(t.at(i, "rank").number(-1)),
                             StragglerOverview{t.at(i, "excess_ns_per_step").number(), t.at(i, "excess_pct").number(),
                                               std::string(text_at(t, i, "kind"))});
  }
};

RankOverview rank_overview(const Cluster& cluster, const RankReport& rank) {
  RankOverview out;
  out.rank = rank.rank;
  out.host = rank.host;
  const auto mean = cluster.step_ns.find(std::to_string(rank.rank));
  out.step_ns = mean != cluster.step_ns.end() ? std::optional(mean->second) : mean_step(rank).ns;
  const std::vector<DeviceOverview> devices = device_overviews(rank);
  if (const int busiest = busiest_device(devices); busiest >= 0)
    out.busy_pct = devices[static_cast<size_t>(busiest)].busy_pct;
  if (const auto late = cluster.stragglers.find(rank.rank); late != cluster.stragglers.end()) out.straggler = late->second;
  return out;
}

// Whether all of a rank's records could be read.
bool is_whole(const Report& report, int rank) {
  constexpr std::array<std::string_view, 4> kLost = {"truncated", "damaged", "out_of_range", "dropped"};
  return std::none_of(report.inputs.begin(), report.inputs.end(), [&](const InputFile& file) {
    return file.rank == rank && std::any_of(file.issues.begin(), file.issues.end(), [&](const Issue& issue) {
      return std::find(kLost.begin(), kLost.end(), issue.kind) != kLost.end();
    });
  });
}

}  // namespace

const Table* table_of(const RankReport& rank, std::string_view section) {
  const Section* s = rank.section(section);
  return s ? s->content.table() : nullptr;
}

const Value& cluster_field(const Report& report, std::string_view name) {
  static const Value kNull;
  const Record* cluster = report.cluster.record();
  return cluster ? cluster->at(name) : kNull;
}

const Table& cluster_table(const Report& report, std::string_view name) {
  static const Table kEmpty;
  const Table* table = cluster_field(report, name).table();
  return table ? *table : kEmpty;
}

std::string_view text_at(const Table& table, size_t row, std::string_view column) {
  const std::string* text = table.at(row, column).text();
  return text ? std::string_view(*text) : std::string_view();
}

const RankReport* rank_in_focus(const Report& report) {
  if (report.ranks.empty()) return nullptr;
  const std::vector<RankOverview> ranks = rank_overviews(report);
  const auto found = std::find_if(ranks.begin(), ranks.end(), [&](const RankOverview& r) {
    return r.straggler || (r.busy_pct && is_whole(report, r.rank));
  });
  const int rank = ranks.empty() ? report.ranks.front().rank : found != ranks.end() ? found->rank : ranks.front().rank;
  return &*std::find_if(report.ranks.begin(), report.ranks.end(), [&](const RankReport& r) { return r.rank == rank; });
}

std::string folder_of_inputs(const Report& report) {
  constexpr size_t kNamedEach = 2;
  if (report.inputs.size() <= kNamedEach) return {};
  const auto folder = [](const InputFile& input) { return input.path.substr(0, input.path.rfind('/') + 1); };
  std::string common = folder(report.inputs.front());
  for (const InputFile& input : report.inputs)
    if (folder(input) != common) return {};
  if (common.size() > 1) common.pop_back();
  return common;
}

bool has_steps(const RankReport& rank) {
  const Table* steps = table_of(rank, "steps");
  if (!steps || steps->rows.empty()) return false;
  const std::string* name = steps->at(0, "name").text();
  return steps->rows.size() > 1 || !name || *name != "trace";
}

// The means of a job's ranks leave the step out in which it hangs; a rank's phases and devices have it.
bool has_hanging_step(const Report& report, const RankReport& rank, double step_ns) {
  const Table& missing = cluster_table(report, "missing");
  const Record* means = cluster_field(report, "step_mean_ns_by_rank").record();
  for (size_t i = 0; means && i < missing.rows.size(); ++i) {
    if (text_at(missing, i, "kind") != "never_arrived") continue;
    for (const auto& [of, ns] : means->fields)
      if (of == std::to_string(rank.rank)) return step_ns > 1.01 * known(ns).value_or(step_ns);
  }
  return false;
}

StepOverview step_overview(const Report& report, const RankReport& rank) {
  const MeanStep mean = mean_step(rank);
  StepOverview out;
  const char* what = has_steps(rank) ? "A step" : "The whole trace";
  out.title = what + (mean.ns ? (has_steps(rank) ? " of " : ", ") + format_duration(*mean.ns) : std::string());
  if (mean.ns && has_hanging_step(report, rank, *mean.ns)) out.title += " with the one that hangs";
  for (size_t i = 0; mean.phases && i < mean.phases->rows.size(); ++i) {
    const std::optional<double> pct = known(mean.phases->at(i, "wall_pct"));
    if (!pct || *pct < kVisiblePct) continue;
    const std::optional<double> ns = mean.ns ? std::optional(*mean.ns * *pct / 100) : std::nullopt;
    out.phases.push_back({words(format_value(mean.phases->at(i, "name"), Unit::kNone)), ns, *pct});
  }
  return out;
}

std::vector<DeviceOverview> device_overviews(const RankReport& rank) {
  std::vector<DeviceOverview> out;
  const Table* devices = table_of(rank, "devices");
  for (size_t i = 0; devices && i < devices->rows.size(); ++i) out.push_back(device_overview(rank, *devices, i));
  return out;
}

int busiest_device(const std::vector<DeviceOverview>& devices) {
  int busiest = -1;
  for (size_t i = 0; i < devices.size(); ++i)
    if (busiest < 0 || devices[i].busy_pct.value_or(0) > devices[static_cast<size_t>(busiest)].busy_pct.value_or(0))
      busiest = static_cast<int>(i);
  return busiest;
}

std::vector<RankOverview> rank_overviews(const Report& report) {
  std::vector<RankOverview> out;
  if (report.ranks.size() < 2) return out;
  const Cluster cluster(report);
  for (const RankReport& rank : report.ranks) out.push_back(rank_overview(cluster, rank));
  const auto by_step = [](const RankOverview& a, const RankOverview& b) { return a.step_ns < b.step_ns; };
  const auto [least, most] = std::minmax_element(out.begin(), out.end(), by_step);
  const double longest = most->step_ns.value_or(0);
  const bool alike = longest - least->step_ns.value_or(0) < kAlikePct / 100 * longest;
  std::stable_sort(out.begin(), out.end(), [&](const RankOverview& a, const RankOverview& b) {
    const double late_a = a.straggler ? a.straggler->excess_ns : 0, late_b = b.straggler ? b.straggler->excess_ns : 0;
    return late_a != late_b ? late_a > late_b : !alike && a.step_ns.value_or(0) > b.step_ns.value_or(0);
  });
  return out;
}

std::optional<double> cost_of_step(const Report& report, const Finding& finding) {
  if (!finding.cost_ns) return std::nullopt;
  return static_cast<double>(*finding.cost_ns) / static_cast<double>(std::max<int64_t>(report.measured_steps, 1));
}

std::string ranks_concerned(const Report& report, const Finding& finding) {
  const std::vector<int>& ranks = finding.ranks;
  if (report.ranks.size() < 2 || ranks.empty() || ranks.size() >= report.ranks.size()) return {};
  if (finding.what.starts_with("rank")) return {};
  return ranks_text(ranks);
}

}  // namespace profgpu
