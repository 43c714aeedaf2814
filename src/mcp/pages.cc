#include "mcp/pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>

#include "base/hash.h"
#include "base/text.h"
#include "view/json_text.h"

namespace profgpu {
namespace {

constexpr size_t kMaxText = 160, kMaxTextAlone = 4000;   // bytes of a text in a list of rows, and in a row by itself
constexpr size_t kShortText = 40;                        // where even one row does not fit
constexpr size_t kMaxItems = 6;                          // of a list of texts or numbers within a row
constexpr int64_t kOverhead = 200;                       // characters of an answer around its rows

// Numbers that tell rows of one name apart. Others are measured, and differ from run to run.
constexpr std::array<std::string_view, 4> kIdentity = {"device", "rank", "index", "message_bytes"};

size_t size_of(const Value& v) {
  if (const Table* table = v.table()) return table->rows.size();
  if (const List* list = v.list()) return list->size();
  return 0;
}

std::string value_json(const Value& v) {
  JsonText json;
  json.value(v, Layout::kInline);
  return json.take();
}

// What a list of rows shows of a cell.
Value shortened_value(const Value& v, size_t longest) {
  if (const std::string* text = v.text()) return shortened(*text, longest);
  if (const double* real = v.real()) return short_real(*real);
  if (const List* list = v.list()) {
    List some;
    for (const Value& item : *list) {
      if (some.size() == kMaxItems) {
        some.emplace_back(fmt::format("… and {} more", list->size() - kMaxItems));
        break;
      }
      some.push_back(shortened_value(item, longest));
    }
    return some;
  }
  if (const Table* table = v.table()) return fmt::format("{} rows", table->rows.size());
  if (const Record* record = v.record()) {
    Record out;
    for (const auto& [name, field] : record->fields)
      if (!field.is_null()) out.add(name, shortened_value(field, longest));
    return out;
  }
  return v;
}

// A row as named fields, whatever it is stored as.
Record row_record(const Value& rows, size_t index) {
  if (const Table* table = rows.table()) {
    Record row;
    for (size_t c = 0; c < table->columns.size() && c < table->rows[index].size(); ++c)
      row.add(table->columns[c], table->rows[index][c]);
    return row;
  }
  const Value& item = (*rows.list())[index];
  if (const Record* record = item.record()) return *record;
  return Record().add("value", item);
}

class RowKeys {
 public:
  explicit RowKeys(std::string_view name) : name_(name) {}
  // Rows that look the same are numbered.
  std::string next(const Record& row) {
    std::string key = fmt::format("{}:{}", name_, identity(row));
    const int same = ++seen_[key];
    if (same > 1) key += fmt::format("-{}", same);
    return key;
  }

