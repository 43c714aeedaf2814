// A server of the Model Context Protocol: JSON-RPC 2.0 messages to answers. What carries them is another's.
// Specification: modelcontextprotocol.io, versions 2024-11-05, 2025-03-26 and 2025-06-18.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "mcp/tools.h"

namespace profgpu {

class McpServer {
 public:
  McpServer(Explain explain, std::vector<McpDocument> documents)
      : explain_(std::move(explain)), documents_(std::move(documents)) {}

  /// One line without its end. Empty: nothing is to be answered. Never fails: an error is an answer.
  std::string answer(const std::string& message);

  static bool speaks(std::string_view version);
  /// The answer to a message that was not read.
  static std::string refusal(std::string_view why);

 private:
  struct Failure {
    int code = 0;
    std::string message;
  };
  using Answer = std::variant<Record, Failure>;

  std::string answer_one(const Value& message);
  Answer dispatch(const std::string& method, const Record& parameters);
  Answer initialize(const Record& parameters);
  Answer call_tool(const Record& parameters);
  Answer read_resource(const Record& parameters);

  Explain explain_;
  std::vector<McpDocument> documents_;
  OpenRuns runs_;
};

}  // namespace profgpu
