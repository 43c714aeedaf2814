#include "analyse/report/paste.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "base/text.h"

namespace profgpu {
namespace {

bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '_'; }
bool is_dotted_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return is_word(c) || c == '.'; });
}

// "TrainingArguments(fp16=True)", "model = torch.compile(model)".
bool is_call(std::string_view text) {
  if (const size_t equals = text.find(" = "); equals != text.npos && is_dotted_name(text.substr(0, equals)))
    text.remove_prefix(equals + 3);
  // Two calls with a word between them are a sentence.
  for (const std::string_view word : {") and ", ") or ", ") around ", ") in ", ") on "})
    if (contains(text, word)) return false;
  return text.ends_with(')') && !contains(text, ";") && is_dotted_name(text.substr(0, text.find('(')));
}

// "--cuda-graph-max-bs 64", of one option or several.
bool is_options(std::string_view text) {
  if (!text.starts_with("--")) return false;
  const std::string_view name = text.substr(2, text.find_first_of(" =") - 2);
  return !name.empty() && std::ranges::all_of(name, [](char c) { return is_word(c) || c == '-'; }) &&
         text.find_first_of(";,") == text.npos;
}

// "export NCCL_DEBUG=INFO".
bool is_setting(std::string_view text) {
  if (text.starts_with("export ")) text.remove_prefix(7);
  const std::string_view name = text.substr(0, text.find('='));
  return name.size() + 1 < text.size() && is_upper(name.front()) && !contains(text, " ") &&
         std::ranges::all_of(name, [](char c) { return is_upper(c) || is_digit(c) || c == '_'; });
}

bool is_our_command(std::string_view text) { return text.starts_with("profgpu ") && !contains(text, ";"); }

std::string_view without_framework(std::string_view text) {
  const size_t colon = text.find(": ");
  if (colon == text.npos) return text;
  const std::string_view name = text.substr(0, colon);
  const bool is_name = std::ranges::all_of(name, [](char c) { return is_word(c) || c == '-'; }) &&
                       (is_upper(name.front()) || name == "vLLM" || name == "xDiT");
  return is_name ? text.substr(colon + 2) : text;
}

std::optional<std::string> pasteable_part(std::string_view text) {
  text = without_framework(text);
  if (const size_t comment = text.find(" #"); comment != text.npos) text = without_blanks(text.substr(0, comment));
  if (text.empty() || contains(text, "…")) return {};
  if (is_call(text) || is_options(text) || is_setting(text) || is_our_command(text)) return std::string(text);
  return {};
}

}  // namespace

std::vector<std::optional<std::string>> pasteable(const std::vector<std::string>& fixes) {
  std::vector<std::optional<std::string>> parts;
  for (const std::string& fix : fixes) parts.push_back(pasteable_part(fix));
  return parts;
}

}  // namespace profgpu
