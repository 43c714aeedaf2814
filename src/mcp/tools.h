// What a client can call. Each tool only reads; its answer is one small JSON object.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "mcp/open_runs.h"

namespace profgpu {

/// What `profgpu explain` prints; the error: there is no such rule or subject.
using Explain = std::function<Result<std::string>(const std::string&)>;

/// A document that a client can read.
struct McpDocument {
  std::string_view uri, title, text;
};

struct ToolParameter {
  enum class Kind : uint8_t { kText, kTexts, kWhole };
  std::string_view name;
  Kind kind;
  std::string_view help;
  bool required = false;
};

/// Arguments of one call.
class ToolArguments {
 public:
  /// The error names what is missing, unknown or of another type.
  static Result<ToolArguments> read(const Value& given, const std::vector<ToolParameter>& known);
  [[nodiscard]] std::string text(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> texts(std::string_view name) const;
  [[nodiscard]] int64_t whole(std::string_view name, int64_t otherwise, int64_t least, int64_t most) const;
  [[nodiscard]] bool has(std::string_view name) const { return !given_.at(name).is_null(); }

 private:
  Record given_;
};

struct ToolCall {
  const ToolArguments& arguments;
  OpenRuns& runs;
  const Explain& explain;
};

struct Tool {
  std::string_view name, title, help;
  std::vector<ToolParameter> parameters;
  Result<Record> (*run)(const ToolCall& call);
};

const std::vector<Tool>& tools();
/// As `tools/list` describes it.
Record tool_record(const Tool& tool);

}  // namespace profgpu
