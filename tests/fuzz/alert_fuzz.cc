// Alerts and addresses as people write them: whatever the text, it is read or refused with a word.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/text.h"
#include "watch/exporter/http_client.h"
#include "watch/live/remote_source.h"
#include "watch/monitor/alert_rule.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace profgpu;
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> lines;
  for (const std::string_view line : pieces_of(text, '\n')) lines.emplace_back(line);
  const auto rules = alerts_in_force(shipped_alerts(), lines);
  if (!rules && rules.error().message.empty()) std::abort();
  for (const AlertRule& rule : rules ? *rules : std::vector<AlertRule>()) {
    if (rule.name.empty() || rule.conditions.empty() || rule.hold_ns < 0 || rule.clear_after_ns < 0) std::abort();
    for (const AlertCondition& c : rule.conditions)
      if (!std::isfinite(c.raise) || !std::isfinite(c.until) || c.window_ns < 0) std::abort();
  }
  for (const auto& url : {parse_http_url(text), remote_address(text)})
    if (url && (url->host.empty() || port_number(url->port).value_or(0) == 0 || !url->target.starts_with('/')))
      std::abort();
  return 0;
}
