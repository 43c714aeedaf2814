#include "base/secrets.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <cstdint>

#include "base/text.h"

namespace profgpu {
namespace {

constexpr std::string_view kMask = "***";

// Of others, or our own words with names of files and options among them.
enum class TextOf : uint8_t { kOthers, kProgram };

// Words in a name whose value is a secret; compared in lower case.
constexpr std::array<std::string_view, 10> kNames = {"token",  "secret",     "password",   "passwd",      "api_key",
                                                     "apikey", "access_key", "credential", "private_key", "auth"};
// How issued keys begin.
constexpr std::array<std::string_view, 21> kIssued = {
    "hf_",   "sk-",   "ghp_",  "gho_",  "ghs_",   "ghu_",   "ghr_", "github_pat_", "glpat-",    "AKIA",   "ASIA",
    "AIza",  "xoxb-", "xoxp-", "ya29.", "nvapi-", "wandb_v1_", "eyJ",  "r8_",         "dckr_pat_", "pypi-"};
// Of an authorization header; the value follows.
constexpr std::array<std::string_view, 3> kSchemes = {"bearer", "basic", "token"};
constexpr size_t kIssuedLength = 16;  // shorter ones are words that begin alike
constexpr size_t kIssuedRun = 10;     // letters and digits behind a prefix that names have as well
constexpr size_t kHexLength = 40;     // WandB's keys, SHA-1

bool is_word(char c) {
  return is_letter(c) || is_digit(c) || c == '_' || c == '-' || c == '.' || c == '+' || c == '/' || c == '~';
}

bool names_secret(std::string_view name) {
  std::string plain = lower_case(name.substr(name.rfind('/') + 1));
  if (plain.ends_with(".py")) return false;   // "site-packages/lib/auth.py:12"
  std::ranges::replace(plain, '-', '_');
  if (plain.ends_with("_pwd")) return true;
  const bool of_text = plain.ends_with("tokens") || contains(plain, "token_") || contains(plain, "tokens_") ||
                       contains(plain, "tokenizer");
  const bool of_author = plain.ends_with("author");
  return std::ranges::any_of(kNames, [&](std::string_view n) {
    return contains(plain, n) && !(of_text && n == "token") && !(of_author && n == "auth");
  });
}

bool is_hex(char c) { return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'f'); }

bool is_alphanumeric(char c) { return is_letter(c) || is_digit(c); }

// Names of functions and files begin as some keys do, "hf_argparser.py": a key is one long word of mixed characters.
bool is_issued(std::string_view word) {
  const auto* const prefix = std::ranges::find_if(kIssued, [&](std::string_view p) { return word.starts_with(p); });
  if (prefix == kIssued.end() || word.size() < kIssuedLength) return false;
  if (!prefix->ends_with('_')) return true;
  const std::string_view rest = word.substr(prefix->size());
  const std::string_view run(rest.begin(), std::ranges::find_if_not(rest, is_alphanumeric));
  return run.size() >= kIssuedRun && std::ranges::any_of(run, [](char c) { return !is_lower(c); });
}

// Where an issued key begins in a word, as in "x/ghp_…" or "f_hf_…"; npos: it has none.
size_t issued_at(std::string_view word) {
  if (word.size() >= kHexLength && std::ranges::all_of(word, is_hex)) return 0;
  for (size_t at = 0; at < word.size(); ++at)
    if ((at == 0 || !is_alphanumeric(word[at - 1])) && is_issued(word.substr(at))) return at;
  return word.npos;
}

// How long a quote is that `rest` begins with, which JSON escapes within a string; 0: it begins with none.
size_t quote_length(std::string_view rest) {
  const size_t escape = rest.starts_with('\\');
  return rest.size() > escape && (rest[escape] == '"' || rest[escape] == '\'') ? escape + 1 : 0;
}

// Whether what follows a name makes it one: "=", ": ", "': '". Returns how many characters that are; 0: it does not.
size_t assignment(std::string_view rest) {
  size_t i = quote_length(rest);
  while (i < rest.size() && rest[i] == ' ') ++i;
  if (i >= rest.size() || (rest[i] != '=' && rest[i] != ':') || rest.substr(i).starts_with("::")) return 0;
  ++i;
  while (i < rest.size() && rest[i] == ' ') ++i;
  return i + quote_length(rest.substr(i));
}

// The value of a flag is the next word: "--password hunter2", "'--password', 'hunter2'"; not "--password --verbose".
size_t flag_joint(std::string_view rest) {
  const size_t quote = quote_length(rest);
  const std::string_view after = rest.substr(quote);
  size_t joint = 0;
  if (quote > 0 && after.starts_with(", ")) joint = quote + 2, joint += quote_length(rest.substr(joint));
  else if (rest.starts_with(' ')) joint = 1;
  return joint < rest.size() && rest[joint] != '-' ? joint : 0;
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
  return value == "None" || value == "null" || lower_case(value) == "true" || lower_case(value) == "false";
}

bool is_scheme(std::string_view word) {
  return std::ranges::find(kSchemes, lower_case(word)) != kSchemes.end();
}

// A quoted value ends at its quote, another one at a blank: passwords hold anything else.
size_t value_end(std::string_view text, size_t at, char before) {
  const bool quoted = before == '"' || before == '\'';
  const size_t end = quoted ? text.find(before, at) : text.find_first_of(" \t\n\"'", at);
  size_t stop = std::min(end, text.size());
  // What closes a list around it is not part of it, nor is what escapes a quote behind it.
  while (!quoted && stop > at && contains(",;)}]", text.substr(stop - 1, 1))) --stop;
  while (stop > at && stop < text.size() && text[stop - 1] == '\\') --stop;
  return stop;
}

// How many characters stand between a word and the secret behind it; 0: none follows.
size_t joint_behind(std::string_view word, std::string_view rest, bool flag, bool header, TextOf of) {
  if (names_secret(word) && (of == TextOf::kOthers || rest.starts_with('='))) {
    if (const size_t joint = assignment(rest); joint > 0) return joint;
    if (flag) return flag_joint(rest);
  }
  const bool scheme = is_scheme(word) && (header || (of == TextOf::kOthers && lower_case(word) == "bearer"));
  return scheme && rest.starts_with(' ');
}

// Appends what stands for the value at `value` of a name that ends at `end`. Returns where the text goes on.
size_t mask_value(std::string_view text, size_t end, size_t value, std::string& out) {
  const size_t stop = value_end(text, value, text[value - 1]);
  const std::string_view held = text.substr(value, stop - value);
  // "Authorization: Basic VALUE"
  if (held.empty() || is_scheme(held.substr(0, held.find(' ')))) return value;
  // A member of JSON has a value in quotes, or one that is no text.
  const size_t quote = quote_length(text.substr(end));
  const bool bare = quote > 0 && text[value - 1] != '"' && text[value - 1] != '\'';
  if (bare && (held.front() == '[' || held.front() == '{')) return value;
  const std::string_view around = bare ? text.substr(end, quote) : "";
  if (is_harmless(held)) out.append(held);
  else out.append(around).append(kMask).append(around);
  return stop;
}

// The first three characters of what makes masked_secrets() look closer, five bits of each: few texts have any.
class Triggers {
 public:
  Triggers() {
    for (const std::string_view name : kNames) add(name);
    for (const std::string_view key : kIssued) add(key);
    for (const std::string_view other : {"api-key", "access-key", "private-key", "_pwd", "-pwd", "bearer", "://"})
      add(other);
  }
  [[nodiscard]] bool any_in(std::string_view text) const {
    uint32_t last = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      last = ((last << 5) | (static_cast<unsigned char>(text[i]) & 31U)) & kMask15;
      if (first_[last] && i >= 2 && begins(text.substr(i - 2))) return true;
    }
    return false;
  }

