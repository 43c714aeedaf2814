#include "app/compare/history.h"

#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>
#include <zlib.h>

namespace profgpu {
namespace {

constexpr int kVersion = 1;
constexpr int kApplication = 0x70677075;   // "pgpu": whose file it is
constexpr int kPatience_ms = 10'000;
constexpr uint64_t kMaxText = uint64_t{1} << 30;

class Statement {
 public:
  Statement(sqlite3* db, const char* sql) {
    ok_ = ::sqlite3_prepare_v2(db, sql, -1, &statement_, nullptr) == SQLITE_OK;
  }
  ~Statement() { ::sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  [[nodiscard]] bool ok() const { return ok_; }
  void bind(int at, const std::string& text) {
    if (!text.empty())
      ::sqlite3_bind_text(statement_, at, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
  }
  void bind(int at, std::optional<int64_t> n) {
    if (n) ::sqlite3_bind_int64(statement_, at, *n);
  }
  void bind_bytes(int at, const std::string& bytes) {
    ::sqlite3_bind_blob64(statement_, at, bytes.data(), bytes.size(), SQLITE_TRANSIENT);
  }
  /// SQLITE_ROW, SQLITE_DONE or an error.
  int step() { return ok_ ? ::sqlite3_step(statement_) : SQLITE_ERROR; }
  [[nodiscard]] std::string text(int column) const {
    const auto* bytes = static_cast<const char*>(::sqlite3_column_blob(statement_, column));
    return bytes ? std::string(bytes, static_cast<size_t>(::sqlite3_column_bytes(statement_, column))) : std::string();
  }
  [[nodiscard]] std::optional<int64_t> integer(int column) const {
    if (::sqlite3_column_type(statement_, column) == SQLITE_NULL) return std::nullopt;
    return ::sqlite3_column_int64(statement_, column);
  }

 private:
  sqlite3_stmt* statement_ = nullptr;
  bool ok_ = false;
};

// Eight bytes of length, then a zlib stream.
std::string packed(const std::string& text) {
  uLongf size = ::compressBound(text.size());
  std::string out(sizeof(uint64_t) + size, '\0');
  const uint64_t length = text.size();
  __builtin_memcpy(out.data(), &length, sizeof length);
  ::compress2(reinterpret_cast<Bytef*>(out.data() + sizeof length), &size, reinterpret_cast<const Bytef*>(text.data()),
              text.size(), 6);
  out.resize(sizeof length + size);
  return out;
}

std::optional<std::string> unpacked(const std::string& bytes) {
  uint64_t length = 0;
  if (bytes.size() < sizeof length) return std::nullopt;
  __builtin_memcpy(&length, bytes.data(), sizeof length);
  if (length > kMaxText) return std::nullopt;
  std::string text(length, '\0');
  uLongf size = length;
  const int result =
      ::uncompress(reinterpret_cast<Bytef*>(text.data()), &size,
                   reinterpret_cast<const Bytef*>(bytes.data() + sizeof length), bytes.size() - sizeof length);
  if (result != Z_OK || size != length) return std::nullopt;
  return text;
}

constexpr const char* kMake =
    "CREATE TABLE IF NOT EXISTS runs(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, saved_unix_ns INTEGER "
    "NOT NULL,"
    " path TEXT, host TEXT, commit_id TEXT, step_mean_ns INTEGER, steps INTEGER, peak_memory_bytes INTEGER,"
    " document BLOB NOT NULL);"
    "CREATE INDEX IF NOT EXISTS runs_by_name ON runs(name, id);"
    "PRAGMA application_id = 1885827189; PRAGMA user_version = 1;";
static_assert(kApplication == 1885827189 && kVersion == 1);

}  // namespace

void History::Close::operator()(sqlite3* db) const { ::sqlite3_close(db); }

Error History::failure(const std::string& doing) const {
  const int code = ::sqlite3_errcode(db_.get());
  Error error{path_ + ": cannot be " + doing + ": " + ::sqlite3_errmsg(db_.get())};
  if (code == SQLITE_BUSY || code == SQLITE_LOCKED) error.hint = "another job holds it; try again";
  if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT)
    error.hint = "it is damaged or no history file; choose another with --file";
  return error;
}

Status History::check_or_make() {
  // Under the write lock, so that nobody sees a file that another job is making.
  if (::sqlite3_exec(db_.get(), "BEGIN IMMEDIATE", nullptr, nullptr, nullptr) != SQLITE_OK) return failure("opened");
  Status status = check_or_make_locked();
  if (::sqlite3_exec(db_.get(), status ? "COMMIT" : "ROLLBACK", nullptr, nullptr, nullptr) != SQLITE_OK && status)
    return failure("made");
  return status;
}

Status History::check_or_make_locked() {
  int application = 0, version = 0, tables = 0;
  for (const auto& [sql, to] : {std::pair{"PRAGMA application_id", &application}, {"PRAGMA user_version", &version},
                                {"SELECT count(*) FROM sqlite_master", &tables}}) {
    Statement statement(db_.get(), sql);
    if (statement.step() != SQLITE_ROW) return failure("read");
    *to = static_cast<int>(statement.integer(0).value_or(0));
  }
  if (application == kApplication && version == kVersion) return profgpu::ok();
  if (application == kApplication && version > kVersion)
    return Error{path_ + ": written by a newer profgpu (version " + std::to_string(version) + " of the file)",
                 "use that one, or another file with --file"};
  if (tables > 0)
    return Error{path_ + ": an SQLite file, but not a history of profgpu's", "choose another with --file"};
  if (::sqlite3_exec(db_.get(), kMake, nullptr, nullptr, nullptr) != SQLITE_OK) return failure("made");
  return profgpu::ok();
}

Result<History> History::open(const std::string& path, bool make) {
  if (!make && ::access(path.c_str(), F_OK) != 0)
    return Error{path + ": no such file", "`profgpu baseline save NAME RUN` makes it"};
  sqlite3* db = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | (make ? SQLITE_OPEN_CREATE : 0);
  int result = ::sqlite3_open_v2(path.c_str(), &db, flags, nullptr);
  History history(db, path);
  if (result != SQLITE_OK) return history.failure("opened");
  ::sqlite3_busy_timeout(db, kPatience_ms);
  if (Status status = history.check_or_make(); !status) return status.error();
  return history;
}

Result<int64_t> History::save(const HistoryRun& run, const std::string& document) {
  Statement insert(
      db_.get(),
      "INSERT INTO runs(name, saved_unix_ns, path, host, commit_id, step_mean_ns, steps, peak_memory_bytes, "
      "document) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)");
  insert.bind(1, run.name);
  insert.bind(2, std::optional(run.saved_unix_ns));
  insert.bind(3, run.path);
  insert.bind(4, run.host);
  insert.bind(5, run.commit);
  insert.bind(6, run.step_mean_ns);
  insert.bind(7, run.steps);
  insert.bind(8, run.peak_memory_bytes);
  insert.bind_bytes(9, packed(document));
  if (insert.step() != SQLITE_DONE) return failure("written");
  return static_cast<int64_t>(::sqlite3_last_insert_rowid(db_.get()));
}

Result<std::vector<HistoryRun>> History::runs(const std::string& name) {
  Statement select(
      db_.get(),
      "SELECT id, name, saved_unix_ns, path, host, commit_id, step_mean_ns, steps, peak_memory_bytes FROM runs "
      "WHERE ?1 IS NULL OR name = ?1 ORDER BY id");
  select.bind(1, name);
  std::vector<HistoryRun> all;
  int result = select.step();
  for (; result == SQLITE_ROW; result = select.step())
    all.push_back({select.integer(0).value_or(0), select.text(1), select.integer(2).value_or(0), select.text(3),
                   select.text(4), select.text(5), select.integer(6), select.integer(7), select.integer(8)});
  if (result != SQLITE_DONE) return failure("read");
  return all;
}

Result<std::string> History::latest_document(const std::string& name) {
  Statement select(db_.get(), "SELECT document FROM runs WHERE name = ? ORDER BY id DESC LIMIT 1");
  select.bind(1, name);
  const int result = select.step();
  if (result == SQLITE_DONE) return std::string();
  if (result != SQLITE_ROW) return failure("read");
  std::optional<std::string> text = unpacked(select.text(0));
  if (!text) return Error{path_ + ": the run saved as " + name + " is damaged", "save it again"};
  return *std::move(text);
}

Result<std::string> History::document(int64_t id) {
  Statement select(db_.get(), "SELECT document FROM runs WHERE id = ?");
  select.bind(1, id);
  const int result = select.step();
  if (result == SQLITE_DONE) return std::string();
  if (result != SQLITE_ROW) return failure("read");
  std::optional<std::string> text = unpacked(select.text(0));
  if (!text) return Error{fmt::format("{}: run {} is damaged", path_, id), "save it again"};
  return *std::move(text);
}

}  // namespace profgpu
