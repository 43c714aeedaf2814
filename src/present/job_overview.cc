#include "present/job_overview.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "present/wording.h"
#include "report/quantity.h"

namespace profgpu {
namespace {

constexpr double kTellingPct = 3;        // of a step: a change that gains less is no advice
constexpr double kSpreadPct = 2;         // ranks that meet in every step differ by less
constexpr double kClockApart_ns = 1e6;   // a picture of both ranks without alignment would mislead
constexpr double kClockError_ns = 1e5, kClockErrorPct = 1;   // of a step: waits of that order are lost in it
constexpr size_t kMostWays = 3, kMostChanges = 3;

using Words = std::pair<std::string_view, std::string_view>;

std::string words_of(std::string_view code, std::span<const Words> known, std::string otherwise) {
  for (const auto& [name, text] : known)
    if (name == code) return std::string(text);
  return otherwise;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : ", ") + part;
  return out;
}

bool never_arrived(const Table& missing) {
  for (size_t i = 0; i < missing.rows.size(); ++i)
    if (text_at(missing, i, "kind") == "never_arrived") return true;
  return false;
}

// "pipeline parallel in groups of 4 (bubble 51 % of a step)"
std::string way_text(const Table& ways, size_t row) {
  std::string text = parallelism_name(text_at(ways, row, "kind"), text_at(ways, row, "words"));
  if (ways.at(row, "groups").number() > 1 && !ways.at(row, "group_size").is_null())
    text += " in groups of " + format_value(ways.at(row, "group_size"), Unit::kNone);
  const Record* detail = ways.at(row, "detail").record();
  if (detail && !detail->at("bubble_pct").is_null())
    text += " (bubble " + format_percent(detail->at("bubble_pct").number(), 0) + " of a step)";
  return text;
}

// Only where exposed communication is transfers: in a pipeline it is the bubble, with a late rank the waiting for it.
std::string hidden_text(const Report& report, const Table& ways) {
  if (never_arrived(cluster_table(report, "missing")) || !cluster_table(report, "stragglers").rows.empty() ||
      !cluster_field(report, "late_by_turns").is_null())
    return {};
  double communication = 0, exposed = 0;
  for (size_t i = 0; i < ways.rows.size(); ++i) {
    if (text_at(ways, i, "kind") == "pipeline_parallel") return {};
    communication += ways.at(i, "communication_ns_per_step").number();
    exposed += ways.at(i, "exposed_ns_per_step").number();
  }
  if (communication <= 0) return {};
  return format_percent(100 * std::max(0.0, communication - exposed) / communication, 0) + " of communication hidden";
}

std::string job_title(const Report& report) {
  const auto here = static_cast<int64_t>(report.ranks.size());
  const auto all = static_cast<int64_t>(cluster_field(report, "world_size").number());
  std::string title = all > here ? format_count(here) + " of " + plural(all, "rank", "ranks") : plural(here, "rank", "ranks");
  std::vector<std::string_view> hosts;
  for (const RankReport& rank : report.ranks)
    if (!rank.host.empty()) hosts.push_back(rank.host);
  std::sort(hosts.begin(), hosts.end());
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  if (hosts.size() > 1) title += " on " + plural(static_cast<int64_t>(hosts.size()), "host", "hosts");
  const Table& ways = cluster_table(report, "parallelism");
  std::vector<std::string> said;
  for (size_t i = 0; i < ways.rows.size() && said.size() < kMostWays; ++i)
    if (text_at(ways, i, "kind") != "unknown") said.push_back(way_text(ways, i));
  if (const std::string hidden = hidden_text(report, ways); !hidden.empty()) said.push_back(hidden);
  if (const Value& spread = cluster_field(report, "step_spread_pct"); spread.number() >= kSpreadPct)
    said.push_back("steps differ by " + format_value(spread, Unit::kPercent));
  return said.empty() ? title : title + ": " + joined(said);
}

// A name rather than an amount.
std::string whole_text(const Value& number) { return std::to_string(static_cast<int64_t>(number.number())); }

// Ranks that miss the same call are named together; their rows follow each other.
std::vector<std::string> missing_texts(const Table& t) {
  std::vector<std::string> out;
  for (size_t row = 0; row < t.rows.size();) {
    std::vector<int> ranks;
    const auto same = [&](size_t other) {
      return std::all_of(t.columns.begin(), t.columns.end(), [&](const std::string& column) {
        return column == "rank" || cell_text(column, t.at(row, column), {}) == cell_text(column, t.at(other, column), {});
      });
    };
    size_t end = row;
    for (; end < t.rows.size() && same(end); ++end) ranks.push_back(static_cast<int>(t.at(end, "rank").number()));
    const int64_t calls = static_cast<int64_t>(t.at(row, "calls").number());
    const std::string name(text_at(t, row, "name")), group(text_at(t, row, "process_group"));
    const Value& step = t.at(row, "step");
    std::string where = group.empty() ? "" : " of group " + group;
    if (!step.is_null()) where += ", step " + whole_text(step);
    const std::string others = plural(static_cast<int64_t>(t.at(row, "others").number()), "other rank", "other ranks");
    if (text_at(t, row, "kind") == "never_arrived")
      out.push_back(ranks_text(ranks) + " never arrived at " + name + " " + whole_text(t.at(row, "number")) + where + ": " + others + " wait in it to the end of their traces");
    else
      out.push_back(ranks_text(ranks) + ": no record of " + plural(calls, "call", "calls") + " to " + name + where +
                    (calls > 1 ? " and later" : "") + ", which " + others +
                    " made: the trace lost it, or the rank went another way");
    row = end;
  }
  return out;
}

// Of the clocks that collectives tie to the first rank's.
struct ClockRange {
  double offset_ns = 0, error_ns = 0, drift_ppm = 0;   // largest, by absolute value
  int ahead = 0;                                       // whose offset it is

