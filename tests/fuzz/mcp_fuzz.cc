// The MCP server: any line is answered with one line of JSON, or not at all.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/json_reader.h"
#include "base/text.h"
#include "mcp/server.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace profgpu;
  const std::string text(reinterpret_cast<const char*>(data), size);
  // Files of this machine are no input.
  for (const char* name : {"paths", "run", "before"})
    if (contains(text, name)) return 0;
  const auto explain = [](const std::string& id) -> Result<std::string> { return Error{"no rule " + id}; };
  McpServer server(explain, {{"profgpu://docs/agents", "Guide", "text"}});
  const std::string answer = server.answer(text);
  if (!answer.empty() && (!is_json(answer) || contains(answer, "\n"))) std::abort();
  return 0;
}
