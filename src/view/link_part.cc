// What benchmarks of collectives measured, and what NCCL says of its way, in sentences and one table.
#include <fmt/format.h>

#include "analyse/report/quantity.h"
#include "analyse/run/log_report.h"
#include "base/text.h"
#include "view/overview.h"
#include "view/wording.h"

namespace profgpu {
namespace {

std::string link_text(const LinkSummary& s) {
  std::string text = s.text();
  if (s.peak_busbw_gbps) text += fmt::format(": up to {:.1f} GB/s bus bandwidth", *s.peak_busbw_gbps);
  if (s.half_bytes) text += fmt::format(", half of it from {}", format_bytes(static_cast<double>(*s.half_bytes)));
  if (s.latency_ns) text += fmt::format("; small ones take {}", format_duration(static_cast<double>(*s.latency_ns)));
  if (s.wrong > 0) text += fmt::format("; {} wrong", plural(s.wrong, "element is", "elements are"));
  return text;
}

}  // namespace

ReportPart link_part(const LogReport& log, size_t most) {
  ReportPart part{"Measured links", {}, {{"op", "size_bytes", "in_place", "time_ns", "algbw_gbps", "busbw_gbps"}, {}}};
  for (const LinkSummary& s : log.links) part.sentences.push_back(link_text(s));
  // Of a long table the largest sizes, which tell the link's rate.
  const size_t begin = log.link_rates.size() > most ? log.link_rates.size() - most : 0;
  for (size_t i = begin; i < log.link_rates.size(); ++i) {
    const LinkRow& r = log.link_rates[i];
    part.table.rows.push_back({r.op.empty() ? Value() : Value(words(r.op)), r.bytes, r.in_place ? "yes" : "no",
                               r.time_ns, r.algbw_gbps, r.busbw_gbps});
  }
  return part;
}

ReportPart copy_part(const LogReport& log, size_t most) {
  ReportPart part{"Measured copies", {}, {{"test", "pairs", "min", "median", "max", "sum", "unit"}, {}}};
  for (const CopyRow& r : log.copies.tests)
    if (part.table.rows.size() < most)
      part.table.rows.push_back({words(r.test), r.pairs, r.min, r.median, r.max, r.sum, r.unit});
  for (const SlowPair& p : log.copies.slow)
    if (part.sentences.size() < 8)
      part.sentences.push_back(fmt::format("{}, {} and {}{}: {}, usual {}", words(p.test), p.from, p.to, p.place,
                                           format_number(p.value), format_number(p.usual)));
  return part;
}

ReportPart nccl_part(const NcclReport& nccl) {
  ReportPart part{"From NCCL's log", {}, {}};
  std::string text = nccl.version.empty() ? "version unknown" : "version " + nccl.version;
  if (nccl.ranks) text += fmt::format(", {}", plural(*nccl.ranks, "rank", "ranks"));
  if (nccl.hosts) text += fmt::format(" on {}", plural(*nccl.hosts, "host", "hosts"));
  if (nccl.channels) text += fmt::format(", {}", plural(*nccl.channels, "channel", "channels"));
  part.sentences.push_back(std::move(text));
  if (!nccl.network.empty())
    part.sentences.push_back("network: " + nccl.network +
                             (nccl.network_devices.empty() ? "" : ", " + nccl.network_devices));
  std::string ways;
  for (const NcclTransport& t : nccl.transports)
    append_listed(ways, fmt::format("{} ({})", t.transport, format_count(t.connections)));
  if (!ways.empty()) part.sentences.push_back("connections between GPUs: " + ways);
  for (const NcclRemark& r : nccl.remarks) {
    if (part.sentences.size() >= 8) break;
    part.sentences.push_back(
        fmt::format("line {}: {}{}", r.line, r.text, r.count > 1 ? fmt::format(" (and {} more)", r.count - 1) : ""));
  }
  return part;
}

}  // namespace profgpu
