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
  std::string_view one, several;  // of {ranks} and their {call}
  std::string_view fix;           // of {ranks}, on their {hosts}
};

constexpr std::string_view kCheckGpu =
    "check the GPU of {ranks}: Xid messages (profgpu doctor on the {hosts}), nvidia-smi, a kernel that never ends";

constexpr std::string_view kMembersUnknown =
    "The dumps do not say who is in which group (they have no pg_config), so who waits for whom is unknown.";

constexpr std::array kSuspectWords = {
    SuspectWords{"never_called", "{ranks} never calls {call}", "{ranks} never call {call}",
                 "on the {hosts} of {ranks}, run py-spy dump --pid PID to see what runs instead, and nvidia-smi"},
    SuspectWords{"device_behind", "{ranks} does not finish {call}", "{ranks} do not finish {call}", kCheckGpu},
    SuspectWords{"not_started", "the GPU of {ranks} has not started {call}, others have",
                 "the GPUs of {ranks} have not started {call}, others have", kCheckGpu},
    SuspectWords{"no_dump", "{ranks} left no dump, so whether it reached {call} is not known",
                 "{ranks} left no dumps, so whether they reached {call} is not known",
                 "read the end of the log of {ranks}: a crash may have come before the dump"},
    SuspectWords{"cut_dump", "the dump of {ranks} is not whole, so whether it reached {call} is not known",
                 "the dumps of {ranks} are not whole, so whether they reached {call} is not known",
                 "give analyze the whole dump of {ranks}"},
    SuspectWords{"called_alone", "{ranks} alone calls {call}", "{ranks} alone call {call}",
                 "no collective in a branch that only some ranks take: if rank == 0, an exception caught on one rank; "
                 "if all should call it, py-spy dump --pid PID on the others' hosts shows what they do instead"},
    SuspectWords{"not_waiting", "{ranks} waits in no call while the others do",
                 "{ranks} wait in no call while the others do",
                 "on the {hosts} of {ranks}, run py-spy dump --pid PID to see what runs there, and nvidia-smi"},
    SuspectWords{"mismatch", "{ranks} calls {call}", "{ranks} call {call}",
                 "make every rank call the same collectives with the same sizes and types in the same order"},
    SuspectWords{"order", "{ranks} waits in another order in {call}", "{ranks} wait in another order in {call}",
                 "call the collectives of all groups in the same order on every rank"},
    SuspectWords{"both_send", "", "{ranks} send to each other, and neither receives: {call}",
                 "let one of the two receive first, or give both calls to batch_isend_irecv"},
    SuspectWords{"stuck_in", "{ranks} is in {call}", "{ranks} are in {call}",
                 "GPUs of these ranks and the links between them: Xid messages (profgpu doctor on their hosts), "
                 "nvidia-smi; run again with NCCL_DEBUG=INFO"},
};

const SuspectWords& words_of_suspect(std::string_view kind) {
  const auto* found = first_where(kSuspectWords, [&](const SuspectWords& w) { return w.kind == kind; });
  return found != nullptr ? *found : kSuspectWords.front();
}

// "rank 4", and where that number is only given here "rank 4 (d_dump.pickle)".
std::string suspects_text(const FlightReport& flight, const std::vector<int>& ranks) {
  std::vector<std::string> files;
  for (const int rank : ranks)
    if (const auto file = flight.nameless.find(rank); file != flight.nameless.end()) files.push_back(file->second);
  return files.empty() ? ranks_text(ranks) : fmt::format("{} ({})", ranks_text(ranks), joined(files));
}

std::string suspect_text(const FlightReport& flight, const SuspectWords& words, const std::vector<int>& ranks,
                         std::string_view call) {
  return fmt::format(fmt::runtime(ranks.size() == 1 ? words.one : words.several),
                     fmt::arg("ranks", suspects_text(flight, ranks)), fmt::arg("call", call));
}

// Those that are named, and those beyond.
std::vector<FlightSuspect> all_suspects(const FlightReport& flight) {
  std::vector<FlightSuspect> all = flight.suspects;
  all.insert(all.end(), flight.more.begin(), flight.more.end());
  return all;
}

std::vector<int> waiting_ranks(const FlightReport& flight) {
  std::set<int> ranks;
  for (const FlightWait& w : flight.waits) ranks.insert(w.waiting.begin(), w.waiting.end());
  for (const FlightSuspect& s : all_suspects(flight)) ranks.erase(s.rank);
  return {ranks.begin(), ranks.end()};
}

