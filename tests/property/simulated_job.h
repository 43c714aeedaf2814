// A simulated job, through the real importer and analyses.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "analyse/job/job.h"
#include "tests/support/diagnosed.h"
#include "tests/support/sim_samples.h"
#include "tests/support/simulator.h"
#include "tests/support/read_inputs.h"

namespace profgpu {

/// Written to files, read back, analysed.
class SimulatedJob {
 public:
  /// `sampled_hosts`: what samples call their hosts instead, in their order, "" not at all.
  explicit SimulatedJob(const sim::SimOptions& options, const sim::KinetoStyle& style = {},
                        std::optional<std::string> sampled_hosts = std::nullopt) {
    namespace fs = std::filesystem;
    auto result = sim::simulate(options);
    const fs::path folder = fs::temp_directory_path() / ("profgpu_sim_" + std::to_string(::getpid()));
    fs::remove_all(folder);
    fs::create_directory(folder);
    for (size_t i = 0; i < result->traces.size(); ++i)
      std::ofstream(folder / ("trace" + std::to_string(i) + ".json"), std::ios::binary)
          << sim::kineto_text(result->traces[i], style);
    truth = sim::make_truth(options, *result, style);
    const auto of_clocks = [](const sim::FaultUse& f) { return f.name == "straggler-clocks"; };
    if (std::any_of(options.faults.begin(), options.faults.end(), of_clocks))
      write_samples(folder, options, *result, style, sampled_hosts);
    auto inputs = read_inputs({folder.string()}, {});
    fs::remove_all(folder);
    if (!inputs) {
      error = inputs.error().message;
      return;
    }
    inputs_ = *std::move(inputs);
    std::vector<RankDigest> digests;
    for (const RankTrace& r : inputs_.ranks) {
      const Facts& f = *facts.emplace_back(std::make_unique<Facts>(r.trace, AnalysisOptions{}));
      ranks.push_back({r.rank, &f});
      evidence.ranks.push_back(diagnose_rank(ranks.back(), evidence.thresholds));
      if (inputs_.ranks.size() > 1) digests.push_back(rank_digest(r.rank, f));
    }
    if (facts.size() > 1) {
      std::vector<const RankDiagnosis*> diagnoses;
      for (const RankDiagnosis& r : evidence.ranks) diagnoses.push_back(&r);
      job = analyse_job(digests, inputs_.samples, own_savings(diagnoses));
      evidence.job = &job;
    }
    Diagnosis diagnosis = diagnose(evidence);
    findings = std::move(diagnosis.findings);
    checklist = std::move(diagnosis.checklist);
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
  std::vector<RankFacts> ranks;
  Job job;
  Evidence evidence;
  std::vector<Finding> findings;
  std::vector<Check> checklist;

 private:
  static void write_samples(const std::filesystem::path& folder, const sim::SimOptions& options,
                            const sim::SimResult& result, const sim::KinetoStyle& style,
                            const std::optional<std::string>& hosts) {
    std::vector<sim::TraceTruth> traces;
    for (const sim::RankTrace& t : result.traces) traces.push_back(sim::trace_truth(t, style));
    std::istringstream names(hosts.value_or(""));
    for (sim::SampleText& s : sim::sample_texts(options, traces)) {
      std::string name;
      names >> name;
      if (hosts) replace_all(s.text, ",\"host\":\"" + s.host + "\"", name.empty() ? "" : ",\"host\":\"" + name + "\"");
      std::ofstream(folder / ("samples" + s.host + ".jsonl"), std::ios::binary) << s.text;
    }
  }

  static void replace_all(std::string& text, const std::string& from, const std::string& to) {
    for (size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size())) text.replace(at, from.size(), to);
  }

  Inputs inputs_;
};

}  // namespace profgpu
