// profgpu query: SQL over the tables of a run.
#include <fmt/format.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>

#include "app/export/data_table.h"
#include "app/export/row_text.h"
#include "app/export/sql_database.h"
#include "app/loaded_run.h"
#include "base/secrets.h"
#include "base/text.h"
#include "cli/lists.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "cli/trace_command.h"

namespace profgpu {
namespace {

std::string_view type_name(Datum::Kind kind) {
  return kind == Datum::Kind::kInteger ? "integer" : kind == Datum::Kind::kReal ? "real" : "text";
}

}  // namespace

std::string table_list() {
  constexpr int kTablesWidth = 120;
  const int width = text_width(kTablesWidth);
  std::string out;
  for (const DataTable* t : data_tables()) {
    out += wrap(fmt::format("{}: {}", t->name, t->summary), width, "");
    for (const DataColumn& c : t->columns) {
      const std::string_view unit = unit_in_name(c.name);
      out += wrap(c.meaning, width, fmt::format("  {:<24}  {:<16}  ", c.name, unit.empty() ? type_name(c.kind) : unit));
    }
    out += '\n';
  }
  out += "Views\n";
  for (const DataView& v : data_views()) out += wrap(v.summary, width, fmt::format("  {:<14}  ", v.name));
  out += "\nNext: profgpu query PATH \"select ...\"\n";
  return out;
}

namespace {

constexpr int kMaxCell = 60;

struct QueryOptions {
  TraceCommand trace;   ///< how traces are read, and where the answer goes
  std::string sql;
  RowFormat format = RowFormat::kTable;
  CsvText csv = CsvText::kForFile;
  bool tables = false;
};

bool exists(const std::string& path) {
  struct stat s{};
  return ::stat(path.c_str(), &s) == 0;
}

Status read_query_file(const std::string& path, std::string& sql) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  if (!file || !(text << file.rdbuf())) return Error{path + ": cannot be read, or is empty"};
  sql = text.str();
  return ok();
}

Result<QueryOptions> query_options(const Arguments& arguments) {
  QueryOptions options;
  options.tables = arguments.has("--tables");
  auto trace = trace_command(arguments);
  if (!trace) return trace.error();
  options.trace = *std::move(trace);
  const bool from_file = arguments.has("--file");
  std::vector<std::string>& paths = options.trace.read.paths;
  if (from_file) {
    if (auto status = read_query_file(arguments.value("--file"), options.sql); !status) return status.error();
  } else if (!options.tables && !paths.empty()) {
    options.sql = std::move(paths.back());
    paths.pop_back();
  }
  if (options.tables) return options;
  if (paths.empty())
    return Error{exists(options.sql) ? "the query is missing" : "the trace is missing",
                 "profgpu query trace.json.gz \"select name, total_ns from kernels_by_name limit 10\""};
  if (!from_file && exists(options.sql))
    return Error{"the query comes last, but " + options.sql + " is a file", "profgpu query PATH... \"select ...\""};
  const std::string& format = options.trace.format;
  options.format = format == "csv" ? RowFormat::kCsv : format == "json" ? RowFormat::kJson : RowFormat::kTable;
  auto csv = csv_text(arguments, format == "terminal" ? "table" : format, options.trace.output);
  if (!csv) return csv.error();
  options.csv = *csv;
  return options;
}

// What was probably meant: the nearest name that the query could have used.
std::string suggestion(const std::string& message, const std::string& sql, SqlDatabase& database) {
  const auto after = [&](std::string_view start) {
    return message.starts_with(start) ? lower_case(message.substr(start.size())) : std::string();
  };
  std::vector<std::string> names;
  for (const DataView& v : data_views()) names.emplace_back(v.name);
  for (const DataTable* t : data_tables()) names.emplace_back(t->name);
  if (const std::string table = after("no such table: "); !table.empty())
    return table == "ranges" ? "host" : nearest(table, names);   // that table has the ranges
  std::string column = after("no such column: ");
  if (column.empty()) return {};
  column = column.substr(column.rfind('.') + 1);
  const std::string text = lower_case(sql);
  std::vector<std::string> columns;
  for (const std::string& name : names) {
    if (text.find(name) == std::string::npos) continue;
    for (std::string& c : database.columns_of(name)) columns.push_back(std::move(c));
  }
  // "dur" is nearer to duration_ns than to anything of its own length.
  for (const std::string& c : columns)
    if (c.starts_with(column) || c == column + "_ns" || c == column + "_bytes") return c;
  return nearest(column, columns);
}

// The line of the query, with a mark below the position.
std::string marked(const std::string& sql, int offset) {
  if (offset < 0 || static_cast<size_t>(offset) > sql.size()) return {};
  const auto at = static_cast<size_t>(offset);
  const size_t newline = at == 0 ? std::string::npos : sql.rfind('\n', at - 1);
  const size_t begin = newline == std::string::npos ? 0 : newline + 1;
  const std::string line = sql.substr(begin, sql.find('\n', at) - begin);
  const std::string safe = masked_secrets(line);
  return "\n  " + safe + (safe == line ? "\n  " + std::string(at - begin, ' ') + "^" : "");
}

Error query_error(const SqlError& error, const std::string& sql, SqlDatabase& database) {
  const std::string near = suggestion(error.message, sql, database);
  return {error.message + marked(sql, error.offset),
          near.empty() ? "`profgpu query --tables` lists tables and columns" : "did you mean " + near + "?"};
}

Status write_rows(SqlRows& rows, const QueryOptions& options) {
  auto file = OutputFile::open(options.trace.output);
  if (!file) return file.error();
  ByteWriter& out = (*file)->bytes();
  RowText text(options.format, rows.columns(), options.trace.shown.verbose ? 0 : kMaxCell, out, options.csv,
               options.trace.output.empty() ? for_locale : nullptr);
  auto more = rows.next();
  for (; more && *more && out.error() == 0; more = rows.next()) text.row(rows.row());
  text.finish();
  auto written = (*file)->finish();
  return more ? written : Status(more.error());
}

Outcome query(const Arguments& arguments) {
  auto options = query_options(arguments);
  if (!options) return Outcome::usage(options.error());
  const TraceCommand& trace = options->trace;
  if (options->tables) return write_text(table_list());
  Progress progress;
  auto bar = std::make_unique<ProgressBar>(progress, trace.draws());
  const LoadOptions load{
      .analysis = {trace.read.analysis.step_pattern}, .most_kept = SIZE_MAX, .most_kept_bytes = kMinBytes};
  auto run = load_run(trace.read.paths, load, progress);
  bar.reset();
  if (!run) return run.error();
  if (Status writable = refuse_overwrite(run->paths(), trace.output); !writable)
    return Outcome::usage(writable.error());
  if (!trace.quiet) print_issues(*run);
  const RunRows rows = run_rows(*run);
  auto database = SqlDatabase::open(rows);
  if (!database) return database.error();
  SqlError error;
  const auto answer = (*database)->query(options->sql, error);
  if (!answer) return Outcome::usage(query_error(error, options->sql, **database));
  return write_rows(*answer, *options);
}

}  // namespace

