// Every command, in the order of `profgpu --help`.
#include <algorithm>

#include "cli/command.h"

namespace profgpu {

extern const Command kAnalyze, kDiff, kBaseline, kHistory, kQuery, kExport, kMerge, kNcuCommand, kRun, kAttach, kTop,
    kStat, kLog, kExporter, kMonitor, kPick, kDevices, kDoctor, kBench, kDemo, kMcp, kExplain, kRules, kFormats, kHelp,
    kCompletion, kManpage;

const std::vector<const Command*>& commands() {
  static const std::vector<const Command*> kAll = {
      &kAnalyze, &kDiff,  &kBaseline, &kHistory, &kQuery,   &kExport,  &kMerge, &kNcuCommand,
#ifdef PROFGPU_COLLECT   // src/collect.cmake
      &kRun,     &kAttach, &kTop,     &kStat,    &kLog,     &kExporter, &kMonitor,
      &kPick,    &kDevices, &kDoctor, &kBench,
#endif
      &kDemo,    &kMcp,   &kExplain,  &kRules,   &kFormats, &kHelp,    &kCompletion,
      &kManpage};
  return kAll;
}

bool is_left_out(std::string_view name) {
#ifdef PROFGPU_COLLECT
  (void)name;
  return false;
#else
  constexpr std::string_view kCollecting[] = {"run",     "attach", "top",     "stat",   "log",  "exporter",
                                              "monitor", "pick",   "devices", "doctor", "bench", "--"};
  return std::ranges::count(kCollecting, name) > 0;
#endif
}

const Command* find_command(std::string_view name) {
  for (const Command* c : commands())
    if (c->name == name) return c;
  return nullptr;
}

}  // namespace profgpu
