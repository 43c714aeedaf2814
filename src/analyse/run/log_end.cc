#include "analyse/run/log_end.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
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

// Of the steps that a process printed before a line.
LastStep last_of(const LogRank& process, int64_t line) {
  const auto at = std::ranges::lower_bound(process.steps, line, {}, &LogStep::line);
  return at != process.steps.begin() ? LastStep{std::prev(at)->line, std::prev(at)->number} : LastStep();
}

// How far the processes had come where a run ended; a server's lines count, but have no number.
class Course {
 public:
  Course(const RunLog& log, int64_t end) {
    for (const LogRank& r : log.ranks) {
      const LastStep last = last_of(r, end);
      if (last.line == 0) continue;
      of_process_[{r.rank.value_or(-1), r.node}] = last;
      if (last.line > newest_.line) newest_ = last;
    }
    set_behind(log);
    const StepsWithoutTimes& untimed = log.no_times;
    if (untimed.lines > 0 && untimed.last_line < end && untimed.last_line > newest_.line)
      newest_ = {untimed.last_line, untimed.last_step};
    const auto serving = std::ranges::lower_bound(log.serving, end, {}, &ServingLine::line);
    if (serving != log.serving.begin()) newest_.line = std::max(newest_.line, std::prev(serving)->line);
    if (log.last_answer < end) newest_.line = std::max(newest_.line, log.last_answer);
  }

  /// The last step of the process that an event is of; where that is not known, of all that have come as far as most.
  [[nodiscard]] LastStep before(const LogEvent& e) const {
    if (e.rank)
      if (const auto own = of_process_.find({*e.rank, e.node}); own != of_process_.end()) return own->second;
    return behind_ ? LastStep{behind_->line, newest_.number} : newest_;
  }
  /// Where the first of the processes stopped.
  [[nodiscard]] int64_t stopped_line() const { return behind_ ? behind_->line : newest_.line; }
  [[nodiscard]] std::optional<int64_t> newest_number() const { return newest_.number; }

 private:
  // While one process has stopped, others still print the step that they are at: they are one or two lines ahead.
  void set_behind(const RunLog& log) {
    constexpr int64_t kAhead = 2;
    for (const LogRank& r : log.ranks) {
      const auto own = of_process_.find({r.rank.value_or(-1), r.node});
      if (own == of_process_.end() || !own->second.number || !newest_.number || !r.rank) continue;
      const int64_t interval = std::max<int64_t>(r.steps.back().iterations, 1);
      const int64_t missing = *newest_.number - *own->second.number;
      if (missing > 0 && missing <= kAhead * interval && (!behind_ || own->second.line < behind_->line))
        behind_ = own->second;
    }
  }

  std::map<std::pair<int, std::string>, LastStep> of_process_;
  LastStep newest_;
  std::optional<LastStep> behind_;   // the first process that lacks the newest step
};

using LogEvents = std::vector<const LogEvent*>;

LogEvents events_behind(const RunLog& log, const Course& course, int64_t end) {
  LogEvents out;
  for (const LogEvent& e : log.events)
    if (e.line < end && e.line > course.before(e).line) out.push_back(&e);
  return out;
}