extern const Command kQuery{
    .name = "query",
    .summary = "query a trace with SQL",
    .positional = "[PATH...] [SQL]",
    .positional_help = "what analyze reads, then one query in SQLite's SQL; --tables lists the tables",
    .groups = {{"What to query",
                {{"--tables", "list tables and views with their columns, units and meaning, and exit"},
                 {"--file FILE", "read the query from FILE"},
                 kStepPatternFlag}},
               {"How to show it",
                {{"--format NAME", "format of the rows (default table)", {"table", "csv", "json"}},
                 {"--json", "rows as JSON, same as --format json"},
                 {"-o, --output FILE", "write the rows to FILE"},
                 kRawFlag,
                 {"-v, --verbose", "do not shorten names in tables"},
                 kQuietFlag,
                 kNoProgressFlag}}},
    .examples = {{"profgpu query trace.json.gz \"select name, total_ns from kernels_by_name limit 5\"",
                  "the five longest kernels"},
                 {"profgpu query trace.json.gz \"select cause, sum(duration_ns) from gaps group by 1\"",
                  "idle time by cause"},
                 {"profgpu query run7/ --file waits.sql --format csv -o waits.csv",
                  "all ranks of a job, with the query in a file"},
                 {"profgpu query --tables", "which tables there are"}},
    .notes =
        "Queries only read: nothing can be written, and no other database attached. Times are nanoseconds on the trace's "
        "clock. Tables of several ranks have a column rank.",
    .run = query,
};

}  // namespace profgpu
