// Reads a file, analyses and diagnoses it, and writes the report in every format. Aborts where a total does not hold.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "analyse/job/report.h"
#include "analyse/rank/devices.h"
#include "analyse/rank/idle.h"
#include "analyse/rank/page.h"
#include "analyse/rank/phases.h"
#include "analyse/rank/replay.h"
#include "analyse/rank/steps.h"
#include "app/export/data_table.h"
#include "app/export/run.h"
#include "tests/support/diagnosed.h"
#include "trace/import/importer.h"
#include "view/registry.h"

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
  const Saving of_nothing = facts.get<Replay>().saved_by({});
  require(of_nothing.least_ns == 0 && of_nothing.most_ns == 0, "a replay with nothing taken out is the recording");
}

inline void export_all(const Facts& facts) {
  static const int nowhere = ::open("/dev/null", O_WRONLY);
  RunRows run;
  run.ranks.emplace_back(0, facts);
  if (!facts.trace().samples.empty()) run.samples = &facts.trace().samples;
  for (const Exporter* exporter : exporters()) {
    if (exporter->write == nullptr) continue;
    const std::vector<std::string> tables = exporter->tables != nullptr ? *exporter->tables(run) : std::vector<std::string>{""};
    for (const std::string& table : tables)
      for (const Weight weight : {Weight::kHost, Weight::kDevice}) {
        ByteWriter out(nowhere);
        require(static_cast<bool>(exporter->write(run, {weight, table}, out)), "whatever was read can be exported");
      }
  }
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
  report.ranks.push_back(rank_report(facts));
  report.ranks.back().collectives = facts.get<Collectives>().rows;
  compare_ranks(report);
  Diagnosis said = diagnosed(facts);
  report.findings = std::move(said.findings);
  report.checklist = std::move(said.checklist);
  report.verdict = std::move(said.verdict.text);
  report.verdict_kind = said.verdict.kind;
  auto page = make_page({{{0, &facts}}, {}, &imported->trace.samples}, {});
  require(static_cast<bool>(page), "there is a page");
  require((*page)->events_kept <= (*page)->events, "a page keeps events of the trace");
  report.page = *page;
  for (const Presenter* presenter : presenters()) require(!presenter->write(report, {}).empty(), "a report has text");
  export_all(facts);
}

/// A file in memory with these bytes: its path, or nothing where there is no room for it.
inline std::string file_of(const void* data, size_t size) {
  static const int file = memfd_create("fuzz", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  return ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == static_cast<ssize_t>(size) ? path : "";
}
inline void report_on_bytes(const void* data, size_t size) {
  if (const std::string path = file_of(data, size); !path.empty()) report_on(path);
}

}  // namespace profgpu