// The events behind the last step.
class Ending {
 public:
  explicit Ending(LogEvents events) : all_(std::move(events)) {
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

  LogEvents all_;
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

// Of old watchdogs, which say neither a group nor how far each came: who waited in which collective, if in several.
std::string waits_text(const std::vector<CollectiveState>& states) {
  std::map<std::pair<int64_t, std::string>, std::vector<int>> waits;
  for (const CollectiveState& s : states)
    if (s.timed_out && s.group.empty() && !s.op.empty()) waits[{*s.timed_out, op_text(s)}].push_back(s.rank);
  std::string text;
  if (waits.size() < 2) return text;
  for (auto& [what, ranks] : waits) {
    std::ranges::sort(ranks);
    append_listed(text, fmt::format("{} waited in collective {} ({})", ranks_text(ranks), what.first, what.second), ", ");
  }
  return text;
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
  end.waits = waits_text(states);
}

// What is ended after its training was done was not cut short; nor was what went on after an exception until it was.
bool was_done(const LogEvent& finished, const LogEvent* found) {
  if (found == nullptr) return true;
  using enum LogEventKind;
  const bool from_outside = found->kind == kTerminated || found->kind == kTimeLimit || found->kind == kPreempted;
  return from_outside ? finished.line < found->line : found->kind == kException && finished.line > found->line;
}

LogEnd end_by(const LogEvent& found) {
  LogEnd out;
  out.kind = log_event_name(found.kind);
  out.line = found.line;
  out.after_step = found.step;
  out.rank = found.rank, out.node = found.node, out.peer = found.peer;
  out.text = found.text, out.bytes = found.bytes;
  out.first_failure = found.first_failure;
  return out;
}

}  // namespace

LogEnd end_before(const RunLog& log, int64_t end) {
  const Course course(log, end);
  const Ending ending(events_behind(log, course, end));
  const LogEvent* found = ending.cause();
  const LogEvent* finished = ending.first_of(LogEventKind::kFinished);
  if (finished != nullptr && was_done(*finished, found)) found = finished;
  if (found == nullptr) {
    LogEnd unknown;
    unknown.after_step = course.newest_number();
    return unknown;
  }
  LogEnd out = end_by(*found);
  if (const auto number = course.before(*found).number) out.after_step = number;
  if (found->kind != LogEventKind::kCollectiveTimeout) return out;
  std::vector<CollectiveState> of_this_run;
  std::ranges::copy_if(log.collectives, std::back_inserter(of_this_run), [&](const CollectiveState& s) {
    return s.line > course.stopped_line() && s.line < end;
  });
  set_collective(of_this_run, out);
  return out;
}

namespace {

constexpr int64_t kWholeLog = std::numeric_limits<int64_t>::max();

// An event of one of several logs. Lines without a clock time are of the time before them.
struct PlacedEvent {
  size_t log = 0;
  int64_t line = 0, printed_ns = 0;
  LogEvent event;
};

void place_events(const std::vector<LogReport>& logs, size_t which, std::vector<PlacedEvent>& out) {
  const RunLog& log = *logs[which].log;
  const Course course(log, kWholeLog);
  int64_t printed_ns = 0;
  for (const LogRank& r : log.ranks)
    if (!r.steps.empty()) printed_ns = std::max(printed_ns, r.steps.back().printed_ns.value_or(0));
  for (const LogEvent* e : events_behind(log, course, kWholeLog)) {
    printed_ns = std::max(printed_ns, e->printed_ns.value_or(0));
    if (e->kind == LogEventKind::kFinished) continue;
    out.push_back({which, e->line, printed_ns, *e});
    if (!e->rank) out.back().event.rank = logs[which].rank;
  }
}

// In the order of time, where all have one; their lines count through all logs.
void order_events(std::vector<PlacedEvent>& events) {
  if (std::ranges::all_of(events, [](const PlacedEvent& e) { return e.printed_ns > 0; }))
    std::ranges::stable_sort(events, {}, &PlacedEvent::printed_ns);
  for (size_t i = 0; i < events.size(); ++i) events[i].event.line = static_cast<int64_t>(i);
}

std::vector<CollectiveState> last_states(const std::vector<LogReport>& logs) {
  std::vector<CollectiveState> states;
  for (const LogReport& r : logs) {
    const int64_t stopped = Course(*r.log, kWholeLog).stopped_line();
    for (const CollectiveState& s : r.log->collectives)
      if (s.line > stopped) states.push_back(s);
  }
  return states;
}

// The steps of a log's processes by the clock, first and last.
struct Span {
  const LogStep *first = nullptr, *last = nullptr;   // null: no line is dated
};

Span span_of(const RunLog& log) {
  Span span;
  for (const LogRank& r : log.ranks) {
    if (r.steps.empty() || !r.steps.front().printed_ns || !r.steps.back().printed_ns) continue;
    const LogStep &first = r.steps.front(), &last = r.steps.back();
    if (span.first == nullptr || *first.printed_ns < *span.first->printed_ns) span.first = &first;
    if (span.last == nullptr || *last.printed_ns > *span.last->printed_ns) span.last = &last;
  }
  return span;
}

// The next log of the same process whose steps are later; null: there is none. Logs of several processes each may be
// of nodes whose clocks differ: then they have the same steps.
LogReport* next_of_job(std::vector<LogReport>& logs, const std::vector<Span>& spans, size_t which) {
  const Span& span = spans[which];
  size_t next = logs.size();
  for (size_t i = 0; i < logs.size(); ++i) {
    if (i == which || spans[i].first == nullptr || logs[i].rank != logs[which].rank) continue;
    const bool later = *spans[i].first->printed_ns > *span.last->printed_ns;
    const bool sooner = next == logs.size() || *spans[i].first->printed_ns < *spans[next].first->printed_ns;
    if (later && sooner) next = i;
  }
  if (next == logs.size()) return nullptr;
  return logs[which].rank || spans[next].first->number > span.first->number ? &logs[next] : nullptr;
}

// A job that was started again writes a log of its own, as Slurm's jobs do: the earlier log's end is a restart.
void join_chain(std::vector<LogReport>& logs) {
  std::vector<Span> spans;
  for (const LogReport& log : logs) spans.push_back(span_of(*log.log));
  for (size_t i = 0; i < logs.size(); ++i) {
    LogReport* next = spans[i].first != nullptr ? next_of_job(logs, spans, i) : nullptr;
    if (next == nullptr) continue;
    logs[i].goes_on = true, logs[i].tells_end = false;
    const LogStep& first = *spans[static_cast<size_t>(next - logs.data())].first;
    // One run in two files.
    const bool rotated = logs[i].end.kind == "unknown" && first.number > spans[i].last->number;
    if (rotated) continue;
    LogRestart restart{first.line, first.number, spans[i].last->number, logs[i].end, std::string(base_name(logs[i].path))};
    next->restarts.insert(next->restarts.begin(), std::move(restart));
  }
}

}  // namespace

void find_end_of_job(std::vector<LogReport>& logs) {
  if (logs.size() < 2) return;
  join_chain(logs);
  std::vector<PlacedEvent> events;
  for (size_t i = 0; i < logs.size(); ++i) {
    logs[i].one_of_several = true;
    if (logs[i].end.failed() && logs[i].tells_end) place_events(logs, i, events);
  }
  order_events(events);
  LogEvents ordered;
  for (const PlacedEvent& e : events) ordered.push_back(&e.event);
  const LogEvent* found = Ending(std::move(ordered)).cause();
  if (found == nullptr) return;
  const PlacedEvent& placed = events[static_cast<size_t>(found->line)];
  for (size_t i = 0; i < logs.size(); ++i) logs[i].tells_end = i == placed.log;
  LogEnd& end = logs[placed.log].end;
  const std::optional<int64_t> after_step = end.after_step;
  end = end_by(*found);
  end.line = placed.line, end.after_step = after_step;
  if (found->kind == LogEventKind::kCollectiveTimeout) set_collective(last_states(logs), end);
}

}  // namespace profgpu
