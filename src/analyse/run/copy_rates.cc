#include "analyse/run/copy_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/statistics.h"

namespace profgpu {
namespace {

constexpr double kSlowPart = 0.7, kMostSlow = 0.5;   // as large a part is by design: of two sockets, one is far
// In the others many copies share a link at once.
constexpr std::array<std::string_view, 5> kOneByOne = {"host_to_device", "device_to_host", "device_to_device",
                                                       "device_local_copy", "host_device_latency"};

bool one_by_one(const CopyMatrix& m) {
  return std::ranges::any_of(kOneByOne, [&](std::string_view begin) { return m.test.starts_with(begin); });
}

std::vector<double> values_of(const CopyMatrix& m) {
  std::vector<double> values;
  for (const auto& row : m.rows)
    for (const auto& value : row)
      if (value && *value > 0) values.push_back(*value);
  std::ranges::sort(values);
  return values;
}

// "GPU(row) -> GPU(column)", "CPU(row) <-> GPU(column)"; a local copy names no row.
std::string place_name(const CopyMatrix& m, std::string_view which, size_t index) {
  const size_t at = m.description.find(which);
  const bool host = at != m.description.npos && at >= 3 && m.description.compare(at - 3, 3, "CPU") == 0;
  return host ? "CPU" : "GPU " + std::to_string(index);
}

CopyRow row_of(const CopyMatrix& m, const std::vector<double>& values) {
  CopyRow row;
  row.test = m.test, row.description = m.description, row.unit = m.is_latency() ? "ns" : "GB/s";
  row.rows = static_cast<int64_t>(m.rows.size());
  row.columns = m.rows.empty() ? 0 : static_cast<int64_t>(m.rows.front().size());
  row.pairs = static_cast<int64_t>(values.size());
  row.sum = m.sum;
  if (values.empty()) return row;
  double sum = 0;
  for (const double v : values) sum += v;
  if (!row.sum) row.sum = sum;
  row.min = values.front(), row.max = values.back(), row.median = percentile_of_sorted(values, 50);
  return row;
}

void add_slow(const CopyMatrix& m, const std::vector<double>& values, const std::string& place,
              std::vector<SlowPair>& out) {
  if (values.size() < 2 || !one_by_one(m)) return;
  const bool latency = m.is_latency();
  const double usual = percentile_of_sorted(values, latency ? 25 : 75);
  const auto is_slow = [&](double v) { return latency ? v * kSlowPart > usual : v < kSlowPart * usual; };
  const auto slow = std::ranges::count_if(values, is_slow);
  if (static_cast<double>(slow) >= kMostSlow * static_cast<double>(values.size())) return;
  const bool local = m.description.find("(row)") == m.description.npos;
  for (size_t r = 0; r < m.rows.size(); ++r)
    for (size_t c = 0; c < m.rows[r].size(); ++c)
      if (const auto& v = m.rows[r][c]; v && *v > 0 && is_slow(*v)) {
        const std::string to = place_name(m, "(column)", c);
        out.push_back({m.test, local ? to : place_name(m, "(row)", r), to, *v, usual, m.line, place});
      }
}

// Several hosts may have printed into one log.
std::string place_of(const CopyMatrix& m, const std::vector<CopyMatrix>& all) {
  if (!m.node.empty()) return " on " + m.node;
  const bool one = std::ranges::count(all, m.test, &CopyMatrix::test) < 2;
  return one || m.line <= 0 ? "" : fmt::format(" in the table at line {}", m.line);
}

}  // namespace

CopyReport copy_report(const std::vector<CopyMatrix>& matrices) {
  constexpr size_t kMostCells = 100'000;
  CopyReport out;
  for (const CopyMatrix& m : matrices) {
    const std::vector<double> values = values_of(m);
    out.tests.push_back(row_of(m, values));
    add_slow(m, values, place_of(m, matrices), out.slow);
    for (size_t r = 0; r < m.rows.size(); ++r)
      for (size_t c = 0; c < m.rows[r].size() && out.cells.size() < kMostCells; ++c)
        if (m.rows[r][c]) out.cells.push_back({m.test, static_cast<int64_t>(r), static_cast<int64_t>(c), *m.rows[r][c]});
  }
  const auto part = [](const SlowPair& p) { return std::min(p.value, p.usual) / std::max(p.value, p.usual); };
  std::ranges::stable_sort(out.slow, {}, part);
  return out;
}

std::string common_device(const std::vector<SlowPair>& pairs) {
  std::set<std::string> common, ends;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const std::set<std::string> of = {pairs[i].from, pairs[i].to};
    ends.insert(of.begin(), of.end());
    if (i == 0) common = of;
    std::erase_if(common, [&](const std::string& name) { return !of.contains(name); });
  }
  common.erase("CPU");
  return common.size() == 1 && ends.size() > 2 ? *common.begin() : "";
}

}  // namespace profgpu
