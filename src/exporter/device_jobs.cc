#include "exporter/device_jobs.h"

#include <fmt/format.h>

#include <set>

#include "collect/system_files.h"

namespace profgpu {
namespace {

constexpr size_t kMostJobs = 64;     // of one device: each is a copy of its series
constexpr size_t kLongestJob = 256;  // bytes of its name

}  // namespace

std::vector<std::string> DeviceJobs::look(const DeviceInfo& info, const std::vector<ProcessSample>& processes) {
  std::set<std::string> jobs;
  const auto add = [&](std::string_view job) {
    if (!job.empty() && job.size() <= kLongestJob && jobs.size() < kMostJobs) jobs.emplace(job);
  };
  if (!mapping_.empty()) {
    const std::string name =
        info.gpu_instance ? fmt::format("{}.{}", info.index, *info.gpu_instance) : std::to_string(info.index);
    const std::string text = file_text(mapping_ + "/" + name).value_or("");
    for (const std::string_view line : pieces_of(text, '\n')) add(without_blanks(line));
  } else {
    for (const ProcessSample& p : processes) add(host_.look(p.pid).placement.slurm_job);
  }
  return {jobs.begin(), jobs.end()};
}

}  // namespace profgpu