// Suspects of one kind; they share their call in most cases.
std::vector<int> suspects_of(const FlightReport& flight, std::string_view kind) {
  std::vector<int> ranks;
  for (const FlightSuspect& s : all_suspects(flight))
    if (s.kind == kind) ranks.push_back(s.rank);
  std::ranges::sort(ranks);
  return ranks;
}

std::string fix_of_suspects(const FlightReport& flight, std::string_view kind) {
  const std::vector<int> ranks = suspects_of(flight, kind);
  return fmt::format(fmt::runtime(words_of_suspect(kind).fix), fmt::arg("ranks", suspects_text(flight, ranks)),
                     fmt::arg("hosts", ranks.size() == 1 ? "host" : "hosts"));
}

std::string group_text(const std::string& name, const std::string& description) {
  return description.empty() ? "group " + name : fmt::format("{} ({})", description, name);
}

std::string wait_text(const FlightWait& w) {
  return fmt::format("{} #{} of {}", w.name, w.sequence, group_text(w.process_group, w.description));
}

// "all_reduce (ranks 0, 3), broadcast (rank 1) and _all_gather_base (rank 2)"
std::string variants_text(const FlightMismatch& m) {
  std::string text;
  for (size_t i = 0; i < m.variants.size(); ++i)
    append_listed(text, fmt::format("{} ({})", m.variants[i].value, ranks_text(m.variants[i].ranks)),
                  i + 1 < m.variants.size() ? ", " : " and ");
  return text;
}

std::string mismatch_text(const FlightMismatch& m) {
  const std::string what = m.what == "name" ? "" : m.what + " ";
  if (!m.send.empty())
    return fmt::format("{} disagree in {}: {}{} is sent, {} received", ranks_text(m.ranks), m.send, what, m.usual,
                       m.other);
  const std::string under = fmt::format("under #{} of {}", m.sequence, group_text(m.process_group, m.description));
  if (m.variants.size() > 2) return fmt::format("ranks disagree {}: {}{}", under, what, variants_text(m));
  if (!m.majority) return fmt::format("{} disagree {}: {}{} and {}", ranks_text(m.ranks), under, what, m.usual, m.other);
  return fmt::format("under #{} of group {}, {} {} {} {}, the others {}", m.sequence, m.process_group,
                     ranks_text(m.ranks), m.ranks.size() == 1 ? "alone has" : "together have", m.what, m.other,
                     m.usual);
}

// The mismatch that the suspects, if any, are named for.
const FlightMismatch* blamed_mismatch(const FlightReport& flight) {
  return first_where(flight.mismatches, [](const FlightMismatch& m) { return m.blamed; });
}

std::string missing_dumps(const FlightReport& flight) {
  return fmt::format("{} of {} ranks have no dump here", flight.without_dump.size(), flight.world_size.value_or(0));
}

// All ranks that it is a call of are in it.
bool is_whole(const FlightWait& w) { return w.missing.empty() && w.behind.empty() && w.completed.empty(); }

// No rank is a suspect: the call that all its ranks are in.
std::string where_it_hangs(const FlightReport& flight) {
  const bool known = !flight.most_without_dump();
  const auto whole = std::ranges::find_if(flight.waits, [&](const FlightWait& w) { return known && is_whole(w); });
  if (flight.members_unknown && flight.waits.size() > 1 && whole != flight.waits.end())
    return fmt::format("{} wait in {} calls, {} of them in {}", ranks_text(waiting_ranks(flight)), flight.waits.size(),
                       ranks_text(whole->waiting), wait_text(*whole));
  if (known && flight.waits.size() > 1 && std::ranges::all_of(flight.waits, is_whole))
    return fmt::format("{} are in {} calls that all their ranks have made, such as {}, and none ends",
                       ranks_text(waiting_ranks(flight)), flight.waits.size(), wait_text(flight.waits.front()));
  const FlightWait& w = whole != flight.waits.end() ? *whole : flight.waits.front();
  const bool one = w.waiting.size() == 1;
  if (!known || flight.members_unknown)
    return fmt::format("{} {} in {}", ranks_text(w.waiting), one ? "waits" : "wait", wait_text(w));
  return fmt::format("{} {} in {}, and it does not end", ranks_text(w.waiting), one ? "is" : "are", wait_text(w));
}

