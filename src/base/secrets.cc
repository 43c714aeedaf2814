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

// Words in a name whose value is a secret; compared in lower case, without "_" and "-".
constexpr std::array<std::string_view, 14> kNames = {
    "token",      "secret",    "password",   "passwd", "passphrase",    "apikey",     "accesskey",
    "accountkey", "sharedkey", "privatekey", "cookie", "encryptionkey", "credential", "auth"};
// Names of secrets, and of other things: of these, a value is masked that looks like a key.
constexpr std::array<std::string_view, 4> kMaybeNames = {"session", "signature", "sig", "sid"};
// How issued keys begin.
constexpr std::array<std::string_view, 42> kIssued = {
    "hf_",      "sk-",     "ghp_",    "gho_",     "ghs_",     "ghu_",     "ghr_",       "github_pat_", "glpat-",
    "AKIA",     "ASIA",    "AIza",    "GOCSPX-",  "ya29.",    "nvapi-",   "wandb_v1_",  "eyJ",         "r8_",
    "dckr_pat_", "pypi-",  "xoxa-",   "xoxb-",    "xoxe-",    "xoxp-",    "xoxr-",      "xoxs-",       "xapp-",
    "gsk_",     "sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_",  "npm_",      "SG.",         "xai-",
    "pplx-",    "glsa_",   "dop_v1_", "shpat_",   "lsv2_pt_", "tskey-"};
// What follows them in an address is a secret.
constexpr std::array<std::string_view, 3> kSecretPaths = {"hooks.slack.com/services/", "/api/webhooks/",
                                                          ".webhook.office.com/"};
// Of an authorization header; the value follows.
constexpr std::array<std::string_view, 14> kSchemes = {
    "bearer", "basic",     "token",     "digest",           "negotiate",    "ntlm",  "apikey",
    "hawk",   "sharedkey", "hmac",      "aws4-hmac-sha256", "signature",    "oauth", "dpop"};
constexpr std::string_view kBeginKey = "-----BEGIN ", kPrivateKey = "PRIVATE KEY", kDashes = "-----", kEndKey = "-----END";
constexpr size_t kKindOfKey = 40;     // characters between kBeginKey and the dashes behind
constexpr size_t kIssuedLength = 16;  // shorter ones are words that begin alike
constexpr size_t kIssuedRun = 10;     // letters and digits behind a prefix that names have as well
constexpr size_t kHexLength = 40;     // WandB's keys, SHA-1
constexpr size_t kKeyLength = 12;     // characters of three kinds, of which hardly a word is

bool is_word(char c) {
  return is_letter(c) || is_digit(c) || c == '_' || c == '-' || c == '.' || c == '+' || c == '/' || c == '~';
}

// In lower case, without what separates its words.
std::string plain_name(std::string_view name) {
  std::string plain = lower_case(name.substr(name.rfind('/') + 1));
  std::erase_if(plain, [](char c) { return c == '_' || c == '-'; });
  return plain;
}

bool names_secret(std::string_view name) {
  const std::string lowered = lower_case(name.substr(name.rfind('/') + 1)), plain = plain_name(name);
  if (lowered.ends_with(".py")) return false;   // "site-packages/lib/auth.py:12"
  if (plain.ends_with("pwd")) return true;
  const bool of_text = plain.ends_with("tokens") || contains(plain, "tokenizer") || contains(lowered, "token_") ||
                       contains(lowered, "token-") || contains(lowered, "tokens_") || contains(lowered, "tokens-");
  const bool of_author = plain.ends_with("author");
  return std::ranges::any_of(kNames, [&](std::string_view n) {
    return contains(plain, n) && !(of_text && n == "token") && !(of_author && n == "auth");
  });
}

bool may_name_secret(std::string_view name) {
  const std::string plain = plain_name(name);
  return std::ranges::any_of(kMaybeNames, [&](std::string_view n) { return plain.ends_with(n); });
}

