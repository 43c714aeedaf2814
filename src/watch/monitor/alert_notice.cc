#include "watch/monitor/alert_notice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/clock.h"
#include "base/hash.h"
#include "base/json_quoted.h"
#include "base/text.h"
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

// "GPU 0 of node1: …; it is 100 %"
std::string what(const AlertNotice& n) {
  const std::string gpu = n.device.empty() ? "" : "GPU " + n.device;
  std::string text = n.host.empty() ? gpu : gpu.empty() ? n.host : gpu + " of " + n.host;
  if (!n.condition.empty()) append_listed(text, n.condition, ": ");
  if (n.value) text += fmt::format("; {} is {}{}{}", n.quantity, rounded(*n.value), n.unit.empty() ? "" : " ", n.unit);
  if (!n.detail.empty()) text += "; " + n.detail;
  return text;
}

// Alerts with the same labels are the same alert.
std::string fingerprint(const std::map<std::string, std::string>& labels) {
  uint64_t hash = fnv1a("");
  for (const auto& [key, value] : labels)
    for (const std::string& text : {key, value}) hash = fnv1a("\xff", fnv1a(text, hash));
  return fmt::format("{:016x}", hash);
}

std::string json_object(const std::map<std::string, std::string>& of) {
  std::string members;
  for (const auto& [key, value] : of) append_listed(members, json_quoted(key) + ":" + json_quoted(value), ",");
  return "{" + members + "}";
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
                                               {"severity", std::string(severity_name(n.severity))},
                                               {"gpu", n.device},
                                               {"uuid", n.uuid},
                                               {"model", n.model},
                                               {"host", n.host}};
  std::map<std::string, std::string> annotations = {{"summary", what(n)}, {"description", n.advice}};
  for (auto* of : {&labels, &annotations}) std::erase_if(*of, [](const auto& pair) { return pair.second.empty(); });
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

namespace {

constexpr std::chrono::seconds kFirstPause{1}, kLongestPause{60};

struct Posted {
  std::string problem;   // empty: it was accepted
  bool again = true;     // it may be accepted later
};

Posted post_body(const HttpCall& call, const std::string& program) {
  auto answer = http_call(call, program);
  if (!answer) return {answer.error().message, true};
  if (answer->status >= 200 && answer->status < 300) return {};
  return {fmt::format("answers {}", answer->status),
          answer->status >= 500 || answer->status == 429 || answer->status == 408};
}

}  // namespace

struct Webhook::Shared {
  HttpCall call;              // without its body
  std::string program;
  std::function<void(const std::string&)> tell;

  std::mutex mutex;           // all below
  std::condition_variable changed;
  std::deque<std::string> waiting;
  std::string current;        // being posted, or to be retried; empty: none
  int64_t dropped = 0;        // since the last one was accepted
  bool failing = false, ending = false, ended = false;

  void work();
  void take(const Posted& posted, std::chrono::seconds& pause);
  HttpCall call_with(std::string body) const {
    HttpCall whole = call;
    whole.body = std::move(body);
    return whole;
  }
};

// Under `mutex`. The result of posting `current`.
void Webhook::Shared::take(const Posted& posted, std::chrono::seconds& pause) {
  const std::string name = "--webhook " + call.url.text();
  const bool accepted = posted.problem.empty(), settled = accepted || !posted.again;
  if (settled && !accepted) tell(fmt::format("{} rejects an alert: it {}", name, posted.problem));
  if (accepted && (failing || dropped > 0))
    tell(fmt::format("{} accepts alerts again{}", name, dropped == 0 ? "" : fmt::format("; {} were dropped", dropped)));
  if (!settled && !failing) tell(fmt::format("{}: {}; retrying", name, posted.problem));
  failing = !settled;
  if (accepted) dropped = 0;
  if (settled) pause = kFirstPause;
  else if (ending) ++dropped;
  if (settled || ending) current.clear();
}

void Webhook::Shared::work() {
  std::chrono::seconds pause = kFirstPause;
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [&] { return ending || !current.empty() || !waiting.empty(); });
    if (current.empty() && waiting.empty()) break;
    if (current.empty()) {
      current = std::move(waiting.front());
      waiting.pop_front();
    }
    const HttpCall whole = call_with(current);
    lock.unlock();
    const Posted posted = post_body(whole, program);
    lock.lock();
    take(posted, pause);
    if (!failing || ending) continue;
    changed.wait_for(lock, pause, [&] { return ending; });
    pause = std::min(2 * pause, kLongestPause);
  }
  if (dropped > 0)
    tell(fmt::format("--webhook {}: could not post {} alert{}", call.url.text(), dropped, dropped == 1 ? "" : "s"));
  ended = true;
  changed.notify_all();
}

Webhook::Webhook(HttpUrl url, std::chrono::milliseconds limit, std::string program,
                 std::function<void(const std::string&)> tell)
    : shared_(std::make_shared<Shared>()) {
  shared_->call.url = std::move(url);
  shared_->call.content_type = "application/json";
  shared_->call.limit = limit;
  shared_->call.most_bytes = 64 << 10;
  shared_->program = std::move(program);
  shared_->tell = std::move(tell);
  thread_ = std::thread([shared = shared_] { shared->work(); });
}

Webhook::~Webhook() { finish(std::chrono::milliseconds(0)); }

void Webhook::post(const AlertNotice& notice) {
  std::lock_guard lock(shared_->mutex);
  if (shared_->waiting.size() == kMaxWaiting) {
    shared_->waiting.pop_front();
    ++shared_->dropped;
  }
  shared_->waiting.push_back(alert_webhook_body(notice));
  shared_->changed.notify_all();
}

bool Webhook::finish(std::chrono::milliseconds patience) {
  if (!thread_.joinable()) return true;
  bool ended = false;
  {
    std::unique_lock lock(shared_->mutex);
    shared_->ending = true;
    shared_->changed.notify_all();
    ended = shared_->changed.wait_for(lock, patience, [&] { return shared_->ended; });
  }
  ended ? thread_.join() : thread_.detach();
  return ended;
}

Status Webhook::post_now(const AlertNotice& notice) const {
  const Posted posted = post_body(shared_->call_with(alert_webhook_body(notice)), shared_->program);
  if (posted.problem.empty()) return ok();
  return Error{fmt::format("{}: {}", shared_->call.url.text(), posted.problem)};
}

}  // namespace profgpu
