// collective-hang as the flight recorders of NCCL tell it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "analyse/report/quantity.h"
#include "analyse/rules/log_checks.h"
#include "base/text.h"

namespace profgpu {
namespace {

struct SuspectWords {
  std::string_view kind;
  std::string_view one, several;  // before the call's name
  std::string_view fix;
};

constexpr std::array kSuspectWords = {
    SuspectWords{"never_called", "never calls", "never call",
                 "py-spy dump --pid PID on the host of that rank: where it is instead; nvidia-smi there"},
    SuspectWords{"device_behind", "does not finish", "do not finish",
                 "that rank's GPU: Xid messages (profgpu doctor on its host), nvidia-smi, a kernel that never ends"},
    SuspectWords{"no_dump", "left no dump and never reaches", "left no dumps and never reach",
                 "the end of that rank's log: it may have crashed before it could write a dump"},
    SuspectWords{"called_alone", "alone calls", "alone call",
                 "no collective in a branch that only some ranks take: if rank == 0, an exception caught on one rank"},
    SuspectWords{"mismatch", "calls", "call",
                 "make every rank call the same collectives with the same sizes and types in the same order"},
    SuspectWords{"order", "waits in another order in", "wait in another order in",
                 "call the collectives of all groups in the same order on every rank"},
};

const SuspectWords& words_of_suspect(std::string_view kind) {
  const auto* found = first_where(kSuspectWords, [&](const SuspectWords& w) { return w.kind == kind; });
  return found != nullptr ? *found : kSuspectWords.front();
}

std::vector<int> waiting_ranks(const FlightReport& flight) {
  std::set<int> ranks;
  for (const FlightWait& w : flight.waits) ranks.insert(w.waiting.begin(), w.waiting.end());
  for (const FlightSuspect& s : flight.suspects) ranks.erase(s.rank);
  return {ranks.begin(), ranks.end()};
}

// Suspects of the first one's kind, who share its call in most cases.
std::vector<int> alike(const FlightReport& flight) {
  std::vector<int> ranks;
  for (const FlightSuspect& s : flight.suspects)
    if (s.kind == flight.suspects.front().kind) ranks.push_back(s.rank);
  std::ranges::sort(ranks);
  return ranks;
}

std::string wait_text(const FlightWait& w) {
  const std::string of =
      w.description.empty() ? "group " + w.process_group : fmt::format("{} ({})", w.description, w.process_group);
  return fmt::format("{} #{} of {}", w.name, w.sequence, of);
}

std::string mismatch_text(const FlightMismatch& m) {
  return fmt::format("under #{} of group {}, {} {} has {} {}, the others {}", m.sequence, m.process_group,
                     ranks_text(m.ranks), m.ranks.size() == 1 ? "alone" : "together", m.what, m.other, m.usual);
}

std::string what_hangs(const FlightReport& flight) {
  if (flight.suspects.empty()) {
    const FlightWait& first = flight.waits.front();
    return fmt::format("{} in {}, and it does not end",
                       ranks_text(first.waiting) + (first.waiting.size() == 1 ? " is" : " are"), wait_text(first));
  }
  const std::vector<int> ranks = alike(flight);
  const SuspectWords& words = words_of_suspect(flight.suspects.front().kind);
  const std::string calls = fmt::format("{} {} {}", ranks_text(ranks), ranks.size() == 1 ? words.one : words.several,
                                        flight.suspects.front().call);
  if (words.kind != "mismatch" || flight.mismatches.empty()) return calls;
  const FlightMismatch& m = flight.mismatches.front();
  return m.what == "name" ? fmt::format("{}, the others {}", calls, m.usual)
                          : fmt::format("{} with {} {}, the others with {}", calls, m.what, m.other, m.usual);
}

}  // namespace

std::optional<Finding> flight_hang(const Rule& rule, const FlightReport& flight, double threshold) {
  if (!flight.hangs()) return std::nullopt;
  const std::vector<int> waiting = waiting_ranks(flight);
  const auto value = static_cast<double>(std::max<size_t>(waiting.size(), flight.suspects.empty() ? 0 : 1));
  if (!rule.beyond(value, threshold)) return std::nullopt;
  Finding f = rule.finding(value, threshold);
  f.what = what_hangs(flight);
  f.names_ranks = true;
  for (const FlightSuspect& s : flight.suspects) f.ranks.push_back(s.rank);
  std::ranges::sort(f.ranks);
  if (flight.suspects.empty()) {
    f.why =
        "No rank is missing and none is behind: the network, a link or a GPU does not do its part, or the dumps were "
        "written while the job ran.";
    f.fix = {"Xid messages and link errors on the hosts: profgpu doctor; ibstat, ethtool -S",
             "run again with NCCL_DEBUG=INFO and give that log to analyze"};
  } else {
    f.why = waiting.size() == 1
                ? "Another rank waits for that."
                : fmt::format("{} other ranks wait for that, directly or by way of others.", waiting.size());
    for (const FlightSuspect& s : flight.suspects)
      if (const std::string fix(words_of_suspect(s.kind).fix); std::ranges::count(f.fix, fix) == 0)
        f.fix.push_back(fix);
  }
  for (const FlightMismatch& m : flight.mismatches)
    if (f.evidence.size() < 3) f.evidence.push_back(mismatch_text(m));
  for (const FlightSuspect& s : flight.suspects) {
    const SuspectWords& words = words_of_suspect(s.kind);
    if (s.kind != flight.suspects.front().kind || s.call != flight.suspects.front().call)
      f.evidence.push_back(fmt::format("rank {} {} {}", s.rank, words.one, s.call));
    if (!s.frames.empty())
      f.evidence.push_back(fmt::format("rank {} called it in {}", s.rank, joined(s.frames, " < ")));
  }
  std::vector<FlightWait> waits = flight.waits;
  std::ranges::stable_sort(waits, std::greater(), [](const FlightWait& w) { return w.waiting.size(); });
  for (const FlightWait& w : waits)
    if (f.evidence.size() < 4)
      f.evidence.push_back(fmt::format("waiting in {}: {}", wait_text(w), ranks_text(w.waiting)));
  return f;
}

std::string flight_sentence(const FlightReport& flight) {
  std::string what = what_hangs(flight);
  what.front() = upper(what.front());
  const size_t waiting = waiting_ranks(flight).size();
  if (flight.suspects.empty()) return what + ": the job hangs there.";
  return fmt::format("{}; {} for that: the job hangs there.", what,
                     waiting == 1 ? "another rank waits" : fmt::format("{} other ranks wait", waiting));
}

}  // namespace profgpu
