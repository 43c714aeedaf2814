// <profgpu/c.h>: versions, errors and texts.
#include "capi/c_values.h"

#include "base/version.h"

namespace profgpu {

Result<Arguments> arguments_of(const profgpu_option* options, size_t count, const std::vector<std::string_view>& known) {
  Arguments arguments;
  if (options == nullptr) count = 0;
  for (const std::string_view name : known) {
    std::vector<std::string> values;
    for (size_t i = 0; i < count; ++i)
      if (view(options[i].name) == name.substr(2)) values.emplace_back(view(options[i].value));
    if (!values.empty()) arguments.add(name, std::move(values));
  }
  for (size_t i = 0; i < count; ++i) {
    const std::string_view name = view(options[i].name);
    if (std::any_of(known.begin(), known.end(), [&](std::string_view k) { return k.substr(2) == name; })) continue;
    std::string hint = "it takes";
    for (const std::string_view k : known) hint.append(" ").append(k.substr(2));
    return Error{"there is no option \"" + std::string(name) + "\" here", hint};
  }
  return arguments;
}

}  // namespace profgpu

using namespace profgpu;

extern "C" {

uint32_t profgpu_c_version(void) { return PROFGPU_C_VERSION; }
profgpu_string profgpu_version(void) { return borrowed(kVersion); }

profgpu_string profgpu_error_message(const profgpu_error* error) {
  return error != nullptr ? borrowed(error->error.message) : profgpu_string{};
}
profgpu_string profgpu_error_hint(const profgpu_error* error) {
  return error != nullptr ? borrowed(error->error.hint) : profgpu_string{};
}
void profgpu_error_free(profgpu_error* error) { delete error; }

profgpu_string profgpu_text_view(const profgpu_text* text) {
  return text != nullptr ? borrowed(text->text) : profgpu_string{};
}
void profgpu_text_free(profgpu_text* text) { delete text; }
}
