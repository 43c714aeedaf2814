// A simulated job, through the real importer and analyses.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "job/job.h"
#include "diagnose/rule.h"
#include "import/inputs.h"
#include "tests/support/simulator.h"

namespace profgpu {

/// Written to files, read back, analysed.
class SimulatedJob {
 public:
  explicit SimulatedJob(const sim::SimOptions& options, const sim::KinetoStyle& style = {}) {
    namespace fs = std::filesystem;
    auto result = sim::simulate(options);
    const fs::path folder = fs::temp_directory_path() / ("profgpu_sim_" + std::to_string(::getpid()));
    fs::remove_all(folder);
    fs::create_directory(folder);
    for (size_t i = 0; i < result->traces.size(); ++i)
      std::ofstream(folder / ("trace" + std::to_string(i) + ".json"), std::ios::binary)
          << sim::kineto_text(result->traces[i], style);
    auto inputs = read_inputs({folder.string()}, {});
    fs::remove_all(folder);
    if (!inputs) {
      error = inputs.error().message;
      return;
    }
    truth = sim::make_truth(options, *result, style);
    inputs_ = *std::move(inputs);
    for (const RankTrace& r : inputs_.ranks) {
      facts.push_back(std::make_unique<Facts>(r.trace, AnalysisOptions{}));
      evidence.ranks.push_back({r.rank, facts.back().get()});
    }
    if (facts.size() > 1) {
      std::vector<RankDigest> digests;
      for (const RankFacts& r : evidence.ranks) digests.push_back(rank_digest(r.rank, *r.facts));
      job = analyse_job(digests);
      evidence.job = &job;
    }
    findings = diagnose(evidence);
  }
  SimulatedJob(const SimulatedJob&) = delete;
  SimulatedJob& operator=(const SimulatedJob&) = delete;

  [[nodiscard]] const Finding* finding(std::string_view rule) const {
    for (const Finding& f : findings)
      if (f.rule == rule) return &f;
    return nullptr;
  }

  std::string error;
  sim::Truth truth;
  std::vector<std::unique_ptr<Facts>> facts;
  Job job;
  Evidence evidence;
  std::vector<Finding> findings;

 private:
  Inputs inputs_;
};

}  // namespace profgpu
