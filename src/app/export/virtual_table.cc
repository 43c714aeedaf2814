// Budget: a call of a function pointer and of SQLite a cell. Rows are found by binary search where a query asks for a
// rank, a row number, a device or thread, or a range of the column that a table is sorted by.
#include "app/export/virtual_table.h"

#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace profgpu {
namespace {

// What a plan asks of xFilter, in the order of its arguments: bits of idxNum.
enum Constraint : int { kRank, kId, kKey, kLower, kUpper, kRowid, kConstraints };

struct VTable {
  sqlite3_vtab base;   // first: SQLite knows only this part
  VirtualTables::One* one;
  int rank, id, key, sorted;   // columns; -1: none
};

struct Span {
  size_t begin, end;
};

struct Wanted {
  std::array<std::optional<int64_t>, kConstraints> value;
  [[nodiscard]] bool matches(Constraint c, int64_t n) const { return !value[c] || *value[c] == n; }
};

constexpr size_t kNone = SIZE_MAX;
constexpr int kPartBits = 40;   // of a row number: its place in the part below them, the part's above

struct Cursor {
  sqlite3_vtab_cursor base;
  Wanted wanted;
  size_t part = kNone;   // that is pinned
  bool at_end = true;
  const RowSource* from = nullptr;
  std::vector<Span> spans;
  size_t span = 0, row = 0;
};

VTable& table_of(sqlite3_vtab* t) { return *reinterpret_cast<VTable*>(t); }
Cursor& cursor_of(sqlite3_vtab_cursor* c) { return *reinterpret_cast<Cursor*>(c); }

int column_of(const DataTable& table, std::string_view name) {
  for (size_t i = 0; !name.empty() && i < table.columns.size(); ++i)
    if (table.columns[i].name == name) return static_cast<int>(i);
  return -1;
}

int connect(sqlite3* db, void* aux, int, const char* const*, sqlite3_vtab** out, char**) {
  auto* one = static_cast<VirtualTables::One*>(aux);
  const int code = ::sqlite3_declare_vtab(db, ("CREATE TABLE t" + column_declarations(one->table)).c_str());
  if (code != SQLITE_OK) return code;
  const DataTable& t = one->table;
  const int id = column_of(t, "id");
  const bool numbered = id >= 0 && t.columns[static_cast<size_t>(id)].at == row_cell;
  auto* made = new VTable{{}, one, t.of_run ? -1 : column_of(t, "rank"), numbered ? id : -1, column_of(t, t.key),
                          column_of(t, t.sorted)};
  *out = &made->base;
  return SQLITE_OK;
}

int disconnect(sqlite3_vtab* t) {
  delete &table_of(t);
  return SQLITE_OK;
}

int constraint_of(const VTable& t, const sqlite3_index_info::sqlite3_index_constraint& c) {
  if (c.op == SQLITE_INDEX_CONSTRAINT_EQ) {
    if (c.iColumn == -1) return kRowid;
    if (c.iColumn == t.rank) return kRank;
    if (c.iColumn == t.id) return kId;
    if (c.iColumn == t.key) return kKey;
    return -1;
  }
  if (t.sorted < 0 || c.iColumn != t.sorted) return -1;
  if (c.op == SQLITE_INDEX_CONSTRAINT_GE || c.op == SQLITE_INDEX_CONSTRAINT_GT) return kLower;
  if (c.op == SQLITE_INDEX_CONSTRAINT_LE || c.op == SQLITE_INDEX_CONSTRAINT_LT) return kUpper;
  return -1;
}

// Of ranks that are not there as many as of the first.
double estimated_rows(VirtualTables::One& one) {
  if (!one.table.section.empty() || one.size() == 0) return 1000;
  if (!one.pin(0)) return 1000;
  const size_t first = one.rows(0);
  one.unpin(0);
  double rows = 0;
  for (size_t part = 0; part < one.size(); ++part)
    rows += static_cast<double>(one.there(part) ? one.rows(part) : first);
  return rows;
}

// SQLite checks every row again, so a plan may find too many rows, never too few.
int best_index(sqlite3_vtab* t, sqlite3_index_info* info) {
  const VTable& table = table_of(t);
  std::array<int, kConstraints> at;
  at.fill(-1);
  for (int i = 0; i < info->nConstraint; ++i) {
    if (!info->aConstraint[i].usable) continue;
    const int kind = constraint_of(table, info->aConstraint[i]);
    if (kind >= 0 && at[static_cast<size_t>(kind)] < 0) at[static_cast<size_t>(kind)] = i;
  }
  int argument = 0;
  info->idxNum = 0;
  for (int kind = 0; kind < kConstraints; ++kind) {
    if (at[static_cast<size_t>(kind)] < 0) continue;
    info->aConstraintUsage[at[static_cast<size_t>(kind)]].argvIndex = ++argument;
    info->idxNum |= 1 << kind;
  }
  // Sections are not computed for the sake of a plan; they are short.
  const auto ranks = static_cast<double>(std::max<size_t>(table.one->run.ranks.size(), 1));
  double rows = estimated_rows(*table.one);
  if (info->idxNum & 1 << kRank) rows /= ranks;
  if (info->idxNum & 1 << kId) rows = info->idxNum & 1 << kRank ? 1 : ranks;
  if (info->idxNum & 1 << kRowid) rows = 1;
  if (info->idxNum & 1 << kKey) rows /= 4;
  if (info->idxNum & 1 << kLower) rows /= 4;
  if (info->idxNum & 1 << kUpper) rows /= 4;
  info->estimatedRows = static_cast<sqlite3_int64>(rows) + 1;
  info->estimatedCost = rows + 1;
  return SQLITE_OK;
}

int open(sqlite3_vtab*, sqlite3_vtab_cursor** out) {
  auto* made = new Cursor{};
  *out = &made->base;
  return SQLITE_OK;
}

void leave_part(Cursor& cursor) {
  if (cursor.part != kNone) table_of(cursor.base.pVtab).one->unpin(cursor.part);
  cursor.part = kNone;
}

int close(sqlite3_vtab_cursor* c) {
  leave_part(cursor_of(c));
  delete &cursor_of(c);
  return SQLITE_OK;
}

// A number that rows can be compared with as a whole one. Anything else is left to SQLite.
std::optional<int64_t> whole(sqlite3_value* value, Constraint kind) {
  const int type = ::sqlite3_value_type(value);
  if (type == SQLITE_INTEGER) return ::sqlite3_value_int64(value);
  if (type != SQLITE_FLOAT || (kind != kLower && kind != kUpper)) return std::nullopt;
  const double x =
      kind == kLower ? std::floor(::sqlite3_value_double(value)) : std::ceil(::sqlite3_value_double(value));
  constexpr double kMost = 9.2e18;
  return std::abs(x) < kMost ? std::optional(static_cast<int64_t>(x)) : std::nullopt;
}

// Rows begin..end of `from` whose sorted column lies within the range.
Span within(const VTable& t, const RowSource& from, Span rows, const Wanted& wanted) {
  const auto value = [&](size_t row) {
    return from.table.columns[static_cast<size_t>(t.sorted)].at(from, row, static_cast<size_t>(t.sorted)).integer();
  };
  const auto first_not_below = [&](int64_t bound) {
    size_t low = rows.begin, high = rows.end;
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      if (value(middle) < bound) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  if (wanted.value[kLower]) rows.begin = first_not_below(*wanted.value[kLower]);
  if (wanted.value[kUpper] && *wanted.value[kUpper] < std::numeric_limits<int64_t>::max())
    rows.end = std::max(rows.begin, first_not_below(*wanted.value[kUpper] + 1));
  return rows;
}

void find_spans(const VTable& t, Cursor& cursor) {
  const RowSource& from = *cursor.from;
  const Wanted& wanted = cursor.wanted;
  const size_t rows = t.one->rows(cursor.part);
  size_t begin = 0, end = rows;
  const auto only = [&](int64_t row) {
    const bool there = row >= static_cast<int64_t>(begin) && row < static_cast<int64_t>(end);
    begin = there ? static_cast<size_t>(row) : end;
    end = there ? begin + 1 : end;
  };
  if (wanted.value[kId]) only(*wanted.value[kId]);
  if (wanted.value[kRowid]) only(*wanted.value[kRowid] & ((int64_t{1} << kPartBits) - 1));
  const std::vector<Stretch> stretches =
      from.table.stretches != nullptr ? from.table.stretches(from) : std::vector<Stretch>{{0, rows, 0}};
  cursor.spans.clear();
  for (const Stretch& stretch : stretches) {
    if (from.table.stretches != nullptr && !wanted.matches(kKey, stretch.key)) continue;
    const Span both{std::max(begin, stretch.begin), std::min(end, stretch.end)};
    if (both.begin >= both.end) continue;
    const Span span = within(t, from, both, wanted);
    if (span.begin < span.end) cursor.spans.push_back(span);
  }
}

bool part_may_match(const VTable& t, size_t part, const Wanted& wanted) {
  if (wanted.value[kRowid] && *wanted.value[kRowid] >> kPartBits != static_cast<int64_t>(part)) return false;
  return t.one->table.of_run || wanted.matches(kRank, t.one->run.ranks[part].rank());
}

// To the first row of the first part from `part` on that has one.
int go_to_part(Cursor& cursor, size_t part) {
  const VTable& t = table_of(cursor.base.pVtab);
  leave_part(cursor);
  for (; part < t.one->size(); ++part) {
    if (!part_may_match(t, part, cursor.wanted)) continue;
    if (const Status there = t.one->pin(part); !there) {
      cursor.at_end = true;
      ::sqlite3_free(cursor.base.pVtab->zErrMsg);
      cursor.base.pVtab->zErrMsg = ::sqlite3_mprintf("%s", there.error().message.c_str());
      return SQLITE_ERROR;
    }
    cursor.part = part;
    cursor.from = &t.one->source(part);
    find_spans(t, cursor);
    if (!cursor.spans.empty()) {
      cursor.span = 0;
      cursor.row = cursor.spans.front().begin;
      return SQLITE_OK;
    }
    leave_part(cursor);
  }
  cursor.at_end = true;
  return SQLITE_OK;
}

int filter(sqlite3_vtab_cursor* c, int plan, const char*, int, sqlite3_value** values) {
  Cursor& cursor = cursor_of(c);
  cursor.wanted = {};
  for (int kind = 0, argument = 0; kind < kConstraints; ++kind)
    if (plan & 1 << kind)
      cursor.wanted.value[static_cast<size_t>(kind)] = whole(values[argument++], static_cast<Constraint>(kind));
  cursor.at_end = false;
  return go_to_part(cursor, 0);
}

int next(sqlite3_vtab_cursor* c) {
  Cursor& cursor = cursor_of(c);
  if (++cursor.row < cursor.spans[cursor.span].end) return SQLITE_OK;
  if (++cursor.span == cursor.spans.size()) return go_to_part(cursor, cursor.part + 1);
  cursor.row = cursor.spans[cursor.span].begin;
  return SQLITE_OK;
}
int at_end(sqlite3_vtab_cursor* c) { return cursor_of(c).at_end; }

int column(sqlite3_vtab_cursor* c, sqlite3_context* out, int column) {
  const Cursor& cursor = cursor_of(c);
  const RowSource& from = *cursor.from;
  const auto i = static_cast<size_t>(column);
  const Datum cell = from.table.columns[i].at(from, cursor.row, i);
  switch (cell.kind()) {
    case Datum::Kind::kNull: break;
    case Datum::Kind::kInteger: ::sqlite3_result_int64(out, cell.integer()); break;
    case Datum::Kind::kReal: ::sqlite3_result_double(out, cell.real()); break;
    case Datum::Kind::kText:
      ::sqlite3_result_text64(out, cell.text().data() != nullptr ? cell.text().data() : "", cell.text().size(),
                              from.rank != nullptr && !from.rank->stays() ? SQLITE_TRANSIENT : SQLITE_STATIC,
                              SQLITE_UTF8);
      break;
  }
  return SQLITE_OK;
}

int rowid(sqlite3_vtab_cursor* c, sqlite3_int64* out) {
  const Cursor& cursor = cursor_of(c);
  *out = static_cast<sqlite3_int64>(cursor.part) << kPartBits | static_cast<sqlite3_int64>(cursor.row);
  return SQLITE_OK;
}

const sqlite3_module& module() {
  static const sqlite3_module made = [] {
    sqlite3_module m{};
    m.xCreate = m.xConnect = connect;
    m.xDestroy = m.xDisconnect = disconnect;
    m.xBestIndex = best_index;
    m.xOpen = open;
    m.xClose = close;
    m.xFilter = filter;
    m.xNext = next;
    m.xEof = at_end;
    m.xColumn = column;
    m.xRowid = rowid;
    return m;
  }();
  return made;
}

}  // namespace

const RowSource& VirtualTables::One::source(size_t part) {
  parts.resize(size());
  if (!parts[part])
    parts[part] = table.of_run ? std::make_unique<TableRows>(run, table)
                               : std::make_unique<TableRows>(run, table, run.ranks[part]);
  return parts[part]->sources().front();
}

VirtualTables::VirtualTables(const RunRows& run, int64_t most_idle_events)
    : run_(run),
      ranks_(
          run,
          [this](size_t place) {
            for (const std::unique_ptr<One>& one : tables_)
              if (!one->table.of_run && place < one->parts.size()) one->parts[place].reset();
          },
          most_idle_events) {}

int VirtualTables::make(sqlite3* db) {
  for (const DataTable* table : data_tables()) {
    tables_.push_back(std::unique_ptr<One>(new One{run_, ranks_, *table}));
    const std::string name(table->name), sql = "CREATE VIRTUAL TABLE " + name + " USING " + name;
    int code = ::sqlite3_create_module_v2(db, name.c_str(), &module(), tables_.back().get(), nullptr);
    if (code == SQLITE_OK) code = ::sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr);
    if (code != SQLITE_OK) return code;
  }
  return SQLITE_OK;
}