 private:
  static constexpr uint32_t kMask15 = (1U << 15) - 1;
  void add(std::string_view word) {
    uint32_t key = 0;
    for (const char c : word.substr(0, 3)) key = (key << 5) | (static_cast<unsigned char>(c) & 31U);
    first_.set(key);
    words_.push_back(lower_case(word));
  }
  [[nodiscard]] bool begins(std::string_view text) const {
    return std::ranges::any_of(words_, [&](const std::string& word) {
      return text.size() >= word.size() &&
             std::ranges::equal(word, text.substr(0, word.size()), [](char a, char b) { return a == lower(b); });
    });
  }

  std::bitset<1 << 15> first_;
  std::vector<std::string> words_;
};

std::string masked(std::string_view text, TextOf of) {
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
    const size_t joint = joint_behind(word, text.substr(end), out.ends_with("--"), header, of);
    if (const size_t issued = issued_at(word); issued != word.npos) {
      out.append(word.substr(0, issued)).append(kMask);   // the rest of a path stays
      i = std::min(end, text.find('/', i + issued));
    } else if (joint > 0) {
      out.append(text.substr(i, end + joint - i));
      i = mask_value(text, end, end + joint, out);
    } else {
      out.append(word);
      i = end;
    }
  }
  return out;
}

}  // namespace

std::string masked_secrets(std::string_view text) { return masked(text, TextOf::kOthers); }

std::string masked_message(std::string_view text) {
  // What is quoted may have quotes, too; a quote that was cut has no end.
  const size_t first = text.find('"');
  if (first == text.npos) return masked(text, TextOf::kProgram);
  const bool closed = std::ranges::count(text, '"') % 2 == 0;
  const size_t last = closed ? text.rfind('"') : text.size();
  return masked(text.substr(0, first), TextOf::kProgram) + '"' +
         masked(text.substr(first + 1, last - first - 1), TextOf::kOthers) +
         masked(text.substr(last), TextOf::kProgram);
}

bool may_hold_secret(std::string_view text) {
  static const Triggers kTriggers;
  return kTriggers.any_in(text);
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
