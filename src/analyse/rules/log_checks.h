// What rules ask of what a job printed of itself. Each pair is a value in the rule's unit, and what to say of it.
//
// Shares are of the mean measured step, or of the time of all steps and stalls for what stands between steps. A cost is
// that of one iteration, times the measured lines: as findings count it.
#pragma once

#include <optional>

#include "analyse/report/report.h"
#include "analyse/rules/rule.h"
#include "analyse/run/flight_report.h"
#include "analyse/run/log_report.h"

namespace profgpu {

/// Checkpoints that the log times.
std::optional<double> checkpoint_pct(const LogReport& log);
void describe_checkpoints(const LogReport& log, Finding& f);

/// Fetching batches.
std::optional<double> loading_pct(const LogReport& log);
void describe_loading(const LogReport& log, Finding& f);

/// Collectives that the step waits for: reductions and gathers of gradients and parameters, not the exchange between
/// stages of a pipeline.
std::optional<double> reduction_pct(const LogReport& log);
void describe_reductions(const LogReport& log, Finding& f);

/// What the process that prints waits for other stages of its pipeline, of one iteration.
double stage_waits_ns(const LogReport& log);

/// Sets the cost to so much an iteration.
void set_log_cost(Finding& f, const LogReport& log, double iteration_ns);

/// How a run ended, and what to do about it.
struct EndSaid {
  std::string what, fix;
};
EndSaid said_of(const LogReport& log);

/// collective-hang of flight recorders and the logs beside them; nullopt: no rank waits.
std::optional<Finding> flight_hang(const Rule& rule, const Evidence& evidence);
/// Who hangs and who waits, of dumps that show a hang.
std::string flight_sentence(const Evidence& evidence);
/// Of dumps in which no rank waits.
std::string sentence_of_no_hang(const FlightReport& flight);

}  // namespace profgpu
