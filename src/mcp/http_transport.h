// MCP over HTTP ("streamable HTTP", with plain JSON answers) for clients on this machine. One request at a time.
//
// Other users of the machine can connect to a port, and web pages can make a browser do so: a request needs the token,
// a Host that is this machine, and an Origin, if any, that is too.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/descriptor.h"
#include "base/result.h"
#include "mcp/server.h"

namespace profgpu {

class McpHttp {
 public:
  /// Listens on 127.0.0.1 from now on; port 0 is any free one. `token`: what a client sends as "Authorization: Bearer".
  static Result<std::unique_ptr<McpHttp>> open(uint16_t port, std::string token);

  [[nodiscard]] std::string url() const;
  /// Answers one request after another, for ever. The error: no more connections can be taken.
  Status run(McpServer& server);

 private:
  McpHttp(Descriptor listener, uint16_t port, std::string token)
      : listener_(std::move(listener)), port_(port), token_(std::move(token)) {}
  Descriptor listener_;
  uint16_t port_;
  std::string token_;
};

/// 32 random hexadecimal digits.
std::string random_token();

}  // namespace profgpu
