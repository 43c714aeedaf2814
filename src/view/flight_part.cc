// What the flight recorders of NCCL say, in sentences and one table.
#include <fmt/format.h>

#include <algorithm>

#include "analyse/report/quantity.h"
#include "analyse/run/flight_report.h"
#include "base/text.h"
#include "view/overview.h"
#include "view/wording.h"

namespace profgpu {
namespace {

Value ranks_value(const std::vector<int>& ranks) { return ranks.empty() ? Value() : Value(ranks_text(ranks)); }

Table waits_table(const FlightReport& flight, size_t most) {
  Table table{{"call", "group", "waiting", "missing", "behind"}, {}};
  // The calls that suspects do not finish, then those in which most ranks wait.
  const auto of_suspect = [&](const FlightWait& w) {
    return std::ranges::any_of(flight.suspects, [&](const FlightSuspect& s) {
      return std::ranges::count(w.waiting, s.rank) + std::ranges::count(w.missing, s.rank) > 0 &&
             s.call.find(fmt::format("{} #{} ", w.name, w.sequence)) != std::string::npos;
    });
  };
  std::vector<FlightWait> waits = flight.waits;
  std::ranges::stable_sort(waits, std::greater(), [&](const FlightWait& w) {
    return std::pair(of_suspect(w), w.waiting.size());
  });
  for (const FlightWait& w : waits) {
    if (table.rows.size() >= most) break;
    table.rows.push_back({fmt::format("{} #{}, group {}", w.name, w.sequence, w.process_group),
                          w.description.empty() ? Value() : Value(w.description), ranks_value(w.waiting),
                          ranks_value(w.missing), ranks_value(w.behind)});
  }
  return table;
}

// "a.pickle is rank 0, b.pickle is rank 1, …"
std::string nameless_text(const FlightReport& flight) {
  constexpr size_t kMost = 8;
  std::string text;
  size_t named = 0;
  for (const auto& [rank, file] : flight.nameless)
    if (named++ < kMost) append_listed(text, fmt::format("{} is rank {}", file, rank), ", ");
  return named > kMost ? text + ", …" : text;
}

}  // namespace

ReportPart flight_part(const FlightReport& flight, size_t most) {
  ReportPart part{"NCCL flight recorder", {}, {}};
  std::string text = fmt::format("{} of {} ranks, {}", plural(flight.dumps, "dump", "dumps"),
                                 flight.world_size ? format_count(*flight.world_size) : "an unknown number of",
                                 plural(flight.open_calls, "open call", "open calls"));
  if (!flight.nccl_version.empty()) text += ", NCCL " + flight.nccl_version;
  part.sentences.push_back(std::move(text));
  if (!flight.without_dump.empty()) part.sentences.push_back("no dump of " + ranks_text(flight.without_dump));
  if (flight.dumps_left_out > 0)
    part.sentences.push_back(fmt::format("{} left out: older than others of the same ranks",
                                         plural(flight.dumps_left_out, "dump", "dumps")));
  if (!flight.nameless.empty())
    part.sentences.push_back(fmt::format("{} of unknown rank, numbered here: {}",
                                         plural(std::ssize(flight.nameless), "dump", "dumps"), nameless_text(flight)));
  if (!flight.hangs()) part.sentences.push_back("no rank waits in a collective");
  part.table = waits_table(flight, most);
  part.left_out = flight.waits.size() - part.table.rows.size();
  part.section = "hang";
  return part;
}

}  // namespace profgpu
