#include "present/parallelism_text.h"

#include <optional>

#include "present/overview.h"
#include "present/wording.h"
#include "report/quantity.h"

namespace profgpu {
namespace {

std::optional<double> known(const Record& detail, std::string_view field) {
  const Value& value = detail.at(field);
  return value.is_null() ? std::nullopt : std::optional(value.number());
}

std::string counted(double count, const std::string& one, const std::string& many) {
  return format_number(count) + " " + (count == 1 ? one : many);
}
std::string counted(double count, const std::string& one) { return counted(count, one, one + "s"); }

std::string buckets_text(const Record& detail) {
  const auto count = known(detail, "buckets_per_step");
  if (!count || *count <= 0) return {};
  std::string text = counted(*count, "bucket") + " a step";
  if (const auto median = known(detail, "median_bucket_bytes")) text += " of " + format_bytes(*median);
  const auto least = known(detail, "smallest_bucket_bytes"), most = known(detail, "largest_bucket_bytes");
  if (least && most && *least != *most) text += " (" + format_bytes(*least) + " to " + format_bytes(*most) + ")";
  if (const auto delay = known(detail, "first_bucket_delay_ns"))
    text += "; the first starts " + format_duration(*delay) + " into the backward pass";
  if (const auto tail = known(detail, "last_bucket_tail_ns"); tail && *tail > 0)
    text += "; the last ends " + format_duration(*tail) + " after the last compute beside it";
  return text;
}

std::string passes_text(const Record& detail) {
  const auto all = known(detail, "micro_batches_per_step"), reduced = known(detail, "reduced_micro_batches_per_step");
  std::string text;
  if (all && reduced && *all > 1)
    text = format_number(*all) + " backward passes a step, gradients reduced in " + format_number(*reduced);
  if (const auto without = known(detail, "steps_without_reduction"); without && *without > 0)
    text += (text.empty() ? "" : "; ") + plural(static_cast<int64_t>(*without), "step", "steps") + " without reduction";
  return text;
}

std::string gathers_text(const Record& detail) {
  const auto count = known(detail, "gathers_per_step");
  if (!count || *count <= 0) return {};
  std::string text = counted(*count, "gather") + " of parameters a step";
  if (const bool* again = detail.at("gathered_again_in_backward").boolean(); again && *again)
    text += ", again in the backward pass";
  const auto late = known(detail, "late_gathers_per_step");
  if (late && *late > 0)
    text += "; " + format_number(*late) + " begin with no compute beside them, " +
            format_duration(known(detail, "late_gathers_ns_per_step").value_or(0)) + " a step";
  else if (late && *count > 1) text += ", all but the first prefetched";
  return text;
}

std::string pipeline_text(const Record& detail) {
  const auto bubble = known(detail, "bubble_pct");
  if (!bubble) return {};
  std::string text = format_value(detail.at("stages"), Unit::kNone) + " stages, bubble " + format_percent(*bubble) + " of a step";
  if (const auto ideal = known(detail, "ideal_bubble_pct"))
    text += ", " + format_percent(*ideal) + " in 1F1B with equal stages and " +
            counted(known(detail, "micro_batches_per_step").value_or(0), "micro-batch", "micro-batches");
  return text;
}

std::string shape_text(const Record& detail) {
  std::string text;
  const auto say = [&](const std::string& words) { text += (text.empty() ? "" : "; ") + words; };
  if (const auto hosts = known(detail, "hosts_per_group"); hosts && *hosts > 1)
    say("each group spans " + format_number(*hosts) + " hosts");
  if (const auto replicas = known(detail, "replica_group_size"))
    say("replicas in groups of " + format_number(*replicas));
  if (const auto spread = known(detail, "bytes_spread_pct"); spread && *spread >= 1)
    say("ranks differ by " + format_percent(*spread) + " in bytes");
  if (const std::string* by = detail.at("told_by").text(); by && *by == "pattern")
    say("told by the pattern of calls, not by names");
  return text;
}

}  // namespace

std::string parallelism_text(const Table& ways, size_t row) {
  std::string text(text_at(ways, row, "words"));
  const Record* detail = ways.at(row, "detail").record();
  if (!detail) return text;
  for (const std::string& more : {pipeline_text(*detail), buckets_text(*detail), passes_text(*detail),
                                  gathers_text(*detail), shape_text(*detail)})
    if (!more.empty()) text += "; " + more;
  return text;
}

}  // namespace profgpu
