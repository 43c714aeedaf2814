// What `profgpu exporter` was asked for, by flags and by dcgm-exporter's environment variables.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/device_options.h"
#include "watch/exporter/metrics_service.h"
#include "watch/exporter/web_config.h"

namespace profgpu {

struct ExporterCommand {
  DeviceOptions devices;
  MetricsServiceOptions service;   ///< without its devices
  std::string listen = "127.0.0.1:9400";
  WebConfig web;
  std::vector<std::string> notes;  ///< for people, one line each
};

using EnvironmentVariables = std::map<std::string, std::string>;
/// Those of our environment that may concern the exporter.
EnvironmentVariables exporter_variables();

/// A flag counts for more than a variable. The error is a usage error.
Result<ExporterCommand> exporter_command(const Arguments& arguments, const EnvironmentVariables& variables);

}  // namespace profgpu
