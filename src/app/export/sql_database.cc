#include "app/export/sql_database.h"

#include <sqlite3.h>

#include <algorithm>

#include "base/clock.h"

namespace profgpu {
namespace {

constexpr int kLongestCell_bytes = 16 << 20;   // functions such as zeroblob() make cells of any size

}  // namespace

Result<std::unique_ptr<SqliteFile>> SqliteFile::open(const std::string& path) {
  std::unique_ptr<SqliteFile> file(new SqliteFile);
  if (::sqlite3_open_v2(path.c_str(), &file->db_, SQLITE_OPEN_READWRITE, nullptr) != SQLITE_OK) {
    file->fail();
    return file->error_;
  }
  // Nobody reads it before it is whole, and what was interrupted is thrown away.
  file->run("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; BEGIN;"
            "CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT NOT NULL)");
  file->strings_ = std::make_unique<SqliteRows>(*file, "StringIds", 2);
  return file;
}

SqliteFile::~SqliteFile() {
  strings_.reset();
  ::sqlite3_close(db_);
}

void SqliteFile::fail() {
  if (failed()) return;
  const int code = ::sqlite3_errcode(db_);
  error_ = {std::string("cannot be written: ") + ::sqlite3_errmsg(db_)};
  if (code == SQLITE_FULL) error_ = {"cannot be written: no space left on device"};
}

void SqliteFile::run(const std::string& sql) {
  if (!failed() && ::sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) fail();
}

Status SqliteFile::finish() {
  strings_.reset();
  run("COMMIT");
  if (!failed() && ::sqlite3_close(db_) != SQLITE_OK) fail();
  else if (!failed()) db_ = nullptr;
  if (failed()) return error_;
  return ok();
}

int64_t SqliteFile::string(std::string_view text) {
  const size_t known = texts_.size();
  const int64_t id = int64_t{texts_.intern(text).value} + 1;
  if (texts_.size() > known) strings_->put(id).put(text).end_row();
  return id;
}

SqliteRows::SqliteRows(SqliteFile& file, std::string_view table, size_t columns) : file_(file) {
  std::string sql = "INSERT INTO " + std::string(table) + " VALUES(?";
  for (size_t i = 1; i < columns; ++i) sql += ",?";
  sql += ')';
  if (!file.failed() && ::sqlite3_prepare_v2(file.db_, sql.c_str(), -1, &statement_, nullptr) != SQLITE_OK) file.fail();
}

SqliteRows::~SqliteRows() { ::sqlite3_finalize(statement_); }

SqliteRows& SqliteRows::put(const Datum& cell) {
  ++at_;
  switch (cell.kind()) {
    case Datum::Kind::kNull: ::sqlite3_bind_null(statement_, at_); break;
    case Datum::Kind::kInteger: ::sqlite3_bind_int64(statement_, at_, cell.integer()); break;
    case Datum::Kind::kReal: ::sqlite3_bind_double(statement_, at_, cell.real()); break;
    case Datum::Kind::kText:
      ::sqlite3_bind_text64(statement_, at_, cell.text().data() != nullptr ? cell.text().data() : "",
                            cell.text().size(), SQLITE_STATIC, SQLITE_UTF8);
      break;
  }
  return *this;
}

void SqliteRows::end_row() {
  at_ = 0;
  if (file_.failed()) return;
  if (::sqlite3_step(statement_) != SQLITE_DONE) file_.fail();
  ::sqlite3_reset(statement_);
}

namespace {

// What a query may do: read, and ask which tables and columns there are.
int authorize(void*, int action, const char* what, const char*, const char*, const char*) {
  switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE: return SQLITE_OK;
    case SQLITE_FUNCTION: return SQLITE_OK;   // those that touch files are not in the library
    case SQLITE_PRAGMA: {
      constexpr std::string_view kReading[] = {"table_info", "table_xinfo", "table_list"};
      return std::find(std::begin(kReading), std::end(kReading), what) != std::end(kReading) ? SQLITE_OK : SQLITE_DENY;
    }
    default: return SQLITE_DENY;
  }
}

// Whether only blanks, semicolons and comments are left.
bool nothing_follows(const char* tail) {
  while (*tail != '\0') {
    if (std::string_view(" \t\r\n;").find(*tail) != std::string_view::npos) {
      ++tail;
    } else if (tail[0] == '-' && tail[1] == '-') {
      while (*tail != '\0' && *tail != '\n') ++tail;
    } else if (tail[0] == '/' && tail[1] == '*') {
      const char* end = std::char_traits<char>::find(tail, std::char_traits<char>::length(tail), '*');
      while (end != nullptr && end[1] != '/')
        end = std::char_traits<char>::find(end + 1, std::char_traits<char>::length(end + 1), '*');
      if (end == nullptr) return true;
      tail = end + 2;
    } else {
      return false;
    }
  }
  return true;
}

constexpr int kSteps = 10'000;   // of SQLite's machine between two looks at the clock

int is_late(void* deadline_ns) { return monotonic_ns() > *static_cast<const int64_t*>(deadline_ns) ? 1 : 0; }

}  // namespace

void SqlRows::Close::operator()(sqlite3_stmt* statement) const { ::sqlite3_finalize(statement); }
void SqlDatabase::Close::operator()(sqlite3* db) const { ::sqlite3_close(db); }

