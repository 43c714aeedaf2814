#include "watch/exporter/metrics_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/clock.h"
#include "base/file_text.h"
#include "base/gzip.h"
#include "base/steady_unix.h"
#include "base/text.h"
#include "watch/exporter/exposition.h"

namespace profgpu {
namespace {

constexpr int64_t kMillisecond_ns = 1'000'000, kSecond_ns = 1'000'000'000;
constexpr int64_t kPageHolds_ns = 1 * kSecond_ns;               // without a new reading
constexpr int64_t kPageHoldsAlways_ns = 20 * kMillisecond_ns;   // many requests at once get the same page
constexpr size_t kPageGrows = 4096;                             // bytes, from one page to the next
constexpr int kGzipLevel = 1;                                   // low: a page is used for about one scrape
constexpr int64_t kWatchEvery_ns = 1 * kSecond_ns, kJobsEvery_ns = 5 * kSecond_ns;

SamplerOptions sampling_of(const MetricsServiceOptions& options) {
  SamplerOptions sampling;
  sampling.interval_ns = options.interval_ns;
  sampling.process_interval_ns = std::max(options.interval_ns, 5 * kSecond_ns);
  sampling.devices = options.devices;
  sampling.ends_ns = 1 * kSecond_ns;
  return sampling;
}

HttpReply text_reply(unsigned status, std::string text) {
  HttpReply reply;
  reply.status = status;
  reply.body = std::make_shared<const std::string>(std::move(text));
  return reply;
}

}  // namespace

MetricsService::MetricsService(std::shared_ptr<Backend> backend, MetricsServiceOptions options,
                               std::function<void(const std::string&)> tell)
    : backend_(std::move(backend)),
      options_(std::move(options)),
      tell_(std::move(tell)),
      tallies_(backend_->devices(), options_.devices, options_.interval_ns),
      sampler_(backend_, sampling_of(options_), [this](const Reading& r) { tallies_.add(r); }),
      device_jobs_(options_.job_mapping),
      start_ns_(unix_ns()),
      jobs_(options_.devices.size()) {
  if (!options_.kubelet_socket.empty())
    kubelet_.emplace(options_.kubelet_socket, backend_->devices(), options_.interval_ns, tell_);
}

MetricsService::~MetricsService() { stop(); }

void MetricsService::start() {
  sampler_.start();
  watcher_ = std::thread([this] { watch(); });
  if (kubelet_) kubelet_->start();
}

void MetricsService::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (watcher_.joinable()) watcher_.join();
  if (kubelet_) kubelet_->stop();
  sampler_.stop();
}

MetricsPageInput MetricsService::page_input(const HttpFigures& figures) const {
  MetricsPageInput input;
  input.host = options_.host;
  input.names = options_.names;
  input.counters = &options_.counters;
  input.now_ns = steady_unix_ns();
  std::vector<DeviceTally> tallies = tallies_.copy();
  const std::vector<DeviceHealth> health = sampler_.health();
  {
    std::lock_guard lock(mutex_);
    for (size_t i = 0; i < tallies.size(); ++i)
      input.devices.push_back({&backend_->devices()[options_.devices[i]], std::move(tallies[i]),
                               health[i].answers(input.now_ns, options_.interval_ns), health[i], jobs_[i]});
  }
  if (kubelet_) {
    input.kubelet = kubelet_->answers();
    input.shared_pods = options_.shared_pods;
    if (const PodsByDevice* pods = input.kubelet->pods(input.now_ns))
      for (size_t i = 0; i < input.devices.size(); ++i) input.devices[i].pods = (*pods)[options_.devices[i]];
  }
  input.start_ns = start_ns_;
  input.scrapes = scrapes_;
  input.sampler = sampler_.statistics();
  input.http = figures;
  return input;
}

HttpReply MetricsService::metrics(const HttpRequest& request, const HttpFigures& figures) {
  ++scrapes_;
  const ExpositionFormat format = wanted_format(request.accept);
  CachedPage& page = pages_[static_cast<size_t>(format)];
  const int64_t now = monotonic_ns(), age_ns = now - page.made_ns, readings = tallies_.readings();
  if (!page.plain || age_ns > (readings == page.readings ? kPageHolds_ns : kPageHoldsAlways_ns)) {
    // Frees the last one first, so that its memory is reused if no connection still sends it.
    const size_t room = page.plain ? page.plain->size() + kPageGrows : 0;
    page.plain.reset();
    page.plain = std::make_shared<const std::string>(metrics_page(page_input(figures), format, room));
    page.gzipped.reset();
    page.readings = readings;
    page.made_ns = now;
  }
  HttpReply reply;
  reply.content_type = content_type(format);
  reply.gzipped = takes_gzip(request.accept_encoding);
  if (reply.gzipped && !page.gzipped)
    page.gzipped = std::make_shared<const std::string>(gzipped(*page.plain, kGzipLevel));
  reply.body = reply.gzipped ? page.gzipped : page.plain;
  return reply;
}

