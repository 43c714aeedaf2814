// profgpu mcp: the Model Context Protocol on standard input and output, for AI agents.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "base/environment.h"
#include "cli/command.h"
#include "cli/lists.h"
#include "cli/output.h"
#include "mcp/http_transport.h"
#include "mcp/server.h"

// docs/report-json.md, by cmake/embed.cmake
extern "C" const char profgpu_report_json_begin[], profgpu_report_json_end[];

namespace profgpu {
namespace {

constexpr size_t kMostMessage = 4 << 20;   // bytes; what is longer is refused, and skipped

std::vector<McpDocument> documents(const std::string& sql) {
  const std::string_view report{profgpu_report_json_begin,
                                static_cast<size_t>(profgpu_report_json_end - profgpu_report_json_begin)};
  return {{"profgpu://docs/agents", "How to use profgpu: JSON, SQL, row keys, exit codes, abstention", agents_text()},
          {"profgpu://docs/report-json", "Every key of the report", report},
          {"profgpu://docs/sql", "Tables, views and columns for the tool sql", sql}};
}

// Lines of standard input.
class MessageReader {
 public:
  /// False at the end of the input. A line that is too long is cut, so that it is no JSON.
  bool next(std::string& line) {
    line.clear();
    for (;;) {
      const size_t end = held_.find('\n', at_);
      const std::string_view piece = std::string_view(held_).substr(at_, end == held_.npos ? end : end - at_);
      line.append(piece.substr(0, kMostMessage - std::min(line.size(), kMostMessage)));
      if (end != held_.npos) {
        at_ = end + 1;
        return true;
      }
      if (!fill()) return !line.empty();
    }
  }

 private:
  bool fill() {
    held_.resize(64 << 10);
    at_ = 0;
    ssize_t n = 0;
    do n = ::read(STDIN_FILENO, held_.data(), held_.size());
    while (n < 0 && errno == EINTR);
    held_.resize(static_cast<size_t>(std::max<ssize_t>(n, 0)));
    return n > 0;
  }
  std::string held_;
  size_t at_ = 0;
};

Outcome serve_http(McpServer& server, uint16_t port) {
  const std::string set = environment("PROFGPU_MCP_TOKEN");
  const std::string token = set.empty() ? random_token() : set;
  if (token.empty()) return Error{"no random token can be had", "set PROFGPU_MCP_TOKEN"};
  auto http = McpHttp::open(port, token);
  if (!http) return http.error();
  print_message("profgpu mcp: " + (*http)->url());
  if (set.empty()) print_message("Authorization: Bearer " + token);
  return (*http)->run(server);
}

Outcome mcp(const Arguments& arguments) {
  const std::string sql = table_list();
  McpServer server(explanation, documents(sql));
  if (arguments.has("--http")) {
    uint16_t port = 0;
    if (Status read = OptionReader(arguments).whole("--http", 0, UINT16_MAX, port).status(); !read)
      return Outcome::usage(read.error());
    return serve_http(server, port);
  }
  MessageReader messages;
  for (std::string line; messages.next(line);) {
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    const std::string answer = server.answer(line);
    if (answer.empty()) continue;
    if (Status written = write_stdout(answer + "\n"); !written) return written.error();
  }
  return {};
}

}  // namespace

extern const Command kMcp{
    .name = "mcp",
    .summary = "Model Context Protocol server for AI agents, on stdin and stdout",
    .groups = {{"Transport",
                {{"--http PORT", "answer HTTP on 127.0.0.1 instead of standard input; 0: any free port"}}}},
    .examples = {{"profgpu mcp",
                  "what a client starts; in its settings: \"command\": \"profgpu\", \"args\": [\"mcp\"]"},
                 {"PROFGPU_MCP_TOKEN=$(cat token) profgpu mcp --http 8765", "for a client that only speaks HTTP"}},
    .notes =
        "Tools: open_run, verdict, findings, section, memory, roofline, sql, diff, explain. All of them only read: files that "
        "the client names are opened, never changed. Answers are small, with stable row keys and pages. Resources: the "
        "guide for agents, every key of the report, the tables, every rule. Prompts: diagnose_run, did_it_help.\n\n"
        "With --http each request needs the header Authorization: Bearer TOKEN. The token is PROFGPU_MCP_TOKEN, else a "
        "new one, which is printed on standard error. Host and Origin must be localhost.\n\n"
        "Protocol versions 2025-06-18, 2025-03-26 and 2024-11-05. The server exits when its input closes.",
    .run = mcp,
};

}  // namespace profgpu
