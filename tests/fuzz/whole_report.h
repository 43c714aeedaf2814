// Reads a file, analyses and diagnoses it, and writes the report in every format. Aborts where a total does not hold.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "analyse/analysis.h"
#include "analyse/devices.h"
#include "analyse/idle.h"
#include "analyse/phases.h"
#include "analyse/replay.h"
#include "analyse/steps.h"
#include "diagnose/rule.h"
#include "import/importer.h"
#include "present/registry.h"

namespace profgpu {

inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "violated: %s\n", what);
  std::abort();
}

inline void check_totals(const Facts& facts) {
  const auto& devices = facts.get<Devices>().devices;
  const auto& idle = facts.get<Idle>().devices;
  for (size_t d = 0; d < devices.size(); ++d) {
    int64_t sum = 0;
    for (const int64_t ns : idle[d].total_ns) sum += ns;
    require(sum == devices[d].idle_ns, "idle causes add up to idle time");
    require(devices[d].busy_ns + devices[d].idle_ns == devices[d].span_ns, "busy and idle add up to the span");
  }
  int64_t phases = 0;
  for (const int64_t ns : facts.get<Phases>().wall_ns) phases += ns;
  require(phases == facts.get<Steps>().total_wall_ns(), "phases add up to the steps");
  require(facts.get<Replay>().saved_by({}) == 0, "a replay with nothing taken out is the recording");
}

inline void report_on(const std::string& path) {
  ImportOptions options;
  options.threads = 2;
  auto imported = import_file(path, options);
  if (!imported) {
    require(!imported.error().message.empty(), "an error has a message");
    return;
  }
  const Facts facts(imported->trace, {});
  check_totals(facts);
  Report report;
  RankReport rank;
  for (const Analysis* a : analyses()) rank.sections.push_back({std::string(a->name), "", a->show(facts)});
  report.ranks.push_back(std::move(rank));
  Evidence evidence;
  evidence.ranks = {{0, &facts}};
  report.findings = diagnose(evidence);
  report.checklist = checklist(evidence, report.findings);
  report.verdict = verdict(evidence, report.findings);
  for (const Presenter* presenter : presenters()) require(!presenter->write(report, {}).empty(), "a report has text");
}

}  // namespace profgpu
