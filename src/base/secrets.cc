#include "base/secrets.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace profgpu {
namespace {

constexpr std::string_view kMask = "***";

// Words in a name whose value is a secret; compared in lower case.
constexpr std::array<std::string_view, 10> kNames = {"token",  "secret",     "password",   "passwd",      "api_key",
                                                     "apikey", "access_key", "credential", "private_key", "auth"};
// How issued keys begin.
constexpr std::array<std::string_view, 16> kIssued = {"hf_",    "sk-",    "ghp_",   "gho_", "ghs_",  "github_pat_",
                                                      "glpat-", "AKIA",   "ASIA",   "AIza", "xoxb-", "xoxp-",
                                                      "ya29.",  "nvapi-", "wandb_", "eyJ"};
constexpr size_t kIssuedLength = 16;  // shorter ones are words that begin alike
constexpr size_t kHexLength = 40;     // WandB's keys, SHA-1

bool is_word(char c) {
  return is_letter(c) || is_digit(c) || c == '_' || c == '-' || c == '.' || c == '+' || c == '/' || c == '~';
}

bool names_secret(std::string_view name) {
  const std::string plain = lower_case(name);
  const bool of_text = plain.ends_with("tokens") || contains(plain, "token_") || contains(plain, "tokens_") ||
                       plain.ends_with("tokenizer");
  const bool of_author = plain.ends_with("author");
  return std::ranges::any_of(kNames, [&](std::string_view n) {
    return contains(plain, n) && !(of_text && n == "token") && !(of_author && n == "auth");
  });
}

bool is_issued(std::string_view word) {
  const bool marked = std::ranges::any_of(kIssued, [&](std::string_view p) { return word.starts_with(p); });
  const auto is_hex = [](char c) { return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'f'); };
  return (marked && word.size() >= kIssuedLength) || (word.size() >= kHexLength && std::ranges::all_of(word, is_hex));
}

// Whether what follows a name makes it one: "=", ": ", "': '". Returns how many characters that are; 0: it does not.
size_t assignment(std::string_view rest) {
  size_t i = 0;
  while (i < rest.size() && (rest[i] == '"' || rest[i] == '\'')) ++i;
  while (i < rest.size() && rest[i] == ' ') ++i;
  if (i >= rest.size() || (rest[i] != '=' && rest[i] != ':')) return 0;
  ++i;
  while (i < rest.size() && (rest[i] == ' ' || rest[i] == '"' || rest[i] == '\'')) ++i;
  return i;
}

// A password in a URL: "https://user:PASSWORD@host".
size_t url_password(std::string_view text, size_t at) {
  if (!text.substr(at).starts_with("://")) return 0;
  const size_t end = text.find_first_of(" /\"'", at + 3), host = text.find('@', at + 3);
  const size_t colon = text.find(':', at + 3);
  const bool has_password = host != text.npos && colon != text.npos && colon < host && (end == text.npos || host < end);
  return has_password ? colon + 1 : 0;
}

bool is_harmless(std::string_view value) {
  return value == "None" || value == "null" || value == "True" || value == "False";
}

size_t value_end(std::string_view text, size_t at) {
  while (at < text.size() && std::string_view(" \"',;&})|").find(text[at]) == std::string_view::npos) ++at;
  return at;
}

}  // namespace

std::string masked_secrets(std::string_view text) {
  std::string out;
  size_t i = 0;
  while (i < text.size()) {
    if (const size_t password = url_password(text, i); password > 0) {
      out.append(text.substr(i, password - i)).append(kMask);
      i = text.find('@', password);
      continue;
    }
    if (!is_letter(text[i]) && !is_digit(text[i])) {
      out += text[i++];
      continue;
    }
    size_t end = i;
    while (end < text.size() && is_word(text[end])) ++end;
    const std::string_view word = text.substr(i, end - i);
    const size_t joint = names_secret(word) ? assignment(text.substr(end)) : 0;
    const bool bearer = lower_case(word) == "bearer" && end < text.size() && text[end] == ' ';
    if (is_issued(word)) {
      out += kMask;
      i = end;
    } else if (joint > 0 || bearer) {
      const size_t value = end + (bearer ? 1 : joint);
      const size_t stop = value_end(text, value);
      out.append(text.substr(i, value - i));
      const std::string_view held = text.substr(value, stop - value);
      const bool scheme = lower_case(held) == "bearer";  // its value follows
      if (!held.empty() && !scheme) out.append(is_harmless(held) ? held : kMask);
      i = scheme ? value : stop;
    } else {
      out.append(word);
      i = end;
    }
  }
  return out;
}

}  // namespace profgpu
