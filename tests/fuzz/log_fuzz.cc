// Any bytes as a log: however they are cut into pieces, the reader sees the same; and a file of them can be reported
// on.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "analyse/run/log_report.h"
#include "tests/fuzz/whole_report.h"
#include "trace/import/log/log_reader.h"

namespace {

using namespace profgpu;

RunLog log_in_pieces(std::string_view text, size_t piece) {
  LogReader reader;
  for (size_t at = 0; at < text.size(); at += piece) {
    std::string padded(text.substr(at, piece));
    const size_t size = padded.size();
    padded.append(64, '\0');
    reader.feed({padded.data(), size});
  }
  reader.end();
  return reader.log();
}

void check_log(const RunLog& log) {
  for (const LogRank& r : log.ranks) {
    require(!r.steps.empty() || !r.timers.empty() || r.untimed > 0, "a process of a log said something");
    for (const LogStep& s : r.steps) {
      require(s.duration_ns && *s.duration_ns >= 0 && s.iterations >= 1, "a step of a log has a time");
      require(s.start_ns >= 0 && s.whole_ns() >= 0, "a step of a log lies on its clock");
    }
  }
  require(std::ranges::is_sorted(log.events, {}, &LogEvent::line), "events of a log are in order");
}

void compare(const RunLog& a, const RunLog& b) {
  require(a.lines == b.lines && a.records == b.records, "pieces do not change the lines");
  require(a.ranks.size() == b.ranks.size() && a.events.size() == b.events.size(), "pieces do not change the rows");
  for (size_t i = 0; i < a.ranks.size(); ++i)
    require(a.ranks[i].steps.size() == b.ranks[i].steps.size(), "pieces do not change the steps");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const RunLog whole = log_in_pieces(text, std::max<size_t>(size, 1));
  check_log(whole);
  compare(whole, log_in_pieces(text, 7 + size % 61));
  const LogReport report = log_report(std::make_shared<const RunLog>(whole));
  require(report.throughput.lines >= report.throughput.warmup_lines, "warm-up is a part of the lines");
  static const int file = memfd_create("fuzz", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (ftruncate(file, 0) != 0 || pwrite(file, data, size, 0) != static_cast<ssize_t>(size)) return 0;
  report_on(path);
  return 0;
}
