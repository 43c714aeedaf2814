#include "export/sqlite_file.h"

#include <sqlite3.h>

namespace profgpu {

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
      ::sqlite3_bind_text64(statement_, at_, cell.text().data() != nullptr ? cell.text().data() : "", cell.text().size(),
                            SQLITE_STATIC, SQLITE_UTF8);
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

}  // namespace profgpu
