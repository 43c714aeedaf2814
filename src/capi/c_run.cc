// <profgpu/c.h>: a run with all its events, and its tables.
#include <mutex>
#include <optional>

#include "app/analyze.h"
#include "app/export/sql_database.h"
#include "app/loaded_run.h"
#include "app/words.h"
#include "capi/c_values.h"

namespace profgpu {
namespace {

/// What tables share. Rows are read by one thread at a time: analyses are made as they are asked for.
struct OpenRun {
  explicit OpenRun(LoadedRun run) : loaded(std::move(run)), rows(run_rows(loaded)) {}
  OpenRun(const OpenRun&) = delete;
  LoadedRun loaded;
  RunRows rows;
  std::unique_ptr<SqlDatabase> database;   // from the first query on
  std::mutex mutex;
};

class RunTable final : public profgpu_table {
 public:
  RunTable(std::shared_ptr<OpenRun> run, const DataTable& table) : run_(std::move(run)), table_(table) {
    std::lock_guard lock(run_->mutex);
    rows_.emplace(run_->rows, table_);
    for (const RowSource& from : rows_->sources()) count_ += table_.rows(from);
    values_.resize(table_.columns.size());
  }
  [[nodiscard]] size_t rows() const override { return count_; }
  [[nodiscard]] size_t columns() const override { return table_.columns.size(); }

  [[nodiscard]] profgpu_column described(size_t column) const override {
    const DataColumn& c = table_.columns[column];
    profgpu_column out{};
    out.name = borrowed(c.name);
    out.unit = borrowed(unit_in_name(c.name));
    out.meaning = borrowed(c.meaning);
    out.type = c.kind == Datum::Kind::kInteger ? PROFGPU_INT64
               : c.kind == Datum::Kind::kText  ? PROFGPU_TEXT
                                               : PROFGPU_DOUBLE;
    out.length = count_;
    return out;
  }

  const ColumnValues& values(size_t column) override {
    std::lock_guard lock(run_->mutex);
    std::unique_ptr<ColumnValues>& kept = values_[column];
    if (kept) return *kept;
    const DataColumn& c = table_.columns[column];
    kept = std::make_unique<ColumnValues>(c.kind);
    kept->reserve(count_);
    for (const RowSource& from : rows_->sources())
      for (size_t row = 0, end = table_.rows(from); row < end; ++row) kept->add(c.at(from, row, column));
    kept->finish();
    return *kept;
  }

 private:
  std::shared_ptr<OpenRun> run_;
  const DataTable& table_;
  std::optional<TableRows> rows_;
  size_t count_ = 0;
  std::vector<std::unique_ptr<ColumnValues>> values_;
};

class FinishedTable final : public profgpu_table {
 public:
  FinishedTable(std::vector<std::string> names, std::vector<ColumnValues> columns)
      : names_(std::move(names)), columns_(std::move(columns)) {}
  [[nodiscard]] size_t rows() const override { return columns_.empty() ? 0 : columns_.front().size(); }
  [[nodiscard]] size_t columns() const override { return columns_.size(); }
  [[nodiscard]] profgpu_column described(size_t column) const override {
    profgpu_column out{};
    out.name = borrowed(names_[column]);
    out.unit = borrowed(unit_in_name(names_[column]));
    out.meaning = borrowed("");
    columns_[column].describe(out);
    return out;
  }
  const ColumnValues& values(size_t column) override { return columns_[column]; }

 private:
  std::vector<std::string> names_;
  std::vector<ColumnValues> columns_;
};

Result<std::unique_ptr<profgpu_table>> table_of(const std::shared_ptr<OpenRun>& run, const std::string& name) {
  if (const DataTable* table = find_data_table(name)) return std::unique_ptr<profgpu_table>(new RunTable(run, *table));
  return Error{"there is no table \"" + name + "\"",
               did_you_mean(name, names_of(data_tables()), "`profgpu query --tables` lists them")};
}

Result<std::unique_ptr<profgpu_table>> answer(OpenRun& run, const std::string& sql) {
  std::lock_guard lock(run.mutex);
  if (!run.database) {
    auto opened = SqlDatabase::open(run.rows);
    if (!opened) return opened.error();
    run.database = *std::move(opened);
  }
  SqlError error;
  const auto rows = run.database->query(sql, error);
  if (!rows) return Error{error.message, "`profgpu query --tables` lists tables and columns"};
  std::vector<ColumnValues> columns(rows->columns().size());
  auto more = rows->next();
  for (; more && *more; more = rows->next()) {
    const std::vector<Datum>& row = rows->row();
    for (size_t i = 0; i < columns.size(); ++i) columns[i].add(row[i]);
  }
  if (!more) return more.error();
  return finished_table(rows->columns(), std::move(columns));
}

Result<LoadedRun> loaded(const std::vector<std::string>& paths, const profgpu_option* options, size_t count) {
  if (paths.empty()) return Error{"a path is needed"};
  const auto asked = given_options(options, count, {"--step-pattern"});
  if (!asked) return asked.error();
  AnalyzeOptions read;
  for (const auto& [option, values] : *asked)
    if (Status set = set_option(read, option, values); !set) return set.error();
  Progress progress;
  return load_run(paths, {.analysis = read.analysis, .most_kept = SIZE_MAX}, progress);
}

profgpu_table* given(Result<std::unique_ptr<profgpu_table>> table, profgpu_error** error) {
  if (table) return table->release();
  give(error, table.error());
  return nullptr;
}

}  // namespace

std::unique_ptr<profgpu_table> finished_table(std::vector<std::string> names, std::vector<ColumnValues> columns) {
  for (ColumnValues& c : columns) c.finish();
  return std::make_unique<FinishedTable>(std::move(names), std::move(columns));
}

}  // namespace profgpu

using namespace profgpu;

struct profgpu_run {
  std::shared_ptr<OpenRun> run;
};

extern "C" {

profgpu_run* profgpu_open(const profgpu_string* paths, size_t path_count, const profgpu_option* options,
                          size_t option_count, profgpu_error** error) {
  auto run = loaded(texts(paths, path_count), options, option_count);
  if (run) return new profgpu_run{std::make_shared<OpenRun>(*std::move(run))};
  give(error, run.error());
  return nullptr;
}

void profgpu_run_free(profgpu_run* run) { delete run; }

profgpu_string profgpu_table_name(size_t index) {
  return index < data_tables().size() ? borrowed(data_tables()[index]->name) : profgpu_string{};
}

profgpu_table* profgpu_run_table(profgpu_run* run, profgpu_string name, profgpu_error** error) {
  return given(run != nullptr ? table_of(run->run, std::string(view(name))) : missing("run"), error);
}

profgpu_table* profgpu_run_query(profgpu_run* run, profgpu_string sql, profgpu_error** error) {
  return given(run != nullptr ? answer(*run->run, std::string(view(sql))) : missing("run"), error);
}

size_t profgpu_table_rows(const profgpu_table* table) { return table != nullptr ? table->rows() : 0; }
size_t profgpu_table_columns(const profgpu_table* table) { return table != nullptr ? table->columns() : 0; }

int profgpu_table_column(profgpu_table* table, size_t index, profgpu_column* column) {
  if (column == nullptr || index >= profgpu_table_columns(table)) return 0;
  profgpu_column out = table->described(index);
  if (column->struct_size > offsetof(profgpu_column, data)) table->values(index).describe(out);
  write_struct(column, out);
  return 1;
}

void profgpu_table_free(profgpu_table* table) { delete table; }
}
