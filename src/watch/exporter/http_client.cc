#include "watch/exporter/http_client.h"

#include <algorithm>
#include <optional>

#include "base/dyn_lib.h"
#include "base/gzip.h"
#include "watch/exporter/http_calling.h"

namespace profgpu {
namespace {

bool is_plain(std::string_view text) {
  return !text.empty() && std::ranges::none_of(text, [](unsigned char c) { return c <= ' ' || c == 0x7f; });
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/// What "p%2Fw" stands for in an address; nothing: a % without two hexadecimal digits.
std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1, low = high < 0 ? -1 : hex_digit(text[i + 2]);
    if (low < 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

}  // namespace

Result<HttpUrl> parse_http_url(std::string_view text) {
  const Error wrong{fmt::format("\"{}\" is not an address that begins with http:// or https://", text.substr(0, 200)),
                    "for example http://host:8080/alerts"};
  HttpUrl url;
  url.tls = text.starts_with("https://");
  if (!is_plain(text) || (!url.tls && !text.starts_with("http://"))) return wrong;
  text.remove_prefix(url.tls ? 8 : 7);
  text = text.substr(0, text.find('#'));
  const size_t end = std::min(text.find_first_of("/?"), text.size());
  std::string_view authority = text.substr(0, end);
  if (end < text.size()) url.target = (text[end] == '?' ? "/" : "") + std::string(text.substr(end));
  if (const size_t at = authority.rfind('@'); at != authority.npos) {
    const auto user_and_password = percent_decoded(authority.substr(0, at));
    if (!user_and_password) return Error{"the password of that address has a % that begins no %XX", "write % as %25"};
    url.authorization = "Basic " + base64(*user_and_password);
    authority.remove_prefix(at + 1);
  }
  const size_t bracket = authority.starts_with('[') ? authority.find(']') : 0;
  if (bracket == authority.npos) return wrong;
  const size_t colon = authority.find(':', bracket);
  url.host = bracket > 0 ? authority.substr(1, bracket - 1) : authority.substr(0, colon);
  url.port = colon == authority.npos ? (url.tls ? "443" : "80") : authority.substr(colon + 1);
  if (url.host.empty() || port_number(url.port).value_or(0) == 0 ||
      (bracket > 0 && bracket + 1 != std::min(colon, authority.size())))
    return wrong;
  return url;
}

Result<HttpAnswer> http_call(const HttpCall& call, const std::string& program) {
  if (call.url.tls) {
    auto https = tls_function<HttpsCall>(program, kHttpsCallSymbol);
    if (!https) return https.error();
    HttpAnswer answer;
    Error problem;
    if (!(*https)(kVersion, call, answer, problem)) return problem;
    return answer;
  }
  boost::asio::io_context io(1);
  return calling::Exchange<boost::beast::tcp_stream>(call, io).run();
}

Result<void*> tls_symbol(const std::string& program, const char* symbol) {
  auto library = DynLib::open_first(paths_of_part(program, "libprofgpu-tls.so", "PROFGPU_TLS"));
  if (!library) return Error{"TLS: " + library.error().message, "it comes with the program; PROFGPU_TLS can name it"};
  const auto found = library->symbol<void*>(symbol);
  if (!found) return Error{"TLS: " + library->path() + " is of another version than the program"};
  library->leak();  // OpenSSL ends with the program
  return found;
}

}  // namespace profgpu
