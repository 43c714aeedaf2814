// The file that --web.config.file names: TLS and basic authentication, in the form of Prometheus' exporter-toolkit
// (github.com/prometheus/exporter-toolkit, docs/web-configuration.md).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace profgpu {

enum class ClientCertificates : uint8_t { kNone, kRequested, kRequired, kVerifiedIfGiven, kVerified };

struct WebConfig {
  bool tls = false;
  std::string cert_file, key_file, client_ca_file;
  ClientCertificates client_certificates = ClientCertificates::kNone;
  int min_version = 0x0303, max_version = 0;                 ///< as TLS numbers them, 0x0303 is 1.2; 0: the newest
  std::vector<std::pair<std::string, std::string>> headers;  ///< that every answer has
  std::map<std::string, std::string> users;                  ///< name to bcrypt hash; empty: everybody may read
  std::vector<std::string> notes;                            ///< settings that have no effect here
};

/// Relative paths in it are taken from its folder. The error names the setting.
Result<WebConfig> read_web_config(const std::string& path);

}  // namespace profgpu
