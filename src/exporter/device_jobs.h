// Which jobs of a batch system are on which device.
#pragma once

#include <string>
#include <vector>

#include "collect/host_process.h"
#include "trace/sample.h"

namespace profgpu {

class DeviceJobs {
 public:
  /// `mapping`: a folder with one file for each device that has jobs, named "0" or, for a MIG instance, "0.7" (GPU and
  /// instance); each line is a job. A prolog writes it; dcgm-exporter reads the same. Empty: jobs are those of the
  /// processes, by their control group or SLURM_JOB_ID in their environment.
  explicit DeviceJobs(std::string mapping) : mapping_(std::move(mapping)) {}

  /// In order, each once. Reads files of /proc: not for the sampler's thread.
  std::vector<std::string> look(const DeviceInfo& info, const std::vector<ProcessSample>& processes);

 private:
  std::string mapping_;
  HostProcesses host_;
};

}  // namespace profgpu
