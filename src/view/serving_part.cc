#include <fmt/format.h>

#include "analyse/report/quantity.h"
#include "view/overview.h"
#include "view/wording.h"

namespace profgpu {

ReportPart serving_part(const Serving& serving) {
  ReportPart part{"Engine steps", {}, {{"kind", "count", "median_ns", "p95_ns", "sequences", "tokens", "graphs"}, {}}};
  for (const ServingKind& k : serving.kinds) {
    const auto whole = [](const std::optional<double>& mean) -> Value { return mean ? format_number(*mean) : Value(); };
    part.table.rows.push_back({step_kind_name(k.kind), k.count, whole_ns(k.median_ns), whole_ns(k.p95_ns),
                               whole(k.sequences), whole(k.tokens),
                               k.graph_pct == 0 ? "none" : k.graph_pct == 100 ? "replayed" : format_percent(k.graph_pct)});
  }
  if (serving.token_interval_ns)
    part.sentences.push_back(fmt::format("a token every {} for each sequence",
                                         format_duration(*serving.token_interval_ns)));
  if (serving.tokens_per_s)
    part.sentences.push_back(fmt::format("{} tokens a second while the engine works",
                                         format_count(static_cast<int64_t>(*serving.tokens_per_s))));
  if (serving.between_ns > 0) {
    std::string text = fmt::format("{} between steps, {} of the time", format_duration(serving.between_ns),
                                   format_percent(serving.between_pct));
    for (size_t i = 0; i < serving.between.size() && i < 3; ++i) {
      const Place& p = serving.between[i];
      text += fmt::format("{} {} {}", i == 0 ? ":" : ",", p.name, format_duration(static_cast<double>(p.ns)));
    }
    part.sentences.push_back(std::move(text));
  }
  return part;
}

}  // namespace profgpu
