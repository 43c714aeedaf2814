#include "mcp/prompts.h"

#include <fmt/format.h>

#include <vector>

#include "analyse/report/document.h"

namespace profgpu {
namespace {

struct Prompt {
  std::string_view name, title, help;
  std::vector<std::pair<std::string_view, std::string_view>> arguments;   ///< each is needed: name, what it is
  std::string_view text;
};

const std::vector<Prompt>& prompts() {
  static const std::vector<Prompt> all = {
      {"diagnose_run", "Diagnose this run", "Find out why a run is slow, and what to change first.",
       {{"path", "a trace, a recording, or the folder of a job"}},
       "Find out why this run is slow: {path}\n\n"
       "1. Call open_run with that path. Quote the verdict.\n"
       "2. If verdict_kind is inconclusive, say what to record, and stop.\n"
       "3. Call findings. For the most expensive one read its evidence and where, open those lines of code, and call "
       "explain with its rule.\n"
       "4. Use section and sql only for questions that are still open.\n"
       "5. Answer with: the cause, its cost per step, the lines to change and the change itself, and how to check it: "
       "record again and call diff. Give only numbers that a tool reported; null means unknown."},
      {"did_it_help", "Did it help?", "Compare a run before a change with one after it.",
       {{"before", "the run before the change"}, {"after", "the run after it"}},
       "Did the change help? Before: {before}\nAfter: {after}\n\n"
       "1. Call diff with both. verdict says faster, slower or no_difference; ratio_low and ratio_high are a 95 % "
       "interval.\n"
       "2. If there is no difference, say how small a change these runs could have shown (resolution_pct) and how many "
       "steps it would take (steps_needed).\n"
       "3. Explain the difference by the waterfall, and by part kernels or ops where it is about them.\n"
       "4. Name findings that are new or gone. Read notes: they say what makes the runs hard to compare.\n"
       "5. Answer in a few sentences, then the next change worth trying: call findings on the run after."}};
  return all;
}

}  // namespace

List prompt_list() {
  List list;
  for (const Prompt& p : prompts()) {
    List arguments;
    for (const auto& [name, help] : p.arguments)
      arguments.emplace_back(Record().add("name", name).add("description", help).add("required", true));
    list.emplace_back(Record()
                          .add("name", p.name)
                          .add("title", p.title)
                          .add("description", p.help)
                          .add("arguments", std::move(arguments)));
  }
  return list;
}

Result<Record> prompt_of(std::string_view name, const Record& arguments) {
  const Prompt* prompt = first_where(prompts(), [&](const Prompt& p) { return p.name == name; });
  if (prompt == nullptr) return Error{"there is no prompt \"" + std::string(name) + "\""};
  std::string text(prompt->text);
  for (const auto& [argument, help] : prompt->arguments) {
    const std::string* value = arguments.at(argument).text();
    if (value == nullptr) return Error{fmt::format("{} is missing: {}", argument, help)};
    const std::string mark = fmt::format("{{{}}}", argument);
    text.replace(text.find(mark), mark.size(), *value);
  }
  const Record content = Record().add("type", "text").add("text", text);
  const Record message = Record().add("role", "user").add("content", content);
  return Record().add("description", prompt->help).add("messages", List{message});
}

}  // namespace profgpu
