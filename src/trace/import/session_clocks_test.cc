#include "trace/import/input_units.h"

#include <gtest/gtest.h>

#include "tests/support/test_folder.h"

namespace profgpu {
namespace {

constexpr int64_t kMs = 1'000'000;

class SessionClocksTest : public testing::Test {
 protected:
  void add(const std::string& text) { clocks_.add(folder_.write("session.json", text)); }
  static std::string statement(const char* synchronised, const char* error) {
    return std::string(R"({"synchronised": )") + synchronised + R"(, "max_error_ns": )" + error +
           R"(, "estimated_error_ns": 5})";
  }
  static std::string session(const std::string& start, const std::string& end, const std::string& host = "\"n1\"") {
    return R"({"command": ["a", {"b": []}], "host": )" + host + R"(, "clock": {"start": )" + start + R"(, "end": )" +
           end + "}}";
  }
  TestFolder folder_;
  SessionClocks clocks_;
};

TEST_F(SessionClocksTest, TheLargerErrorStands) {
  add(session(statement("true", "2000000"), statement("true", "3000000")));
  ASSERT_TRUE(clocks_.of("n1"));
  EXPECT_TRUE(clocks_.of("n1")->synchronised);
  EXPECT_EQ(clocks_.of("n1")->error_ns, 3 * kMs);
  EXPECT_FALSE(clocks_.of("n2"));
  // Another run on that host, of another process of the job.
  add(session(statement("true", "4000000"), "null"));
  EXPECT_EQ(clocks_.of("n1")->error_ns, 4 * kMs);
}

TEST_F(SessionClocksTest, OnceUnsynchronisedIsNotSynchronised) {
  add(session(statement("true", "2000000"), statement("false", "16000000000")));
  EXPECT_FALSE(clocks_.of("n1")->synchronised);
  // The largest error that there is says nothing, whatever the flag.
  add(session(statement("true", "16000000000"), "null", "\"n2\""));
  EXPECT_FALSE(clocks_.of("n2")->synchronised);
}

TEST_F(SessionClocksTest, WhatSaysNothingAddsNothing) {
  const std::string good = statement("true", "2000000");
  for (const std::string& text :
       {std::string(), std::string("{"), std::string(3000, '['), std::string("\x1f\x8b\x08 no gzip"),
        std::string("[1, 2]"), std::string(R"({"host": "n1"})"), session("null", "null"), session(good, good, "null"),
        session(good, good, "17"), session(good, good).substr(0, 90),
        session(R"({"max_error_ns": 5})", R"({"synchronised": true})"),
        session(statement("\"yes\"", "2000000"), statement("true", "-4")),
        session(statement("true", "1e99"), statement("true", "\"2\"")), session("[]", "\"\"")}) {
    add(text);
    EXPECT_TRUE(clocks_.empty()) << text;
  }
  clocks_.add(folder_.string() + "/none.json");
  EXPECT_TRUE(clocks_.empty());
}

}  // namespace
}  // namespace profgpu
