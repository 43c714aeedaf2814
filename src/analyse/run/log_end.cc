#include "analyse/run/log_end.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>

#include "analyse/report/quantity.h"
#include "base/text.h"

namespace profgpu {
namespace {

// Of what is printed when a job falls, the first of these is the cause: one rank's error makes the others' collectives
// fail, those their processes, and at last whoever is left is ended.
constexpr std::array kCauses = {
    LogEventKind::kNodeFailure,       LogEventKind::kTimeLimit,       LogEventKind::kPreempted,
    LogEventKind::kOutOfMemory,       LogEventKind::kHostOutOfMemory, LogEventKind::kDeviceError,
    LogEventKind::kNotFinite,         LogEventKind::kException,       LogEventKind::kNcclError,
    LogEventKind::kCollectiveTimeout, LogEventKind::kKilled,          LogEventKind::kExitCode,
    LogEventKind::kTerminated,
};

struct LastStep {
  int64_t line = 0;
  std::optional<int64_t> number;
};

// The last one that is printed before a line; a server's lines count, but have no number.
LastStep last_step_before(const RunLog& log, int64_t line) {
  LastStep last;
  for (const LogRank& r : log.ranks) {
    const auto at = std::ranges::lower_bound(r.steps, line, {}, &LogStep::line);
    if (at != r.steps.begin() && std::prev(at)->line > last.line) last = {std::prev(at)->line, std::prev(at)->number};
  }
  const StepsWithoutTimes& untimed = log.no_times;
  if (untimed.lines > 0 && untimed.last_line < line && untimed.last_line > last.line)
    last = {untimed.last_line, untimed.last_step};
  const auto serving = std::ranges::lower_bound(log.serving, line, {}, &ServingLine::line);
  if (serving != log.serving.begin()) last.line = std::max(last.line, std::prev(serving)->line);
  return last;
}

// The events behind the last step.
class Ending {
 public:
  Ending(const RunLog& log, int64_t from, int64_t to) {
    for (const LogEvent& e : log.events)
      if (e.line > from && e.line < to) all_.push_back(&e);
    for (const LogEvent* e : all_)
      if (e->first_failure) first_failure_ = e;
  }

  [[nodiscard]] const LogEvent* cause() const {
    const LogEvent* found = usual_cause();
    const LogEvent* killed = first_of(LogEventKind::kKilled);
    if (found != nullptr && found->kind == LogEventKind::kNodeFailure) return named_node_failure(found);
    if (found != nullptr && follows_from_kill(found->kind)) {
      if (is_sudden_failure()) return first_failure_;
      if (killed != nullptr && killed->line < found->line) return killed;
      // Another process had gone before this one waited in vain.
      const LogEvent* peer_gone = first_following();
      if (found->kind == LogEventKind::kCollectiveTimeout && peer_gone != nullptr && peer_gone->line < found->line)
        return peer_gone;
    }
    const bool weak = found == nullptr || found->kind == LogEventKind::kExitCode ||
                      found->kind == LogEventKind::kTerminated;
    if (weak && first_following() != nullptr) return first_following();
    const bool says_little = found != nullptr && found->kind == LogEventKind::kExitCode;
    return says_little && first_failure_ != nullptr ? first_failure_ : found;
  }

  [[nodiscard]] const LogEvent* first_of(LogEventKind kind) const {
    const LogEvent* first = nullptr;
    for (const LogEvent* e : all_) {
      if (e->kind != kind || e->follows) continue;
      // Where the launcher says which process failed first, that one's word counts.
      if (first_failure_ != nullptr && first_failure_->rank && e->rank == first_failure_->rank) return e;
      if (first == nullptr) first = e;
    }
    return first;
  }

 private:
  [[nodiscard]] const LogEvent* usual_cause() const {
    for (const LogEventKind kind : kCauses)
      if (const LogEvent* e = first_of(kind)) return e;
    return nullptr;
  }
  // Slurm names the node on another line.
  [[nodiscard]] const LogEvent* named_node_failure(const LogEvent* first) const {
    for (const LogEvent* e : all_)
      if (e->kind == LogEventKind::kNodeFailure && !e->node.empty()) return e;
    return first;
  }
  [[nodiscard]] const LogEvent* first_following() const {
    const LogEvent* const* e = first_where(all_, [](const LogEvent* event) { return event->follows; });
    return e != nullptr ? *e : nullptr;
  }
  [[nodiscard]] bool is_sudden_failure() const {
    return first_failure_ != nullptr && first_failure_->kind == LogEventKind::kKilled;
  }
  static bool follows_from_kill(LogEventKind kind) {
    return kind == LogEventKind::kException || kind == LogEventKind::kNcclError ||
           kind == LogEventKind::kCollectiveTimeout || kind == LogEventKind::kKilled;
  }

