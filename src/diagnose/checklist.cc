#include <fmt/format.h>

#include <algorithm>

#include "diagnose/rule.h"

namespace profgpu {
namespace {

// The lowest (or highest) value over the ranks that have one.
std::optional<double> worst(const Evidence& evidence, const ChecklistEntry& entry) {
  std::optional<double> result;
  if (entry.of_several && evidence.ranks.size() < 2) return result;
  for (const RankDiagnosis& r : evidence.ranks) {
    const std::optional<double> v = r.measure.has_device ? entry.value(r.measure) : std::nullopt;
    if (v && (!result || (entry.above ? *v < *result : *v > *result))) result = v;
  }
  return result;
}

Check measured_check(const Evidence& evidence, const ChecklistEntry& entry) {
  const std::optional<double> value = worst(evidence, entry);
  const std::string label(entry.label);
  Check c{std::string(entry.id), std::string(entry.question), Verdict::kUnknown, value, entry.limit, label};
  if (value) {
    c.verdict = (entry.above ? *value > entry.limit : *value < entry.limit) ? Verdict::kPass : Verdict::kFail;
    c.brief = fmt::format("{} {:.1f} % ({} {:.0f})", label, *value, entry.above ? "over" : "under", entry.limit);
  } else if (entry.of_several && evidence.ranks.size() < 2) {
    c.brief = label + " (one rank)";
  }
  return c;
}

}  // namespace

std::vector<Check> checklist(const Evidence& evidence, const std::vector<Finding>& findings) {
  const auto first = std::find_if(evidence.ranks.begin(), evidence.ranks.end(),
                                  [](const RankDiagnosis& r) { return r.measure.has_device; });
  std::vector<std::pair<const ChecklistEntry*, const Rule*>> entries;
  for (const Rule* rule : rules())
    for (const ChecklistEntry& entry : rule->checklist) entries.emplace_back(&entry, rule);
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.first->place < b.first->place; });
  std::vector<Check> list;
  for (const auto& [entry, rule] : entries) {
    if (entry->value != nullptr) {
      list.push_back(measured_check(evidence, *entry));
      continue;
    }
    const bool found = std::any_of(findings.begin(), findings.end(),
                                   [id = rule->id](const Finding& f) { return f.rule == id; });
    const Verdict said = first == evidence.ranks.end() ? Verdict::kUnknown : entry->judge(first->measure, found);
    list.push_back({std::string(entry->id), std::string(entry->question), said, {}, {}, std::string(entry->label)});
  }
  return list;
}

}  // namespace profgpu
