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
constexpr std::array<std::string_view, 21> kIssued = {
    "hf_",   "sk-",   "ghp_",  "gho_",  "ghs_",   "ghu_",   "ghr_", "github_pat_", "glpat-",    "AKIA",   "ASIA",
    "AIza",  "xoxb-", "xoxp-", "ya29.", "nvapi-", "wandb_", "eyJ",  "r8_",         "dckr_pat_", "pypi-"};
// Of an authorization header; the value follows.
constexpr std::array<std::string_view, 3> kSchemes = {"bearer", "basic", "token"};
constexpr size_t kIssuedLength = 16;  // shorter ones are words that begin alike
constexpr size_t kHexLength = 40;     // WandB's keys, SHA-1

bool is_word(char c) {
  return is_letter(c) || is_digit(c) || c == '_' || c == '-' || c == '.' || c == '+' || c == '/' || c == '~';
}

bool names_secret(std::string_view name) {
  std::string plain = lower_case(name);
  std::ranges::replace(plain, '-', '_');
  if (plain.ends_with("_pwd")) return true;
  const bool of_text = plain.ends_with("tokens") || contains(plain, "token_") || contains(plain, "tokens_") ||
                       contains(plain, "tokenizer");
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

bool is_scheme(std::string_view word) {
  return std::ranges::find(kSchemes, lower_case(word)) != kSchemes.end();
}

// A quoted value ends at its quote, another one at a blank: passwords hold anything else.
size_t value_end(std::string_view text, size_t at, char before) {
  const bool quoted = before == '"' || before == '\'';
  const size_t end = quoted ? text.find(before, at) : text.find_first_of(" \t\n\"'", at);
  size_t stop = std::min(end, text.size());
  // What closes a list around it is not part of it.
  while (!quoted && stop > at && contains(",;)}]", text.substr(stop - 1, 1))) --stop;
  return stop;
}

}  // namespace

std::string masked_secrets(std::string_view text) {
  std::string out;
  bool header = false;   // "authorization" came before
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
    header = header || contains(lower_case(word), "authorization");
    const bool secret = names_secret(word);
    size_t joint = secret ? assignment(text.substr(end)) : 0;
    // "--password hunter2", but not "--password --verbose".
    const bool of_flag = secret && joint == 0 && out.ends_with("--") && end + 1 < text.size() && text[end] == ' ' &&
                         text[end + 1] != '-';
    const bool scheme = is_scheme(word) && header && end < text.size() && text[end] == ' ';
    const bool bearer = lower_case(word) == "bearer" && end < text.size() && text[end] == ' ';
    if (of_flag || scheme || bearer) joint = 1;
    if (is_issued(word)) {
      out += kMask;
      i = end;
    } else if (joint > 0) {
      const size_t value = end + joint;
      out.append(text.substr(i, value - i));
      const size_t stop = value_end(text, value, text[value - 1]);
      const std::string_view held = text.substr(value, stop - value);
      const bool follows = is_scheme(held.substr(0, held.find(' ')));   // "Authorization: Basic VALUE"
      if (!held.empty() && !follows) out.append(is_harmless(held) ? held : kMask);
      i = follows ? value : stop;
    } else {
      out.append(word);
      i = end;
    }
  }
  return out;
}

std::string masked_member(std::string_view name, std::string_view value) {
  return names_secret(name) && !is_harmless(value) ? std::string(kMask) : masked_secrets(value);
}

std::vector<std::string> masked_words(const std::vector<std::string>& words) {
  std::vector<std::string> out;
  bool value = false;   // of the flag before
  for (const std::string& word : words) {
    const bool flag = word.starts_with('-');
    const size_t equals = word.find('=');
    const bool secret = (flag || equals != word.npos) && names_secret(std::string_view(word).substr(0, equals));
    if (value && !flag) out.emplace_back(kMask);
    else if (secret && equals != word.npos) out.push_back(word.substr(0, equals + 1).append(kMask));
    else out.push_back(masked_secrets(word));
    value = secret && equals == word.npos;
  }
  return out;
}

bool same_secret(std::string_view given, std::string_view secret) {
  unsigned differs = given.size() != secret.size();
  for (size_t i = 0; i < secret.size(); ++i)
    differs |= static_cast<unsigned char>(secret[i] ^ (i < given.size() ? given[i] : '\0'));
  return differs == 0;
}

}  // namespace profgpu
