#include "mcp/server.h"

#include <fmt/format.h>

#include <array>

#include "analyse/report/document.h"
#include "base/json_reader.h"
#include "base/secrets.h"
#include "base/text.h"
#include "base/version.h"
#include "mcp/pages.h"
#include "mcp/prompts.h"

namespace profgpu {
namespace {

// JSON-RPC 2.0, section 5.1; the last one is the protocol's own.
constexpr int kParseError = -32700, kInvalidRequest = -32600, kMethodNotFound = -32601, kInvalidParams = -32602,
              kResourceNotFound = -32002;

constexpr std::array<std::string_view, 3> kVersions = {"2025-06-18", "2025-03-26", "2024-11-05"};   // newest first

constexpr std::string_view kRuleScheme = "profgpu://rules/";

constexpr std::string_view kInstructions =
    "profgpu finds out why GPU jobs are slow, from their recordings. Call open_run with the path of a trace or of a "
    "job's folder, then findings. Use explain for the meaning of a rule, section, roofline and sql for further questions, "
    "and diff to check whether a change helped. Times are nanoseconds, null is unknown. If verdict_kind is inconclusive, "
    "report what to record instead of guessing. The resource profgpu://docs/agents has more.";

std::string response(const Value& id, std::string_view member, Record content) {
  return compact_json(Record().add("jsonrpc", "2.0").add("id", id).add(std::string(member), std::move(content)));
}

std::string error_response(const Value& id, int code, std::string_view message) {
  return response(id, "error", Record().add("code", code).add("message", masked_message(message)));
}

Record text_content(std::string_view text, bool is_error) {
  Record answer;
  answer.add("content", List{Record().add("type", "text").add("text", text)});
  return answer.add("isError", is_error);
}

Record resource_record(const McpDocument& d) {
  return Record().add("uri", d.uri).add("name", d.title).add("title", d.title).add("mimeType", "text/markdown");
}

Record resource_contents(std::string_view uri, std::string_view text) {
  const Record one = Record().add("uri", uri).add("mimeType", "text/markdown").add("text", text);
  return Record().add("contents", List{one});
}

Record template_list() {
  const Record rule = Record()
                          .add("uriTemplate", std::string(kRuleScheme) + "{rule}")
                          .add("name", "rule")
                          .add("title", "What a rule means, how it is computed, and every remedy")
                          .add("mimeType", "text/markdown");
  return Record().add("resourceTemplates", List{rule});
}

}  // namespace

bool McpServer::speaks(std::string_view version) { return std::ranges::find(kVersions, version) != kVersions.end(); }

std::string McpServer::refusal(std::string_view why) { return error_response({}, kInvalidRequest, why); }

McpServer::Answer McpServer::initialize(const Record& parameters) {
  const std::string* wanted = parameters.at("protocolVersion").text();
  if (wanted == nullptr) return Failure{kInvalidParams, "protocolVersion is missing"};
  const Record none;
  return Record()
      .add("protocolVersion", speaks(*wanted) ? *wanted : std::string(kVersions.front()))
      .add("capabilities", Record().add("tools", none).add("resources", none).add("prompts", none))
      .add("serverInfo", Record().add("name", "profgpu").add("title", "profgpu").add("version", kVersion))
      .add("instructions", kInstructions);
}

McpServer::Answer McpServer::call_tool(const Record& parameters) {
  const std::string* name = parameters.at("name").text();
  if (name == nullptr) return Failure{kInvalidParams, "name is missing"};
  const Tool* tool = first_where(tools(), [&](const Tool& t) { return t.name == *name; });
  if (tool == nullptr) return Failure{kInvalidParams, "there is no tool \"" + shortened(*name) + "\""};
  // An error of a tool is an answer, so that the model sees it and can call again.
  const auto failed = [](const Error& e) {
    return text_content(masked_message(e.hint.empty() ? e.message : e.message + "\n" + e.hint), true);
  };
  auto arguments = ToolArguments::read(parameters.at("arguments"), tool->parameters);
  if (!arguments) return failed(arguments.error());
  auto answered = tool->run({*arguments, runs_, explain_});
  if (!answered) return failed(answered.error());
  return text_content(compact_json(*answered), false);
}

McpServer::Answer McpServer::read_resource(const Record& parameters) {
  const std::string* uri = parameters.at("uri").text();
  if (uri == nullptr) return Failure{kInvalidParams, "uri is missing"};
  const McpDocument* document = first_where(documents_, [&](const McpDocument& d) { return d.uri == *uri; });
  if (document != nullptr) return resource_contents(*uri, document->text);
  if (uri->starts_with(kRuleScheme))
    if (auto text = explain_(uri->substr(kRuleScheme.size())); text) return resource_contents(*uri, *text);
  return Failure{kResourceNotFound, "there is no resource \"" + shortened(*uri) + "\""};
}

McpServer::Answer McpServer::dispatch(const std::string& method, const Record& parameters) {
  if (method == "initialize") return initialize(parameters);
  if (method == "ping") return Record();
  // Every list is one page, so no cursor exists.
  if (method.ends_with("/list") && !parameters.at("cursor").is_null()) return Failure{kInvalidParams, "unknown cursor"};
  if (method == "tools/list") {
    List list;
    for (const Tool& tool : tools()) list.emplace_back(tool_record(tool));
    return Record().add("tools", std::move(list));
  }
  if (method == "tools/call") return call_tool(parameters);
  if (method == "resources/list") {
    List list;
    for (const McpDocument& d : documents_) list.emplace_back(resource_record(d));
    return Record().add("resources", std::move(list));
  }
  if (method == "resources/templates/list") return template_list();
  if (method == "resources/read") return read_resource(parameters);
  if (method == "prompts/list") return Record().add("prompts", prompt_list());
  if (method == "prompts/get") {
    const std::string* name = parameters.at("name").text();
    const Record* arguments = parameters.at("arguments").record();
    auto prompt = prompt_of(name != nullptr ? *name : "", arguments != nullptr ? *arguments : Record());
    if (!prompt) return Failure{kInvalidParams, prompt.error().message};
    return *prompt;
  }
  return Failure{kMethodNotFound, "there is no method \"" + shortened(method) + "\""};
}

std::string McpServer::answer_one(const Value& message) {
  const Record* request = message.record();
  if (request == nullptr) return error_response({}, kInvalidRequest, "not a request");
  const Value& id = request->at("id");
  const std::string* method = request->at("method").text();
  const std::string* version = request->at("jsonrpc").text();
  const bool is_response = method == nullptr && (!request->at("result").is_null() || !request->at("error").is_null());
  if (is_response) return {};   // to a question that was never asked
  const bool fits = id.is_null() || id.text() != nullptr || id.integer() != nullptr;
  if (method == nullptr || version == nullptr || *version != "2.0" || !fits)
    return error_response(fits ? id : Value(), kInvalidRequest, "not a request of JSON-RPC 2.0");
  if (id.is_null()) return {};   // a notification: none of them changes anything here
  const Value& given = request->at("params");
  if (!given.is_null() && given.record() == nullptr) return error_response(id, kInvalidParams, "params is no object");
  Answer answer = dispatch(*method, given.record() != nullptr ? *given.record() : Record());
  if (const Failure* failure = std::get_if<Failure>(&answer))
    return error_response(id, failure->code, failure->message);
  return response(id, "result", std::get<Record>(std::move(answer)));
}

std::string McpServer::answer(const std::string& message) {
  if (!is_json(message)) return error_response({}, kParseError, "not JSON");
  const auto value = value_from_json(message);
  if (!value) return error_response({}, kParseError, value.error().message);
  const List* batch = value->list();   // which version 2025-06-18 no longer has
  if (batch == nullptr) return answer_one(*value);
  if (batch->empty()) return error_response({}, kInvalidRequest, "an empty batch");
  std::string answers;
  for (const Value& one : *batch)
    if (const std::string answer = answer_one(one); !answer.empty()) append_listed(answers, answer);
  return answers.empty() ? answers : "[" + answers + "]";
}

}  // namespace profgpu
