// How far each process got with its collectives, as PyTorch's watchdog says when one takes too long:
//
//   [PG ID 0 PG GUID 0(default_pg) Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=808,
//   OpType=ALLREDUCE, NumelIn=4096, …) ran for 600030 milliseconds before timing out.
//   [PG ID 0 PG GUID 0(default_pg) Rank 3]  failure detected by watchdog at work sequence id: 808 PG status: last
//   enqueued work: 811, last completed work: 807
//   [PG ID 0 PG GUID 0(default_pg) Rank 2] Received a dump signal due to a collective timeout from rank 0 … Last
//   enqueued NCCL work: 807, last completed NCCL work: 807.
//   [Rank 3] Timeout at NCCL work: 808, last enqueued NCCL work: 811, last completed NCCL work: 807.         older
#include <map>

#include "base/text.h"
#include "trace/import/log/log_family.h"

namespace profgpu {
namespace {

constexpr size_t kMaxStates = 20'000;

std::optional<int64_t> first_after(std::string_view text, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys)
    if (const auto number = integer_after(text, key); number && *number >= 0) return number;
  return std::nullopt;
}

class CollectiveStates : public LogReading {
 public:
  bool read(const LogLine& line, LogBuilder& rows) override {
    const std::string_view text = line.text;
    const auto timed_out = first_after(text, {"WorkNCCL(SeqNum=", "at work sequence id: ", "Timeout at NCCL work: "});
    const auto enqueued =
        first_after(text, {"last enqueued work: ", "last enqueued NCCL work: ", "Last enqueued NCCL work: "});
    if (!timed_out && !enqueued) return false;
    CollectiveState* state = state_of(line, rows);
    if (state == nullptr) return false;
    if (timed_out && !state->timed_out) state->timed_out = timed_out;
    if (enqueued) state->enqueued = enqueued;
    if (const auto done = first_after(text, {"last completed work: ", "last completed NCCL work: "}))
      state->completed = done;
    const auto op = after(text, "OpType=");
    if (!op || !state->op.empty()) return true;
    state->op = quotable(op->substr(0, op->find_first_of(",)")));
    state->elements = first_after(text, {"NumelIn="}).value_or(0);
    return true;
  }

 private:
  // "[PG ID 0 PG GUID 0(default_pg) Rank 3]", "[PG 0 Rank 3]", "[Rank 3]".
  CollectiveState* state_of(const LogLine& line, LogBuilder& rows) {
    const size_t mark = line.text.rfind("Rank ", line.text.find(']', line.text.find("Rank ")));
    if (mark == line.text.npos) return nullptr;
    // The bracket's rank is that within the group; the job's is the line's label: "[rank13]:".
    const auto rank = line.rank >= 0 ? std::optional<int64_t>(line.rank) : leading_integer(line.text.substr(mark + 5));
    if (!rank || *rank < 0 || *rank >= 10'000'000) return nullptr;
    const size_t begin = line.text.rfind("[PG ", mark);
    std::string group =
        begin == line.text.npos ? "" : quotable(without_blanks(line.text.substr(begin + 4, mark - begin - 4)));
    // Each process has a number of its own for a group ("ID 1"), and all have one ("GUID 15") together.
    if (const size_t shared = group.find("GUID "); shared != group.npos) group.erase(0, shared + 5);
    const std::vector<LogEvent>& events = rows.log().events;
    for (; seen_ < events.size(); ++seen_)
      if (events[seen_].kind == LogEventKind::kRestart) of_this_run_.clear();
    std::vector<CollectiveState>& all = rows.log().collectives;
    const auto [place, added] = of_this_run_.try_emplace({group, static_cast<int>(*rank)}, all.size());
    if (!added) return &all[place->second];
    if (all.size() >= kMaxStates) return of_this_run_.erase(place), nullptr;
    CollectiveState& s = all.emplace_back();
    s.group = group, s.rank = static_cast<int>(*rank), s.of_group = line.rank < 0, s.line = line.number;
    return &s;
  }

  size_t seen_ = 0;   // of the log's events
  std::map<std::pair<std::string, int>, size_t> of_this_run_;   // since the job was restarted: by group and rank
};

}  // namespace

extern const LogFamily kCollectiveStates = {"collectives",
                                            "PyTorch's watchdog: how far each process got with its collectives",
                                            {"WorkNCCL(SeqNum=", "ast enqueued "},
                                            [] { return std::unique_ptr<LogReading>(new CollectiveStates); },
                                            false};

}  // namespace profgpu
