// Where the time of one analysis goes: prints JSON with seconds for reading, linking, analysing (and what rules say of
// the rank alone), diagnosing the whole and presenting, and the size of the trace in memory. Reading ends when the
// importer has asked for its last piece of the file; what follows is linking. `without-work`: as if no operator had work
// and no device a limit.
#include <malloc.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "analyse/rank/distance.h"
#include "analyse/rank/roofline.h"
#include "analyse/rank/work.h"
#include "app/gather/job_report.h"
#include "trace/import/importer.h"
#include "view/registry.h"

using Clock = std::chrono::steady_clock;

static double seconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// What the work of operators and the limits of devices are made of, with nothing in it.
static void provide_no_work(profgpu::Facts& facts) {
  const profgpu::Trace& trace = facts.trace();
  profgpu::OpWorks of_ops;
  of_ops.known.emplace_back();
  of_ops.of_host.resize(trace.host.size());
  facts.provide(std::move(of_ops));
  profgpu::DeviceWork of_device;
  of_device.run_of.assign(trace.activity.size(), profgpu::DeviceWork::kNone);
  of_device.by_name.assign(trace.strings.size(), profgpu::Precision::kUnknown);
  facts.provide(std::move(of_device));
  facts.provide(profgpu::RunLimits());
  facts.provide(profgpu::Roofline());
  facts.provide(profgpu::TileBounds());
  facts.provide(profgpu::WorkPerStep());
  facts.provide(profgpu::Distance());
}

int main(int count, char** words) {
  if (count < 2) return std::fprintf(stderr, "usage: stages TRACE [THREADS [without-work]]\n"), 2;
  mallopt(M_MMAP_THRESHOLD, 256 << 10);   // as profgpu does
  const Clock::time_point begin = Clock::now();
  Clock::time_point last_piece = begin;
  profgpu::ImportOptions options;
  options.threads = count > 2 ? std::atoi(words[2]) : 0;
  options.progress = [&](int64_t, int64_t) { last_piece = Clock::now(); };
  auto imported = profgpu::import_file(words[1], options);
  if (!imported) return std::fprintf(stderr, "stages: %s\n", imported.error().message.c_str()), 1;
  const Clock::time_point linked = Clock::now();

  profgpu::Facts facts(imported->trace, {});
  if (count > 3 && std::string_view(words[3]) == "without-work") provide_no_work(facts);
  profgpu::JobRead read;
  read.ranks.push_back(profgpu::reduced(0, facts, {}, options.threads == 1 ? 1 : 2));
  const Clock::time_point analysed = Clock::now();

  const profgpu::Report report = profgpu::job_report(std::move(read), {});
  const Clock::time_point diagnosed = Clock::now();

  const std::string text = profgpu::presenters().front()->write(report, {});
  const Clock::time_point presented = Clock::now();
  fmt::print(
      "{{\"events\": {}, \"trace_bytes\": {}, \"read_s\": {:.6f}, \"link_s\": {:.6f}, \"analyse_s\": {:.6f}, "
      "\"diagnose_s\": {:.6f}, \"present_s\": {:.6f}, \"report_bytes\": {}}}\n",
      imported->trace.events, imported->trace.memory_bytes(), seconds(begin, last_piece), seconds(last_piece, linked),
      seconds(linked, analysed), seconds(analysed, diagnosed), seconds(diagnosed, presented), text.size());
}