 private:
  static std::string identity(const Record& row) {
    if (const std::string* rule = row.at("rule").text()) return *rule;
    uint64_t hash = fnv1a("");
    for (const auto& [name, field] : row.fields) {
      const bool counts = field.text() != nullptr || std::ranges::find(kIdentity, name) != kIdentity.end();
      if (counts) hash = fnv1a(name + '\n' + value_json(field) + '\n', hash);
    }
    return fmt::format("{:08x}", static_cast<uint32_t>(hash ^ (hash >> 32)));
  }
  std::string_view name_;
  std::map<std::string, int> seen_;
};

bool has_text(const Value& v, const std::string& part) {
  if (const std::string* text = v.text()) return contains(lower_case(*text), part);
  if (const List* list = v.list()) return std::ranges::any_of(*list, [&](const Value& x) { return has_text(x, part); });
  return false;
}

bool is_wanted(const Record& row, const std::string& key, const PageOptions& options, const std::string& part) {
  if (!options.key.empty()) return key == options.key;
  return part.empty() || std::ranges::any_of(row.fields, [&](const auto& f) { return has_text(f.second, part); });
}

Record shown_row(const Record& row, const std::string& key, size_t longest, bool in_full) {
  Record out;
  out.add("key", key);
  for (const auto& [name, field] : row.fields) {
    if (field.is_null()) continue;
    const bool whole = in_full && field.text() == nullptr;
    out.add(name, whole ? field : shortened_value(field, longest));
  }
  return out;
}

void add_rows(Record& answer, const Value& rows, std::string_view name, const PageOptions& options) {
  RowKeys keys(name);
  const std::string part = lower_case(options.contains);
  const bool one = !options.key.empty();
  int64_t at = 0, left = options.max_chars - kOverhead - static_cast<int64_t>(compact_json(answer).size());
  bool full = false;
  List shown;
  for (size_t i = 0; i < size_of(rows); ++i) {
    const Record row = row_record(rows, i);
    const std::string key = keys.next(row);
    if (!is_wanted(row, key, options, part)) continue;
    const int64_t place = at++;
    if (place < options.offset || full) continue;
    if (static_cast<int64_t>(shown.size()) == options.limit) {
      full = true;
      continue;
    }
    Record next = shown_row(row, key, one ? kMaxTextAlone : kMaxText, one);
    auto size = static_cast<int64_t>(compact_json(next).size());
    if (size > left && shown.empty()) {
      next = shown_row(row, key, one ? kMaxText : kShortText, false);
      size = static_cast<int64_t>(compact_json(next).size());
    } else if (size > left) {
      full = true;
      continue;
    }
    left -= size + 2;
    shown.emplace_back(std::move(next));
  }
  const int64_t end = options.offset + static_cast<int64_t>(shown.size());
  answer.add("total", at);
  if (options.offset > 0) answer.add("offset", options.offset);
  answer.add("rows", std::move(shown));
  if (end < at) answer.add("next_offset", end);
}

// What is nested deeper is named, so that it can be asked for.
bool holds_rows(const Value& v) {
  const List* list = v.list();
  return v.table() != nullptr || (list != nullptr && !list->empty() && list->front().record() != nullptr);
}

void add_fields(Record& answer, const Record& record, std::string_view name, int64_t max_chars) {
  Record fields;
  List deeper;
  size_t left_out = 0;
  int64_t left = max_chars - kOverhead;
  for (const auto& [field, value] : record.fields) {
    const bool rows = holds_rows(value);
    if (value.is_null() || (rows && size_of(value) == 0)) continue;
    if (rows || value.record() != nullptr) {
      deeper.emplace_back(Record()
                              .add("section", fmt::format("{}.{}", name, field))
                              .add("rows", rows ? Value(size_of(value)) : Value()));
      continue;
    }
    const Value shown = shortened_value(value, kMaxText);
    left -= static_cast<int64_t>(field.size() + value_json(shown).size()) + 6;
    if (left >= 0 || fields.fields.empty()) fields.add(field, shown);
    else ++left_out;
  }
  answer.add("fields", std::move(fields));
  if (left_out > 0) answer.add("fields_left_out", left_out);
  if (!deeper.empty()) answer.add("more", std::move(deeper));
}

}  // namespace

Value short_real(double x) {
  if (!std::isfinite(x)) return {};
  return std::strtod(fmt::format("{:.6g}", x).c_str(), nullptr);
}

std::string compact_json(const Record& record) {
  JsonText json;
  json.record(record, Layout::kInline);
  return json.take();
}

const Value& value_at(const Record& document, std::string_view path) {
  static const Value kNothing;
  const Record* record = &document;
  for (;;) {
    const size_t dot = path.find('.');
    const Value& value = record->at(path.substr(0, dot));
    if (dot == path.npos) return value;
    record = value.record();
    if (record == nullptr) return kNothing;
    path.remove_prefix(dot + 1);
  }
}

void add_page(Record& answer, const Value& value, std::string_view name, const PageOptions& options) {
  if (const Record* record = value.record()) add_fields(answer, *record, name, options.max_chars);
  else if (value.table() != nullptr || value.list() != nullptr) add_rows(answer, value, name, options);
  else answer.add("value", shortened_value(value, kMaxTextAlone));
}

}  // namespace profgpu
