// <profgpu/c.h>: versions, errors and texts.
#include "capi/c_values.h"

#include "base/text.h"
#include "base/version.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>

namespace profgpu {

Result<GivenOptions> given_options(const profgpu_option* options, size_t count,
                                   const std::vector<std::string_view>& known) {
  GivenOptions given;
  for (size_t i = 0; options != nullptr && i < count; ++i) {
    const std::string_view name = view(options[i].name);
    const auto at = std::find_if(known.begin(), known.end(), [&](std::string_view k) { return k.substr(2) == name; });
    if (at == known.end())
      return Error{"there is no option \"" + std::string(name) + "\" here",
                   "it takes " + joined(known, " ", [](std::string_view k) { return k.substr(2); })};
    given[*at].emplace_back(view(options[i].value));
  }
  return given;
}

using Kind = Datum::Kind;

void ColumnValues::reserve(size_t rows) {
  if (kind_ == Kind::kInteger) integers_.reserve(rows);
  if (kind_ == Kind::kReal) reals_.reserve(rows);
  if (kind_ == Kind::kText) codes_.reserve(rows);
}

int32_t ColumnValues::code_of(std::string_view text) {
  if (last_code_ >= 0 && text.data() == last_.data() && text.size() == last_.size()) return last_code_;
  auto at = places_.find(text);
  if (at == places_.end()) {
    at = places_.emplace(std::string(text), static_cast<int32_t>(places_.size())).first;
    dictionary_ += text;
    offsets_.push_back(dictionary_.size());
  }
  return at->second;
}

void ColumnValues::change_to(Kind kind) {
  const Kind before = std::exchange(kind_, kind);
  const auto is_valid = [&](size_t i) { return valid_.empty() || valid_[i] != 0; };
  if (before == Kind::kNull) {
    for (size_t nulls = std::exchange(size_, 0); nulls > 0; --nulls) add_null();
  } else if (kind == Kind::kReal) {
    for (size_t i = 0; i < size_; ++i)
      reals_.push_back(is_valid(i) ? static_cast<double>(integers_[i]) : std::numeric_limits<double>::quiet_NaN());
  } else {
    for (size_t i = 0; i < size_; ++i) {
      const bool known = before == Kind::kInteger ? is_valid(i) : !std::isnan(reals_[i]);
      codes_.push_back(
          !known ? -1
                 : code_of(before == Kind::kInteger ? fmt::format("{}", integers_[i]) : fmt::format("{}", reals_[i])));
    }
  }
  if (before == Kind::kInteger) integers_ = {}, valid_ = {};
  if (before == Kind::kReal) reals_ = {};
}

void ColumnValues::add_null() {
  if (kind_ == Kind::kInteger) {
    if (valid_.empty()) valid_.assign(integers_.size(), 1);
    integers_.push_back(0);
    valid_.push_back(0);
  }
  if (kind_ == Kind::kReal) reals_.push_back(std::numeric_limits<double>::quiet_NaN());
  if (kind_ == Kind::kText) codes_.push_back(-1);
  ++size_;
}

void ColumnValues::add(const Datum& cell) {
  const Kind kind = cell.kind();
  if (kind == Kind::kNull) return add_null();
  if (kind_ == Kind::kNull || (kind_ == Kind::kInteger && kind != Kind::kInteger) ||
      (kind_ == Kind::kReal && kind == Kind::kText))
    change_to(kind);
  if (kind_ == Kind::kInteger) {
    integers_.push_back(cell.integer());
    if (!valid_.empty()) valid_.push_back(1);
  } else if (kind_ == Kind::kReal) {
    reals_.push_back(kind == Kind::kReal ? cell.real() : static_cast<double>(cell.integer()));
  } else if (kind == Kind::kText) {
    codes_.push_back(code_of(cell.text()));
    if (texts_stay_) last_ = cell.text(), last_code_ = codes_.back();
  } else {
    codes_.push_back(code_of(kind == Kind::kReal ? fmt::format("{}", cell.real()) : fmt::format("{}", cell.integer())));
  }
  ++size_;
}

void ColumnValues::finish() {
  if (kind_ == Kind::kNull) change_to(Kind::kReal);
  places_ = {};
  last_code_ = -1;
}

void ColumnValues::describe(profgpu_column& out) const {
  out.length = size_;
  if (kind_ == Kind::kInteger) {
    out.type = PROFGPU_INT64;
    out.data = integers_.data();
    out.valid = valid_.empty() ? nullptr : valid_.data();
  } else if (kind_ == Kind::kText) {
    out.type = PROFGPU_TEXT;
    out.data = codes_.data();
    out.dictionary_size = offsets_.size() - 1;
    out.dictionary_text = dictionary_.c_str();
    out.dictionary_offsets = offsets_.data();
  } else {
    out.type = PROFGPU_DOUBLE;
    out.data = reals_.data();
  }
}

}  // namespace profgpu

using namespace profgpu;

extern "C" {

uint32_t profgpu_c_version(void) { return PROFGPU_C_VERSION; }
profgpu_string profgpu_version(void) { return borrowed(kVersion); }

profgpu_string profgpu_error_message(const profgpu_error* error) {
  return error != nullptr ? borrowed(error->error.message) : profgpu_string{};
}
profgpu_string profgpu_error_hint(const profgpu_error* error) {
  return error != nullptr ? borrowed(error->error.hint) : profgpu_string{};
}
void profgpu_error_free(profgpu_error* error) { delete error; }

profgpu_string profgpu_text_view(const profgpu_text* text) {
  return text != nullptr ? borrowed(text->text) : profgpu_string{};
}
void profgpu_text_free(profgpu_text* text) { delete text; }
}