std::string column_declarations(const DataTable& table) {
  std::string out;
  for (const DataColumn& c : table.columns) {
    out += out.empty() ? "(\"" : ", \"";
    out += c.name;
    out += c.kind == Datum::Kind::kInteger ? "\" INTEGER" : c.kind == Datum::Kind::kReal ? "\" REAL" : "\" TEXT";
  }
  return out + ")";
}

Status ResidentRanks::pin(size_t place) {
  Rank& rank = ranks_[place];
  if (!there(place)) {
    make_room(run_.ranks[place].outline().events);
    if (Status status = run_.ranks[place].load(); !status) return status;
    rank.there = true;
    ++rank.reads;
  }
  ++rank.pins;
  return ok();
}

void ResidentRanks::unpin(size_t place) {
  Rank& rank = ranks_[place];
  --rank.pins;
  rank.used = ++now_;
}

// The one that was left longest ago goes first.
void ResidentRanks::make_room(int64_t events) {
  while (true) {
    int64_t idle = events;
    size_t oldest = ranks_.size();
    for (size_t i = 0; i < ranks_.size(); ++i) {
      const Rank& r = ranks_[i];
      if (!r.there || r.pins > 0 || r.reads >= kOftenRead) continue;
      idle += run_.ranks[i].outline().events;
      if (oldest == ranks_.size() || r.used < ranks_[oldest].used) oldest = i;
    }
    if (idle <= most_idle_events_ || oldest == ranks_.size()) return;
    dropped_(oldest);
    run_.ranks[oldest].drop();
    ranks_[oldest].there = false;
  }
}

}  // namespace profgpu
