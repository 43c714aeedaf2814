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
      {"Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic ***"},
      {"{'Authorization': 'Bearer abc', 'Accept': 'x'}", "{'Authorization': 'Bearer ***', 'Accept': 'x'}"},
      {"X-Api-Key: abc", "X-Api-Key: ***"},
      {"MYSQL_PWD=a,b;c&d next", "MYSQL_PWD=*** next"},
      {"python train.py --password hunter2 --lr 0.1", "python train.py --password *** --lr 0.1"},
      {"--hf-token=abc --verbose", "--hf-token=*** --verbose"},
      {"--token -hunter2 --lr 0.1", "--token *** --lr 0.1"},
      {"['--token', '-hunter2', '--lr']", "['--token', '***', '--lr']"},
      {"login(token=abc)", "login(token=***)"},
      {"password=\"two words\" rest", "password=\"***\" rest"},
      {"/x/ghp_0123456789abcdefghijABCDEFGHIJ012345/a.py", "/x/***/a.py"},
      {"f_hf_AbCdEfGhIjKlMnOpQrStUv", "f_***"},
      {"/home/u/token=ghp_0123456789abcdefghijABCDEFGHIJ012345/a.py", "/home/u/token=***"},
      {"['train.py', '--password', 'hunter2', '--lr', '0.1']", "['train.py', '--password', '***', '--lr', '0.1']"},
      {R"({"token": 7, "lr": 1})", R"({"token": "***", "lr": 1})"},
      {R"({"text": "password=\"a b\" next"})", R"({"text": "password=\"***\" next"})"},
      {R"(["login token=abc\"", 1])", R"(["login token=***\"", 1])"},
  };
  for (const auto& [text, masked] : all) {
    EXPECT_EQ(masked_secrets(text), masked);
    EXPECT_TRUE(may_hold_secret(text)) << text;
  }
}

TEST(Secrets, InEveryFormOfAnAssignment) {
  const std::pair<const char*, const char*> all[] = {
      {"password:\thunter2 x", "password:\t*** x"},
      {"token => abc, x", "token => ***, x"},
      {"PASSWORD=''hunter2'' x", "PASSWORD=''***'' x"},
      {R"({""token"": ""abc"", ""n"": 1})", R"({""token"": ""***"", ""n"": 1})"},
      {"client_secret%3Dabc%26x", "client_secret%3D***"},
      {"%22token%22%3A%22abc%22%2C1", "%22token%22%3A%22***%22%2C1"},
      {R"("auth_token": ["a", 'b', 7], "n": "x")", R"("auth_token": ["***", '***', 7], "n": "x")"},
      {R"({"credentials": {"key": "abc", "n": 1}, "next": "x"})", R"({"credentials": {"key": "***", "n": 1}, "next": "x"})"},
      {"api_keys: [abc, def] x", "api_keys: [***, ***] x"},
      {R"({"password": "a\"b", "n": 1})", R"({"password": "***", "n": 1})"},
      {R"({"text": "password=\"a\\\"b\" next"})", R"({"text": "password=\"***\" next"})"},
      {"--password 'two words' --lr 1", "--password '***' --lr 1"},
      {"pwd=hunter2", "pwd=***"},
      {"passphrase: hunter2", "passphrase: ***"},
      {"Cookie: a=b; session=c", "Cookie: ***"},
      {"AccountKey=abc+/d==", "AccountKey=***"},
      {"X-Amz-Signature=0aB1c2D3e4F5a6b7", "X-Amz-Signature=***"},
      {"?sig=0aB1c2D3e4F5%3D&se=2026", "?sig=***"},
  };
  for (const auto& [text, masked] : all) {
    EXPECT_EQ(masked_secrets(text), masked);
    EXPECT_TRUE(may_hold_secret(text)) << text;
  }
}

TEST(Secrets, OfHeadersAndAddresses) {
  const std::pair<const char*, const char*> all[] = {
      {"Authorization: Bearer\tabc x", "Authorization: Bearer\t*** x"},
      {R"(Authorization: Digest username="u", response="abc")", R"(Authorization: Digest username="***", response="***")"},
      {"Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/2026, SignedHeaders=host, Signature=ab",
       "Authorization: AWS4-HMAC-SHA256 Credential=***, SignedHeaders=***, Signature=***"},
      {"authorization: abc", "authorization: ***"},
      {"Authorization: Unheard abc\nnext", "Authorization: ***\nnext"},
      {"postgres://user:p@ssword@host/db", "postgres://user:***@host/db"},
      {"postgres://user:pa/ss@host/db", "postgres://user:***@host/db"},
      {"https://aB3dE5fG7hI9@github.com/x", "https://***@github.com/x"},
      {"https://aB3dE5fG7hI9:x-oauth-basic@github.com/x", "https://***@github.com/x"},
      {"https://hooks.slack.com/services/T0/B0/abc next", "https://hooks.slack.com/services/*** next"},
      {"-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- x",
       "-----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY----- x"},
      {"gsk_AbCdEfGhIj1234567890", "***"},
      {"sk_live_AbCdEfGhIj1234567", "***"},
      {"npm_AbCdEfGhIj1234567890", "***"},
      {"xapp-1-ABCDEFG-1234567890", "***"},
      {"SG.AbCdEfGhIj0123456789.ABCDEFGHIJKLMN", "***"},
  };
  for (const auto& [text, masked] : all) {
    EXPECT_EQ(masked_secrets(text), masked);
    EXPECT_TRUE(may_hold_secret(text)) << text;
  }
}

