// profgpu rules, profgpu explain RULE, profgpu formats: what there is.
#include "cli/lists.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyse/report/text.h"
#include "analyse/rules/rule.h"
#include "app/export/run.h"
#include "app/words.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/glossary.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "cli/topics.h"
#include "trace/import/importer.h"
#include "view/registry.h"

namespace profgpu {
namespace {

constexpr int kRulesWidth = 88;
constexpr int kListWidth = 120;   // a line for each entry, if it fits

std::vector<std::string> rule_ids() {
  std::vector<std::string> ids;
  for (const Topic& t : topics()) ids.emplace_back(t.name);
  for (const Rule* r : rules()) ids.emplace_back(r->id);
  return ids;
}

// All that `explain` takes.
std::vector<std::string> explained() {
  std::vector<std::string> all = rule_ids();
  for (const GlossaryEntry& entry : glossary())
    for (const std::string_view term : pieces_of(entry.terms, ',')) all.emplace_back(without_blanks(term));
  return all;
}

Outcome list_rules(const Arguments&) {
  size_t widest = 0;
  for (const Rule* r : rules()) widest = std::max(widest, r->id.size());
  std::string out;
  for (const Rule* r : rules())
    out += wrap(r->summary, text_width(kListWidth), padded_right(std::string(r->id), static_cast<int>(widest) + 2));
  return write_text(out + "\nNext: profgpu explain RULE\n");
}

std::string word_list() {
  const int width = text_width(kRulesWidth);
  const std::string words = joined(glossary(), "; ", [](const GlossaryEntry& e) { return e.terms; });
  return "Words of reports\n" + wrap(words, width, "  ") + "\nFrameworks\n" +
         wrap(joined(topics(), ", ", [](const Topic& t) { return t.name; }), width, "  ") +
         "\nRules: `profgpu rules` lists them\n\nNext: profgpu explain WORD\n";
}

Outcome explain(const Arguments& arguments) {
  if (arguments.positional.empty()) return write_text(word_list());
  const auto text = explanation(joined(arguments.positional, " "));
  return text ? Outcome(write_text(*text)) : Outcome::usage(text.error());
}

Outcome list_formats(const Arguments&) {
  size_t width = 0;
  for (const Importer* i : importers()) width = std::max(width, i->name.size());
  for (const Exporter* e : exporters()) width = std::max(width, e->name.size());
  std::string out = "Reads\n";
  const auto add = [&](std::string_view name, std::string_view summary) {
    out += wrap(summary, text_width(kListWidth), fmt::format("  {:<{}}  ", name, width));
  };
  for (const Importer* i : importers()) {
    add(i->name, i->summary);
    if (!i->examples.empty()) add("", fmt::format("files such as {}", i->examples));
  }
  out += "Writes\n";
  for (const Presenter* p : presenters()) add(p->name, p->summary);
  out += "Exports, with --to\n";
  for (const Exporter* e : exporters()) add(e->name, e->summary);
  return write_text(out + "\nNext: profgpu analyze PATH\n");
}

// "80 %", "4 per step", "any"
std::string threshold_text(const Rule& rule) {
  if (!rule.threshold_words.empty()) return std::string(rule.threshold_words);
  if (rule.threshold == 0 && !rule.below) return "0, so any";
  const std::string_view unit = rule.unit == "count" ? "" : rule.unit;
  return fmt::format("{}{}{}", rule.threshold, unit.empty() ? "" : " ", unit);
}

}  // namespace

Result<std::string> explanation(const std::string& id) {
  const int width = text_width(kRulesWidth);
  if (const Topic* topic = find_topic(id)) return topic_text(*topic, width);
  const Rule* rule = find_rule(id);
  if (const GlossaryEntry* entry = rule == nullptr ? find_in_glossary(id) : nullptr)
    return wrap(fmt::format("{}: {}", entry->terms, entry->meaning), width, "");
  std::string hyphenated = id;
  std::ranges::replace(hyphenated, ' ', '-');
  if (rule == nullptr) rule = find_rule(hyphenated);
  if (!rule)
    return Error{"there is no rule or word \"" + id + "\"",
                 did_you_mean(id, explained(), "`profgpu explain` lists words, `profgpu rules` lists rules")};
  std::string out = wrap(fmt::format("{}: {}", rule->id, rule->summary), width, "") + "\n";
  out += wrap(rule->meaning, width, "") + "\nHow it is computed\n" + wrap(rule->computation, width, "  ");
  out += fmt::format("  Default threshold: {}; change it with --threshold {}=VALUE.\n\nWhat to change, best first\n",
                     threshold_text(*rule), rule->id);
  for (std::string_view advice : rule->advice) out += wrap(advice, width, "  - ");
  if (!rule->by_framework.empty()) out += "\nBy framework, if the trace shows it\n";
  for (const FrameworkFix& f : rule->by_framework)
    out += wrap(fmt::format("{}: {}", framework_name(f.of), f.fix), width, "  - ");
  if (!rule->native_advice.empty()) out += "\nOf programs that use CUDA or HIP without a framework\n";
  for (const std::string_view advice : rule->native_advice) out += wrap(advice, width, "  - ");
  return out + "\nNext: profgpu analyze PATH --section findings   ·   profgpu rules\n";
}

extern const Command kRules, kExplain, kFormats;

const Command kRules{
    .name = "rules",
    .summary = "list the rules that findings come from",
    .examples = {{"profgpu rules", "one line for each rule"}},
    .run = list_rules,
};

const Command kExplain{
    .name = "explain",
    .summary = "explain a rule, or a term used in reports",
    .positional = "[WORD...]",
    .positional_help = "a rule's name, as findings show it; a word or abbreviation, such as MFU; or deepspeed. Without it: "
                       "a list of words",
    .examples = {{"profgpu explain data-loading-bound", "why the GPU waits for input, and every remedy"},
                 {"profgpu explain MFU", "what the word means"},
                 {"profgpu explain deepspeed", "what DeepSpeed's log shows, and which settings change the speed"}},
    .candidates = rule_ids,
    .run = explain,
};

const Command kFormats{
    .name = "formats",
    .summary = "list the formats that profgpu reads and writes",
    .examples = {{"profgpu formats", "one entry for each format"}},
    .run = list_formats,
};

}  // namespace profgpu
