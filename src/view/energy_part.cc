// What a rank's steps drew, and what the model that the user describes computes.
#include <fmt/format.h>

#include <algorithm>

#include "analyse/report/quantity.h"
#include "base/text.h"
#include "view/device_lines.h"
#include "view/overview.h"
#include "view/wording.h"

namespace profgpu {
namespace {

constexpr double kSmall_j = 0.1;   // below that, in mJ

std::string joules_text(double j) {
  return std::abs(j) > 0 && std::abs(j) < kSmall_j ? format_number(j * 1e3) + " mJ" : format_energy(j);
}

// Less than a millionth is what rounding leaves.
std::string error_text(double error_j, double energy_j) {
  return "± " + joules_text(error_j < 1e-6 * energy_j ? 0 : error_j);
}

std::string rates_text(const EnergyTotal& total) {
  std::string text;
  if (const auto cost = total.cost()) append_listed(text, fmt::format("costs {}", format_number(*cost)));
  if (const auto co2 = total.co2_g()) append_listed(text, fmt::format("{} g of CO2", format_number(*co2)));
  return text;
}

// "A step takes 12.3 J, 1.2 mJ a token; energy times time of a step 2.1 J·s"
void add_total(const EnergyTotal& total, std::string_view of, std::vector<std::string>& to) {
  std::string text;
  if (total.per_step_j) append_listed(text, fmt::format("a step {}takes {}", of, joules_text(*total.per_step_j)));
  if (total.per_token_j) append_listed(text, fmt::format("a token {}", joules_text(*total.per_token_j)));
  if (total.per_sample_j) append_listed(text, fmt::format("a sample {}", joules_text(*total.per_sample_j)));
  if (total.delay_product_js)
    append_listed(text, fmt::format("energy times time of a step: {} J s", format_number(*total.delay_product_js)));
  if (!text.empty()) to.push_back(std::move(text));
  text = fmt::format("{} in {}", joules_text(total.energy_j), plural(total.steps, "measured step", "measured steps"));
  if (total.idle_j) append_listed(text, fmt::format("{} of it while the GPU is idle", joules_text(*total.idle_j)));
  if (total.waiting_j) append_listed(text, fmt::format("{} while waiting for later ranks", joules_text(*total.waiting_j)));
  if (const std::string rates = rates_text(total); !rates.empty()) append_listed(text, rates);
  to.push_back(std::move(text));
}

void add_rows(const std::vector<EnergyPart>& parts, const EnergyTotal& total, Table& table) {
  for (const EnergyPart& p : parts) {
    const bool known = p.amount.known_ns > 0;
    table.rows.push_back({words(p.name), p.total_ns, only_if(known, joules_text(p.amount.energy_j)),
                          only_if(known, error_text(p.amount.error_j, p.amount.energy_j)),
                          only_if(known && total.energy_j > 0, 100 * p.amount.energy_j / total.energy_j),
                          p.mean_w() ? Value(format_watts(*p.mean_w())) : Value()});
  }
}

}  // namespace

std::vector<ReportPart> energy_parts(const Report& report, const RankReport& rank) {
  const std::string suffix = rank_suffix(report, rank);
  if (!rank.energy)
    return {{"Energy" + suffix,
             {"no samples of devices beside the trace: record them with profgpu run --samples FILE, or with profgpu log, "
              "and pass --samples FILE"},
             {}}};
  const EnergySection& e = *rank.energy;
  if (!e.total) return {{"Energy" + suffix, {e.missing}, {}}};
  ReportPart part{"Energy of the measured steps" + suffix, {}, {}};
  part.table.columns = {"part", "total_ns", "energy", "error", "energy_pct", "mean power"};
  add_total(*e.total, "", part.sentences);
  part.sentences.insert(part.sentences.end(), e.notes.begin(), e.notes.end());
  Table states = part.table;
  add_rows(e.phases, *e.total, part.table);
  add_rows(e.parts, *e.total, states);
  return {std::move(part), {"Energy by what GPU " + e.device + " does" + suffix, {}, std::move(states)}};
}

ReportPart job_energy_part(const JobEnergy& job) {
  ReportPart part{fmt::format("Energy of {} of {} ranks", job.known_ranks, job.ranks), {}, {}};
  add_total(job.total, "of all of them ", part.sentences);
  return part;
}

namespace {

// The model that --model-config describes, beside the steps' time.
ReportPart model_part(const Report& report, const RankReport& rank) {
  ReportPart part{"Model" + rank_suffix(report, rank), {}, {}};
  if (!rank.model) {
    part.sentences.emplace_back("no model was described: --model-config config.json");
    return part;
  }
  const ModelSection& m = *rank.model;
  const auto billions = [](double n) { return format_number(n / 1e9); };
  if (!m.parameters) {
    part.sentences = m.notes;
    return part;
  }
  std::string sizes = fmt::format("{}: {} billion weights", m.type, billions(*m.parameters));
  if (*m.active_parameters < 0.99 * *m.parameters)
    sizes += fmt::format(", {} billion in a token's GEMMs", billions(*m.active_parameters));
  part.sentences.push_back(std::move(sizes));
  std::string flops = fmt::format("{} of a token: {} GFLOP for weights", m.training ? "forward and backward" : "forward",
                                  billions(*m.flops_per_token));
  if (m.attention_flops_per_token)
    flops += fmt::format(", {} GFLOP for attention", billions(*m.attention_flops_per_token));
  part.sentences.push_back(std::move(flops));
  if (m.tokens_per_step && m.flops_per_step)
    part.sentences.push_back(fmt::format("{} tokens of a step ({}): {} TFLOP", format_number(*m.tokens_per_step),
                                         m.tokens_source, format_number(*m.flops_per_step / 1e12)));
  if (m.tflops) {
    std::string rate = fmt::format("{} TFLOP/s", format_number(*m.tflops));
    if (m.mfu_pct)
      rate += fmt::format(": MFU {}{} of the {} peak", m.mfu_is_lower_bound() ? "at least " : "",
                          format_percent(*m.mfu_pct), upper_case(m.precision));
    part.sentences.push_back(std::move(rate));
  }
  if (m.op_flops_pct)
    part.sentences.push_back(
        fmt::format("operators' shapes count {}{} of these FLOPs", m.op_flops_is_lower_bound ? "at least " : "",
                    format_percent(*m.op_flops_pct, 1)));
  part.sentences.insert(part.sentences.end(), m.notes.begin(), m.notes.end());
  return part;
}

}  // namespace

std::vector<ReportPart> section_parts(const Report& report, std::string_view section, size_t most) {
  std::vector<ReportPart> parts;
  if (section == "energy" && report.energy && report.energy->ranks > 1)
    parts.push_back(job_energy_part(*report.energy));
  if (section == "counters" && std::ranges::none_of(report.ranks, [](const RankReport& r) { return !!r.counters; }))
    parts.push_back({"Hardware counters",
                     {"no hardware counters beside the trace: for NVIDIA GPUs, `profgpu ncu-command TRACE` prints how to record "
                      "them"},
                     {}});
  for (const RankReport& rank : report.ranks) {
    if (section == "model") parts.push_back(model_part(report, rank));
    if (section == "energy") std::ranges::move(energy_parts(report, rank), std::back_inserter(parts));
    if (section == "roofline") std::ranges::move(roofline_parts(report, rank, most), std::back_inserter(parts));
  }
  return parts;
}

}  // namespace profgpu