  std::vector<const LogEvent*> all_;
  const LogEvent* first_failure_ = nullptr;
};

// Processes of one group, and the collective that one of them waited for in vain.
struct WatchdogGroup {
  std::vector<const CollectiveState*> states;
  int64_t waited_for = -1;
};

std::map<std::string, WatchdogGroup> groups_of(const std::vector<CollectiveState>& all) {
  std::map<std::string, WatchdogGroup> groups;
  for (const CollectiveState& s : all) {
    if (!s.enqueued) continue;
    WatchdogGroup& g = groups[s.group];
    g.states.push_back(&s);
    if (s.timed_out) g.waited_for = std::max(g.waited_for, *s.timed_out);
    else if (s.completed && *s.enqueued > *s.completed) g.waited_for = std::max(g.waited_for, *s.completed + 1);
  }
  return groups;
}

// "0(default_pg)"
std::string group_name(const std::string& group) {
  const size_t open = group.find('(');
  return open == group.npos ? group : group.substr(open + 1, group.find(')', open) - open - 1);
}

bool has_all_ranks(const std::string& group) {
  return group.empty() || group == "0" || group_name(group) == "default_pg";
}

std::string op_text(const CollectiveState& s) {
  return s.elements <= 0 ? s.op
                         : fmt::format("{} of {} {}", s.op, format_count(s.elements), s.elements == 1 ? "element" : "elements");
}

std::string collective_text(const std::vector<CollectiveState>& all, const std::string& group, int64_t number) {
  std::string text = fmt::format("collective {}", number);
  const CollectiveState* named =
      first_where(all, [&](const CollectiveState& s) { return s.timed_out == number && !s.op.empty(); });
  if (named != nullptr) text += " (" + op_text(*named) + ")";
  const std::string name = group_name(group);
  return name.empty() ? text : text + " of group " + name;
}

// The collective that a rank waited for: a line without its group has its name. With two groups it may be either's.
const CollectiveState* call_of(const std::vector<CollectiveState>& all, const CollectiveState& in_group) {
  const auto is_same = [&](const CollectiveState& s) {
    return s.rank == in_group.rank && s.timed_out == in_group.timed_out;
  };
  if (std::ranges::count_if(all, [&](const CollectiveState& s) { return is_same(s) && !s.group.empty(); }) != 1)
    return nullptr;
  return first_where(all, [&](const CollectiveState& s) { return is_same(s) && !s.op.empty(); });
}

// Ranks that wait under one number in different collectives, or in one with different sizes where all have one size.
void set_mismatch(const std::vector<CollectiveState>& all, const WatchdogGroup& group, LogEnd& end) {
  constexpr std::array<std::string_view, 5> kOneSize = {"ALLREDUCE", "_ALLGATHER_BASE", "_REDUCE_SCATTER_BASE",
                                                        "BROADCAST", "REDUCE"};
  std::map<std::pair<std::string, int64_t>, std::pair<std::string, std::vector<int>>> called;
  for (const CollectiveState* s : group.states) {
    if (s->timed_out != group.waited_for) continue;
    const CollectiveState* c = call_of(all, *s);
    if (c == nullptr) continue;
    auto& [text, ranks] = called[{c->op, std::ranges::count(kOneSize, c->op) > 0 ? c->elements : 0}];
    text = op_text(*c);
    ranks.push_back(s->rank);
  }
  if (called.size() < 2) return;
  const auto size = [](const auto& c) { return c.second.second.size(); };
  const auto most = std::ranges::max_element(called, {}, size);
  const bool majority = std::ranges::count(called, size(*most), size) == 1;
  for (auto& [key, c] : called) {
    auto& [text, ranks] = c;
    std::ranges::sort(ranks);
    if (!majority || key != most->first) end.mismatched.insert(end.mismatched.end(), ranks.begin(), ranks.end());
    append_listed(end.mismatch, fmt::format("{} called {}", ranks_text(ranks), text), ", ");
  }
  std::ranges::sort(end.mismatched);
}

// Who had not called the collective that others waited for. Processes of which the log does not say how far they got
// are not compared, nor those of different groups.
void set_collective(const std::vector<CollectiveState>& states, LogEnd& end) {
  for (const auto& [name, group] : groups_of(states)) {
    if (group.waited_for < 0) continue;
    std::vector<int> behind;
    for (const CollectiveState* s : group.states)
      if (*s->enqueued < group.waited_for) behind.push_back(s->rank);
    const bool tells_more = end.collective.empty() || (end.behind.empty() && !behind.empty());
    if (!tells_more) continue;
    std::ranges::sort(behind);
    const bool of_job = has_all_ranks(name) || std::ranges::none_of(group.states, &CollectiveState::of_group);
    end.behind = std::move(behind);
    end.behind_in = of_job || end.behind.empty() ? "" : group_name(name);
    if (of_job && end.mismatch.empty()) set_mismatch(states, group, end);
    end.reporting = static_cast<int64_t>(group.states.size());
    end.collective = collective_text(states, name, group.waited_for);
  }
  if (!end.collective.empty()) return;
  const CollectiveState* timed_out =
      first_where(states, [](const CollectiveState& s) { return s.timed_out.has_value(); });
  if (timed_out == nullptr) return;
  end.collective = collective_text(states, timed_out->group, *timed_out->timed_out);
}

}  // namespace

LogEnd end_before(const RunLog& log, int64_t end) {
  const LastStep last = last_step_before(log, end);
  const Ending ending(log, last.line, end);
  const LogEvent* found = ending.cause();
  const LogEvent* finished = ending.first_of(LogEventKind::kFinished);
  // What is ended after its training was done was not cut short; nor was what went on after an exception until it was.
  const bool survived = finished != nullptr && found != nullptr && found->kind == LogEventKind::kException &&
                        finished->line > found->line;
  if (finished != nullptr &&
      (found == nullptr || survived || (found->kind == LogEventKind::kTerminated && finished->line < found->line)))
    found = finished;
  LogEnd out;
  out.after_step = last.number;
  if (found == nullptr) return out;
  out.kind = log_event_name(found->kind);
  out.line = found->line;
  if (!out.after_step) out.after_step = found->step;
  out.rank = found->rank, out.node = found->node, out.peer = found->peer;
  out.text = found->text, out.bytes = found->bytes;
  out.first_failure = found->first_failure;
  if (found->kind != LogEventKind::kCollectiveTimeout) return out;
  std::vector<CollectiveState> of_this_run;
  std::ranges::copy_if(log.collectives, std::back_inserter(of_this_run),
                       [&](const CollectiveState& s) { return s.line > last.line && s.line < end; });
  set_collective(of_this_run, out);
  return out;
}

}  // namespace profgpu