  explicit ClockRange(const Table& clocks) {
    for (size_t i = 0; i < clocks.rows.size(); ++i) {
      const std::string_view method = text_at(clocks, i, "method");
      if (method == "steps" || method == "stated" || method == "none") continue;
      if (take(offset_ns, clocks.at(i, "offset_ns"))) ahead = static_cast<int>(clocks.at(i, "rank").number());
      take(error_ns, clocks.at(i, "error_ns"));
      take(drift_ppm, clocks.at(i, "drift_ppm"));
    }
  }

 private:
  static bool take(double& largest, const Value& value) {
    if (std::abs(value.number()) <= std::abs(largest)) return false;
    largest = value.number();
    return true;
  }
};

std::vector<std::string> notes_of(const Report& report, const ClockRange& clocks) {
  std::vector<std::string> out;
  if (const List* notes = cluster_field(report, "notes").list())
    for (const Value& note : *notes)
      if (note.text()) out.push_back(*note.text());
  double step_ns = 0;
  if (const Record* means = cluster_field(report, "step_mean_ns_by_rank").record())
    for (const auto& [rank, ns] : means->fields) step_ns = std::max(step_ns, ns.number());
  if (clocks.error_ns > std::max(kClockError_ns, kClockErrorPct / 100 * step_ns))
    out.push_back("clocks are known to within " + format_duration(clocks.error_ns) +
                  " only, so waits for each other are as uncertain");
  return out;
}

std::string clocks_text(const ClockRange& clocks) {
  if (std::abs(clocks.offset_ns) < kClockApart_ns) return {};
  std::string text = "Clocks: rank " + std::to_string(clocks.ahead) + "'s is " + format_duration(std::abs(clocks.offset_ns)) +
                     (clocks.offset_ns < 0 ? " ahead of" : " behind") + " the first rank's";
  if (std::abs(clocks.drift_ppm) >= 1) text += " and drifts by " + format_number(std::abs(clocks.drift_ppm)) + " ppm";
  return text + "; aligned to within " + format_duration(clocks.error_ns);
}

std::string what_if_of(const Table& t) {
  std::vector<size_t> rows;
  bool like_others = false;   // the first such row is of all stragglers together
  for (size_t i = 0; i < t.rows.size(); ++i) {
    const bool straggler = text_at(t, i, "change") == "straggler_median";
    if (t.at(i, "saved_pct").number() >= kTellingPct && !(straggler && like_others)) rows.push_back(i);
    like_others |= straggler;
  }
  std::stable_sort(rows.begin(), rows.end(), [&](size_t a, size_t b) {
    return t.at(a, "saved_ns_per_step").number() > t.at(b, "saved_ns_per_step").number();
  });
  if (rows.empty()) return {};
  rows.resize(std::min(rows.size(), kMostChanges));
  const double step_ns = t.at(rows[0], "step_ns").number() + t.at(rows[0], "saved_ns_per_step").number();
  std::vector<std::string> changes;
  for (const size_t row : rows) {
    const bool* bound = t.at(row, "lower_bound").boolean();
    changes.push_back((bound && *bound ? "at most " : "") + format_value(t.at(row, "step_ns"), Unit::kNanoseconds) + " " +
                      change_words(text_at(t, row, "change"), t.at(row, "ranks").list()));
  }
  return "A step of " + format_duration(step_ns) + " would take " + joined(changes);
}

}  // namespace

JobOverview job_overview(const Report& report) {
  if (report.ranks.size() < 2) return {};
  const ClockRange clocks(cluster_table(report, "clocks"));
  JobOverview job{job_title(report), missing_texts(cluster_table(report, "missing")), notes_of(report, clocks), {}};
  for (const std::string& remark : {what_if_of(cluster_table(report, "what_if")), clocks_text(clocks)})
    if (!remark.empty()) job.remarks.push_back(remark);
  return job;
}

std::string late_text(const RankOverview& rank) {
  if (!rank.straggler) return {};
  const StragglerOverview& s = *rank.straggler;
  const char* what = s.kind == "slow_link" ? "transfers longer by " : "late by ";
  return what + format_duration(s.excess_ns) + " a step (" + format_percent(s.excess_pct, 0) + "): " +
         straggler_words(s.kind);
}

std::string straggler_words(std::string_view kind) {
  return kind.empty() || kind == "unknown" ? "cause not known" : words(kind);
}

std::string parallelism_name(std::string_view kind, std::string_view sentence) {
  constexpr std::array kNames = {Words{"fsdp_or_zero2", "FSDP or ZeRO-2"}, Words{"fsdp_or_zero3", "FSDP or ZeRO-3"},
                                 Words{"unknown", "no known pattern"}};
  const size_t colon = sentence.find(':');
  return words_of(kind, kNames, colon == std::string_view::npos ? words(kind) : std::string(sentence.substr(0, colon)));
}

std::string change_words(std::string_view change, const List* ranks) {
  constexpr std::array kNames = {Words{"communication_free", "without transfers"},
                                 Words{"input_free", "with input always ready"},
                                 Words{"host_bound_free", "with launches in time"},
                                 Words{"even_ranks", "with all ranks alike in each step"}};
  if (change == "straggler_median") return "with " + ranks_text(rank_numbers(ranks)) + " like the others";
  return words_of(change, kNames, "with " + words(change));
}

std::vector<int> rank_numbers(const List* ranks) {
  std::vector<int> out;
  if (ranks)
    for (const Value& rank : *ranks) out.push_back(static_cast<int>(rank.number()));
  return out;
}

}  // namespace profgpu
