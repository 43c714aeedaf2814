#include <crypt.h>
#include <sys/random.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>

#include "base/gzip.h"
#include "base/secrets.h"
#include "base/text.h"
#include "watch/exporter/web_config.h"

// libcrypt refers to it for making salts, which we never do; glibc has it only from 2.36 on, and the program must run
// with 2.34.
extern "C" void arc4random_buf(void* bytes, size_t size) noexcept {
  for (auto* at = static_cast<char*>(bytes); size > 0;) {
    const ssize_t got = getrandom(at, size, 0);
    if (got <= 0) std::abort();
    at += got;
    size -= static_cast<size_t>(got);
  }
}

namespace profgpu {
namespace {

constexpr size_t kMaxRemembered = 128;

// "user:password" of "Basic dXNlcjpwYXNzd29yZA=="
std::optional<std::pair<std::string, std::string>> user_of(std::string_view authorization) {
  constexpr std::string_view kBasic = "basic ";
  if (authorization.size() > 1024 || lower_case(authorization.substr(0, kBasic.size())) != kBasic) return std::nullopt;
  const auto text = from_base64(without_blanks(authorization.substr(kBasic.size())));
  const size_t colon = text ? text->find(':') : std::string::npos;
  if (colon == std::string::npos || text->find('\0') != std::string::npos) return std::nullopt;
  return std::pair(text->substr(0, colon), text->substr(colon + 1));
}

bool matches(const std::string& password, const std::string& hash) {
  const auto data = std::make_unique<crypt_data>();  // 32 KiB
  // Not crypt_r(): sanitizers intercept it, and their version does not find it in a static libcrypt.
  const char* made = ::crypt_rn(password.c_str(), hash.c_str(), data.get(), sizeof *data);
  return made && same_secret(made, hash);
}

// Of "$2b$10$…": each more takes twice the time.
int cost_of(const std::string& hash) { return (hash[4] - '0') * 10 + hash[5] - '0'; }

}  // namespace

bool Credentials::known(std::string_view authorization) const {
  std::lock_guard lock(mutex_);
  bool found = false;
  for (const std::string& correct : correct_) found |= same_secret(authorization, correct);
  return found;
}

bool Credentials::check(std::string_view authorization) {
  const auto given = user_of(authorization);
  if (!given) return false;
  const auto user = users_.find(given->first);
  // Also for unknown users, and as long as for the one whose hash takes longest, so that the time reveals nothing.
  std::string hash = (user == users_.end() ? users_.begin() : user)->second;
  const bool right = matches(given->second, hash);
  int slowest = 0;
  for (const auto& [name, its_hash] : users_) slowest = std::max(slowest, cost_of(its_hash));
  for (int cost = cost_of(hash); cost < slowest; ++cost) {
    hash[4] = static_cast<char>('0' + cost / 10);
    hash[5] = static_cast<char>('0' + cost % 10);
    matches(given->second, hash);
  }
  if (!right || user == users_.end()) return false;
  std::lock_guard lock(mutex_);
  if (correct_.size() >= kMaxRemembered) correct_.clear();
  correct_.emplace_back(authorization);
  return true;
}

}  // namespace profgpu