// "rank 12 does not finish A; rank 14 does not finish B": suspects of the first one's kind, by the call that each has.
std::string calls_of_suspects(const FlightReport& flight, const SuspectWords& words) {
  constexpr size_t kMaxCalls = 2;
  std::vector<std::pair<std::string, std::vector<int>>> calls;
  for (const FlightSuspect& s : all_suspects(flight)) {
    if (s.kind != flight.suspects.front().kind) continue;
    const auto same = std::ranges::find(calls, s.call, [](const auto& c) { return c.first; });
    if (same != calls.end()) same->second.push_back(s.rank);
    else calls.push_back({s.call, {s.rank}});
  }
  std::string text;
  int64_t others = 0;
  for (size_t i = 0; i < calls.size(); ++i) {
    auto& [call, ranks] = calls[i];
    if (i >= kMaxCalls) {
      others += static_cast<int64_t>(ranks.size());
      continue;
    }
    std::ranges::sort(ranks);
    append_listed(text, suspect_text(flight, words, ranks, call), "; ");
  }
  if (others > 0) append_listed(text, fmt::format("{} more {} likewise", others, others == 1 ? "rank" : "ranks"), "; ");
  return text;
}

// The log that tells how a suspect ended. A timeout is what those see that wait.
const LogReport* log_of(const Evidence& evidence, const FlightSuspect& s) {
  return first_where(evidence.logs, [&](const LogReport& log) {
    return log.end.failed() && log.end.rank == s.rank && log.end.kind != "collective_timeout";
  });
}

// "train.log line 63"
std::string line_of_end(const LogReport& log) {
  return fmt::format("{} line {}", log.path.substr(log.path.rfind('/') + 1), log.end.line.value_or(0));
}

std::string what_hangs(const Evidence& evidence) {
  const FlightReport& flight = *evidence.flight;
  const FlightMismatch* m = blamed_mismatch(flight);
  if (m != nullptr && (!m->majority || m->variants.size() > 2)) return mismatch_text(*m);
  if (flight.suspects.empty()) return where_it_hangs(flight);
  const FlightSuspect& first = flight.suspects.front();
  const LogReport* log = all_suspects(flight).size() == 1 && m == nullptr ? log_of(evidence, first) : nullptr;
  if (log != nullptr)
    return fmt::format("rank {} ended before {} was complete: {} ({})", first.rank, first.call, said_of(*log).what,
                       line_of_end(*log));
  const SuspectWords& words = words_of_suspect(first.kind);
  const std::string calls = calls_of_suspects(flight, words);
  if (words.kind == "stuck_in") return calls + ", and it does not end";
  if (m == nullptr) return calls;
  return m->what == "name" ? fmt::format("{}, the others {}", calls, m->usual)
                           : fmt::format("{} with {} {}, the others with {}", calls, m->what, m->other, m->usual);
}

void explain_hang(const Evidence& evidence, size_t waiting, Finding& f) {
  const FlightReport& flight = *evidence.flight;
  if (!flight.suspects.empty() || blamed_mismatch(flight) != nullptr) {
    f.why = waiting == 0   ? "All ranks that wait are named here."
            : waiting == 1 ? "Another rank waits for that."
                           : fmt::format("{} other ranks wait for that, directly or by way of others.", waiting);
    if (!flight.suspects.empty() && flight.suspects.front().kind == "not_waiting")
      f.why = fmt::format("{} other ranks wait. {}", waiting, kMembersUnknown);
    for (const FlightSuspect& s : flight.suspects) {
      const LogReport* log = log_of(evidence, s);
      const std::string fix = log != nullptr ? said_of(*log).fix : fix_of_suspects(flight, s.kind);
      if (!fix.empty() && std::ranges::count(f.fix, fix) == 0) f.fix.push_back(fix);
    }
    if (flight.suspects.empty()) f.fix.push_back(fix_of_suspects(flight, "mismatch"));
  } else if (flight.members_unknown) {
    f.why = kMembersUnknown;
    f.fix = {"look for the rank that is not where the others are: py-spy dump --pid PID on each host",
             "have the dumps written by a newer PyTorch, which states each group's ranks in pg_config"};
  } else if (flight.most_without_dump()) {
    f.why = missing_dumps(flight) + ": what those wait for is unknown.";
    f.fix = {"give analyze the folder with the dumps of all ranks"};
  } else {
    f.why =
        "No rank is missing and none is behind, so these records don't show which one holds up the others: the network, a "
        "link or a GPU does not do its part, or the dumps were written while the job ran.";
    f.fix = {"Xid messages and link errors on the hosts: profgpu doctor; ibstat, ethtool -S",
             "on each rank while it hangs, run py-spy dump --pid PID, and compare: one that is elsewhere is the one to look at",
             "run again with NCCL_DEBUG=INFO and TORCH_NCCL_TRACE_CPP_STACK=1, and give that log and the dumps to analyze"};
  }
}

