#include "watch/monitor/webhook.h"

#include <fmt/format.h>

#include <algorithm>

namespace profgpu {
namespace {

constexpr std::chrono::seconds kFirstPause{1}, kLongestPause{60};

struct Posted {
  std::string problem;   // empty: it was taken
  bool again = true;     // it may be taken later
};

bool may_be_taken_later(unsigned status) { return status >= 500 || status == 429 || status == 408; }

Posted post_body(const HttpCall& call, const std::string& program) {
  auto answer = http_call(call, program);
  if (!answer) return {answer.error().message, true};
  if (answer->status >= 200 && answer->status < 300) return {};
  return {fmt::format("answers {}", answer->status), may_be_taken_later(answer->status)};
}

}  // namespace

struct Webhook::Shared {
  HttpCall call;              // but for its body
  std::string program;
  std::function<void(const std::string&)> tell;

  std::mutex mutex;           // all below
  std::condition_variable changed;
  std::deque<std::string> waiting;
  std::string current;        // being posted, or to be tried again; empty: none
  int64_t dropped = 0;        // since posting began to fail
  bool failing = false, ending = false, ended = false;

  void work();
  void take(const Posted& posted, std::chrono::seconds& pause);
  HttpCall call_with(std::string body) const {
    HttpCall whole = call;
    whole.body = std::move(body);
    return whole;
  }
};

// Under `mutex`. What came of posting `current`.
void Webhook::Shared::take(const Posted& posted, std::chrono::seconds& pause) {
  const std::string name = "--webhook " + call.url.text();
  if (!posted.problem.empty() && !posted.again) tell(fmt::format("{} refuses an alert: it {}", name, posted.problem));
  const bool taken = posted.problem.empty() || !posted.again;
  if (taken && failing)
    tell(fmt::format("{} takes alerts again{}", name, dropped == 0 ? "" : fmt::format("; {} were dropped", dropped)));
  if (!taken && !failing) tell(fmt::format("{}: {}; it is tried again", name, posted.problem));
  failing = !taken;
  if (taken) {
    dropped = 0;
    pause = kFirstPause;
  } else if (ending) {
    ++dropped;
  }
  if (taken || ending) current.clear();
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
    tell(
        fmt::format("--webhook {}: {} alert{} could not be posted", call.url.text(), dropped, dropped == 1 ? "" : "s"));
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
