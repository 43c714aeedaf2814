#include "export/row_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <unistd.h>

namespace profgpu {
namespace {

std::string shown(RowFormat format, int longest, const std::vector<std::vector<Datum>>& rows) {
  int ends[2];
  if (::pipe(ends) != 0) return "no pipe";
  ByteWriter out(ends[1]);
  RowText text(format, {"name", "n"}, longest, out);
  for (const auto& row : rows) text.row(row);
  text.finish();
  out.flush();
  ::close(ends[1]);
  std::string all(4096, '\0');
  all.resize(static_cast<size_t>(::read(ends[0], all.data(), all.size())));
  ::close(ends[0]);
  return all;
}

const std::vector<std::vector<Datum>> kRows = {{std::string_view("a,\"b\"\nc"), 1}, {{}, 2.5}, {std::string_view(""), -3}};

TEST(RowText, Csv) {
  EXPECT_EQ(shown(RowFormat::kCsv, 0, kRows), "name,n\n\"a,\"\"b\"\"\nc\",1\n,2.5\n\"\",-3\n");
  EXPECT_EQ(shown(RowFormat::kCsv, 0, {}), "name,n\n");
}

TEST(RowText, Json) {
  EXPECT_EQ(shown(RowFormat::kJson, 0, {{std::string_view("a\"\n"), 1}, {{}, std::nan("")}}),
            "[\n {\"name\": \"a\\\"\\n\", \"n\": 1},\n {\"name\": null, \"n\": null}\n]\n");
  EXPECT_EQ(shown(RowFormat::kJson, 0, {}), "[]\n");
}

TEST(RowText, TablesAreAlignedAndHarmless) {
  EXPECT_EQ(shown(RowFormat::kTable, 5, {{std::string_view("\x1b[31m"), 10}, {std::string_view("b"), 5}}),
            "name    n\n\\x1b…  10\nb       5\n");
  EXPECT_EQ(shown(RowFormat::kTable, 0, {}), "name  n\n");
}

}  // namespace
}  // namespace profgpu
