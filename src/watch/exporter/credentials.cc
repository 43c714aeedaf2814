#include "watch/exporter/credentials.h"

#include <crypt.h>
#include <strings.h>
#include <sys/random.h>

#include <cstdlib>
#include <memory>
#include <optional>

#include "base/gzip.h"

// libcrypt's salts, which nobody makes here, ask for it; glibc has it from 2.36 on, and the program is to run
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
  if (authorization.size() < kBasic.size() || authorization.size() > 1024 ||
      ::strncasecmp(authorization.data(), kBasic.data(), kBasic.size()) != 0)
    return std::nullopt;
  std::string_view coded = authorization.substr(kBasic.size());
  while (coded.starts_with(' ')) coded.remove_prefix(1);
  const auto decoded = from_base64(coded);
  if (!decoded) return std::nullopt;
  const std::string& text = *decoded;
  const size_t colon = text.find(':');
  if (colon == text.npos || text.find('\0') != text.npos) return std::nullopt;
  return std::pair(text.substr(0, colon), text.substr(colon + 1));
}

// In a time that does not depend on where they differ.
bool same(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

bool matches(const std::string& password, const std::string& hash) {
  const auto data = std::make_unique<crypt_data>();  // 32 KiB
  // Not crypt_r(): sanitizers put one of their own in its place, which finds none in a static libcrypt.
  const char* made = ::crypt_rn(password.c_str(), hash.c_str(), data.get(), sizeof *data);
  return made && same(made, hash);
}

}  // namespace

bool Credentials::known(std::string_view authorization) const {
  std::lock_guard lock(mutex_);
  bool found = false;
  for (const std::string& right : right_) found |= same(right, authorization);
  return found;
}

bool Credentials::check(std::string_view authorization) {
  const auto given = user_of(authorization);
  if (!given) return false;
  const auto user = users_.find(given->first);
  // Also for who is not there, so that the time tells nothing.
  const bool right = matches(given->second, (user == users_.end() ? users_.begin() : user)->second);
  if (!right || user == users_.end()) return false;
  std::lock_guard lock(mutex_);
  if (right_.size() >= kMaxRemembered) right_.clear();
  right_.emplace_back(authorization);
  return true;
}

}  // namespace profgpu