// What a suspect is in instead, and where in the program it is.
void add_suspect_evidence(const FlightReport& flight, const FlightSuspect& s, Finding& f) {
  const FlightSuspect& first = flight.suspects.front();
  if (s.kind != first.kind || !contains(f.what, s.call))
    f.evidence.push_back(suspect_text(flight, words_of_suspect(s.kind), {s.rank}, s.call));
  for (const FlightWait& w : flight.waits)
    if (s.kind == "never_called" && std::ranges::count(w.waiting, s.rank) > 0)
      f.evidence.push_back(fmt::format("rank {} is in {}", s.rank, wait_text(w)));
  if (!s.frames.empty())
    f.evidence.push_back(fmt::format("rank {} called it in {}", s.rank, joined(s.frames, " < ")));
}

}  // namespace

std::optional<Finding> flight_hang(const Rule& rule, const Evidence& evidence) {
  const FlightReport& flight = *evidence.flight;
  const double threshold = evidence.thresholds.of(rule);
  if (!flight.hangs()) return std::nullopt;
  const std::vector<int> waiting = waiting_ranks(flight);
  const auto value = static_cast<double>(std::max<size_t>(waiting.size(), flight.suspects.empty() ? 0 : 1));
  if (!rule.beyond(value, threshold)) return std::nullopt;
  Finding f = rule.finding(value, threshold);
  f.what = what_hangs(evidence);
  f.names_ranks = true;
  for (const FlightSuspect& s : flight.suspects) f.ranks.push_back(s.rank);
  std::ranges::sort(f.ranks);
  explain_hang(evidence, waiting.size(), f);
  for (const FlightSuspect& s : flight.suspects)
    if (const LogReport* log = log_of(evidence, s))
      f.evidence.push_back(fmt::format("rank {}: {}: {}", s.rank, line_of_end(*log), log->end.text));
  for (const FlightMismatch& m : flight.mismatches)
    if (f.evidence.size() < 3 && ((m.majority && m.variants.size() == 2) || !m.blamed))
      f.evidence.push_back(mismatch_text(m));
  for (const FlightSuspect& s : flight.suspects) add_suspect_evidence(flight, s, f);
  std::vector<FlightWait> waits = flight.waits;
  std::ranges::stable_sort(waits, std::greater(), [](const FlightWait& w) { return w.waiting.size(); });
  for (const FlightWait& w : waits)
    if (f.evidence.size() < 4)
      f.evidence.push_back(fmt::format("waiting in {}: {}", wait_text(w), ranks_text(w.waiting)));
  return f;
}

std::string flight_sentence(const Evidence& evidence) {
  const FlightReport& flight = *evidence.flight;
  std::string what = what_hangs(evidence);
  what.front() = upper(what.front());
  const size_t waiting = waiting_ranks(flight).size();
  if (!flight.suspects.empty()) {
    if (flight.suspects.front().kind == "not_waiting")
      return fmt::format("{}: look there first. {}", what, kMembersUnknown);
    if (waiting > 0)
      what += waiting == 1 ? "; another rank waits for that" : fmt::format("; {} other ranks wait for that", waiting);
    return what + ": the job hangs there.";
  }
  if (blamed_mismatch(flight) != nullptr) return what + ": the job hangs there.";
  if (flight.members_unknown) return what + "; the dumps do not say who is in which group, so for whom is unknown.";
  if (flight.most_without_dump())
    return fmt::format("{}; {}: give analyze the folder with the dumps of all ranks.", what, missing_dumps(flight));
  return what + ": the job hangs there. These records don't show which rank, link or GPU is the cause.";
}

std::string sentence_of_no_hang(const FlightReport& flight) {
  if (!flight.without_dump.empty())
    return fmt::format("No rank of these dumps was waiting in a collective, but {}: give analyze the folder with the "
                       "dumps of all ranks.",
                       missing_dumps(flight));
  if (flight.last_calls.empty())
    return "No rank was waiting in a collective when these dumps were written. Have them written while the job hangs, or "
           "record a run with `profgpu run --trace`.";
  const std::string& one = flight.last_calls.front();
  const size_t more = flight.last_calls.size() - 1;
  const std::string what =
      more > 0 ? fmt::format("their last calls, {} and {} more", one, more) : "their last call, " + one;
  return fmt::format(
      "No rank was waiting in a collective when these dumps were written: all have completed {}. If the job hung then, it "
      "hangs outside of collectives: compare the ranks' stacks (py-spy dump --pid PID) and look for Xid messages (profgpu "
      "doctor).",
      what);
}

}  // namespace profgpu
