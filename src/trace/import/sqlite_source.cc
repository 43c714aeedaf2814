#include "trace/import/sqlite_source.h"

#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "base/spool.h"
#include "trace/import/sqlite_reading.h"

namespace profgpu {
namespace {

constexpr std::string_view kMagic{"SQLite format 3\0", 16};
constexpr int kLongestCell = 64 << 20;   // bytes

std::string quoted_name(std::string_view name) {
  std::string out = "\"";
  for (const char c : name) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

std::string_view column_text(sqlite3_stmt* statement, int column) {
  const void* bytes = ::sqlite3_column_blob(statement, column);
  const int size = ::sqlite3_column_bytes(statement, column);
  if (bytes == nullptr) return {};
  return {static_cast<const char*>(bytes), static_cast<size_t>(size)};
}

struct Statement {
  Statement(sqlite3* db, const std::string& sql) { ::sqlite3_prepare_v2(db, sql.c_str(), -1, &get, nullptr); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement() { ::sqlite3_finalize(get); }
  [[nodiscard]] bool next() const { return get != nullptr && ::sqlite3_step(get) == SQLITE_ROW; }
  sqlite3_stmt* get = nullptr;
};

// As the header has it; 0 where it does not say, or was written by what does not keep the count.
int64_t bytes_by_header(const std::string& path) {
  std::array<unsigned char, 100> header{};
  std::FILE* file = std::fopen(path.c_str(), "rbe");
  if (file == nullptr) return 0;
  const size_t got = std::fread(header.data(), 1, header.size(), file);
  std::fclose(file);
  if (got < header.size()) return 0;
  const auto number = [&](size_t at) {
    return uint32_t{header[at]} << 24 | uint32_t{header[at + 1]} << 16 | uint32_t{header[at + 2]} << 8 | header[at + 3];
  };
  constexpr size_t kPages = 28, kChanges = 24, kCountedAt = 92;
  const int64_t page = header[16] << 8 | header[17];
  return number(kChanges) == number(kCountedAt) ? int64_t{number(kPages)} * (page == 1 ? 65536 : page) : 0;
}

}  // namespace

bool is_sqlite(std::string_view head) { return head.starts_with(kMagic); }

void SqliteSource::Close::operator()(sqlite3* db) const { ::sqlite3_close_v2(db); }

Result<SqliteSource> SqliteSource::open(const std::string& path) {
  auto seekable = seekable_path(path);
  if (!seekable) return seekable.error();
  SqliteSource source;
  source.path_ = path;
  sqlite3* db = nullptr;
  const int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX;
  const int code = ::sqlite3_open_v2(seekable->c_str(), &db, flags, sqlite_reading());
  source.db_.reset(db);
  if (code != SQLITE_OK) return Error{path + ": " + (db != nullptr ? ::sqlite3_errmsg(db) : "out of memory")};
  // What has to be sorted is little.
  ::sqlite3_exec(db, "PRAGMA temp_store = MEMORY", nullptr, nullptr, nullptr);
  struct stat info {};
  if (::stat(seekable->c_str(), &info) == 0) source.file_bytes_ = info.st_size;
  source.whole_bytes_ = bytes_by_header(*seekable);
  if (*seekable == path) source.look_beside(path);
  ::sqlite3_limit(db, SQLITE_LIMIT_LENGTH, kLongestCell);
  ::sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  ::sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  ::sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  // A file that ends early is refused as a whole but for this, and it cannot be written to in any case.
  ::sqlite3_db_config(db, SQLITE_DBCONFIG_WRITABLE_SCHEMA, 1, nullptr);
  ::sqlite3_exec(db, "PRAGMA cell_size_check = ON", nullptr, nullptr, nullptr);
  source.read_schema();
  return source;
}

void SqliteSource::read_schema() {
  std::vector<std::string> names;
  const Statement list(db_.get(), "PRAGMA main.table_list");
  while (list.next()) {
    const std::string name(column_text(list.get, 1)), type(column_text(list.get, 2));
    if (name.starts_with("sqlite_")) continue;
    if (type == "table") names.push_back(name);
    else if (type != "shadow") computed_.push_back(name);
  }
  std::sort(computed_.begin(), computed_.end());
  for (const std::string& name : names) {
    std::vector<std::string>& columns = tables_[name];
    const Statement info(db_.get(), "PRAGMA main.table_info(" + quoted_name(name) + ")");   // without generated ones
    while (info.next()) columns.emplace_back(column_text(info.get, 1));
    if (columns.empty()) tables_.erase(name);
  }
}

// Changes that were not merged into the file, or should have been undone.
void SqliteSource::look_beside(const std::string& path) {
  for (const char* ending : {"-wal", "-journal"}) {
    struct stat info {};
    constexpr int64_t kEmptyLog = 32;   // its header alone
    if (::stat((path + ending).c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_size > kEmptyLog)
      beside_ = path + ending;
  }
}

bool SqliteSource::has(std::string_view table, std::string_view column) const {
  const auto at = tables_.find(table);
  return at != tables_.end() && std::any_of(at->second.begin(), at->second.end(), [&](const std::string& name) {
           return ::sqlite3_strnicmp(name.c_str(), std::string(column).c_str(), 1 << 16) == 0;
         });
}

int64_t SqliteSource::last_row(std::string_view table) const {
  if (!has(table)) return 0;
  const Statement last(db_.get(), "SELECT max(_rowid_) FROM main." + quoted_name(table));
  return last.next() ? std::max<int64_t>(::sqlite3_column_int64(last.get, 0), 0) : 0;
}

void SqliteSource::add_issues(std::vector<TraceIssue>& issues) const {
  if (whole_bytes_ > file_bytes_)
    issues.push_back({TraceIssueKind::kTruncated, 1,
                      fmt::format("{} is cut off: {} of its {} bytes are there; tables that lie behind are missing, "
                                  "or end early",
                                  path_, file_bytes_, whole_bytes_)});
  if (!beside_.empty())
    issues.push_back({TraceIssueKind::kOther, 1,
                      fmt::format("{} has changes that are not in the file yet, and they were not read: open the file "
                                  "once with sqlite3, or export again",
                                  beside_)});
}

void SqliteScan::Finish::operator()(sqlite3_stmt* statement) const { ::sqlite3_finalize(statement); }

SqliteScan::SqliteScan(SqliteSource& source, std::string_view table, const std::vector<std::string_view>& columns,
                       const std::string& where, RowNumbers rows) {
  if (!source.has(table)) return;
  std::string sql = "SELECT ";
  for (const std::string_view column : columns) {
    if (sql.size() > 7) sql += ',';
    lacks_.push_back(!source.has(table, column));
    sql += lacks_.back() ? "NULL" : quoted_name(column);
  }
  sql += " FROM main." + quoted_name(table);
  std::string condition = where;
  if (!rows.all()) {
    if (!condition.empty()) condition = "(" + condition + ") AND ";
    condition += fmt::format("_rowid_ BETWEEN {} AND {}", rows.first, rows.last);
  }
  if (!condition.empty()) sql += " WHERE " + condition;
  sqlite3_stmt* statement = nullptr;
  if (::sqlite3_prepare_v2(source.db_.get(), sql.c_str(), -1, &statement, nullptr) != SQLITE_OK)
    problem_ = ::sqlite3_errmsg(source.db_.get());
  statement_.reset(statement);
}

bool SqliteScan::next() {
  if (statement_ == nullptr) return false;
  const int code = ::sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return ++rows_, true;
  if (code != SQLITE_DONE) problem_ = ::sqlite3_errstr(code);
  statement_.reset();
  return false;
}

bool SqliteScan::is_null(int column) const { return ::sqlite3_column_type(statement_.get(), column) == SQLITE_NULL; }

std::optional<int64_t> SqliteScan::integer(int column) const {
  const int type = ::sqlite3_column_type(statement_.get(), column);
  if (type == SQLITE_INTEGER) return ::sqlite3_column_int64(statement_.get(), column);
  if (type != SQLITE_FLOAT) return std::nullopt;
  const double value = ::sqlite3_column_double(statement_.get(), column);
  if (value != std::trunc(value) || std::abs(value) >= 9.2e18) return std::nullopt;
  return static_cast<int64_t>(value);
}

std::optional<double> SqliteScan::real(int column) const {
  const int type = ::sqlite3_column_type(statement_.get(), column);
  if (type != SQLITE_INTEGER && type != SQLITE_FLOAT) return std::nullopt;
  const double value = ::sqlite3_column_double(statement_.get(), column);
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::string_view SqliteScan::text(int column) const {
  const int type = ::sqlite3_column_type(statement_.get(), column);
  return type == SQLITE_TEXT || type == SQLITE_BLOB ? column_text(statement_.get(), column) : std::string_view();
}

}  // namespace profgpu
