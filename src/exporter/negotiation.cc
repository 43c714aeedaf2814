#include "exporter/negotiation.h"

#include <algorithm>
#include <string>

#include "base/decimal.h"
#include "collect/system_files.h"

namespace profgpu {
namespace {

// "text/plain;version=0.0.4;q=0.5": whether it is `name`, and how much it is liked.
double liking(std::string_view list, std::string_view name) {
  double best = 0;
  for (const std::string_view entry : pieces_of(list, ',')) {
    const auto parts = pieces_of(entry, ';');
    if (parts.empty()) continue;
    std::string own(without_blanks(parts[0]));
    std::transform(own.begin(), own.end(), own.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    if (own != name) continue;
    double q = 1;
    for (const std::string_view p : parts)
      if (const auto part = without_blanks(p); part.starts_with("q=")) q = real_number(part.substr(2)).value_or(0);
    best = std::max(best, q);
  }
  return best;
}

}  // namespace

ExpositionFormat wanted_format(std::string_view accept) {
  const double open = liking(accept, "application/openmetrics-text");
  return open > 0 && open >= liking(accept, "text/plain") ? ExpositionFormat::kOpenMetrics
                                                          : ExpositionFormat::kPrometheus;
}

bool takes_gzip(std::string_view accept_encoding) { return liking(accept_encoding, "gzip") > 0; }

}  // namespace profgpu
