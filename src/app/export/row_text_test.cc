#include "app/export/row_text.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <set>

#include "analyse/report/text.h"
#include "app/export/data_table.h"
#include "app/export/sql_database.h"
#include "base/text.h"
#include "tests/support/trace_rows.h"

namespace profgpu {
namespace {

std::string shown(RowFormat format, int longest, const std::vector<std::vector<Datum>>& rows,
                  CsvText csv = CsvText::kForFile, RowText::Shown screen = nullptr) {
  int ends[2];
  if (::pipe(ends) != 0) return "no pipe";
  ByteWriter out(ends[1]);
  RowText text(format, {"name", "n"}, longest, out, csv, screen);
  for (const auto& row : rows) text.row(row);
  text.finish();
  out.flush();
  ::close(ends[1]);
  std::string all(4096, '\0');
  all.resize(static_cast<size_t>(::read(ends[0], all.data(), all.size())));
  ::close(ends[0]);
  return all;
}

const std::vector<std::vector<Datum>> kRows = {
    {std::string_view("a,\"b\"\nc"), 1}, {{}, 2.5}, {std::string_view(""), -3}};

TEST(RowText, Csv) {
  EXPECT_EQ(shown(RowFormat::kCsv, 0, kRows), "name,n\n\"a,\"\"b\"\"\nc\",1\n,2.5\n\"\",-3\n");
  EXPECT_EQ(shown(RowFormat::kCsv, 0, {}), "name,n\n");
}

TEST(RowText, CsvNamesAreNoFormulasAndHarmlessOnTerminals) {
  const std::vector<std::vector<Datum>> rows = {{std::string_view("=1+cmd|x"), 1}, {std::string_view("-2.5"), 2},
                                                {std::string_view("-x"), -3}, {std::string_view("a\x1b[2J"), 4}};
  EXPECT_EQ(shown(RowFormat::kCsv, 0, rows), "name,n\n'=1+cmd|x,1\n-2.5,2\n'-x,-3\n\"a\x1b[2J\",4\n");
  EXPECT_EQ(shown(RowFormat::kCsv, 0, rows, CsvText::kForTerminal),
            "name,n\n'=1+cmd|x,1\n-2.5,2\n'-x,-3\na" + sanitised("\x1b") + "[2J,4\n");
  EXPECT_EQ(shown(RowFormat::kCsv, 0, rows, CsvText::kRaw), "name,n\n=1+cmd|x,1\n-2.5,2\n-x,-3\n\"a\x1b[2J\",4\n");
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
  const auto capitals = [](std::string_view line) { return upper_case(line); };
  EXPECT_EQ(shown(RowFormat::kTable, 0, {{std::string_view("abcd"), 1}}, CsvText::kForFile, capitals),
            "NAME  N\nABCD  1\n") << "lines as the screen can show them";
}

struct Sample {
  Trace trace = test::TraceRows()
                    .annotation("ProfilerStep#1", 0, 1000)
                    .op("aten::mm", 10, 50)
                    .call("cudaLaunchKernel", 20, 10, 1)
                    .kernel("gemm", 100, 50, 1)
                    .kernel("add", 200, 50, 2, 1)
                    .op("aten::add", 300, 50, "2")
                    .allocation(30, 512, 512, 1024)
                    .finish();
  Facts facts{trace, {}};
  RunRows run;
  Sample() { run.ranks.emplace_back(3, facts); }
};

TEST(DataTables, DescribeThemselves) {
  std::set<std::string_view> names;
  for (const DataTable* t : data_tables()) {
    EXPECT_TRUE(names.insert(t->name).second) << t->name;
    EXPECT_FALSE(t->summary.empty());
    std::set<std::string_view> columns;
    for (const DataColumn& c : t->columns) {
      EXPECT_TRUE(columns.insert(c.name).second) << t->name << "." << c.name;
      EXPECT_FALSE(c.meaning.empty()) << t->name << "." << c.name;
    }
    EXPECT_EQ(t->of_run, !columns.contains("rank") || t->name == "stragglers") << t->name;
    EXPECT_TRUE(t->sorted.empty() || columns.contains(t->sorted)) << t->name;
    EXPECT_TRUE(t->key.empty() || (columns.contains(t->key) && t->stretches != nullptr)) << t->name;
  }
  for (const DataView& v : data_views()) EXPECT_TRUE(names.insert(v.name).second) << v.name;
}

TEST(DataTables, CellsHaveTheTypeOfTheirColumn) {
  const Sample s;
  for (const DataTable* t : data_tables()) {
    const TableRows rows(s.run, *t);
    for (const RowSource& from : rows.sources())
      for (size_t row = 0; row < t->rows(from); ++row)
        for (size_t i = 0; i < t->columns.size(); ++i) {
          const Datum cell = t->columns[i].at(from, row, i);
          EXPECT_TRUE(cell.kind() == Datum::Kind::kNull || cell.kind() == t->columns[i].kind)
              << t->name << "." << t->columns[i].name;
        }
  }
}

TEST(DataTables, StretchesCoverAllRowsInOrder) {
  const Sample s;
  for (const DataTable* t : data_tables()) {
    if (t->stretches == nullptr) continue;
    const TableRows rows(s.run, *t);
    for (const RowSource& from : rows.sources()) {
      size_t at = 0;
      for (const Stretch& stretch : t->stretches(from)) {
        EXPECT_EQ(stretch.begin, at) << t->name;
        at = stretch.end;
      }
      EXPECT_EQ(at, t->rows(from)) << t->name;
    }
  }
}

TEST(SqlDatabase, ReadsTheTrace) {
  const Sample s;
  const auto database = SqlDatabase::open(s.run);
  ASSERT_TRUE(database);
  SqlError error;
  const auto rows = (*database)->query(
      "SELECT l.name, l.latency_ns, h.name, l.rank FROM launches l JOIN host h ON h.rank = l.rank AND "
      "h.id = (SELECT op_id FROM activity WHERE rank = l.rank AND id = l.activity_id)",
      error);
  ASSERT_TRUE(rows) << error.message;
  EXPECT_EQ(rows->columns(), (std::vector<std::string>{"name", "latency_ns", "name_2", "rank"}));
  ASSERT_TRUE(*rows->next());
  EXPECT_EQ(rows->row()[0].text(), "gemm");
  EXPECT_EQ(rows->row()[1].integer(), 80);
  EXPECT_EQ(rows->row()[2].text(), "aten::mm");
  EXPECT_EQ(rows->row()[3].integer(), 3);
  EXPECT_FALSE(*rows->next());
}

TEST(SqlDatabase, SaysWhereAQueryIsWrong) {
  const Sample s;
  const auto database = SqlDatabase::open(s.run);
  ASSERT_TRUE(database);
  SqlError error;
  EXPECT_FALSE((*database)->query("SELECT nowhere FROM host", error));
  EXPECT_EQ(error.message, "no such column: nowhere");
  EXPECT_EQ(error.offset, 7);
  EXPECT_FALSE((*database)->query("DELETE FROM host", error));
  EXPECT_FALSE((*database)->query("SELECT 1; /* a */ -- b\n SELECT 2", error));
  EXPECT_TRUE((*database)->query("SELECT 1; /* a */ -- b\n ;", error));
}

}  // namespace
}  // namespace profgpu
