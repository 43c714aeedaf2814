#include "base/json_reader.h"

#include <gtest/gtest.h>

#include <string>

namespace profgpu {
namespace {

TEST(IsJson, TakesValues) {
  for (const char* text :
       {"0", "-0.5e+10", "true", "null", "\"a\\u00e9\\n\"", "[]", "[1, [2, {}]]", "{\"a\": [1], \"b\" : null}", "\"\""})
    EXPECT_TRUE(is_json(text)) << text;
}

TEST(IsJson, RefusesWhatOnlyLooksLikeIt) {
  for (const char* text :
       {"",        " 1",        "1 ",          "01",      "1.",          ".5",       "+1",     "1e",    "nan",
        "True",    "'a'",       "\"a",         "\"\\x\"", "\"\\u12g4\"", "\"a\nb\"", "[1,]",   "[1 2]", "{1: 2}",
        "{\"a\"}", "{\"a\": }", "{\"a\": 1,}", "[",       "]",           "1, 2",     "node-1", "\"\\",  "\"\\u12"})
    EXPECT_FALSE(is_json(text)) << text;
  EXPECT_FALSE(is_json(std::string_view("\"a\0b\"", 5)));
  EXPECT_FALSE(is_json(std::string(1000, '[') + std::string(1000, ']')));
}

}  // namespace
}  // namespace profgpu
