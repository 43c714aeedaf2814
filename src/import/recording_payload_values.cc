#include "import/recording_payload_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "base/json_quoted.h"

namespace profgpu {
namespace {

enum class Form : uint8_t { kUnknown, kSigned, kUnsigned, kFloat, kDouble, kCharacter, kAddress, kBytes };
struct Type {
  Form form = Form::kUnknown;
  uint8_t bytes = 0;
};

// By NVTX_PAYLOAD_ENTRY_TYPE_*: 1 to 10 are C's integers from char to unsigned long long, 11 to 18 those with a size.
Type type_of(uint64_t number) {
  constexpr Type kBasic[] = {
      {},                   {Form::kCharacter, 1}, {Form::kUnsigned, 1}, {Form::kSigned, 2},   {Form::kUnsigned, 2},
      {Form::kSigned, 4},   {Form::kUnsigned, 4},  {Form::kSigned, 8},   {Form::kUnsigned, 8}, {Form::kSigned, 8},
      {Form::kUnsigned, 8}, {Form::kSigned, 1},    {Form::kUnsigned, 1}, {Form::kSigned, 2},   {Form::kUnsigned, 2},
      {Form::kSigned, 4},   {Form::kUnsigned, 4},  {Form::kSigned, 8},   {Form::kUnsigned, 8}, {Form::kFloat, 4},
      {Form::kDouble, 8},   {Form::kBytes, 16},    {Form::kUnsigned, 8}, {Form::kAddress, 8},  {Form::kUnsigned, 4},
      {Form::kCharacter, 1}, {Form::kUnsigned, 2}, {Form::kUnsigned, 4}};
  if (number < std::size(kBasic)) return kBasic[number];
  switch (number) {
    case 32: return {Form::kBytes, 1};
    case 33: case 34: case 45: return {Form::kBytes, 16};   // integers and floats of 128 bits
    case 42: case 50: return {Form::kBytes, 2};             // half floats
    case 43: return {Form::kFloat, 4};
    case 44: return {Form::kDouble, 8};
    case 68: return {Form::kUnsigned, 4};                   // category
    case 69: return {Form::kAddress, 4};                    // colour
    case 70: return {Form::kUnsigned, 8};                   // scope
    case 71: case 73: return {Form::kUnsigned, 4};          // process, thread
    case 72: case 74: return {Form::kUnsigned, 8};
    case 80: return {Form::kAddress, 8};                    // a registered string's handle
    case kPayloadSelector: return {Form::kUnsigned, 1};     // as CUPTI's sample reads it
    default: return {};
  }
}

template <class Float>
std::string float_text(std::string_view bytes) {
  Float value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  return std::isfinite(value) ? fmt::format("{}", value) : fmt::format("\"{}\"", value);
}

}  // namespace

uint64_t payload_unsigned(std::string_view bytes) {
  uint64_t value = 0;
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
  return value;
}

size_t payload_type_size(uint64_t type) { return type_of(type).bytes; }

bool is_payload_character(uint64_t type) { return type_of(type).form == Form::kCharacter; }

std::string payload_double(uint64_t bits) {
  return float_text<double>({reinterpret_cast<const char*>(&bits), sizeof bits});
}

std::string payload_bytes(std::string_view bytes) {
  std::string text = "\"0x";
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text + '"';
}

std::string payload_value(uint64_t type, std::string_view bytes) {
  const uint64_t value = payload_unsigned(bytes);
  switch (type_of(type).form) {
    case Form::kSigned: {
      const unsigned unused = 64 - 8 * static_cast<unsigned>(bytes.size());
      return fmt::format("{}", static_cast<int64_t>(value << unused) >> unused);
    }
    case Form::kUnsigned: return fmt::format("{}", value);
    case Form::kFloat: return float_text<float>(bytes);
    case Form::kDouble: return float_text<double>(bytes);
    case Form::kCharacter: return json_quoted(bytes.substr(0, bytes.find('\0')));
    case Form::kAddress: return fmt::format("\"0x{:x}\"", value);
    case Form::kBytes:
    case Form::kUnknown: break;
  }
  return payload_bytes(bytes);
}

std::optional<uint64_t> payload_count(uint64_t type, std::string_view bytes) {
  const Type t = type_of(type);
  if ((t.form != Form::kSigned && t.form != Form::kUnsigned) || bytes.size() < t.bytes) return std::nullopt;
  const uint64_t value = payload_unsigned(bytes.substr(0, t.bytes));
  if (t.form == Form::kSigned && (value >> (8 * t.bytes - 1)) != 0) return std::nullopt;
  return value;
}

}  // namespace profgpu
