#include "watch/exporter/web_config.h"

#include <fmt/format.h>
#include <yaml.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <optional>

#include "base/text.h"
#include "devices/system_files.h"

namespace profgpu {
namespace {

constexpr size_t kMaxBytes = 1 << 20;

// A document of libyaml.
class Yaml {
 public:
  static Result<std::unique_ptr<Yaml>> parse(const std::string& text) {
    std::unique_ptr<Yaml> yaml(new Yaml);
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser)) return Error{"no memory"};
    yaml_parser_set_input_string(&parser, reinterpret_cast<const unsigned char*>(text.data()), text.size());
    yaml->loaded_ = yaml_parser_load(&parser, &yaml->document_) != 0;
    const std::string problem = parser.problem ? parser.problem : "it is not YAML";
    const size_t line = parser.problem_mark.line + 1;
    yaml_parser_delete(&parser);
    if (!yaml->loaded_) return Error{fmt::format("line {}: {}", line, problem)};
    return yaml;
  }
  ~Yaml() {
    if (loaded_) yaml_document_delete(&document_);
  }
  yaml_node_t* root() { return yaml_document_get_root_node(&document_); }
  yaml_node_t* node(int index) { return yaml_document_get_node(&document_, index); }

 private:
  Yaml() = default;
  yaml_document_t document_{};
  bool loaded_ = false;
};

std::optional<std::string> text_of(const yaml_node_t* node) {
  if (!node || node->type != YAML_SCALAR_NODE) return std::nullopt;
  return std::string(reinterpret_cast<const char*>(node->data.scalar.value), node->data.scalar.length);
}

int line_of(const yaml_node_t* node) { return static_cast<int>(node->start_mark.line) + 1; }

// Calls `each(key, value node)` for a mapping.
template <class Each>
Status for_each_key(Yaml& yaml, yaml_node_t* node, Each each) {
  if (node->type == YAML_SCALAR_NODE && node->data.scalar.length == 0) return ok();  // `http_server_config:` alone
  if (node->type != YAML_MAPPING_NODE)
    return Error{fmt::format("line {}: expected keys with values", line_of(node))};
  for (auto* pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top; ++pair) {
    const auto key = text_of(yaml.node(pair->key));
    yaml_node_t* value = yaml.node(pair->value);
    if (!key || !value) return Error{fmt::format("line {}: expected a key", line_of(node))};
    if (Status s = each(*key, value); !s) return s.error().within(fmt::format("line {}: {}", line_of(value), *key));
  }
  return ok();
}

Status expect_text(const yaml_node_t* node, std::string& out) {
  const auto text = text_of(node);
  if (!text) return Error{"expected a text"};
  out = *text;
  return ok();
}

// Sets `choice` to the value of the name that the node has.
template <class T>
Status read_choice(const yaml_node_t* node, std::initializer_list<std::pair<std::string_view, T>> choices, T& choice) {
  std::string text;
  if (Status s = expect_text(node, text); !s) return s;
  const auto found = std::ranges::find(choices, text, &std::pair<std::string_view, T>::first);
  if (found == choices.end()) return Error{fmt::format("unknown value \"{}\"", text)};
  choice = found->second;
  return ok();
}

Status read_version(const yaml_node_t* node, int& version) {
  return read_choice(node, {{"TLS10", 0x0301}, {"TLS11", 0x0302}, {"TLS12", 0x0303}, {"TLS13", 0x0304}}, version);
}

Status read_client_auth(const yaml_node_t* node, ClientCertificates& wanted) {
  using enum ClientCertificates;
  return read_choice(node,
                     {{"", kNone},
                      {"NoClientCert", kNone},
                      {"RequestClientCert", kRequested},
                      {"RequireAnyClientCert", kRequired},
                      {"RequireClientCert", kRequired},
                      {"VerifyClientCertIfGiven", kVerifiedIfGiven},
                      {"RequireAndVerifyClientCert", kVerified}},
                     wanted);
}

Status read_tls(Yaml& yaml, yaml_node_t* node, WebConfig& config) {
  return for_each_key(yaml, node, [&](const std::string& key, yaml_node_t* value) -> Status {
    config.tls = true;   // `tls_server_config:` alone is none
    if (key == "cert_file") return expect_text(value, config.cert_file);
    if (key == "key_file") return expect_text(value, config.key_file);
    if (key == "client_ca_file") return expect_text(value, config.client_ca_file);
    if (key == "client_auth_type") return read_client_auth(value, config.client_certificates);
    if (key == "min_version") return read_version(value, config.min_version);
    if (key == "max_version") return read_version(value, config.max_version);
    if (key == "prefer_server_cipher_suites") return ok();  // without effect in the toolkit too
    return Error{"unknown setting",
                 "cert_file, key_file, client_ca_file, client_auth_type, min_version, max_version"};
  });
}

