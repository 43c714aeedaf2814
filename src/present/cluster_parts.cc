#include "present/cluster_parts.h"

#include <algorithm>
#include <utility>

#include "present/job_overview.h"
#include "present/parallelism_text.h"
#include "present/wording.h"
#include "report/quantity.h"

namespace profgpu {
namespace {

std::string number_text(const Value& value, Unit unit = Unit::kNone) { return format_value(value, unit); }

Value path_of(const Value& spans_hosts) {
  const bool* spans = spans_hosts.boolean();
  return !spans ? Value() : Value(*spans ? "network" : "one host");
}

ClusterPart ranks_part(const Report& report, size_t most) {
  JobOverview job = job_overview(report);
  if (const size_t all = job.missing.size(); most > 0 && all > most) {
    job.missing.resize(most);
    job.missing.push_back("… and " + plural(static_cast<int64_t>(all - most), "other call", "other calls") + " without all ranks");
  }
  ClusterPart part{job.title, job.missing, {{"rank", "host", "mean_step_ns", "gpu_busy_pct", ""}, {}}};
  part.sentences.insert(part.sentences.end(), job.notes.begin(), job.notes.end());
  for (const RankOverview& rank : rank_overviews(report))
    part.table.rows.push_back({rank.rank, rank.host.empty() ? Value() : Value(rank.host), rank.step_ns, rank.busy_pct,
                               late_text(rank)});
  return part;
}

// The metrics that a late rank was compared by; each has a unit of its own.
ClusterPart side_by_side_part(const Table& all, size_t row) {
  const std::string rank = "rank " + number_text(all.at(row, "rank"));
  ClusterPart part{"R" + rank.substr(1) + " beside the others: " + straggler_words(text_at(all, row, "kind")), {},
                   {{"a_step's", rank, "others'_median"}, {}}};
  if (const std::vector<int> together = rank_numbers(all.at(row, "together").list()); together.size() > 1)
    part.sentences.push_back("late together: " + ranks_text(together));
  if (const Value& worst = all.at(row, "worst_step"); !worst.is_null())
    part.sentences.push_back("late in " + number_text(all.at(row, "steps_late")) + " of " +
                             number_text(all.at(row, "steps_measured")) + " steps, most in step " + number_text(worst) +
                             ": " + number_text(all.at(row, "worst_step_excess_ns"), Unit::kNanoseconds));
  if (const List* evidence = all.at(row, "evidence").list())
    for (const Value& text : *evidence)
      if (text.text()) part.sentences.push_back(*text.text());
  const Table* metrics = all.at(row, "side_by_side").table();
  for (size_t i = 0; metrics && i < metrics->rows.size(); ++i) {
    const std::string_view metric = text_at(*metrics, i, "metric");
    part.table.rows.push_back({column_title(metric), cell_text(metric, metrics->at(i, "late"), {}),
                               cell_text(metric, metrics->at(i, "others_median"), {})});
  }
  return part;
}

ClusterPart by_turns_part(const Value& value) {
  const Record* late = value.record();
  if (late == nullptr) return {};
  ClusterPart part{"Late by turns: " + straggler_words(*late->at("kind").text()),
                   {"in " + number_text(late->at("steps_measured")) + " steps others wait " +
                    number_text(late->at("wait_ns_per_step"), Unit::kNanoseconds) + " a step (" +
                    number_text(late->at("wait_pct"), Unit::kPercent) + ") for another rank each"},
                   {{"rank", "steps_latest"}, {}}};
  if (const List* evidence = late->at("evidence").list())
    for (const Value& text : *evidence)
      if (text.text()) part.sentences.push_back(*text.text());
  if (const Table* ranks = late->at("ranks").table()) part.table.rows = ranks->rows;
  return part;
}

// Ranks of one host share a clock: a row for all that do.
ClusterPart clocks_part(const Report& report, const Table& clocks) {
  struct Row {
    std::vector<int> ranks;
    std::string host, method;
    Value offset_ns, error_ns, drift_ppm;
  };
  std::vector<Row> rows;
  std::vector<std::pair<int, std::string_view>> hosts;
  for (const RankReport& rank : report.ranks) hosts.emplace_back(rank.rank, rank.host);
  std::sort(hosts.begin(), hosts.end());
  for (size_t i = 0; i < clocks.rows.size(); ++i) {
    const int rank = static_cast<int>(clocks.at(i, "rank").number());
    const auto at = std::lower_bound(hosts.begin(), hosts.end(), std::pair(rank, std::string_view()));
    const std::string host(at != hosts.end() && at->first == rank ? at->second : "");
    const std::string method(text_at(clocks, i, "method"));
    const Value &offset = clocks.at(i, "offset_ns"), &error = clocks.at(i, "error_ns"), &drift = clocks.at(i, "drift_ppm");
    const bool shared = !rows.empty() && !host.empty() && rows.back().host == host && method == "same host" &&
                        rows.back().offset_ns.number() == offset.number() &&
                        rows.back().drift_ppm.number() == drift.number();
    if (!shared) rows.push_back({{}, host, method, offset, error, drift});
    Row& row = rows.back();
    row.ranks.push_back(rank);
    if (!row.error_ns.is_null() && error.number() > row.error_ns.number()) row.error_ns = error;
  }
  ClusterPart part{"Clocks, against the first rank's", {},
                   {{"ranks", "host", "is_ahead_ns", "to_within_ns", "drift_ppm", "aligned_by"}, {}}};
  // The report says what to add to a rank's times.
  const auto ahead = [](const Value& offset, const std::string& method) {
    return method == "none" || offset.is_null() ? Value() : Value(offset.number() == 0 ? 0 : -offset.number());
  };
  for (const Row& row : rows)
    part.table.rows.push_back({number_ranges(row.ranks), row.host.empty() ? Value() : Value(row.host), ahead(row.offset_ns, row.method),
                               row.error_ns, ahead(row.drift_ppm, row.method), row.method});
  return part;
}

// "2 of 4 ranks"
Value groups_text(const Table& ways, size_t row) {
  const Value& size = ways.at(row, "group_size");
  if (size.is_null()) return {};
  return number_text(ways.at(row, "groups")) + " of " + plural(static_cast<int64_t>(size.number()), "rank", "ranks");
}

ClusterPart parallelism_part(const Table& ways) {
  ClusterPart part{"How the ranks share the work, for each step", {},
                   {{"", "groups", "calls", "moved_bytes", "takes_ns", "exposed_ns", "hidden_pct"}, {}}};
  for (size_t i = 0; i < ways.rows.size(); ++i) {
    part.table.rows.push_back({parallelism_name(text_at(ways, i, "kind"), text_at(ways, i, "words")),
                               groups_text(ways, i), ways.at(i, "calls_per_step"),
                               ways.at(i, "bytes_per_step"), ways.at(i, "communication_ns_per_step"),
                               ways.at(i, "exposed_ns_per_step"), ways.at(i, "overlap_pct")});
    part.sentences.push_back(parallelism_text(ways, i));
  }
  return part;
}

// Stages of the first pipeline; a job has one.
ClusterPart stages_part(const Table& ways) {
  ClusterPart part{"Pipeline stages", {}, {}};
  for (size_t i = 0; i < ways.rows.size(); ++i) {
    const Record* detail = ways.at(i, "detail").record();
    const Table* stages = detail ? detail->at("by_stage").table() : nullptr;
    if (!stages || stages->rows.empty()) continue;
    part.table.columns = {"stage", "ranks", "bubble_ns", "of_step_pct", "peak_allocated_bytes"};
    for (size_t s = 0; s < stages->rows.size(); ++s)
      part.table.rows.push_back({stages->at(s, "stage"), number_ranges(rank_numbers(stages->at(s, "ranks").list())),
                                 stages->at(s, "bubble_ns_per_step"), stages->at(s, "bubble_pct"),
                                 stages->at(s, "peak_allocated_bytes")});
    break;
  }
  return part;
}

ClusterPart collectives_part(const Table& all) {
  ClusterPart part{"Collectives by size, all ranks together", {},
                   {{"name", "ranks", "over", "calls", "message_bytes", "wait_ns", "transfer_ns", "busbw_gbps",
                     "of_link_pct"}, {}}};
  bool bounds = false;
  for (size_t i = 0; i < all.rows.size(); ++i) {
    const bool* bound = all.at(i, "wait_is_lower_bound").boolean();
    bounds |= bound && *bound;
    part.table.rows.push_back({all.at(i, "name"), all.at(i, "group_size"), path_of(all.at(i, "spans_hosts")),
                               all.at(i, "calls"), all.at(i, "message_bytes"), all.at(i, "median_wait_ns"),
                               all.at(i, "transfer_ns"), all.at(i, "busbw_gbps"), all.at(i, "link_pct")});
  }
  if (bounds) part.sentences.push_back("Some calls lack ranks of their group here: waits are lower bounds, rates are of whole calls.");
  return part;
}

ClusterPart pairs_part(const Table& all) {
  ClusterPart part{"Sends from rank to rank, times of the mean call", {},
                   {{"from", "to", "over", "calls", "message_bytes", "receiver_waits_ns", "sender_waits_ns",
                     "transfer_ns", "rate_gbps"}, {}}};
  for (size_t i = 0; i < all.rows.size(); ++i) {
    const double calls = std::max(all.at(i, "calls").number(), 1.0);
    const auto mean = [&](const char* sum) { return Value(static_cast<int64_t>(all.at(i, sum).number() / calls)); };
    part.table.rows.push_back({all.at(i, "from"), all.at(i, "to"), path_of(all.at(i, "spans_hosts")), all.at(i, "calls"),
                               all.at(i, "message_bytes"), mean("receiver_wait_ns"), mean("sender_wait_ns"),
                               mean("transfer_ns"), all.at(i, "bandwidth_gbps")});
  }
  return part;
}

ClusterPart path_part(const Record& path) {
  ClusterPart part{"What set the pace: the chain of work behind the length of " +
                       plural(static_cast<int64_t>(path.at("steps").number()), "step", "steps"), {},
                   {{"time_spent_on", "total_ns", "of_steps_pct"}, {}}};
  const Table* kinds = path.at("by_kind").table();
  for (size_t i = 0; kinds && i < kinds->rows.size(); ++i) {
    const std::string_view kind = text_at(*kinds, i, "kind");
    part.table.rows.push_back({kind == "communication" ? "transfers" : words(kind), kinds->at(i, "total_ns"), kinds->at(i, "pct")});
  }
  const Table* ranks = path.at("by_rank").table();
  std::string by_rank;
  constexpr size_t kFew = 6;
  for (size_t i = 0; ranks && i < std::min(ranks->rows.size(), kFew); ++i)
    if (const double pct = ranks->at(i, "pct").number(); i == 0 || pct >= 1)
      by_rank += (i ? ", " : "") + format_percent(pct, 0) + " on rank " + number_text(ranks->at(i, "rank"));
  if (!by_rank.empty()) part.sentences.push_back(by_rank);
  if (const std::vector<int> without = rank_numbers(path.at("ranks_without").list()); !without.empty())
    part.sentences.push_back("not looked at: " + ranks_text(without));
  return part;
}

ClusterPart longest_step_part(const Record& path) {
  const Record* longest = path.at("longest_step").record();
  const Table* all = longest ? longest->at("segments").table() : nullptr;
  if (!all || all->rows.empty()) return {};
  ClusterPart part{"The longest step, " + number_text(longest->at("step")) + " (" +
                       number_text(longest->at("duration_ns"), Unit::kNanoseconds) + "): its longest stretches", {},
                   {{"at_ns", "rank", "time_spent_on", "lasts_ns", "call"}, {}}};
  std::vector<size_t> rows(all->rows.size());
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = i;
  std::stable_sort(rows.begin(), rows.end(), [&](size_t a, size_t b) {
    return all->at(a, "duration_ns").number() > all->at(b, "duration_ns").number();
  });
  const int64_t* first = longest->at("start_ns").integer();
  for (const size_t i : rows) {
    const int64_t* start = all->at(i, "start_ns").integer();
    const std::string_view kind = text_at(*all, i, "kind");
    part.table.rows.push_back({first && start ? Value(*start - *first) : Value(), all->at(i, "rank"),
                               kind == "communication" ? "transfer" : words(kind), all->at(i, "duration_ns"),
                               text_at(*all, i, "call")});
  }
  return part;
}

ClusterPart what_if_part(const Table& all) {
  ClusterPart part{"What if", {}, {{"a_step", "would_take_ns", "saved_ns", "of_step_pct"}, {}}};
  bool bounds = false;
  for (size_t i = 0; i < all.rows.size(); ++i) {
    const bool* bound = all.at(i, "lower_bound").boolean();
    bounds |= bound && *bound;
    part.table.rows.push_back({change_words(text_at(all, i, "change"), all.at(i, "ranks").list()) + (bound && *bound ? ", at most" : ""),
                               all.at(i, "step_ns"), all.at(i, "saved_ns_per_step"), all.at(i, "saved_pct")});
  }
  if (bounds) part.sentences.push_back("At most: not all ranks of all collectives are in the input.");
  return part;
}

// Columns of which no row says anything.
void drop_unknown(Table& table) {
  for (size_t c = table.columns.size(); c-- > 0;) {
    const auto at = static_cast<ptrdiff_t>(c);
    const auto unknown = [&](const std::vector<Value>& row) { return row[c].is_null() || (row[c].text() && row[c].text()->empty()); };
    if (table.rows.empty() || !std::all_of(table.rows.begin(), table.rows.end(), unknown)) continue;
    table.columns.erase(table.columns.begin() + at);
    for (std::vector<Value>& row : table.rows) row.erase(row.begin() + at);
  }
}

}  // namespace

std::vector<ClusterPart> cluster_parts(const Report& report, size_t most) {
  if (report.ranks.size() < 2) return {};
  const Table &late = cluster_table(report, "stragglers"), &ways = cluster_table(report, "parallelism");
  std::vector<ClusterPart> all{ranks_part(report, most)};
  const size_t apart = most > 0 ? std::min(most, late.rows.size()) : late.rows.size();
  for (size_t i = 0; i < apart; ++i) all.push_back(side_by_side_part(late, i));
  all.push_back(by_turns_part(cluster_field(report, "late_by_turns")));
  all.push_back(what_if_part(cluster_table(report, "what_if")));
  if (const Record* path = cluster_field(report, "critical_path").record()) {
    all.push_back(path_part(*path));
    all.push_back(longest_step_part(*path));
  }
  all.push_back(parallelism_part(ways));
  all.push_back(stages_part(ways));
  all.push_back(collectives_part(cluster_table(report, "collectives")));
  all.push_back(pairs_part(cluster_table(report, "pairs")));
  all.push_back(clocks_part(report, cluster_table(report, "clocks")));
  std::erase_if(all, [](const ClusterPart& part) { return part.table.rows.empty() && part.sentences.empty(); });
  for (ClusterPart& part : all) drop_unknown(part.table);
  return all;
}

}  // namespace profgpu
