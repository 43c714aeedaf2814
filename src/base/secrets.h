// Text of others without their passwords, tokens and keys: for what a report quotes of a log.
//
// What is masked: values of names that say so (token, secret, password, api_key, ...), what follows "Bearer", passwords
// in URLs, and keys that issuers mark by how they begin (Hugging Face, OpenAI, GitHub, GitLab, AWS, Google, Slack), as
// well as bare hexadecimal words of 40 characters and more. A word that only looks like a key is masked as well: a
// report loses nothing by it.
#pragma once

#include <string>
#include <string_view>

namespace profgpu {

/// With "***" in the place of each secret.
std::string masked_secrets(std::string_view text);

}  // namespace profgpu
