#include "analyse/run/link_rates.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "analyse/report/document.h"
#include "base/statistics.h"

namespace profgpu {
namespace {

constexpr int64_t kSmall_bytes = 64 << 10;

std::optional<double> median_figure(const std::vector<const LinkRate*>& all, std::optional<double> LinkRate::*figure) {
  std::vector<double> values;
  for (const LinkRate* r : all)
    if (r->*figure) values.push_back(*(r->*figure));
  if (values.empty()) return std::nullopt;
  return median_of(values);
}

}  // namespace

std::vector<LinkRow> link_rows(const std::vector<LinkRate>& rates) {
  std::map<std::tuple<std::string, int, std::string, int64_t, bool>, std::vector<const LinkRate*>> groups;
  for (const LinkRate& r : rates) groups[{r.op, r.ranks, r.dtype, r.bytes, r.in_place}].push_back(&r);
  std::vector<LinkRow> rows;
  for (const auto& [key, all] : groups) {
    LinkRow& row = rows.emplace_back();
    const LinkRate& first = *all.front();
    row.op = first.op, row.dtype = first.dtype, row.ranks = first.ranks, row.in_place = first.in_place;
    row.bytes = first.bytes;
    std::vector<int64_t> times;
    for (const LinkRate* r : all) {
      times.push_back(r->time_ns);
      row.measurements += std::max<int64_t>(r->calls, 1);
      if (r->wrong) row.wrong = row.wrong.value_or(0) + *r->wrong;
    }
    row.time_ns = whole_ns(percentile(times, 50).value_or(0));
    row.algbw_gbps = median_figure(all, &LinkRate::algbw_gbps);
    row.busbw_gbps = median_figure(all, &LinkRate::busbw_gbps);
  }
  return rows;
}

std::vector<LinkSummary> link_summaries(const std::vector<LinkRow>& rows) {
  std::vector<LinkSummary> all;
  std::map<std::pair<std::string, int64_t>, std::vector<const LinkRow*>> by_op;
  for (const LinkRow& r : rows) by_op[{r.op, r.ranks}].push_back(&r);
  for (const auto& [key, of_op] : by_op) {
    LinkSummary& s = all.emplace_back();
    s.op = key.first, s.ranks = key.second;
    double sum = 0;
    int64_t counted = 0, smallest = INT64_MAX;
    for (const LinkRow* r : of_op) {
      smallest = std::min(smallest, r->bytes);
      s.wrong += r->wrong.value_or(0);
      if (r->bytes <= kSmall_bytes && r->time_ns > 0 && r->time_ns < s.latency_ns.value_or(INT64_MAX))
        s.latency_ns = r->time_ns;
      if (!r->busbw_gbps) continue;
      sum += *r->busbw_gbps, ++counted;
      if (*r->busbw_gbps > s.peak_busbw_gbps.value_or(-1)) s.peak_busbw_gbps = r->busbw_gbps;
    }
    if (counted > 0) s.mean_busbw_gbps = sum / static_cast<double>(counted);
    int64_t half = INT64_MAX;
    for (const LinkRow* r : of_op)
      if (r->busbw_gbps && s.peak_busbw_gbps && *r->busbw_gbps >= *s.peak_busbw_gbps / 2)
        half = std::min(half, r->bytes);
    if (half != INT64_MAX && half > smallest) s.half_bytes = half;
  }
  return all;
}

std::string LinkSummary::text() const {
  std::string text = op.empty() ? "collectives" : op;
  std::ranges::replace(text, '_', '-');
  return ranks > 0 ? text + " over " + std::to_string(ranks) + " ranks" : text;
}

}  // namespace profgpu
