// The file of --web.config.file: TLS and basic authentication, in the format of Prometheus' exporter-toolkit
// (github.com/prometheus/exporter-toolkit, docs/web-configuration.md).
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace profgpu {

enum class ClientCertificates : uint8_t { kNone, kRequested, kRequired, kVerifiedIfGiven, kVerified };

struct WebConfig {
  bool tls = false;
  std::string cert_file, key_file, client_ca_file;
  ClientCertificates client_certificates = ClientCertificates::kNone;
  int min_version = 0x0303, max_version = 0;                 ///< as in TLS, 0x0303 is 1.2; 0: the newest
  std::vector<std::pair<std::string, std::string>> headers;  ///< of every answer
  std::map<std::string, std::string> users;                  ///< name to bcrypt hash; empty: no password needed
  std::vector<std::string> notes;                            ///< about settings without effect
};

/// Relative paths in it start from its folder. The error names the setting.
Result<WebConfig> read_web_config(const std::string& path);

// HTTP's basic authentication (RFC 7617).

/// Users who may read. Checking a password takes a tenth of a second by design, so correct ones are remembered.
class Credentials {
 public:
  explicit Credentials(std::map<std::string, std::string> users) : users_(std::move(users)) {}
  [[nodiscard]] bool needed() const { return !users_.empty(); }
  /// `authorization`: the header's value. Quick; false if it was not found correct before.
  [[nodiscard]] bool known(std::string_view authorization) const;
  /// Slow. For any thread.
  bool check(std::string_view authorization);

 private:
  const std::map<std::string, std::string> users_;
  mutable std::mutex mutex_;
  std::vector<std::string> correct_;  // headers
};

}  // namespace profgpu
