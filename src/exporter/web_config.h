// The file that --web.config.file names: TLS and basic authentication, in the form of Prometheus' exporter-toolkit
// (github.com/prometheus/exporter-toolkit, docs/web-configuration.md).
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
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
  int min_version = 0x0303, max_version = 0;             ///< as TLS numbers them, 0x0303 is 1.2; 0: the newest
  std::vector<std::pair<std::string, std::string>> headers;   ///< that every answer has
  std::map<std::string, std::string> users;              ///< name to bcrypt hash; empty: everybody may read
  std::vector<std::string> notes;                        ///< settings that have no effect here
};

/// Relative paths in it are taken from its folder. The error names the setting.
Result<WebConfig> read_web_config(const std::string& path);

/// Who may read. Checking a password takes a tenth of a second by design, so those that were right are remembered.
class Credentials {
 public:
  explicit Credentials(std::map<std::string, std::string> users) : users_(std::move(users)) {}
  [[nodiscard]] bool needed() const { return !users_.empty(); }
  /// `authorization`: the header's value. Quick; false if it was never found right.
  [[nodiscard]] bool known(std::string_view authorization) const;
  /// Slow. For any thread.
  bool check(std::string_view authorization);

 private:
  const std::map<std::string, std::string> users_;
  mutable std::mutex mutex_;
  std::set<std::string> right_;   // SHA-256 of headers
};

}  // namespace profgpu
