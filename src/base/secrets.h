// Text of others without their passwords, tokens and keys: for what a report quotes of a log.
//
// What is masked: values of names that say so (token, secret, password, api-key, cookie, ...) after "=", ":", "=>",
// "%3D" or as the next word of a command line, each text of a list of them, and those of names that may say so (session,
// signature) if they look like a key; what follows "Bearer", "Basic" or another scheme of authorization; passwords and
// tokens in URLs; private keys; keys that issuers mark by how they begin (Hugging Face, OpenAI, GitHub, GitLab, AWS,
// Google, Slack ...), as well as bare hexadecimal words of 40 characters and more. A word that only looks like a key is
// masked as well: a report loses nothing by it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace profgpu {

/// With "***" instead of each secret. JSON stays JSON.
std::string masked_secrets(std::string_view text);
/// The same for a message that quotes input. Before and behind its double quotes its own words stay: a file or an
/// option may be called after a secret ("auth.json: not found", "--token-file needs a name").
std::string masked_message(std::string_view text);
/// Whether masked_secrets() may change it, but for hexadecimal words, as names of commits are: for many texts of which
/// hardly any has a secret. Budget: 2 ns a byte.
bool may_hold_secret(std::string_view text);
/// The value of a named field: "***" if the name says that it is a secret.
std::string masked_member(std::string_view name, std::string_view value);
/// A command line, word by word: also the word after --password.
std::vector<std::string> masked_words(const std::vector<std::string>& words);

/// Whether they are the same, in a time that says nothing about where they differ.
bool same_secret(std::string_view given, std::string_view secret);

}  // namespace profgpu
