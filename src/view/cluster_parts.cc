// The parts of a report beside a rank's sections: what the ranks of a job show together, and the steps of an inference
// engine.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "analyse/report/quantity.h"
#include "base/text.h"
#include "view/overview.h"
#include "view/wording.h"

namespace profgpu {
namespace {

Value path_of(std::optional<bool> spans_hosts) {
  return spans_hosts ? Value(*spans_hosts ? "network" : "one host") : Value();
}

ReportPart ranks_part(const Report& report, size_t most) {
  JobOverview job = job_overview(report);
  if (const size_t all = job.missing.size(); most > 0 && all > most) {
    job.missing.resize(most);
    const auto more = static_cast<int64_t>(all - most);
    job.missing.push_back(fmt::format("… and {} without all ranks", plural(more, "other call", "other calls")));
  }
  ReportPart part{job.title, job.missing, rank_table(report.standings)};
  part.sentences.insert(part.sentences.end(), job.notes.begin(), job.notes.end());
  return part;
}

// The metrics that a late rank was compared by; each has a unit of its own.
ReportPart side_by_side_part(const Straggler& late) {
  ReportPart part{fmt::format("Rank {} compared with the others: {}", late.rank, straggler_words(late.kind)), {},
                  {{"a_step's", fmt::format("rank {}", late.rank), "others'_median"}, {}}};
  if (late.together.size() > 1) part.sentences.push_back("late together: " + ranks_text(late.together));
  if (late.worst_step)
    part.sentences.push_back(fmt::format("late in {} of {} steps, most in step {}: {}", late.late_steps.size(),
                                         format_count(late.steps_measured), *late.worst_step,
                                         format_duration(static_cast<double>(late.worst_step_excess_ns))));
  part.sentences.insert(part.sentences.end(), late.evidence.begin(), late.evidence.end());
  for (const SideBySide& m : late.side_by_side)
    part.table.rows.push_back(
        {column_title(m.metric), cell_text(m.metric, m.late, {}), cell_text(m.metric, m.others_median, {})});
  return part;
}

ReportPart by_turns_part(const LateByTurns& late) {
  ReportPart part{"Rotating stragglers: " + straggler_words(late.kind),
                  {fmt::format("in {} steps the others wait {} per step ({}), each time for another rank",
                               format_count(late.steps_measured),
                               format_duration(static_cast<double>(late.wait_ns_per_step)),
                               format_percent(late.wait_pct))},
                  table_of(late.ranks)};
  part.sentences.insert(part.sentences.end(), late.evidence.begin(), late.evidence.end());
  return part;
}

// Ranks of one host share a clock: a row for all that do.
ReportPart clocks_part(const Report& report, const std::vector<RankClock>& clocks) {
  struct Row {
    std::vector<int> ranks;
    std::string_view host;
    RankClock clock;
  };
  std::vector<Row> rows;
  std::map<int, std::string_view> hosts;
  for (const RankReport& rank : report.ranks) hosts[rank.rank] = rank.host;
  for (const RankClock& c : clocks) {
    const std::string_view host = hosts[c.rank];
    const bool shared = !rows.empty() && !host.empty() && rows.back().host == host && c.method == "same host" &&
                        rows.back().clock.offset_ns == c.offset_ns && rows.back().clock.drift_ppm == c.drift_ppm;
    if (!shared) rows.push_back({{}, host, c});
    Row& row = rows.back();
    row.ranks.push_back(c.rank);
    if (row.clock.error_ns) row.clock.error_ns = std::max(*row.clock.error_ns, c.error_ns.value_or(0));
  }
  ReportPart part{"Clocks, against the first rank's", {},
                   {{"ranks", "host", "is_ahead_ns", "to_within_ns", "drift_ppm", "aligned_by"}, {}}};
  for (const Row& row : rows) {
    // The report says what to add to a rank's times.
    const auto ahead = [&](double offset) {
      return row.clock.method == "none" ? Value() : Value(offset == 0 ? 0 : -offset);
    };
    part.table.rows.push_back({number_ranges(row.ranks), unless_empty(row.host),
                               ahead(static_cast<double>(row.clock.offset_ns)), row.clock.error_ns,
                               ahead(row.clock.drift_ppm), row.clock.method});
  }
  return part;
}

std::string counted(double count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", format_number(count), count == 1 ? one : many);
}

std::string buckets_text(const GradientUse& g) {
  if (g.per_step <= 0) return {};
  std::string text = counted(g.per_step, "bucket", "buckets") + " per step";
  const auto bytes = [](int64_t n) { return format_bytes(static_cast<double>(n)); };
  const auto duration = [](int64_t ns) { return format_duration(static_cast<double>(ns)); };
  if (g.median_bytes) text += " of " + bytes(*g.median_bytes);
  if (g.smallest_bytes && g.largest_bytes && *g.smallest_bytes != *g.largest_bytes)
    text += fmt::format(" ({} to {})", bytes(*g.smallest_bytes), bytes(*g.largest_bytes));
  if (g.first_delay_ns) text += fmt::format("; the first starts {} into the backward pass", duration(*g.first_delay_ns));
  if (g.tail_ns > 0) text += fmt::format("; the last ends {} after the last overlapping compute", duration(g.tail_ns));
  return text;
}

std::string passes_text(const GradientUse& g) {
  std::string text;
  if (g.micro_batches_per_step > 1)
    text = fmt::format("{} backward passes per step, gradients reduced in {}", format_number(g.micro_batches_per_step),
                       format_number(g.reduced_passes_per_step));
  if (g.steps_without > 0) append_listed(text, plural(g.steps_without, "step", "steps") + " without reduction", "; ");
  return text;
}

std::string gathers_text(const GatherUse& g) {
  if (g.per_step <= 0) return {};
  std::string text = counted(g.per_step, "gather", "gathers") + " of parameters per step";
  if (g.backward_per_step > 0) text += ", again in the backward pass";
  if (g.late_per_step > 0)
    text += fmt::format("; {} begin without overlapping compute, {} per step", format_number(g.late_per_step),
                        format_duration(std::floor(g.late_ns_per_step)));
  else if (g.per_step > 1) text += ", all but the first prefetched";
  return text;
}

std::string pipeline_text(const Pipeline& p) {
  std::string text =
      fmt::format("{} stages, bubble {} of a step", format_value(p.stages, Unit::kNone), format_percent(p.bubble_pct));
  if (p.ideal_bubble_pct)
    text += fmt::format(", {} in 1F1B with equal stages and {}", format_percent(*p.ideal_bubble_pct),
                        counted(p.micro_batches.value_or(0), "micro-batch", "micro-batches"));
  return text;
}

std::string shape_text(const Parallelism& way) {
  std::string text;
  if (way.hosts_per_group && *way.hosts_per_group > 1)
    append_listed(text, fmt::format("each group spans {} hosts", format_count(*way.hosts_per_group)), "; ");
  if (way.replicas) append_listed(text, "replicas in groups of " + format_count(*way.replicas), "; ");
  if (way.exchanges() && way.bytes_spread_pct && *way.bytes_spread_pct >= 1)
    append_listed(text, fmt::format("ranks differ by {} in bytes", format_percent(*way.bytes_spread_pct)), "; ");
  if (!way.named) append_listed(text, "inferred from the pattern of calls, not from names", "; ");
  return text;
}

// "data parallel (DDP): gradients all-reduced in buckets; 5 buckets a step of 24.0 MiB; …"
std::string parallelism_text(const Parallelism& way) {
  std::string text = way.words();
  for (const std::string& more :
       {way.pipeline ? pipeline_text(*way.pipeline) : "", way.gradients ? buckets_text(*way.gradients) : "",
        way.gradients ? passes_text(*way.gradients) : "", way.gathers ? gathers_text(*way.gathers) : "",
        shape_text(way)})
    if (!more.empty()) text += "; " + more;
  return text;
}

ReportPart parallelism_part(const std::vector<Parallelism>& ways) {
  ReportPart part{"How the ranks share the work, for each step", {},
                   {{"", "groups", "calls", "moved_bytes", "takes_ns", "exposed_ns", "hidden_pct"}, {}}};
  for (const Parallelism& way : ways) {
    Value groups;
    if (way.group_size > 0) groups = format_count(way.groups) + " of " + plural(way.group_size, "rank", "ranks");
    part.table.rows.push_back({parallelism_name(way), groups, way.calls_per_step, way.bytes_per_step,
                               way.communication_ns_per_step, way.exposed_ns_per_step, way.overlap_pct()});
    part.sentences.push_back(parallelism_text(way));
  }
  return part;
}

// Stages of the first pipeline; a job has one.
ReportPart stages_part(const std::vector<Parallelism>& ways) {
  ReportPart part{"Pipeline stages", {}, {{"stage", "ranks", "bubble_ns", "of_step_pct", "peak_allocated_bytes"}, {}}};
  const auto way = std::find_if(ways.begin(), ways.end(),
                                [](const Parallelism& w) { return w.pipeline && !w.pipeline->by_stage.empty(); });
  if (way != ways.end())
    for (const Stage& s : way->pipeline->by_stage)
      part.table.rows.push_back(
          {s.stage, number_ranges(s.ranks), s.bubble_ns_per_step, s.bubble_pct, s.peak_allocated_bytes});
  return part;
}

ReportPart collectives_part(const std::vector<Traffic>& all) {
  ReportPart part{"Collectives by size, all ranks together", {},
                   {{"name", "ranks", "over", "calls", "message_bytes", "wait_ns", "transfer_ns", "busbw_gbps",
                     "of_link_pct"}, {}}};
  for (const Traffic& t : all)
    part.table.rows.push_back({t.name, only_if(t.group_size != 0, t.group_size), path_of(t.spans_hosts), t.calls,
                               t.message_bytes, t.median_wait_ns, t.transfer_ns, t.busbw_gbps, t.link_pct()});
  if (std::any_of(all.begin(), all.end(), [](const Traffic& t) { return t.wait_is_lower_bound(); }))
    part.sentences.push_back(
        "Some calls are without all ranks of their group: waits are lower bounds, rates are of complete calls.");
  return part;
}

ReportPart pairs_part(const std::vector<Pair>& all) {
  ReportPart part{"Sends from rank to rank, times of the mean call", {},
                   {{"from", "to", "over", "calls", "message_bytes", "receiver_waits_ns", "sender_waits_ns",
                     "transfer_ns", "rate_gbps"}, {}}};
  for (const Pair& p : all) {
    const auto mean = [&](int64_t sum) { return sum / std::max<int64_t>(p.calls, 1); };
    part.table.rows.push_back({p.from, p.to, path_of(p.spans_hosts), p.calls, p.message_bytes, mean(p.receiver_wait_ns),
                               mean(p.sender_wait_ns), mean(p.transfer_ns), p.bandwidth_gbps});
  }
  return part;
}

ReportPart path_part(const CriticalPath& path) {
  ReportPart part{"Critical path: the chain of work that sets the length of " + plural(path.steps, "step", "steps"),
                  {},
                  {{"time_spent_on", "total_ns", "of_steps_pct"}, {}}};
  for (const CriticalPath::Kind& k : path.by_kind)
    part.table.rows.push_back(
        {k.kind == LaneTime::kCommunication ? "transfers" : words(lane_time_name(k.kind)), k.ns, k.pct});
  std::string by_rank;
  constexpr size_t kFew = 6;
  for (size_t i = 0; i < std::min(path.by_rank.size(), kFew); ++i)
    if (const CriticalPath::Share& r = path.by_rank[i]; i == 0 || r.pct >= 1)
      append_listed(by_rank, fmt::format("{} on rank {}", format_percent(r.pct, 0), r.rank));
  if (!by_rank.empty()) part.sentences.push_back(by_rank);
  if (!path.ranks_without.empty()) part.sentences.push_back("not examined: " + ranks_text(path.ranks_without));
  return part;
}

ReportPart longest_step_part(const StepPath& step) {
  ReportPart part{fmt::format("The longest step, {} ({}): its longest segments", step.step,
                              format_duration(static_cast<double>(step.duration_ns))),
                  {},
                  {{"at_ns", "rank", "time_spent_on", "lasts_ns", "call"}, {}}};
  std::vector<PathSegment> segments = step.longest_segments();
  std::stable_sort(segments.begin(), segments.end(),
                   [](const PathSegment& a, const PathSegment& b) { return a.length_ns() > b.length_ns(); });
  for (const PathSegment& s : segments)
    part.table.rows.push_back({s.start_ns - step.start_ns, s.rank,
                               s.kind == LaneTime::kCommunication ? "transfer" : words(lane_time_name(s.kind)),
                               s.length_ns(), s.call});
  return part;
}

ReportPart what_if_part(const std::vector<WhatIf>& all) {
  ReportPart part{"What if", {}, {{"a_step", "would_take_ns", "saved_ns", "of_step_pct"}, {}}};
  for (const WhatIf& w : all)
    part.table.rows.push_back(
        {change_words(w) + (w.lower_bound ? ", at most" : ""), w.step_ns, w.saved_ns_per_step, w.saved_pct});
  if (std::any_of(all.begin(), all.end(), [](const WhatIf& w) { return w.lower_bound; }))
    part.sentences.push_back("At most: not all ranks of all collectives are in the input.");
  return part;
}

// Columns without a value.
void drop_unknown(Table& table) {
  for (size_t c = table.columns.size(); c-- > 0;) {
    const auto unknown = [&](const std::vector<Value>& row) {
      return row[c].is_null() || (row[c].text() && row[c].text()->empty());
    };
    if (!table.rows.empty() && std::all_of(table.rows.begin(), table.rows.end(), unknown)) drop_column(table, c);
  }
}

}  // namespace

Table rank_table(const std::vector<RankStanding>& ranks) {
  Table table{{"rank", "host", "mean_step_ns", "gpu_busy_pct", "in_mpi_pct", "most_in", ""}, {}};
  for (const RankStanding& r : ranks)
    table.rows.push_back({r.rank, unless_empty(r.host), r.step_ns, r.busy_pct, r.mpi_pct, unless_empty(r.mpi_function),
                          unless_empty(late_text(r))});
  return table;
}

ReportPart serving_part(const Serving& serving) {
  ReportPart part{"Engine steps", {}, {}};
  part.table.columns = {"kind", "count", "median_ns", "p95_ns", "sequences", "tokens", "tokens/s", "graphs"};
  for (const ServingKind& k : serving.kinds) {
    const auto whole = [](const std::optional<double>& mean) -> Value { return mean ? format_number(*mean) : Value(); };
    part.table.rows.push_back({step_kind_name(k.kind), k.count, whole_ns(k.median_ns), whole_ns(k.p95_ns),
                               whole(k.sequences), whole(k.tokens), whole(k.tokens_per_s),
                               k.graph_pct == 0 ? "none" : k.graph_pct == 100 ? "replayed" : format_percent(k.graph_pct)});
  }
  const auto say = [&](std::string text) { part.sentences.push_back(std::move(text)); };
  for (const ServingKind& k : serving.kinds) {
    std::string text;
    const auto least = [](bool is_least) { return is_least ? "at least " : ""; };
    if (k.flops_per_token)
      append_listed(text, fmt::format("{}{} GFLOP", least(k.flops_is_lower_bound),
                                      format_number(*k.flops_per_token / 1e9)));
    if (k.bytes_per_token)
      append_listed(text, least(k.bytes_is_lower_bound) + format_bytes(*k.bytes_per_token));
    if (!text.empty()) say(fmt::format("a token of {} steps needs {} on this GPU", step_kind_name(k.kind), text));
  }
  if (serving.token_interval_ns)
    say(fmt::format("a token every {}{} for each sequence", format_duration(*serving.token_interval_ns),
                    serving.speculative ? " or less" : ""));
  if (serving.tokens_per_s)
    say(fmt::format("{}{} generated tokens/s while the engine works{}", serving.speculative ? "at least " : "",
                    format_number(*serving.tokens_per_s),
                    serving.speculative ? ": a step checks drafted tokens and may accept several" : ""));
  if (serving.between_ns > 0) {
    std::string text = fmt::format("{} between steps, {} of the time", format_duration(serving.between_ns),
                                   format_percent(serving.between_pct));
    if (serving.no_requests_ns > 0)
      text += fmt::format(", {} without requests", format_duration(static_cast<double>(serving.no_requests_ns)));
    const bool all = 10 * serving.no_requests_ns > 9 * serving.between_ns;
    for (size_t i = 0; i < serving.between.size() && i < 3 && !all; ++i) {
      const Place& p = serving.between[i];
      text += fmt::format("{} {} {}", i == 0 ? ":" : ",", p.name, format_duration(static_cast<double>(p.ns)));
    }
    say(std::move(text));
  }
  return part;
}

std::vector<ReportPart> cluster_parts(const Report& report, size_t most) {
  if (report.job == nullptr) return {};
  const Job& job = *report.job;
  std::vector<ReportPart> all{ranks_part(report, most)};
  for (const Straggler& late : job.stragglers)
    if (most == 0 || all.size() <= most) all.push_back(side_by_side_part(late));
  if (job.late_by_turns) all.push_back(by_turns_part(*job.late_by_turns));
  all.push_back(what_if_part(job.what_if));
  if (job.critical_path.steps > 0) {
    all.push_back(path_part(job.critical_path));
    if (!job.critical_path.longest.segments.empty()) all.push_back(longest_step_part(job.critical_path.longest));
  }
  all.push_back(parallelism_part(job.parallelism));
  all.push_back(stages_part(job.parallelism));
  all.push_back(collectives_part(job.traffic));
  all.push_back(pairs_part(job.pairs));
  all.push_back(clocks_part(report, job.clocks));
  std::erase_if(all, [](const ReportPart& part) { return part.table.rows.empty() && part.sentences.empty(); });
  for (ReportPart& part : all) drop_unknown(part.table);
  return all;
}

}  // namespace profgpu