bool is_hex(char c) { return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'f'); }

bool is_alphanumeric(char c) { return is_letter(c) || is_digit(c); }

// Of random characters: capitals, small letters and digits.
bool looks_like_key(std::string_view value) {
  const std::string_view run(value.begin(), std::ranges::find_if_not(value, [](char c) { return is_word(c) || c == '%'; }));
  return run.size() >= kKeyLength && std::ranges::any_of(run, is_upper) && std::ranges::any_of(run, is_lower) &&
         std::ranges::any_of(run, is_digit);
}

// Names of functions and files begin as some keys do, "hf_argparser.py": a key is one long word of mixed characters.
bool is_issued(std::string_view word) {
  const auto* const prefix = std::ranges::find_if(kIssued, [&](std::string_view p) { return word.starts_with(p); });
  if (prefix == kIssued.end() || word.size() < kIssuedLength) return false;
  const std::string_view rest = word.substr(prefix->size());
  if (*prefix == "SG.") return rest.find('.') >= kIssuedLength && rest.find('.') != rest.npos;
  if (!prefix->ends_with('_')) return true;
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

// The quote that `rest` begins with, which JSON escapes within a string and an address encodes; empty: none.
std::string_view quote_of(std::string_view rest) {
  for (const std::string_view quote : {"\"", "'", "\\\"", "\\'", "%22", "%27"})
    if (rest.starts_with(quote)) return rest.substr(0, quote.size());
  return {};
}

// All quotes that `rest` begins with: CSV and shells double them.
size_t quotes_length(std::string_view rest) {
  const std::string_view quote = quote_of(rest);
  size_t length = quote.size();
  while (length > 0 && rest.substr(length).starts_with(quote)) length += quote.size();
  return length;
}

size_t blanks_length(std::string_view rest) { return std::min(rest.find_first_not_of(" \t"), rest.size()); }

// What stands between a name and its value.
struct Joint {
  size_t length = 0;        // 0: no value follows
  std::string_view quote;   // that the value begins with
};

// A value follows at `at`.
Joint joint_to(std::string_view rest, size_t at) {
  const std::string_view value = rest.substr(at), quote = quote_of(value);
  const size_t doubled = quotes_length(value);
  const bool is_empty = doubled >= value.size() || contains(" \t\n,;:)}]\\", value.substr(doubled, 1));
  return {at + (is_empty ? quote.size() : doubled), quote};
}

// What makes a name one: "=", ": ", "': '", "=>", "%3D".
Joint assignment(std::string_view rest) {
  size_t i = quotes_length(rest);
  i += blanks_length(rest.substr(i));
  const std::string_view sign = rest.substr(i);
  const std::string encoded = lower_case(sign.substr(0, 3));
  if (encoded == "%3d" || encoded == "%3a") i += encoded.size();
  else if (sign.empty() || (sign[0] != '=' && sign[0] != ':') || sign.starts_with("::")) return {};
  else
    do ++i;
    while (i < rest.size() && (rest[i] == '=' || rest[i] == '>'));
  return joint_to(rest, i + blanks_length(rest.substr(i)));
}

// The value of a flag is the next word: "--password hunter2", "'--password', 'hunter2'"; not "--password --verbose".
// One dash may begin it: base64 for addresses has one in 64 tokens.
Joint flag_joint(std::string_view rest) {
  const size_t quote = quote_of(rest).size();
  const size_t blanks = blanks_length(rest);
  size_t joint = blanks;
  if (quote > 0 && rest.substr(quote).starts_with(", ")) joint = quote + 2;
  if (joint == 0) return {};
  const Joint found = joint_to(rest, joint);
  return found.length < rest.size() && !rest.substr(found.length).starts_with("--") ? found : Joint{};
}

struct Span {
  size_t begin = 0, end = 0;   // none: no bytes
};

// The secret of the address whose "://" is at `at`: "https://user:PASSWORD@host", "https://TOKEN@host".
Span address_secret(std::string_view text, size_t at) {
  if (!text.substr(at).starts_with("://")) return {};
  const size_t begin = at + 3;
  const std::string_view rest = text.substr(begin, text.find_first_of(" \t\n\r\"'<>", begin) - begin);
  std::string_view authority = rest.substr(0, rest.find('/'));
  const size_t port = authority.find(':');
  // A password with a "/"; in "host:8080/" a port comes before it.
  const bool goes_on = port != authority.npos && !std::ranges::all_of(authority.substr(port + 1), is_digit);
  if (goes_on && !contains(authority, "@")) authority = rest;
  const size_t host = authority.rfind('@');
  if (host == authority.npos) return {};
  const size_t colon = authority.substr(0, host).find(':');
  const std::string_view user = authority.substr(0, std::min(colon, host));
  if (looks_like_key(user) || issued_at(user) != user.npos) return {begin, begin + host};
  return colon == authority.npos ? Span{} : Span{begin + colon + 1, begin + host};
}

bool is_harmless(std::string_view value) {
  return value == "None" || value == "null" || lower_case(value) == "true" || lower_case(value) == "false";
}

// Whether a value of that name is a secret. PWD=/home/me is a folder.
bool is_secret(std::string_view name, std::string_view value) {
  if (is_harmless(value)) return false;
  const std::string plain = plain_name(name);
  if ((plain == "pwd" || plain == "oldpwd") && value.starts_with('/')) return false;
  if (names_secret(name)) return true;
  return may_name_secret(name) && looks_like_key(value);
}

bool is_scheme(std::string_view word) {
  return std::ranges::find(kSchemes, lower_case(word)) != kSchemes.end();
}

// Of "\"": after what is escaped in it. Of "\\\"", within a text that is quoted itself: at the same depth.
size_t quoted_end(std::string_view text, size_t at, std::string_view quote) {
  const bool escaped = quote.front() == '\\';
  if (quote.front() == '%') return std::min(text.find(quote, at), text.size());
  for (size_t i = at; i < text.size(); ++i) {
    if (text[i] == quote.back() || (escaped && text[i] == '"')) return i;
    if (text[i] != '\\') continue;
    const size_t run = std::min(text.find_first_not_of('\\', i), text.size()) - i;
    if (escaped && run == 1 && text.substr(i).starts_with(quote)) return i;
    i += run % 2 == 0 ? run - 1 : run;
  }
  return std::min(text.find_first_of("\"'\n", at), text.size());   // it stays open
}

// A quoted value ends at its quote, another one at one of `ends`: passwords hold anything else.
size_t value_end(std::string_view text, size_t at, std::string_view quote, std::string_view ends = " \t\n\r\"'") {
  if (!quote.empty()) return quoted_end(text, at, quote);
  size_t stop = std::min(text.find_first_of(ends, at), text.size());
  // What closes a list around it is not part of it, nor is what escapes a quote behind it.
  while (stop > at && contains(",;)}]", text.substr(stop - 1, 1))) --stop;
  while (stop > at && stop < text.size() && text[stop - 1] == '\\') --stop;
  return stop;
}

bool is_figure(std::string_view word) {
  return std::ranges::all_of(word, [](char c) { return is_digit(c) || contains(".eE+-", std::string_view(&c, 1)); });
}

// Appends the list or record at `at` of a secret's name with its texts masked. Returns where it ends.
size_t mask_list(std::string_view text, size_t at, std::string& out) {
  int depth = 0;
  size_t i = at;
  do {
    const std::string_view quote = quote_of(text.substr(i));
    size_t end = i + 1;
    if (!quote.empty()) end = quoted_end(text, i + quote.size(), quote);
    else
      while (is_word(text[i]) && end < text.size() && is_word(text[end])) ++end;
    const std::string_view held = text.substr(i + quote.size(), end - i - quote.size());
    const std::string_view behind = text.substr(std::min(end + quote.size(), text.size()));
    const bool is_text = !quote.empty() || is_word(text[i]);
    const bool is_name = behind.substr(blanks_length(behind)).starts_with(':');
    if (is_text && !held.empty() && !is_name && !is_harmless(held) && (!quote.empty() || !is_figure(held)))
      out.append(quote).append(kMask);
    else out.append(text.substr(i, end - i));
    out.append(text.substr(end, quote.size()));
    if (text[i] == '[' || text[i] == '{') ++depth;
    if (text[i] == ']' || text[i] == '}') --depth;
    i = std::min(end + quote.size(), text.size());
  } while (depth > 0 && i < text.size());
  return i;
}

// Where a secret part of an address begins in a word; npos: nowhere.
size_t path_secret(std::string_view word) {
  for (const std::string_view path : kSecretPaths)
    if (const size_t at = word.find(path); at != word.npos && at + path.size() < word.size()) return at + path.size();
  return word.npos;
}

// The first three characters of what makes masked_secrets() look closer, five bits of each: few texts have any.
class Triggers {
 public:
  Triggers() {
    for (const std::string_view name : kNames) add(name);
    for (const std::string_view key : kIssued) add(key);
    for (const std::string_view name : kMaybeNames) add(name);
    for (const std::string_view path : kSecretPaths) add(path);
    for (const std::string_view other :
         {"api-key", "access-key", "private-key", "account-key", "shared-key", "encryption-key", "api_key", "access_key",
          "private_key", "account_key", "shared_key", "encryption_key", "pass_phrase", "pwd", "bearer", "private key", "://"})
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

// Writes a text that has no private key with its secrets masked, from its begin to its end.
class Masking {
 public:
  Masking(std::string_view text, TextOf of) : text_(text), of_(of) {}
  std::string all();

 private:
  void address();
  void word();
  // A name, what joins it to its value, and the value.
  bool named(std::string_view word);
  bool scheme(std::string_view word);
  void value(std::string_view name, const Joint& joint);
  void put(size_t end) { out_.append(text_.substr(at_, end - at_)), at_ = end; }
  void put_mask(size_t end) { out_.append(kMask), at_ = end; }

  std::string_view text_;
  TextOf of_;
  size_t at_ = 0;
  std::string out_;
  bool header_ = false;       // "authorization" came before
  bool parameters_ = false;   // of its scheme: name="value", …
};

std::string Masking::all() {
  while (at_ < text_.size()) {
    if (text_[at_] == '\n') parameters_ = false;
    if (is_alphanumeric(text_[at_])) word();
    else if (text_[at_] == ':') address();
    else put(at_ + 1);
  }
  return std::move(out_);
}

void Masking::address() {
  const Span secret = address_secret(text_, at_);
  if (secret.begin == secret.end) return put(at_ + 1);
  put(secret.begin);
  put_mask(secret.end);
}

void Masking::word() {
  size_t end = at_;
  while (end < text_.size() && is_word(text_[end])) ++end;
  const std::string_view word = text_.substr(at_, end - at_);
  header_ = header_ || contains(lower_case(word), "authorization");
  if (const size_t path = path_secret(word); path != word.npos) {
    put(at_ + path);
    put_mask(value_end(text_, at_, {}));
  } else if (const size_t issued = issued_at(word); issued != word.npos) {
    put(at_ + issued);
    put_mask(std::min(end, text_.find('/', at_)));   // the rest of a path stays
  } else if (!named(word) && !scheme(word)) {
    put(end);
  }
}

bool Masking::named(std::string_view word) {
  const std::string_view rest = text_.substr(at_ + word.size());
  if (of_ == TextOf::kProgram && !rest.starts_with('=')) return false;
  Joint joint = assignment(rest);
  const bool parameter = parameters_ && rest.starts_with('=');
  if (joint.length > 0) {
    const size_t begin = at_ + word.size() + joint.length;
    const std::string_view value = text_.substr(begin, value_end(text_, begin, joint.quote) - begin);
    if (!parameter && !is_secret(word, value)) return false;
  } else {
    if (!out_.ends_with("--") || !names_secret(word)) return false;
    joint = flag_joint(rest);
    if (joint.length == 0) return false;
  }
  value(word, joint);
  return true;
}

// "Basic VALUE", "Digest name="VALUE", …"
bool Masking::scheme(std::string_view word) {
  const std::string name = lower_case(word);
  const size_t end = at_ + word.size(), blanks = blanks_length(text_.substr(end));
  if (blanks == 0 || !is_scheme(name) || !(header_ || (of_ == TextOf::kOthers && name == "bearer"))) return false;
  const std::string_view behind = text_.substr(end + blanks);
  const auto name_end = std::ranges::find_if_not(behind, [](char c) { return is_letter(c) || c == '-' || c == '_'; });
  const bool encoded = name == "bearer" || name == "basic";   // base64 ends with "="
  if (!encoded && name_end != behind.end() && *name_end == '=') {
    parameters_ = true;
    put(end);
  } else {
    value(word, {blanks, {}});
  }
  return true;
}

// Appends what stands for the value behind a name, or leaves it to be read on.
void Masking::value(std::string_view name, const Joint& joint) {
  const size_t end = at_ + name.size(), begin = end + joint.length;
  const std::string plain = plain_name(name);
  const bool has_words = plain.ends_with("cookie") || plain.ends_with("authorization");
  const size_t stop = value_end(text_, begin, joint.quote, has_words ? "\n\r\"'" : " \t\n\r\"'");
  const std::string_view held = text_.substr(begin, stop - begin);
  put(begin);
  const bool scheme_follows = is_scheme(held.substr(0, held.find_first_of(" \t")));
  if (held.empty() || scheme_follows) return;
  if (joint.quote.empty() && (held.front() == '[' || held.front() == '{')) {
    at_ = mask_list(text_, begin, out_);
    return;
  }
  if (is_harmless(held)) return put(stop);
  // A member of JSON has a value in quotes, or one that is no text.
  const std::string_view around = joint.quote.empty() ? quote_of(text_.substr(end)) : "";
  out_.append(around);
  put_mask(stop);
  out_.append(around);
}

// What a private key's text holds, behind "-----BEGIN … PRIVATE KEY-----".
Span private_key(std::string_view text) {
  for (size_t at = text.find(kBeginKey); at != text.npos; at = text.find(kBeginKey, at + 1)) {
    const std::string_view kind = text.substr(at + kBeginKey.size(), kKindOfKey);
    const size_t dashes = kind.find(kDashes);
    if (dashes == kind.npos || !contains(kind.substr(0, dashes), kPrivateKey)) continue;
    const size_t begin = at + kBeginKey.size() + dashes + kDashes.size();
    const size_t end = std::min({text.find(kEndKey, begin), text.find_first_of("\"'", begin), text.size()});
    if (begin < end) return {begin, end};
  }
  return {};
}

std::string masked(std::string_view text, TextOf of) {
  std::string out;
  for (Span key = private_key(text); key.begin < key.end; key = private_key(text)) {
    out.append(Masking(text.substr(0, key.begin), of).all()).append(kMask);
    text.remove_prefix(key.end);
  }
  return out.append(Masking(text, of).all());
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
  return is_secret(name, value) ? std::string(kMask) : masked_secrets(value);
}

std::vector<std::string> masked_words(const std::vector<std::string>& words) {
  std::vector<std::string> out;
  bool value = false;   // of the flag before
  for (const std::string& word : words) {
    const bool flag = word.starts_with('-');
    const size_t equals = word.find('=');
    const bool secret = (flag || equals != word.npos) && names_secret(std::string_view(word).substr(0, equals));
    if (value && !word.starts_with("--")) out.emplace_back(kMask);   // a token may begin with one dash
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
