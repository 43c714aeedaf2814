// Names and passwords of HTTP's basic authentication (RFC 7617).
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace profgpu {

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
  std::vector<std::string> right_;  // headers
};

}  // namespace profgpu