Status read_http(Yaml& yaml, yaml_node_t* node, WebConfig& config) {
  return for_each_key(yaml, node, [&](const std::string& key, yaml_node_t* value) -> Status {
    if (key == "http2") {
      config.notes.emplace_back("http2 has no effect: answers are HTTP/1.1");
      return ok();
    }
    if (key != "headers") return Error{"unknown setting", "http2, headers"};
    return for_each_key(yaml, value, [&](const std::string& name, yaml_node_t* text) -> Status {
      std::string content;
      if (Status s = expect_text(text, content); !s) return s;
      static const std::string_view kNames[] = {"Content-Security-Policy",   "X-Frame-Options",
                                                "X-Content-Type-Options",    "X-XSS-Protection",
                                                "Strict-Transport-Security", "Access-Control-Allow-Origin"};
      const bool known = std::ranges::find(kNames, name) != std::end(kNames);
      if (!known || content.find_first_of("\r\n") != content.npos) return Error{"this header cannot be set"};
      config.headers.emplace_back(name, content);
      return ok();
    });
  });
}

Status read_users(Yaml& yaml, yaml_node_t* node, WebConfig& config) {
  return for_each_key(yaml, node, [&](const std::string& user, yaml_node_t* value) -> Status {
    std::string hash;
    if (Status s = expect_text(value, hash); !s) return s;
    const std::string cost = hash.size() == 60 ? hash.substr(4, 2) : "";
    const bool is_hash = hash.starts_with("$2") && all_digits(cost) && cost >= "04" && cost <= "31";
    if (!is_hash || hash[3] != '$' || hash[6] != '$' || user.empty())
      return Error{"expected a bcrypt hash, not a password", "`htpasswd -nBC 10 \"\"` makes one"};
    if (hash.starts_with("$2y")) hash[2] = 'b';  // the same algorithm
    config.users[user] = hash;
    return ok();
  });
}

Status check(const WebConfig& config) {
  if (!config.tls) return ok();
  if (config.cert_file.empty()) return Error{"cert_file is missing"};
  if (config.key_file.empty()) return Error{"key_file is missing"};
  const bool verifies = config.client_certificates == ClientCertificates::kVerified ||
                        config.client_certificates == ClientCertificates::kVerifiedIfGiven;
  if (verifies && config.client_ca_file.empty())
    return Error{"client_ca_file is missing, which client_auth_type needs to verify certificates"};
  if (!verifies && !config.client_ca_file.empty())
    return Error{"client_ca_file is set, but client_auth_type verifies nothing",
                 "client_auth_type: RequireAndVerifyClientCert"};
  if (config.max_version != 0 && config.max_version < config.min_version)
    return Error{"max_version is below min_version"};
  return ok();
}

std::string beside(const std::string& path, const std::string& name) {
  if (name.empty() || name.front() == '/') return name;
  const size_t slash = path.rfind('/');
  return slash == path.npos ? name : path.substr(0, slash + 1) + name;
}

}  // namespace

Result<WebConfig> read_web_config(const std::string& path) {
  const auto text = file_text(path, kMaxBytes);
  if (!text) return Error{path + ": cannot be read: " + std::strerror(errno)};
  auto yaml = Yaml::parse(*text);
  if (!yaml) return yaml.error().within(path);
  WebConfig config;
  yaml_node_t* root = (*yaml)->root();
  if (!root) return config;  // an empty file
  Status read = for_each_key(**yaml, root, [&](const std::string& key, yaml_node_t* value) -> Status {
    if (key == "tls_server_config") return read_tls(**yaml, value, config);
    if (key == "http_server_config") return read_http(**yaml, value, config);
    if (key == "basic_auth_users") return read_users(**yaml, value, config);
    return Error{"unknown setting", "tls_server_config, http_server_config, basic_auth_users"};
  });
  if (read) read = check(config);
  if (!read) return read.error().within(path);
  for (std::string* file : {&config.cert_file, &config.key_file, &config.client_ca_file}) *file = beside(path, *file);
  return config;
}

}  // namespace profgpu
