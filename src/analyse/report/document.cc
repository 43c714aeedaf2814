#include "analyse/report/document.h"

#include <charconv>

#include "base/json_reader.h"

namespace profgpu {
namespace {

bool read_value(JsonReader& reader, int depth, Value& out);

bool read_scalar(JsonReader& reader, Value& out) {
  std::string_view token;
  if (!reader.scalar(token)) return false;
  if (token == "null") return true;
  if (token == "true" || token == "false") {
    out = token == "true";
    return true;
  }
  const char* const end = token.data() + token.size();
  int64_t whole = 0;
  if (const auto [to, error] = std::from_chars(token.data(), end, whole); error == std::errc() && to == end) {
    out = whole;
    return true;
  }
  double real = 0;
  const auto [to, error] = std::from_chars(token.data(), end, real);
  if (error != std::errc() || to != end) return false;
  out = real;
  return true;
}

bool read_record(JsonReader& reader, int depth, Value& out) {
  Record record;
  const bool whole = read_object(reader, [&](std::string_view key) {
    record.fields.emplace_back(std::string(key), Value());
    return read_value(reader, depth + 1, record.fields.back().second);
  });
  out = std::move(record);
  return whole;
}

bool read_list(JsonReader& reader, int depth, Value& out) {
  List list;
  const bool whole = read_array(reader, [&] { return read_value(reader, depth + 1, list.emplace_back()); });
  out = std::move(list);
  return whole;
}

bool read_value(JsonReader& reader, int depth, Value& out) {
  if (depth > kJsonMaxDepth) return false;
  const char next = reader.peek();
  if (next == '{') return read_record(reader, depth, out);
  if (next == '[') return read_list(reader, depth, out);
  if (next != '"') return read_scalar(reader, out);
  std::string text;
  if (!read_text(reader, text)) return false;
  out = std::move(text);
  return true;
}

}  // namespace

Result<Value> value_from_json(const std::string& text) {
  std::string padded = text;
  JsonReader reader = JsonReader::over(padded);
  Value value;
  const bool good = read_value(reader, 0, value);
  if (good && reader.peek() == 0) return value;
  if (!good && reader.at_end()) return Error{"the JSON ends early"};
  return Error{"not JSON from byte " + std::to_string(reader.position() - padded.data()) + " on"};
}

}  // namespace profgpu
