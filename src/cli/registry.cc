// Every command, in the order of `profgpu --help`.
#include "cli/command.h"

namespace profgpu {

extern const Command kAnalyze, kDiff, kBaseline, kHistory, kQuery, kExport, kMerge, kNcuCommand, kRun, kAttach, kTop,
    kStat, kLog, kExporter, kMonitor, kPick, kDevices, kDoctor, kBench, kDemo, kMcp, kExplain, kRules, kFormats, kHelp,
    kCompletion, kManpage;

const std::vector<const Command*>& commands() {
  static const std::vector<const Command*> kAll = {
      &kAnalyze, &kDiff, &kBaseline, &kHistory, &kQuery,    &kExport,  &kMerge,   &kNcuCommand, &kRun,     &kAttach,
      &kTop,     &kStat, &kLog,      &kExporter, &kMonitor, &kPick,    &kDevices, &kDoctor,  &kBench,
      &kDemo,    &kMcp,  &kExplain, &kRules, &kFormats, &kHelp,     &kCompletion, &kManpage};
  return kAll;
}

const Command* find_command(std::string_view name) {
  for (const Command* c : commands())
    if (c->name == name) return c;
  return nullptr;
}

}  // namespace profgpu
