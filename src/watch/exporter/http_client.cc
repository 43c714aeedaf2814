#include "watch/exporter/http_client.h"

#include <cstdlib>
#include <vector>

#include "base/dyn_lib.h"
#include "base/gzip.h"
#include "watch/exporter/http_calling.h"

namespace profgpu {
namespace {

bool is_port(std::string_view text) {
  int port = 0;
  for (const char c : text) {
    if (c < '0' || c > '9' || port > 65535) return false;
    port = port * 10 + (c - '0');
  }
  return !text.empty() && port > 0 && port <= 65535;
}

bool is_plain(std::string_view text) {
  for (const char c : text)
    if (static_cast<unsigned char>(c) <= ' ' || c == 0x7f) return false;
  return !text.empty();
}

}  // namespace

std::string HttpUrl::text() const {
  const bool v6 = host.find(':') != std::string::npos;
  const bool usual = port == (tls ? "443" : "80");
  return fmt::format("{}://{}{}{}{}{}", tls ? "https" : "http", v6 ? "[" : "", host, v6 ? "]" : "",
                     usual ? "" : ":" + port, target);
}

Result<HttpUrl> parse_http_url(std::string_view text) {
  const Error wrong{fmt::format("\"{}\" is no address that begins with http:// or https://", text.substr(0, 200)),
                    "for example http://host:8080/alerts"};
  HttpUrl url;
  url.tls = text.starts_with("https://");
  if (!is_plain(text) || (!url.tls && !text.starts_with("http://"))) return wrong;
  text.remove_prefix(url.tls ? 8 : 7);
  text = text.substr(0, text.find('#'));
  const size_t end = std::min(text.find_first_of("/?"), text.size());
  std::string_view place = text.substr(0, end);
  if (end < text.size()) url.target = (text[end] == '?' ? "/" : "") + std::string(text.substr(end));
  if (const size_t at = place.rfind('@'); at != place.npos) {
    url.authorization = "Basic " + base64(place.substr(0, at));
    place.remove_prefix(at + 1);
  }
  const size_t bracket = place.starts_with('[') ? place.find(']') : 0;
  if (bracket == place.npos) return wrong;
  const size_t colon = place.find(':', bracket);
  url.host = bracket > 0 ? place.substr(1, bracket - 1) : place.substr(0, colon);
  url.port = colon == place.npos ? (url.tls ? "443" : "80") : place.substr(colon + 1);
  if (url.host.empty() || !is_port(url.port) || (bracket > 0 && bracket + 1 != std::min(colon, place.size())))
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

namespace {

// Beside the program, or where it is installed.
std::vector<std::string> places(const std::string& program) {
  std::vector<std::string> all;
  if (const char* named = std::getenv("PROFGPU_TLS")) all.emplace_back(named);
  const std::string folder = program.substr(0, program.rfind('/') + 1);
  all.push_back(folder + "libprofgpu-tls.so");
  all.push_back(folder + "../lib/profgpu/libprofgpu-tls.so");
  return all;
}

}  // namespace

Result<void*> tls_symbol(const std::string& program, const char* symbol) {
  auto library = DynLib::open_first(places(program));
  if (!library) return Error{"TLS: " + library.error().message, "it comes with the program; PROFGPU_TLS may name it"};
  const auto found = library->symbol<void*>(symbol);
  if (!found) return Error{"TLS: " + library->path() + " is of another version than the program"};
  library->leak();  // OpenSSL ends with the program
  return found;
}

}  // namespace profgpu
