#include <fmt/format.h>

#include <algorithm>

#include "analyse/rank/averaged_time.h"
#include "analyse/rank/places.h"
#include "analyse/rules/measure.h"

namespace profgpu {
namespace {

// Saving has a rule of its own.
Intervals unexplained_pauses(const Measured& m) {
  return subtract(m.facts().get<AveragedTime>().pauses, m.facts().get<Phases>().checkpoint);
}

// Of the steps and all that is between them.
std::optional<double> between_steps_value(const Measured& m) {
  const Intervals pauses = unexplained_pauses(m);
  if (pauses.empty()) return std::nullopt;
  Intervals all = m.facts().get<AveragedTime>().pauses;
  for (const Step& s : m.facts().get<Steps>().steps) all.push_back(s.elapsed);
  return percent_of(total_length(pauses), total_length(merged(std::move(all))));
}

std::string step_before(const Measured& m, const Interval& pause) {
  const std::vector<Step>& steps = m.facts().get<Steps>().steps;
  const auto next = std::ranges::lower_bound(steps, pause.end, {}, &Step::start_ns);
  return next == steps.begin() ? "" : fmt::format("step {}", std::prev(next)->index);
}

std::vector<Place> places_between_steps(const Measured& m, const Intervals& pauses) {
  const ThreadId thread = m.facts().get<Steps>().thread;
  if (!thread.valid()) return {};
  Places places(m.facts(), PlaceOf::kOwnCode);
  places.add_host_time(thread, pauses, pauses);
  return places.most_expensive();
}

void describe_time_between_steps(const Measured& m, Finding& f) {
  const Intervals pauses = unexplained_pauses(m);
  const Interval longest = *std::ranges::max_element(pauses, {}, &Interval::length);
  const auto text = [](int64_t ns) { return format_duration(static_cast<double>(ns)); };
  const int64_t all_ns = total_length(pauses);
  f.what = fmt::format("{} of the recording lie between steps", text(all_ns));
  f.why = "No step runs then: the program evaluates, loads, saves or waits.";
  if (m.has_device())
    f.why += fmt::format(" {} is busy {} of it.", m.device_label(),
                         format_percent(percent_of(total_length(intersect(m.device().busy, pauses)), all_ns)));
  f.why += " The other findings are about the steps alone.";
  f.verdict = fmt::format("For {} of the time no step runs: the loop does something else between steps, the longest "
                          "time ({}) after {}.",
                          format_percent(*f.value, 0), text(longest.length()), step_before(m, longest));
  f.evidence.push_back(fmt::format("{} {}; the longest, {}, follows {}", format_count(static_cast<int64_t>(pauses.size())),
                                   pauses.size() == 1 ? "pause" : "pauses", text(longest.length()),
                                   step_before(m, longest)));
  f.where = places_between_steps(m, pauses);
  see(f, longest);
}

}  // namespace

extern const Rule kTimeBetweenSteps = {
    .id = "time-between-steps",
    .summary = "the loop pauses between steps",
    .unit = "%",
    .threshold = 10,
    .severity = Severity::kInfo,
    .severe = 30,
    .meaning =
        "Between some steps the loop does something that is part of no step, such as an evaluation, the end of an epoch "
        "or an upload. No change to the steps makes that shorter.",
    .computation =
        "Value: time between successive steps of one recording, without saving checkpoints, as a share of the steps and "
        "all time between them. What the loop does before every step, such as loading, counts as part of the step: "
        "up to twice the median time between ranges. It has no cost: costs are of steps. Silent if a quarter of the "
        "device's work is launched outside of the steps, and for inference engines.",
    .advice = {
        "evaluate less often, or on fewer batches",
        "run uploads and logging of results in another thread or process",
        "DataLoader(…, persistent_workers=True): a new epoch does not start the workers again",
        "mark it with torch.profiler.record_function(\"evaluation\") so that reports name it, or leave it out of the "
        "recording: torch.profiler.schedule",
    },
    .seen = {Locator::At::kSteps, ""},
    .rank = {.value = between_steps_value, .describe = describe_time_between_steps, .host_alone = true},
};

}  // namespace profgpu
