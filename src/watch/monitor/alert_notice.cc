#include "watch/monitor/alert_notice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/hash.h"
#include "base/json_quoted.h"
#include "base/text.h"
#include "base/timestamp.h"
#include "trace/sample.h"

namespace profgpu {
namespace {

std::string_view state_of(const AlertNotice& n) { return n.raised ? "raised" : "cleared"; }

std::string rounded(double value) {
  std::string out;
  append_number(out, std::round(value * 1000) / 1000);
  return out;
}

std::string iso(int64_t unix_ns) { return timestamp_text(unix_ns, TimestampStyle::kIso); }

std::string where(const AlertNotice& n) {
  const std::string gpu = n.device.empty() ? "" : "GPU " + n.device;
  return n.host.empty() ? gpu : gpu.empty() ? n.host : gpu + " of " + n.host;
}

// "GPU 0 of node1: …; it is 100 %"
std::string what(const AlertNotice& n) {
  std::string text = where(n);
  if (!n.condition.empty()) append_listed(text, n.condition, ": ");
  if (n.value) text += fmt::format("; {} is {}{}{}", n.quantity, rounded(*n.value), n.unit.empty() ? "" : " ", n.unit);
  if (!n.detail.empty()) text += "; " + n.detail;
  return text;
}

// Alerts of the same labels are the same alert.
std::string fingerprint(const std::map<std::string, std::string>& labels) {
  uint64_t hash = fnv1a("");
  for (const auto& [key, value] : labels)
    for (const std::string& text : {key, value}) hash = fnv1a("\xff", fnv1a(text, hash));
  return fmt::format("{:016x}", hash);
}

std::string json_object(const std::map<std::string, std::string>& of) {
  std::string out = "{";
  for (const auto& [key, value] : of)
    out += fmt::format("{}{}:{}", out.size() > 1 ? "," : "", json_quoted(key), json_quoted(value));
  return out + "}";
}

}  // namespace

std::string alert_summary(const AlertNotice& n) {
  return fmt::format("{} {} ({}): {}", state_of(n), n.name, severity_name(n.severity), what(n));
}

std::string alert_row(const AlertNotice& n) {
  std::string out = fmt::format("{{\"time_ns\":{}", n.time_ns);
  if (!n.device.empty())
    out += ",\"device\":" + (n.device.size() < 10 && all_digits(n.device) ? n.device : json_quoted(n.device));
  const auto add = [&](std::string_view key, std::string_view text) {
    if (text.empty()) return;
    out.append(out.back() == '{' ? "\"" : ",\"").append(key).append("\":");
    append_json_quoted(out, text);
  };
  add("uuid", n.uuid);
  add("host", n.host);
  out += ",\"alert\":{";
  add("name", n.name);
  add("state", state_of(n));
  add("severity", severity_name(n.severity));
  add("condition", n.condition);
  add("quantity", n.quantity);
  if (n.value) out += ",\"value\":" + rounded(*n.value);
  out += fmt::format(",\"since_ns\":{}", n.since_ns);
  add("detail", n.detail);
  add("model", n.model);
  add("summary", what(n));
  add("advice", n.advice);
  return out + "}}\n";
}

std::vector<std::string> alert_variables(const AlertNotice& n) {
  return {"PROFGPU_ALERT=" + n.name,
          fmt::format("PROFGPU_ALERT_STATE={}", state_of(n)),
          fmt::format("PROFGPU_ALERT_SEVERITY={}", severity_name(n.severity)),
          "PROFGPU_ALERT_CONDITION=" + n.condition,
          "PROFGPU_ALERT_VALUE=" + (n.value ? rounded(*n.value) : ""),
          "PROFGPU_ALERT_TIME=" + iso(n.time_ns),
          "PROFGPU_ALERT_SINCE=" + iso(n.since_ns),
          "PROFGPU_ALERT_GPU=" + n.device,
          "PROFGPU_ALERT_UUID=" + n.uuid,
          "PROFGPU_ALERT_MODEL=" + n.model,
          "PROFGPU_ALERT_HOST=" + n.host,
          "PROFGPU_ALERT_SUMMARY=" + what(n)};
}

std::string alert_webhook_body(const AlertNotice& n) {
  std::map<std::string, std::string> labels = {{"alertname", n.name},
                                               {"severity", std::string(severity_name(n.severity))}};
  const auto label = [&](const char* key, const std::string& value) {
    if (!value.empty()) labels[key] = value;
  };
  label("gpu", n.device);
  label("uuid", n.uuid);
  label("model", n.model);
  label("host", n.host);
  std::map<std::string, std::string> annotations = {{"summary", what(n)}};
  if (!n.advice.empty()) annotations["description"] = n.advice;
  const std::string_view status = n.raised ? "firing" : "resolved";
  const std::string group = json_object({{"alertname", n.name}});
  const std::string alert = fmt::format(
      R"({{"status":"{}","labels":{},"annotations":{},"startsAt":"{}","endsAt":"{}","generatorURL":"","fingerprint":"{}"}})",
      status, json_object(labels), json_object(annotations), iso(n.since_ns),
      n.raised ? "0001-01-01T00:00:00Z" : iso(n.time_ns), fingerprint(labels));
  return fmt::format(
      R"({{"version":"4","groupKey":{},"truncatedAlerts":0,"status":"{}","receiver":"profgpu","groupLabels":{},"commonLabels":{},)"
      R"("commonAnnotations":{},"externalURL":"","alerts":[{}]}})",
      json_quoted("{}:" + group), status, group, json_object(labels), json_object(annotations), alert);
}

}  // namespace profgpu
