#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "compare/comparison.h"

namespace profgpu {
namespace {

/// Rows of one run that are compared as one.
struct Group {
  double calls = 0, variance = 0;
  StepSums ns;
  const Work* longest = nullptr;
  std::vector<const Work*> rows;

  void add(const Work& w) {
    calls += w.calls;
    variance += w.ns.stddev * w.ns.stddev;
    ns.mean += w.ns.mean;
    ns.steps = w.ns.steps;
    ns.stddev = std::sqrt(variance);
    if (!longest || w.ns.mean > longest->ns.mean) longest = &w;
    rows.push_back(&w);
  }
};

using Groups = std::map<std::string, Group>;
using Key = std::function<std::string(const Work&)>;

Groups grouped(const std::vector<const Work*>& rows, const Key& key) {
  Groups groups;
  for (const Work* w : rows)
    if (const std::string k = key(*w); !k.empty()) groups[k].add(*w);
  return groups;
}

Difference difference(const Group* before, const Group* after, std::string matched_by) {
  const Work& shown = before ? *before->longest : *after->longest;
  Difference d;
  d.name = shown.name;
  d.category = shown.category;
  d.matched_by = std::move(matched_by);
  if (after && after->longest->name != d.name) d.name_after = after->longest->name;
  if (before) d.calls_before = before->calls, d.before_ns = before->ns.mean;
  if (after) d.calls_after = after->calls, d.after_ns = after->ns.mean;
  judge(d, before ? before->ns : StepSums(), after ? after->ns : StepSums());
  if (!before) d.change = "added";
  if (!after) d.change = "gone";
  return d;
}

class Matcher {
 public:
  Matcher(const RunSummary& before, const RunSummary& after) {
    for (const Work& w : before.work) before_.push_back(&w);
    for (const Work& w : after.work) after_.push_back(&w);
  }

  void match(const Key& key, const char* matched_by) {
    const Groups before = grouped(before_, key), after = grouped(after_, key);
    std::vector<const Work*> done;
    for (const auto& [k, group] : before) {
      const auto other = after.find(k);
      if (other == after.end()) continue;
      found.push_back(difference(&group, &other->second, matched_by));
      done.insert(done.end(), group.rows.begin(), group.rows.end());
      done.insert(done.end(), other->second.rows.begin(), other->second.rows.end());
    }
    std::sort(done.begin(), done.end());
    for (auto* rows : {&before_, &after_})
      std::erase_if(*rows, [&](const Work* w) { return std::binary_search(done.begin(), done.end(), w); });
  }

  void rest(const Key& key) {
    for (const auto& [k, group] : grouped(before_, key)) found.push_back(difference(&group, nullptr, ""));
    for (const auto& [k, group] : grouped(after_, key)) found.push_back(difference(nullptr, &group, ""));
  }

  std::vector<Difference> found;

 private:
  std::vector<const Work*> before_, after_;
};

std::string by_name(const Work& w) { return w.name + '\0' + w.kind; }
std::string by_op_and_shapes(const Work& w) { return w.shapes.empty() ? "" : w.op + '\0' + w.shapes + '\0' + w.kind; }
std::string by_op(const Work& w) { return w.op.empty() ? "" : w.op + '\0' + w.kind; }

}  // namespace

void judge(Difference& d, const StepSums& before, const StepSums& after) {
  constexpr double kNoticeable = 0.02;   // without steps to tell chance by
  constexpr double kSameCalls = 0.005;
  const bool testable = before.steps > 1 && after.steps > 1;
  if (testable) d.real = differs(before, after);
  const double larger = std::max(d.before_ns, d.after_ns);
  const bool changed = testable ? *d.real : std::abs(d.delta_ns()) > kNoticeable * larger;
  d.change = "same";
  if (!changed) return;
  d.change = d.delta_ns() > 0 ? "slower" : "faster";
  if (d.calls_before <= 0 || d.calls_after <= 0 || d.before_ns <= 0) return;
  // More of the same: the calls explain most of the change.
  const double calls = d.calls_after / d.calls_before;
  if (std::abs(calls - 1) <= kSameCalls) return;
  const double each = (d.after_ns / d.calls_after) / (d.before_ns / d.calls_before);
  if (std::abs(std::log(calls)) > std::abs(std::log(each))) d.change = calls > 1 ? "more_calls" : "fewer_calls";
}

std::vector<Difference> matched_work(const RunSummary& before, const RunSummary& after) {
  Matcher matcher(before, after);
  matcher.match(by_name, "name");
  matcher.match(by_op_and_shapes, "op and shapes");
  matcher.match(by_op, "op");
  matcher.rest(by_name);
  return std::move(matcher.found);
}

}  // namespace profgpu
