#include "watch/exporter/web_config.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

namespace profgpu {
namespace {

// Of "secret", at the lowest cost.
constexpr char kHash[] = "$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a";

Result<WebConfig> config_of(const std::string& text) {
  const std::string path = testing::TempDir() + "web_config_test_" + std::to_string(::getpid()) + ".yml";
  std::ofstream(path) << text;
  auto config = read_web_config(path);
  std::remove(path.c_str());
  return config;
}

std::string problem_of(const std::string& text) {
  const auto config = config_of(text);
  if (config) return "none";
  return config.error().message.substr(config.error().message.find(".yml: ") + 6);
}

TEST(WebConfig, ReadsTheToolkitsForm) {
  const auto config = config_of(
      "tls_server_config:\n  cert_file: server.crt\n  key_file: /keys/server.key\n  min_version: TLS13\n"
      "http_server_config:\n  http2: false\n  headers:\n    X-Frame-Options: deny\n"
      "basic_auth_users:\n  alice: " +
      std::string(kHash) + "\n");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_TRUE(config->tls);
  EXPECT_EQ(config->cert_file, testing::TempDir() + "server.crt");
  EXPECT_EQ(config->key_file, "/keys/server.key");
  EXPECT_EQ(config->min_version, 0x0304);
  ASSERT_EQ(config->headers.size(), 1U);
  EXPECT_EQ(config->headers[0].second, "deny");
  EXPECT_TRUE(config->users.contains("alice"));
  EXPECT_EQ(config->notes.size(), 1U);
}

TEST(WebConfig, NothingIsAskedForByAnEmptyFile) {
  const auto config = config_of("");
  ASSERT_TRUE(config);
  EXPECT_FALSE(config->tls);
  EXPECT_TRUE(config->users.empty());
  const auto empty_section = config_of("tls_server_config:\n");
  ASSERT_TRUE(empty_section) << empty_section.error().message;
  EXPECT_FALSE(empty_section->tls);
  EXPECT_EQ(problem_of("tls_server_config:\n  min_version: TLS13\n"), "cert_file is missing") << "no plain HTTP by mistake";
}

TEST(WebConfig, ErrorsNameTheSetting) {
  EXPECT_EQ(problem_of("tls_config: {}\n"), "line 1: tls_config: unknown setting");
  EXPECT_EQ(problem_of("tls_server_config:\n  cert_file: a\n"), "key_file is missing");
  EXPECT_EQ(problem_of("tls_server_config:\n  cert_file: a\n  key_file: b\n  min_version: SSL3\n"),
            "line 2: tls_server_config: line 4: min_version: unknown value \"SSL3\"");
  EXPECT_EQ(problem_of("basic_auth_users:\n  alice: secret\n"),
            "line 2: basic_auth_users: line 2: alice: expected a bcrypt hash, not a password");
  EXPECT_EQ(
      problem_of("tls_server_config:\n  cert_file: a\n  key_file: b\n  client_auth_type: RequireAndVerifyClientCert\n"),
      "client_ca_file is missing, which client_auth_type needs to verify certificates");
  EXPECT_NE(problem_of("a: [\n").find("line "), std::string::npos);
  EXPECT_NE(problem_of("- a\n- b\n"), "none");
  EXPECT_NE(problem_of(std::string("\0\1\2", 3)), "none");
}

TEST(Credentials, ChecksAndRemembers) {
  Credentials who(std::map<std::string, std::string>{{"alice", kHash}});
  const std::string right = "Basic YWxpY2U6c2VjcmV0", wrong = "Basic YWxpY2U6U2VjcmV0",
                    nobody = "Basic Ym9iOnNlY3JldA==";
  EXPECT_FALSE(who.known(right));
  EXPECT_TRUE(who.check(right));
  EXPECT_TRUE(who.known(right));
  EXPECT_TRUE(who.check("basic   YWxpY2U6c2VjcmV0"));
  for (const std::string& bad :
       {wrong, nobody, std::string("Basic ????"), std::string("Basic "), std::string("Bearer x"),
        std::string("Basic YWxpY2U="), std::string(5000, 'A'), std::string()}) {
    EXPECT_FALSE(who.check(bad)) << bad;
    EXPECT_FALSE(who.known(bad)) << bad;
  }
}

}  // namespace
}  // namespace profgpu
