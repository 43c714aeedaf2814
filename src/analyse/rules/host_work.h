// What the host does while the device waits for it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "analyse/rules/measure.h"

namespace profgpu {

/// The thread that works until a gap's launch: the launching one, or if that has nothing to do yet, that of the steps.
class GapThreads {
 public:
  explicit GapThreads(const Measured& measured);
  ThreadId operator()(const Gap& gap);
  /// A thread's time in operators, calls and Python frames. Ranges that the program marks only enclose its work.
  const Intervals& recorded(ThreadId thread);

 private:
  const Trace& trace_;
  ThreadId steps_;
  std::map<ThreadId, Intervals> recorded_;
};
/// The first, if it is a function or a range with a name in which the host spends a good part of that idle time; null:
/// it is not.
const Place* main_place(const std::vector<Place>& places, int64_t idle_ns);
/// Whether inputs are prepared there: loaded, decoded, tokenized.
bool prepares_inputs(const Place& place);
bool saves_checkpoint(const Place& place);
/// Of a call of the C library: what it waits for, and what to do about it; null: it is none that is known.
struct SystemWait {
  std::string_view words, fix;
};
const SystemWait* system_wait(const Place& place);
/// Whether only other ranks end what the host does there.
bool awaits_ranks(const Place& place);
constexpr std::string_view kSaveInBackground = "save checkpoints in the background: "
                                               "torch.distributed.checkpoint.async_save(…)";
/// What a user of a library can do about a function of its own in which the host is during a cause's gaps.
std::vector<std::string> library_fixes(const Measured& measured, const Place& place, IdleCause cause);
/// Says where recording makes the host slower, and so the cost of its work the most that it can be.
void add_slow_recording(const Measured& measured, Finding& finding);
/// "mostly", "34 % of it"
std::string part_text(const Place& place, int64_t idle_ns);
/// Whether most of a cause's idle time in measured steps is in gaps longer than launches take: the host does something
/// else.
bool has_long_gaps(const Measured& measured, IdleCause cause);
/// What launching threads do in a cause's gaps of measured steps outside every operator, call and Python frame, for
/// longer than Python takes between them.
struct UnrecordedWork {
  int64_t gaps_ns = 0, ns = 0;
  [[nodiscard]] bool is_most() const { return 2 * ns > gaps_ns; }
};
UnrecordedWork unrecorded_work(const Measured& measured, IdleCause cause);

}  // namespace profgpu