HttpReply MetricsService::health() const {
  bool any = false;
  std::string text;
  for (const DeviceHealth& h : sampler_.health()) {
    const bool up = h.answers(steady_unix_ns(), options_.interval_ns);
    any = any || up;
    const std::string trouble = h.trouble.empty() ? "has not answered yet" : h.trouble;
    if (!up) text += fmt::format("GPU {}: {}\n", backend_->devices()[h.device].label(), trouble);
  }
  const std::string trouble = kubelet_ ? kubelet_->answers().trouble(steady_unix_ns()) : "";
  if (!trouble.empty()) text += "kubelet: " + trouble + "\n";
  return text_reply(any ? 200 : 503, (any ? "OK\n" : "KO\n") + text);
}

HttpReply MetricsService::readiness() const {
  const std::vector<DeviceHealth> health = sampler_.health();
  const bool ready = std::all_of(health.begin(), health.end(),
                                 [](const DeviceHealth& h) { return h.good_at_ns != 0 || !h.trouble.empty(); });
  return text_reply(ready ? 200 : 503, ready ? "ready\n" : "not every device has been read yet\n");
}

HttpReply MetricsService::answer(const HttpRequest& request, const HttpFigures& figures) {
  if (request.path == "/metrics") return metrics(request, figures);
  if (request.path == "/health" || request.path == "/-/healthy") return health();
  if (request.path == "/-/ready") return readiness();
  if (request.path != "/") return text_reply(404, "no such page; there are /metrics, /health, /-/ready, /\n");
  HttpReply reply = text_reply(200, status_page(page_input(figures)));
  reply.content_type = "text/html; charset=utf-8";
  return reply;
}

void MetricsService::watch() {
  std::vector<std::string> told;
  int64_t jobs_at_ns = 0;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    for (const std::string& line : health_changes(sampler_.health(), backend_->devices(), told)) tell_(line);
    if (const int64_t now = monotonic_ns(); jobs_at_ns == 0 || now - jobs_at_ns >= kJobsEvery_ns) {
      look_for_jobs();
      jobs_at_ns = now;
    }
    lock.lock();
    changed_.wait_for(lock, std::chrono::nanoseconds(kWatchEvery_ns), [this] { return stopping_; });
  }
}

// A replay's pids belong to another machine.
void MetricsService::look_for_jobs() {
  if (options_.job_mapping.empty() && backend_->name() == "replay") return;
  const std::vector<DeviceTally> tallies = tallies_.copy();
  for (size_t i = 0; i < tallies.size(); ++i) {
    auto jobs = device_jobs_.look(backend_->devices()[options_.devices[i]], tallies[i].processes());
    std::lock_guard lock(mutex_);
    jobs_[i] = std::move(jobs);
  }
}

namespace {

constexpr size_t kMaxJobs = 64;     // of one device: each is a copy of its series
constexpr size_t kLongestJob = 256;  // bytes of a name

}  // namespace

std::vector<std::string> DeviceJobs::look(const DeviceInfo& info, const std::vector<ProcessSample>& processes) {
  std::set<std::string> jobs;
  const auto add = [&](std::string_view job) {
    if (!job.empty() && job.size() <= kLongestJob && jobs.size() < kMaxJobs) jobs.emplace(job);
  };
  if (!mapping_.empty()) {
    const std::string name =
        info.gpu_instance ? fmt::format("{}.{}", info.index, *info.gpu_instance) : std::to_string(info.index);
    const std::string text = file_text(mapping_ + "/" + name).value_or("");
    for (const std::string_view line : pieces_of(text, '\n')) add(without_blanks(line));
  } else {
    for (const ProcessSample& p : processes) add(host_.look(p.pid).slurm_job);
  }
  return {jobs.begin(), jobs.end()};
}

}  // namespace profgpu
