// What a first screen says of several ranks as one job, in sentences; see cluster_parts.h for the tables.
#pragma once

#include <string>
#include <vector>

#include "present/overview.h"
#include "job/report.h"

namespace profgpu {

struct JobOverview {
  std::string title;                  ///< "8 ranks on 2 hosts: data parallel (DDP), 87 % of communication hidden"
  std::vector<std::string> missing;   ///< collectives that ranks never came to, or have no record of
  std::vector<std::string> notes;     ///< what keeps ranks from being compared
  /// What a step would take otherwise: "A step of 24.2 ms would take 18.6 ms with input always ready"; and clocks apart.
  std::vector<std::string> remarks;
};

/// Empty for one rank.
JobOverview job_overview(const Report& report);

/// "late by 3.10 ms a step (12 %): slow input"; empty for a rank that is not late.
std::string late_text(const RankStanding& rank);
/// Of a code of `stragglers`: "slow input".
std::string straggler_words(std::string_view kind);
/// "data parallel (DDP)"
std::string parallelism_name(const Parallelism& way);
/// "with rank 3 like the others"
std::string change_words(const WhatIf& change);

}  // namespace profgpu
