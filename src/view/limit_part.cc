// How far a rank is from what its device could do.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "analyse/report/quantity.h"
#include "base/text.h"
#include "view/overview.h"
#include "view/wording.h"

namespace profgpu {
namespace {

constexpr double kMinSharePct = 2;   // smaller parts of the distance are only in its section
constexpr double kMinLeftOutPct = 1;   // of a step; of less the figures of a step do not differ
constexpr size_t kMaxShares = 4;
constexpr size_t kMaxMissing = 3;
constexpr size_t kMaxName = 72;
constexpr double kNearlyAllPct = 90;   // of kernel time: less is said

struct PartWords {
  std::string_view part, words;
};
constexpr std::array kPartWords = {PartWords{"necessary_work", "the least time for its work"},
                                   PartWords{"products", "GEMMs below peak"},
                                   PartWords{kReducedClock, "a clock below that of the peaks"},
                                   PartWords{"memory_bound", "kernels below memory bandwidth"},
                                   PartWords{"small_kernels", "kernels too small for the GPU"},
                                   PartWords{"recomputation", "recomputation"},
                                   PartWords{"unknown_work", "kernels of unknown work"},
                                   PartWords{"exposed_communication", "exposed communication"},
                                   PartWords{"exposed_copies", "exposed copies"},
                                   PartWords{"outside", "before or after all device work"}};

}  // namespace

std::string distance_part_words(std::string_view part) {
  for (const PartWords& p : kPartWords)
    if (p.part == part) return std::string(p.words);
  return words(part);
}

namespace {

constexpr std::string_view kLeftOutWords = "left out: untraced work or no requests";

// Of what is beyond the limit. Idle time of all causes is one share.
std::vector<Share> shares_of(const Distance& d) {
  std::vector<Share> shares;
  Share idle{"idle", std::nullopt, 0};
  for (const DistancePart& p : d.parts) {
    if (p.name.starts_with("idle")) idle.pct += p.wall_pct;
    else if (p.name != "necessary_work" && p.name != "unknown_work")
      shares.push_back({distance_part_words(p.name), std::nullopt, p.wall_pct});
  }
  shares.push_back(idle);
  std::erase_if(shares, [](const Share& s) { return s.pct < kMinSharePct; });
  std::ranges::stable_sort(shares, std::greater(), &Share::pct);
  shares.resize(std::min(shares.size(), kMaxShares));
  return shares;
}

std::string utilization_text(const Roofline& r, const Limits& limits) {
  std::string text;
  const auto add = [&](std::string_view name, std::optional<double> pct) {
    if (pct) append_listed(text, fmt::format("{} {}", name, format_percent(*pct, 0)));
  };
  add(r.mfu_is_lower_bound() ? "MFU at least" : "MFU", r.mfu_pct);
  if (r.hfu_pct && *r.hfu_pct - r.mfu_pct.value_or(0) >= 0.5)
    add(r.mfu_is_lower_bound() ? "HFU at least" : "HFU", r.hfu_pct);
  add(r.mbu_is_lower_bound ? "MBU at least" : "MBU", r.mbu_pct);
  if (r.clock_mfu_pct && limits.clock_mhz && std::abs(*r.clock_mfu_pct - *r.mfu_pct) >= 0.5)
    append_listed(text, fmt::format("{} of what its clock of {} allows", format_percent(*r.clock_mfu_pct, 0),
                                    format_count(std::llround(*limits.clock_mhz)) + " MHz"));
  if (r.known_pct && *r.known_pct < kNearlyAllPct)
    append_listed(text, fmt::format("limit known for {} of kernel time", format_percent(*r.known_pct, 0)));
  return text;
}

std::string sentence_of(const RankReport& rank, const std::string& suffix) {
  const Distance& d = rank.distance;
  const std::string utilization = utilization_text(rank.roofline, rank.limits);
  const std::string_view of = rank.steps.marked() ? "step" : "trace";
  const auto each = [&](int64_t ns) {
    return format_duration(static_cast<double>(ns) / static_cast<double>(std::max<int64_t>(d.steps, 1)));
  };
  const bool in_part = percent_of(d.left_out_ns, d.steps_ns()) >= kMinLeftOutPct;
  const std::string what = in_part ? fmt::format("the known {} of this {}'s {}", each(d.wall_ns), of, each(d.steps_ns()))
                                   : fmt::format("this {}", of);
  const std::string shares = joined(shares_of(d), ", ", [](const Share& s) {
    return fmt::format("{} {}", format_percent(s.pct, 0), s.name);
  });
  std::string at_limit;
  const bool none_faster = *d.times_limit < 1.05;
  if (none_faster)
    at_limit = fmt::format("The hardware could run {} no faster", what + suffix);
  else if (*d.times_limit < kMaxTimesLimit)
    at_limit = fmt::format("The hardware could run {} {}{:.1f}x as fast", what + (suffix.empty() ? "" : suffix + ","),
                           d.times_limit_is_lower_bound ? "at least " : "", *d.times_limit);
  else
    at_limit = fmt::format("At the hardware's limit {} would take {}{}{}", what + suffix,
                           d.times_limit_is_lower_bound ? "at most " : "", each(*d.limit_ns),
                           in_part ? "" : " instead of " + each(d.wall_ns));
  return at_limit + (utilization.empty() ? "." : " (" + utilization + ").") +
         (shares.empty() || none_faster ? "" : " What keeps it from that: " + shares + ".");
}

ReportPart summary_part(const RankReport& rank, const std::string& suffix) {
  ReportPart part{"Distance from the limit" + suffix, {}, {{"part", "total_ns", "wall_pct"}, {}}};
  if (const auto& device = rank.limits.device) {
    const std::string peaks = joined(rank.limits.peaks(), ", ", [](const PeakRow& p) {
      return fmt::format("{} {:.4g}", upper_case(p.precision), p.tflops);
    });
    std::string rates = peaks.empty() ? "" : peaks + " TFLOP/s";
    if (device->memory_gbps > 0) rates += (rates.empty() ? "memory " : "; memory ") + format_gbps(device->memory_gbps);
    part.sentences.push_back(fmt::format("Limits of {}: {}. From: {}", device->name, rates, device->source));
    if (const auto ratio = rank.limits.clock_ratio())
      part.sentences.push_back(fmt::format("The clock was {} MHz, the peaks are of {} MHz: GEMMs can reach {} of them",
                                           format_count(std::llround(*rank.limits.clock_mhz)),
                                           format_count(device->clock_mhz), format_percent(100 * *ratio, 0)));
  }
  if (rank.distance.is_known()) part.sentences.push_back(sentence_of(rank, ""));
  for (size_t i = 0; i < std::min(rank.roofline.missing.size(), kMaxMissing); ++i)
    part.sentences.push_back(rank.roofline.missing[i]);
  if (rank.counters && rank.counters->limit_error_pct)
    part.sentences.push_back(
        fmt::format("Nsight Compute measured {} launches of kernels in the trace: for these, the limits below are off "
                    "by {:.0f} percentage points on average (--section counters)",
                    rank.counters->matched, *rank.counters->limit_error_pct));
  if (!rank.distance.limit_ns) {
    if (part.sentences.empty()) part.sentences.emplace_back("no device was recorded");
    return part;
  }
  for (const DistancePart& p : rank.distance.parts)
    part.table.rows.push_back({distance_part_words(p.name), p.total_ns, p.wall_pct});
  if (rank.distance.left_out_ns > 0)
    part.table.rows.push_back({std::string(kLeftOutWords), rank.distance.left_out_ns, Value()});
  return part;
}

// Of operators with their shapes, which tell calls of one name apart.
Table rows_table(const std::vector<RooflineRow>& rows, std::string title, size_t most) {
  Table table{{std::move(title), "calls", "total_ns", "limit_pct", "tflops", "memory_gbps", "bound"}, {}};
  for (size_t i = 0; i < std::min(rows.size(), most); ++i) {
    const RooflineRow& r = rows[i];
    std::string bound(r.recomputed ? "recomputed" : bound_name(r.bound));
    if (r.precision != Precision::kUnknown) bound += fmt::format(", {}", precision_name(r.precision));
    if (r.flops && r.flops_is_lower_bound) bound += ", FLOPs at least";
    const std::string name = r.shapes ? r.name + " " + *r.shapes : short_kernel_name(r.name);
    table.rows.push_back({shortened(name, kMaxName), r.count, r.total_ns, r.limit_pct(), r.tflops(), r.memory_gbps(),
                          std::move(bound)});
  }
  return table;
}

}  // namespace

std::string distance_sentence(const Report& report, const RankReport& rank) {
  return rank.distance.is_known() ? sentence_of(rank, rank_suffix(report, rank)) : "";
}

std::vector<ReportPart> roofline_parts(const Report& report, const RankReport& rank, size_t most) {
  const std::string suffix = rank_suffix(report, rank);
  std::vector<ReportPart> parts = {summary_part(rank, suffix)};
  if (rank.roofline.ops.empty()) return parts;
  parts.push_back({"Operators and their limits" + suffix, {}, rows_table(rank.roofline.ops, "op", most)});
  parts.push_back({"Kernels and their limits" + suffix, {}, rows_table(rank.roofline.kernels, "kernel", most)});
  return parts;
}

}  // namespace profgpu
