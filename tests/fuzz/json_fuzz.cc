// The JSON reader against simdjson: what simdjson takes, the reader takes and sees the same extent of.
#include <simdjson.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/decimal.h"
#include "base/json_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace profgpu;
  std::string text(reinterpret_cast<const char*>(data), size);
  simdjson::dom::parser parser;
  const bool valid = parser.parse(text.data(), size).error() == simdjson::SUCCESS;
  (void)scaled_decimal(text, 3);
  int64_t replaced = 0;
  (void)unescaped({text, true, true}, replaced);
  text.push_back(' ');  // a number at the end of the text needs a delimiter
  text.append(kJsonPadding, '\0');
  JsonReader reader(text.data(), text.data() + size + 1);
  const bool taken = reader.skip_value() && reader.peek() == 0;
  int depth = 0, deepest = 0;
  for (size_t i = 0; i < size; ++i) {
    depth += (text[i] == '[' || text[i] == '{') - (text[i] == ']' || text[i] == '}');
    deepest = depth > deepest ? depth : deepest;
  }
  if (valid && !taken && deepest < 200) std::abort();
  return 0;
}
