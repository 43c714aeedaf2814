#include "watch/exporter/kubelet_pods.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "base/clock.h"
#include "devices/system_files.h"
#include "watch/exporter/grpc_call.h"

namespace profgpu {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kHold_ns = 300 * kSecond;
// Ten readings of the devices, within these bounds.
constexpr int64_t kReadingsBetween = 10, kShortest_ns = 1 * kSecond, kLongest_ns = 10 * kSecond;

}  // namespace

std::string KubeletAnswers::take(Result<PodsByDevice> answer, int64_t now_ns) {
  const bool was_well = trouble_.empty();
  if (answer) {
    pods_ = *std::move(answer);
    good_at_ns_ = now_ns;
    trouble_.clear();
    return was_well ? "" : "the kubelet answers again";
  }
  trouble_ = answer.error().message;
  if (!was_well) return "";
  trouble_since_ns_ = now_ns;
  const std::string& hint = answer.error().hint;
  return fmt::format("the kubelet: {}{}{}{}", trouble_, hint.empty() ? "" : " (", hint, hint.empty() ? "" : ")");
}

std::string KubeletAnswers::take_absence(const std::string& socket, int64_t now_ns) {
  if (good_at_ns_ == 0 && trouble_.empty()) return "";
  return take(Error{socket + " is gone"}, now_ns);
}

const PodsByDevice* KubeletAnswers::pods(int64_t now_ns) const {
  return good_at_ns_ != 0 && now_ns - good_at_ns_ <= kHold_ns ? &pods_ : nullptr;
}

std::string KubeletAnswers::trouble(int64_t now_ns) const {
  if (trouble_.empty()) return "";
  return fmt::format("{}, for {} s", trouble_, std::max<int64_t>(0, now_ns - trouble_since_ns_) / kSecond);
}

KubeletPods::KubeletPods(std::string socket, const std::vector<DeviceInfo>& devices, int64_t interval_ns,
                         std::function<void(const std::string&)> tell)
    : socket_(std::move(socket)),
      resources_(devices, SystemRoots::from_environment().sys),
      interval_ns_(std::clamp(interval_ns * kReadingsBetween, kShortest_ns, kLongest_ns)),
      tell_(std::move(tell)) {}

void KubeletPods::start() {
  asker_ = std::jthread([this](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      ask(stop);
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, stop, std::chrono::nanoseconds(interval_ns_), [] { return false; });
    }
  });
}

void KubeletPods::stop() { asker_ = {}; }

KubeletAnswers KubeletPods::answers() const {
  std::lock_guard lock(mutex_);
  return answers_;
}

void KubeletPods::ask(const std::stop_token& stop) {
  std::string news;
  if (::access(socket_.c_str(), F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
    std::lock_guard lock(mutex_);
    news = answers_.take_absence(socket_, unix_ns());
  } else {
    auto list = grpc_call({.socket = socket_, .method = "/v1.PodResourcesLister/List"}, stop);
    if (stop.stop_requested()) return;
    auto pods = list ? resources_.read(*list) : list.error();
    std::lock_guard lock(mutex_);
    news = answers_.take(std::move(pods), unix_ns());
  }
  if (!news.empty()) tell_(news);
}

}  // namespace profgpu