SqlRows::SqlRows(sqlite3_stmt* statement) : statement_(statement) {
  for (int i = 0; i < ::sqlite3_column_count(statement); ++i) {
    const char* recorded = ::sqlite3_column_name(statement, i);
    const std::string name = recorded != nullptr ? recorded : "";
    std::string unique = name;
    for (int n = 2; std::find(columns_.begin(), columns_.end(), unique) != columns_.end(); ++n)
      unique = name + "_" + std::to_string(n);
    columns_.push_back(unique);
  }
}

Result<bool> SqlRows::next() {
  const int code = ::sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  if (code == SQLITE_INTERRUPT) return Error{"the query takes too long"};
  return Error{::sqlite3_errmsg(::sqlite3_db_handle(statement_.get()))};
}

const std::vector<Datum>& SqlRows::row() {
  static constexpr char kHex[] = "0123456789abcdef";
  row_.assign(columns_.size(), {});
  bytes_.clear();
  bytes_.reserve(columns_.size());   // views of them must stay
  for (int i = 0; i < static_cast<int>(columns_.size()); ++i) {
    Datum& cell = row_[static_cast<size_t>(i)];
    const int type = ::sqlite3_column_type(statement_.get(), i);
    if (type == SQLITE_INTEGER) cell = ::sqlite3_column_int64(statement_.get(), i);
    if (type == SQLITE_FLOAT) cell = ::sqlite3_column_double(statement_.get(), i);
    if (type != SQLITE_TEXT && type != SQLITE_BLOB) continue;
    const auto* text = static_cast<const char*>(
        type == SQLITE_TEXT ? static_cast<const void*>(::sqlite3_column_text(statement_.get(), i))
                            : ::sqlite3_column_blob(statement_.get(), i));
    const std::string_view all(text != nullptr ? text : "",
                               static_cast<size_t>(::sqlite3_column_bytes(statement_.get(), i)));
    if (type == SQLITE_BLOB) {
      std::string& hex = bytes_.emplace_back();
      for (const char c : all) hex += kHex[static_cast<unsigned char>(c) >> 4], hex += kHex[c & 0xF];
    }
    cell = type == SQLITE_TEXT ? all : std::string_view(bytes_.back());
  }
  return row_;
}

Result<std::unique_ptr<SqlDatabase>> SqlDatabase::open(const RunRows& run, int64_t most_idle_events) {
  auto made = std::unique_ptr<SqlDatabase>(new SqlDatabase(run, most_idle_events));
  sqlite3* db = nullptr;
  int code = ::sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE, nullptr);
  made->db_.reset(db);
  if (code == SQLITE_OK) code = made->tables_.make(db);
  for (const DataView& view : data_views())
    if (code == SQLITE_OK)
      code = ::sqlite3_exec(db, ("CREATE VIEW " + std::string(view.name) + " AS " + std::string(view.select)).c_str(),
                            nullptr, nullptr, nullptr);
  // Its own virtual table is made when it is first used, which a query may not do.
  if (code == SQLITE_OK)
    code = ::sqlite3_exec(db, "SELECT 1 FROM pragma_table_info('host'), pragma_table_list LIMIT 0", nullptr, nullptr,
                          nullptr);
  if (code != SQLITE_OK) return Error{std::string("the tables cannot be made: ") + ::sqlite3_errmsg(db)};
  ::sqlite3_limit(db, SQLITE_LIMIT_LENGTH, kLongestCell_bytes);
  ::sqlite3_set_authorizer(db, authorize, nullptr);
  return made;
}

constexpr std::string_view kOnlyReads = "queries only read: SELECT, WITH, EXPLAIN";

std::unique_ptr<SqlRows> SqlDatabase::query(const std::string& sql, SqlError& error, int64_t most_ns) {
  deadline_ns_ = monotonic_ns() + most_ns;
  ::sqlite3_progress_handler(db_.get(), most_ns > 0 ? kSteps : 0, is_late, &deadline_ns_);
  sqlite3_stmt* statement = nullptr;
  const char* tail = sql.c_str();
  const int code = ::sqlite3_prepare_v2(db_.get(), sql.c_str(), static_cast<int>(sql.size() + 1), &statement, &tail);
  if (code == SQLITE_AUTH) {
    error = {std::string(kOnlyReads)};
  } else if (code != SQLITE_OK) {
    error = {::sqlite3_errmsg(db_.get()), ::sqlite3_error_offset(db_.get())};
    if (error.message.find("because it is a view") != error.message.npos) error = {std::string(kOnlyReads)};
  } else if (statement == nullptr) {
    error = {"the query is empty"};
  } else if (!nothing_follows(tail)) {
    error = {"one query at a time", static_cast<int>(tail - sql.c_str())};
  } else {
    return std::unique_ptr<SqlRows>(new SqlRows(statement));
  }
  ::sqlite3_finalize(statement);
  return nullptr;
}

std::vector<std::string> SqlDatabase::columns_of(std::string_view table) {
  SqlError error;
  std::vector<std::string> all;
  const auto rows = query("SELECT name FROM pragma_table_info('" + std::string(table) + "')", error);
  if (!rows) return all;
  for (auto more = rows->next(); more && *more; more = rows->next()) all.emplace_back(rows->row().front().text());
  return all;
}

}  // namespace profgpu
