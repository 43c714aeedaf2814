#include "base/secrets.h"

#include <gtest/gtest.h>

namespace profgpu {
namespace {

TEST(Secrets, AreMasked) {
  const std::pair<const char*, const char*> all[] = {
      {"WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567", "WANDB_API_KEY=***"},
      {"password: 'hunter2', user: 'me'", "password: '***', user: 'me'"},
      {"Authorization: Bearer abc.def-ghi", "Authorization: Bearer ***"},
      {"{\"token\": \"hf_AbCdEfGhIjKlMnOpQrStUv\"}", "{\"token\": \"***\"}"},
      {"https://me:pa55@host/path", "https://me:***@host/path"},
      {"export AWS_SECRET_ACCESS_KEY=abc/def+ghi", "export AWS_SECRET_ACCESS_KEY=***"},
      {"logged in with sk-abcdefghijklmnopqrstuvwx", "logged in with ***"},
      {"bad ACCESS_TOKEN_SECRET=hunter2abc", "bad ACCESS_TOKEN_SECRET=***"},
      {"ghp_0123456789abcdefghijABCDEFGHIJ012345", "***"},
  };
  for (const auto& [text, masked] : all) EXPECT_EQ(masked_secrets(text), masked);
}

TEST(Secrets, OrdinaryTextStays) {
  for (const char* text :
       {"consumed tokens: 1234 | num_tokens=5", "tokenizer: gpt2", "RuntimeError: CUDA error: out of memory",
        "token=None", "author: me", "https://host:8080/path", "step: 10  loss: 2.5", "max_tokens: 512", ""})
    EXPECT_EQ(masked_secrets(text), text);
}

}  // namespace
}  // namespace profgpu