// Names of kernels, functions and files, and what surrounds numbers.
TEST(Secrets, NamesInTracesStay) {
  for (const char* text :
       {"void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)", "autograd::engine",
        "void moe::get_token::kernel<int, float>(int)", "site-packages/lib/auth.py:12", "auth.py(12): login",
        "transformers/hf_argparser_utils.py(33): hf_trainer_config_finalize", "wandb_integration_callback",
        R"({"token": "", "next": "x"})", R"({"token": null, "api_key": [1, 2], "auth": {"a": 1}})", "[[2, 512], []]"})
    EXPECT_EQ(masked_secrets(text), text);
  EXPECT_FALSE(may_hold_secret("void at::native::vectorized_elementwise_kernel<4, FillFunctor<float>>(int)"));
  EXPECT_FALSE(may_hold_secret("autograd::engine::evaluate_function: ScaledDotProductAttentionBackward0"));
}

TEST(Secrets, OrdinaryTextStays) {
  for (const char* text :
       {"consumed tokens: 1234 | num_tokens=5", "tokenizer: gpt2", "RuntimeError: CUDA error: out of memory",
        "token=None", "author: me", "--tokenizer-type GPT2", "tokenizer_type=GPT2", "--token --verbose", "basic block", "https://host:8080/path",
        "https://host:8080/path@v2", "ssh://git@github.com/x", "PWD=/home/me/work", "session: 5 signature: forward(self)",
        "SG.LayerNormBackward0", "npm_package_config_value", "-----BEGIN CERTIFICATE-----", "step: 10  loss: 2.5", "max_tokens: 512", ""})
    EXPECT_EQ(masked_secrets(text), text);
}

TEST(Secrets, OfAMessage) {
  const std::pair<const char*, const char*> all[] = {
      {"a.txt: starts with \"password: hunter2\"", "a.txt: starts with \"password: ***\""},
      {"unknown option --{\"token\": \"abc\"}", "unknown option --{\"token\": \"***\"}"},
      {"\"HF_TOKEN=x\" is not FIELD", "\"HF_TOKEN=***\" is not FIELD"},
      {"unknown option --password=hunter2", "unknown option --password=***"},
      {"no such column: AKIAIOSFODNN7EXAMPLE", "no such column: ***"},
      {"http://me:pa55@host: refused", "http://me:***@host: refused"},
      {"expected \"}\", got \"token: abc", "expected \"}\", got \"token: ***"},   // cut within the quote
  };
  for (const auto& [text, masked] : all) EXPECT_EQ(masked_message(text), masked);
  for (const char* text :
       {"auth.json: No such file or directory", "tokens.json: expected \":\" at byte 12", "--token-file needs a name",
        "/x/0123456789abcdef0123456789abcdef01234567/t.json: Is a directory", "the bearer token is missing",
        "\"a\" and \"b\"", "\"", ""})
    EXPECT_EQ(masked_message(text), text);
}

TEST(Secrets, WordsOfACommand) {
  const std::vector<std::string> words = {"python", "a.py", "--api-key", "k", "--password=a b", "--token", "--lr", "0.1",
                                          "HF_TOKEN=x", "--num-tokens", "5", "--token", "-hunter2", "--lr"};
  const std::vector<std::string> masked = {"python", "a.py",  "--api-key",    "***", "--password=***", "--token", "--lr",
                                           "0.1",    "HF_TOKEN=***", "--num-tokens", "5", "--token", "***", "--lr"};
  EXPECT_EQ(masked_words(words), masked);
}

TEST(Secrets, OfANamedField) {
  EXPECT_EQ(masked_member("hf_token", "abc"), "***");
  EXPECT_EQ(masked_member("note", "token=abc"), "token=***");
  EXPECT_EQ(masked_member("learning_rate", "0.25"), "0.25");
  EXPECT_EQ(masked_member("auth", "None"), "None");
}

TEST(SameSecret, OnlyTheWholeText) {
  EXPECT_TRUE(same_secret("token", "token"));
  EXPECT_TRUE(same_secret("", ""));
  for (const std::string_view other : {"tokem", "Token", "toke", "tokens", ""}) EXPECT_FALSE(same_secret(other, "token"));
  EXPECT_FALSE(same_secret("token", ""));
  EXPECT_FALSE(same_secret(std::string_view("\0", 1), "")) << "what is missing is no zero";
}

}  // namespace
}  // namespace profgpu
