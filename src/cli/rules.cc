// profgpu rules, profgpu explain RULE.
#include <fmt/format.h>

#include <algorithm>

#include "analyse/rules/rule.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/words.h"

namespace profgpu {
namespace {

constexpr int kRulesWidth = 88;

std::vector<std::string> rule_ids() {
  std::vector<std::string> ids;
  for (const Rule* r : rules()) ids.emplace_back(r->id);
  return ids;
}

Outcome finish(const std::string& text) {
  if (auto written = write_stdout(text); !written) return Outcome::failed(written.error());
  return {};
}

std::string threshold_text(const Rule& rule) {
  if (rule.unit.empty()) return fmt::format("{}", rule.threshold);
  return fmt::format("{} {}", rule.threshold, rule.unit);
}

Outcome list_rules(const Arguments&) {
  size_t widest = 0;
  for (const Rule* r : rules()) widest = std::max(widest, r->id.size());
  std::string out;
  for (const Rule* r : rules()) out += fmt::format("{:<{}}  {}\n", r->id, widest, r->summary);
  return finish(out + "\nNext: profgpu explain RULE\n");
}

Outcome explain(const Arguments& arguments) {
  const std::string& id = arguments.positional.front();
  const Rule* rule = find_rule(id);
  if (!rule) {
    const std::string near = nearest(id, rule_ids());
    return Outcome::usage({"there is no rule \"" + id + "\"",
                           near.empty() ? "`profgpu rules` lists them" : "did you mean " + near + "?"});
  }
  std::string out = fmt::format("{}: {}\n\n", rule->id, rule->summary);
  out += wrap(rule->meaning, kRulesWidth, "") + "\nHow it is computed\n" + wrap(rule->computation, kRulesWidth, "  ");
  out += fmt::format("  Default threshold: {}; change it with --threshold {}=VALUE.\n\nWhat to change, best first\n",
                     threshold_text(*rule), rule->id);
  for (std::string_view advice : rule->advice) out += wrap(advice, kRulesWidth, "  - ");
  return finish(out + fmt::format("\nNext: profgpu analyze PATH --section findings   ·   profgpu rules\n"));
}

}  // namespace

extern const Command kRules, kExplain;

const Command kRules{
    .name = "rules",
    .summary = "list the rules that findings come from",
    .positional = "",
    .examples = {{"profgpu rules", "one line for each rule"}},
    .run = list_rules,
};

const Command kExplain{
    .name = "explain",
    .summary = "what a rule means, how it is computed, what to change",
    .positional = "RULE",
    .positional_help = "a rule's name, as findings show it",
    .examples = {{"profgpu explain data-loading-bound", "why the GPU waits for input, and every way out"}},
    .candidates = rule_ids,
    .run = explain,
};

}  // namespace profgpu
