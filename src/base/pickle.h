// A reader of Python pickles that knows data and nothing else: numbers, texts, lists, tuples, dicts, sets. Whatever
// could import, call or build something of a class ends it with an error that names the opcode. Nothing is executed.
//
// A pickle is a program for a stack machine, so that reading needs no recursion, and shared or cyclic objects stay
// references. Most of a large file is many small dicts and lists of a few shapes: PickleReader hands each of them to a
// sink when it is complete, and the sink may turn it into a row of a table of its own. What became a row costs four
// bytes here; rows that follow each other are one entry of the list that holds them. What a sink does not want is kept
// as PickleObjects. Budget: 400 MB/s on one core for the events of a PyTorch memory snapshot.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/text_source.h"

namespace profgpu {

enum class PickleKind : uint8_t {
  kNothing,     ///< no value at all, not even None
  kNone,
  kBool,
  kInteger,
  kWide,        ///< an integer or float that is kept apart, see PickleObjects::integer() and number()
  kText,        ///< what the sink's text() returned; bytes too
  kSequence,    ///< a list, tuple or set
  kDict,
  kRows,        ///< what a sink made of dicts or sequences: `count` rows of a table, from `row` on
};

/// One value, in 8 bytes.
class PickleValue {
 public:
  static constexpr int64_t kMaxInline = (int64_t{1} << 59) - 1;
  static constexpr uint32_t kMaxRun = (1 << 24) - 1;

  constexpr PickleValue() = default;
  static constexpr PickleValue none() { return {PickleKind::kNone, 0}; }
  static constexpr PickleValue boolean(bool x) { return {PickleKind::kBool, x ? 1U : 0U}; }
  static constexpr PickleValue small_integer(int64_t x) { return {PickleKind::kInteger, static_cast<uint64_t>(x)}; }
  static constexpr PickleValue wide(uint32_t index) { return {PickleKind::kWide, index}; }
  static constexpr PickleValue text(uint32_t id) { return {PickleKind::kText, id}; }
  static constexpr PickleValue sequence(uint32_t index) { return {PickleKind::kSequence, index}; }
  static constexpr PickleValue dict(uint32_t index) { return {PickleKind::kDict, index}; }
  /// `table` is the sink's own number of it, under 16.
  static constexpr PickleValue rows(uint32_t table, uint32_t row, uint32_t count = 1) {
    return {PickleKind::kRows, (uint64_t{count} << 36) | (uint64_t{row} << 4) | table};
  }

  [[nodiscard]] constexpr PickleKind kind() const { return static_cast<PickleKind>(bits_ & 15); }
  [[nodiscard]] constexpr bool is(PickleKind k) const { return kind() == k; }
  [[nodiscard]] constexpr bool is_nothing() const { return bits_ == 0; }
  /// Of kBool, kWide, kText, kSequence and kDict: its number.
  [[nodiscard]] constexpr uint32_t index() const { return static_cast<uint32_t>(bits_ >> 4); }
  [[nodiscard]] constexpr int64_t inline_integer() const { return static_cast<int64_t>(bits_) >> 4; }
  [[nodiscard]] constexpr uint32_t table() const { return (bits_ >> 4) & 15; }
  [[nodiscard]] constexpr uint32_t row() const { return static_cast<uint32_t>(bits_ >> 8); }
  [[nodiscard]] constexpr uint32_t count() const { return static_cast<uint32_t>(bits_ >> 40); }
  /// Rows of this table?
  [[nodiscard]] constexpr bool is_of(uint32_t of) const { return is(PickleKind::kRows) && table() == of; }
  constexpr bool operator==(const PickleValue&) const = default;

 private:
  constexpr PickleValue(PickleKind kind, uint64_t payload) : bits_(payload << 4 | static_cast<uint64_t>(kind)) {}
  uint64_t bits_ = 0;
};

/// Bounds that no real file comes near; beyond them a file is refused.
struct PickleLimits {
  static constexpr size_t kDepth = 1000;             ///< containers that are open at once
  static constexpr size_t kValues = size_t{1} << 24; ///< on the stack and in containers that became no rows
  static constexpr size_t kContainers = size_t{1} << 22;  ///< that became no rows, and wide numbers
  static constexpr size_t kMemo = size_t{1} << 27;
  static constexpr size_t kTextBytes = size_t{16} << 20;   ///< of one text
};

/// Containers and numbers that are not kept in a PickleValue itself. Cyclic references are possible.
class PickleObjects {
 public:
  /// Of a sequence, with runs of rows as they are; of a dict keys and values by turns. Empty for anything else.
  [[nodiscard]] std::span<const PickleValue> items(PickleValue container) const;
  /// The rows, where a container became some after something had referred to it.
  [[nodiscard]] PickleValue resolved(PickleValue value) const {
    const bool container = value.is(PickleKind::kSequence) || value.is(PickleKind::kDict);
    return container && !containers_[value.index()].became.is_nothing() ? containers_[value.index()].became : value;
  }
  /// The dict's value under a key that is a text; nothing where there is none.
  [[nodiscard]] PickleValue member(PickleValue dict, uint32_t key) const;
  /// Whole numbers within 64 bits, and bools.
  [[nodiscard]] std::optional<int64_t> integer(PickleValue value) const {
    return value.is(PickleKind::kInteger) ? value.inline_integer() : other_integer(value);
  }
  /// Whole numbers of 64 bits with or without a sign, as addresses are written.
  [[nodiscard]] std::optional<uint64_t> address(PickleValue value) const;
  [[nodiscard]] std::optional<double> number(PickleValue value) const;

 private:
  template <class Sink>
  friend class PickleReader;
  struct Container {
    std::vector<PickleValue> items;
    PickleValue became;            ///< rows, where a sink took it after something else had referred to it
    uint32_t memo = UINT32_MAX;    ///< where the memo has it
    bool referred = false;         ///< by anything but the stack and that place of the memo
  };
  struct Wide {
    bool whole = false;
    int64_t integer = 0;   ///< of a longer one the lowest 64 bits
    double number = 0;
  };
  [[nodiscard]] std::optional<int64_t> other_integer(PickleValue value) const;
  PickleValue kept(int64_t x);
  PickleValue kept(double x);
  PickleValue kept(const Wide& wide);

  std::vector<Container> containers_ = std::vector<Container>(1);   ///< the first stands for empty ones that are gone
  std::vector<Wide> wide_;
  size_t values_ = 0;   ///< in all containers
};

struct PickleRead {
  PickleValue root;        ///< of a cut file as far as it was built
  bool cut = false;        ///< the text ends before the pickle does
  uint64_t bytes = 0;      ///< read
};

// What the reader's template shares.
namespace pickle {

/// "pickle opcode REDUCE at byte 12 would run code"; what it would import is named behind it.
Error refused(uint8_t opcode, uint64_t at, std::string_view name);
Error too_large(std::string_view what, uint64_t at);
Error damaged(std::string_view what, uint64_t at);
/// Of opcode LONG1 and LONG4: little-endian two's complement.
struct LongNumber {
  bool whole = true;   ///< within 64 bits
  int64_t integer = 0; ///< of a longer one the lowest 64 bits
  double number = 0;
};
LongNumber long_number(const unsigned char* bytes, size_t size);
double big_endian_double(const char* bytes);
/// The argument of the text opcodes of protocol 0 and 1.
std::string unquoted(std::string_view line);
std::string unescaped_unicode(std::string_view line);

/// The text in a window of which at least kAhead bytes are in memory, as far as there are any.
class Window {
 public:
  static constexpr size_t kAhead = 16;
  explicit Window(TextSource& from) : from_(from), buffer_(kSize) {}
  /// How many bytes are there, up to `wanted`.
  size_t ensure(size_t wanted) {
    const auto there = static_cast<size_t>(end_ - at_);
    return there >= wanted ? there : refill(wanted);
  }
  [[nodiscard]] const char* at() const { return at_; }
  void skip(size_t n) { at_ += n; }
  [[nodiscard]] uint64_t position() const { return read_ - static_cast<uint64_t>(end_ - at_); }

 private:
  static constexpr size_t kSize = size_t{1} << 18;
  size_t refill(size_t wanted);
  TextSource& from_;
  std::vector<char> buffer_;
  const char *at_ = nullptr, *end_ = nullptr;
  uint64_t read_ = 0;
  bool over_ = false;
};

template <class T>
T little_endian(const char* p) {
  T x;
  std::memcpy(&x, p, sizeof x);
  return x;
}

}  // namespace pickle

/// Reads one pickle of protocol 0 to 5. A sink has
///
///   uint32_t text(std::string_view);               the id of a text
///   std::string_view text_of(uint32_t id);
///   PickleValue dict(const PickleObjects&, PickleValue before, std::span<const PickleValue> keys_and_values);
///   PickleValue sequence(const PickleObjects&, PickleValue before, std::span<const PickleValue> items);
///
/// The last two get what came since the container was opened or, where that became rows already, `before`. They return
/// rows to take its place, or nothing: then it is kept. Rows among the items may stand for several, see count().
/// sequence() may be asked twice for the same items.
template <class Sink>
class PickleReader {
 public:
  PickleReader(TextSource& from, Sink& sink) : window_(from), sink_(sink) {}

  /// The error: it is no pickle of data. What comes behind its end is not read.
  Result<PickleRead> read() {
    for (;;) {
      if (window_.ensure(pickle::Window::kAhead) == 0) return as_far_as_built();
      switch (step()) {
        case Step::kGoOn: break;
        case Step::kStop: return PickleRead{objects_.resolved(pop()), false, window_.position()};
        case Step::kCut: return as_far_as_built();
        case Step::kFailed: return error_;
      }
    }
  }
  [[nodiscard]] const PickleObjects& objects() const { return objects_; }

 private:
  enum class Step : uint8_t { kGoOn, kStop, kCut, kFailed };
  using Value = PickleValue;
  using Container = PickleObjects::Container;

  Step step();
  /// `there`: bytes behind the opcode, as far as they matter.
  Step scalar(uint8_t op, uint64_t at, size_t there);
  Step of_old_protocols(uint8_t op, uint64_t at);

  Step fail(Error error) {
    error_ = std::move(error);
    return Step::kFailed;
  }
  Step damaged(std::string_view what) { return fail(pickle::damaged(what, window_.position())); }
  Step no_value() { return damaged("an opcode has nothing to work on"); }

  // Rows that follow those of `run` become part of it.
  static bool joins(Value& run, Value value) {
    if (!value.is(PickleKind::kRows) || !run.is_of(value.table())) return false;
    const bool follows = run.row() + run.count() == value.row();
    if (!follows || run.count() + value.count() > Value::kMaxRun) return false;
    run = Value::rows(run.table(), run.row(), run.count() + value.count());
    return true;
  }

  // The stack. Neighbors that are consecutive rows are one entry; a mark keeps them apart.
  [[nodiscard]] size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  Step push(Value value) {
    if (stack_.size() > floor() && joins(stack_.back(), value)) return Step::kGoOn;
    if (stack_.size() >= PickleLimits::kValues) return fail(pickle::too_large("more values", window_.position()));
    stack_.push_back(value);
    return Step::kGoOn;
  }
  [[nodiscard]] Value top() const {
    if (stack_.size() <= floor()) return {};
    const Value last = stack_.back();
    return last.is(PickleKind::kRows) ? Value::rows(last.table(), last.row() + last.count() - 1) : last;
  }
  Value pop() {
    const Value last = top();
    if (last.is_nothing()) return last;
    Value& below = stack_.back();
    if (last.is(PickleKind::kRows) && below.count() > 1)
      below = Value::rows(below.table(), below.row(), below.count() - 1);
    else stack_.pop_back();
    return last;
  }
  void replace_top(Value value) {
    pop();
    (void)push(value);
  }

  Step open(bool is_dict) {
    if (objects_.containers_.size() >= PickleLimits::kContainers)
      return fail(pickle::too_large("more lists and dicts", window_.position()));
    const auto index = static_cast<uint32_t>(objects_.containers_.size());
    objects_.containers_.emplace_back();
    return push(is_dict ? Value::dict(index) : Value::sequence(index));
  }
  // Of n values on top of the stack.
  Step tuple(size_t n) {
    if (stack_.size() - floor() == 0 && n > 0) return no_value();
    std::vector<Value>& items = scratch_;
    items.resize(n);
    for (size_t i = n; i-- > 0;)
      if ((items[i] = pop()).is_nothing()) return no_value();
    return sequence_of(items);
  }
  Step sequence_of(std::span<const Value> items) {
    const Value rows = sink_.sequence(objects_, Value(), items);
    if (!rows.is_nothing()) return push(rows);
    if (Step opened = open(false); opened != Step::kGoOn) return opened;
    return keep(objects_.containers_.back(), items, false);
  }
  Step keep(Container& container, std::span<const Value> items, bool is_dict) {
    // Python writes a long list in pieces of a thousand items.
    if (!is_dict && !items.empty() && !container.items.empty() && joins(container.items.back(), items.front()))
      items = items.subspan(1);
    objects_.values_ += items.size();
    if (objects_.values_ > PickleLimits::kValues) return fail(pickle::too_large("more values", window_.position()));
    for (const Value& item : items) refer(item);
    container.items.insert(container.items.end(), items.begin(), items.end());
    return Step::kGoOn;
  }
  void refer(Value value) {
    if (value.is(PickleKind::kSequence) || value.is(PickleKind::kDict))
      objects_.containers_[value.index()].referred = true;
  }

  // Puts items into a container, which may become rows.
  Step put(Value& container, std::span<const Value> items, bool is_dict) {
    container = objects_.resolved(container);
    if (items.empty()) return Step::kGoOn;
    const auto made = [&](Value before) {
      return is_dict ? sink_.dict(objects_, before, items) : sink_.sequence(objects_, before, items);
    };
    if (container.is(PickleKind::kRows)) {
      const Value rows = made(container);
      if (!rows.is_nothing()) container = rows;
      return Step::kGoOn;
    }
    if (!container.is(is_dict ? PickleKind::kDict : PickleKind::kSequence))
      return damaged("items go into something that holds none");
    Container& holds = objects_.containers_[container.index()];
    const Value rows = holds.items.empty() ? made(Value()) : Value();
    if (rows.is_nothing()) return keep(holds, items, is_dict);
    if (holds.memo != UINT32_MAX) memo_[holds.memo] = packed(rows);
    holds.became = rows;
    forget(container.index());
    container = rows;
    return Step::kGoOn;
  }
  // A container that became rows, and empty ones within it, if nothing refers to them.
  void forget(uint32_t index) {
    auto& all = objects_.containers_;
    while (all.size() > size_t{index} + 1 && !all.back().referred && all.back().items.empty()) {
      const Container& last = all.back();
      if (last.memo != UINT32_MAX && last.became.is_nothing()) memo_[last.memo] = packed(Value::sequence(0));
      all.pop_back();
    }
    if (all.size() == size_t{index} + 1 && !all.back().referred) all.pop_back();
  }
  // Into the container on top of the stack.
  Step fill(std::span<const Value> items, bool is_dict) {
    const Value before = top();
    Value container = before;
    const Step step = put(container, items, is_dict);
    if (step == Step::kGoOn && container != before) replace_top(container);
    return step;
  }
  // All above the innermost mark, which goes.
  Step fill_from_mark(bool is_dict) {
    if (marks_.empty()) return damaged("there is no mark");
    scratch_.assign(stack_.begin() + static_cast<ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    if (is_dict && !in_pairs(scratch_)) return damaged("a key has no value");
    return fill(scratch_, is_dict);
  }
  // Keys and values by turns?
  static bool in_pairs(std::vector<Value>& items) {
    const auto is_run = [](Value v) { return v.is(PickleKind::kRows) && v.count() > 1; };
    if (std::any_of(items.begin(), items.end(), is_run)) return false;   // no key is a row
    return items.size() % 2 == 0;
  }
  Step made_from_mark(bool is_dict) {
    if (marks_.empty()) return damaged("there is no mark");
    std::vector<Value> items(stack_.begin() + static_cast<ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    if (!is_dict) return sequence_of(items);
    if (!in_pairs(items)) return damaged("a key has no value");
    if (Step opened = open(true); opened != Step::kGoOn) return opened;
    return items.empty() ? Step::kGoOn : fill(items, true);
  }

  // The memo: four bytes each. What does not fit them is kept apart.
  static constexpr int kIndexBits = 28;
  static constexpr uint32_t kTextTag = 9;
  [[nodiscard]] uint32_t packed(Value value) {
    constexpr uint32_t kMask = (1U << kIndexBits) - 1;
    const auto with = [](uint32_t tag, uint32_t index) { return tag << kIndexBits | index; };
    // Tags 0 to 8 are tables of rows, whose numbers are mostly small.
    if (value.is(PickleKind::kRows) && value.table() <= 8 && value.row() < kMask) return with(value.table(), value.row());
    if (value.is(PickleKind::kText) && value.index() < kMask) return with(kTextTag, value.index());
    if (value.is(PickleKind::kSequence)) return with(10, value.index());
    if (value.is(PickleKind::kDict)) return with(11, value.index());
    apart_.push_back(value);
    return with(12, static_cast<uint32_t>(apart_.size() - 1));
  }
  [[nodiscard]] Value unpacked(uint32_t entry) const {
    const uint32_t tag = entry >> kIndexBits, index = entry & ((1U << kIndexBits) - 1);
    if (tag <= 8) return Value::rows(tag, index);
    if (tag == kTextTag) return Value::text(index);
    if (tag == 10) return Value::sequence(index);
    if (tag == 11) return Value::dict(index);
    return apart_[index];
  }
  static constexpr uint32_t kUnset = UINT32_MAX;
  Step memoize(uint64_t index) {
    const Value value = top();
    if (value.is_nothing()) return no_value();
    // Numbers in a memo are dense; one far ahead of the file's length is made up.
    if (index >= PickleLimits::kMemo || index > memo_.size() + window_.position())
      return fail(pickle::too_large("a larger memo", window_.position()));
    if (index >= memo_.size()) memo_.resize(index + 1, kUnset);
    memo_[index] = packed(value);
    if (value.is(PickleKind::kSequence) || value.is(PickleKind::kDict)) {
      Container& container = objects_.containers_[value.index()];
      if (container.memo != UINT32_MAX) container.referred = true;
      else container.memo = static_cast<uint32_t>(index);
    }
    return Step::kGoOn;
  }
  Step get(uint64_t index) {
    if (index >= memo_.size() || memo_[index] == kUnset) return damaged("the memo has no such entry");
    const Value value = objects_.resolved(unpacked(memo_[index]));
    refer(value);
    return push(value);
  }

  Step integer(int64_t x) {
    const bool fits = x <= Value::kMaxInline && x >= -Value::kMaxInline;
    return fits ? push(Value::small_integer(x)) : wide(x);
  }
  template <class Number>
  Step wide(Number x) {
    if (objects_.wide_.size() >= PickleLimits::kContainers)
      return fail(pickle::too_large("more floats and wide integers", window_.position()));
    return push(objects_.kept(x));
  }
  Step text(uint64_t size, size_t skipped) {
    if (size > PickleLimits::kTextBytes) return fail(pickle::too_large("a longer text", window_.position()));
    window_.skip(skipped);
    if (window_.ensure(size) < size) return Step::kCut;
    const Value value = Value::text(sink_.text({window_.at(), static_cast<size_t>(size)}));
    window_.skip(size);
    return push(value);
  }
  Step long_integer(uint64_t size, size_t skipped) {
    constexpr uint64_t kMaxBytes = 1 << 10;
    if (size > kMaxBytes) return fail(pickle::too_large("a longer number", window_.position()));
    window_.skip(skipped);
    if (window_.ensure(size) < size) return Step::kCut;
    const auto x = pickle::long_number(reinterpret_cast<const unsigned char*>(window_.at()), size);
    window_.skip(size);
    return x.whole ? integer(x.integer) : wide(PickleObjects::Wide{false, x.integer, x.number});
  }
  // Up to the end of the line, without it.
  std::optional<std::string> line() {
    std::string out;
    while (window_.ensure(1) > 0) {
      const char c = *window_.at();
      window_.skip(1);
      if (c == '\n') return out;
      if (out.size() >= PickleLimits::kTextBytes) break;
      out.push_back(c);
    }
    return std::nullopt;
  }
  Step refuse(uint8_t op, uint64_t at) {
    std::string name;
    if (op == 'c' || op == 'i') {
      const auto module = line(), what = line();
      if (module && what) name = *module + " " + *what;
    } else if (op == 0x93 && stack_.size() >= floor() + 2) {
      const Value what = pop(), module = pop();
      if (what.is(PickleKind::kText) && module.is(PickleKind::kText))
        name = std::string(sink_.text_of(module.index())) + " " + std::string(sink_.text_of(what.index()));
    }
    return fail(pickle::refused(op, at, name));
  }

  // Most of a large file are dicts of few members whose keys, texts and rows stand in the memo: read at once, they need
  // neither stack nor container. None: the dict that comes next is no such one, and nothing was read.
  std::optional<Step> small_dict() {
    constexpr size_t kAhead = 1024, kLongestArgument = 12, kMostMembers = 16;
    const size_t there = window_.ensure(kAhead);
    if (there <= kLongestArgument || memo_.size() + kAhead > PickleLimits::kMemo) return std::nullopt;
    const char *p = window_.at() + 1, *const end = window_.at() + there - kLongestArgument;
    const size_t memo = memo_.size();
    const auto give_up = [&] {
      memo_.resize(memo);
      return std::nullopt;
    };
    const bool kept = reserve_memo(p);
    if (*p++ != '(') return give_up();
    std::array<Value, 2 * kMostMembers> members;
    size_t n = 0;
    for (; p < end && *p != 'u'; n += 2) {
      if (n == members.size()) return give_up();
      members[n] = known(p);
      if (!members[n].is(PickleKind::kText) || p >= end) return give_up();
      members[n + 1] = *p == ']' ? known_rows(p, end) : small_value(p);
      if (members[n + 1].is_nothing()) return give_up();
    }
    if (p >= end || n == 0) return give_up();
    window_.skip(static_cast<size_t>(p + 1 - window_.at()));
    const std::span<const Value> items = std::span(members).first(n);
    const Value rows = sink_.dict(objects_, Value(), items);
    if (!rows.is_nothing()) {
      if (kept) memo_[memo] = packed(rows);
      return push(rows);
    }
    if (Step opened = open(true); opened != Step::kGoOn) return opened;
    Container& container = objects_.containers_.back();
    if (kept) memo_[memo] = packed(top()), container.memo = static_cast<uint32_t>(memo);
    return keep(container, items, true);
  }
  // The next place in the memo, if the opcode at `p` says so; it is set later.
  bool reserve_memo(const char*& p) {
    const char op = *p;
    if (op == '\x94') ++p;
    else if (op == 'q' && static_cast<uint8_t>(p[1]) == memo_.size()) p += 2;
    else if (op == 'r' && pickle::little_endian<uint32_t>(p + 1) == memo_.size()) p += 5;
    else return false;
    memo_.push_back(kUnset);
    return true;
  }
  // A text or a row that the memo has; else nothing.
  Value known(const char*& p) {
    uint32_t index = 0;
    if (*p == 'h') index = static_cast<uint8_t>(p[1]), p += 2;
    else if (*p == 'j') index = pickle::little_endian<uint32_t>(p + 1), p += 5;
    else return {};
    if (index >= memo_.size() || memo_[index] >> kIndexBits > kTextTag) return {};
    return unpacked(memo_[index]);
  }
  // A list of rows that the memo has, as the sink's rows; else nothing.
  Value known_rows(const char*& p, const char* end) {
    const size_t place = memo_.size();
    const bool kept = reserve_memo(++p);
    if (*p++ != '(') return {};
    scratch_.clear();
    while (p < end && *p != 'e') {
      const Value item = known(p);
      if (!item.is(PickleKind::kRows)) return {};
      scratch_.push_back(item);
    }
    if (p++ >= end || scratch_.empty()) return {};
    const Value rows = sink_.sequence(objects_, Value(), scratch_);
    if (kept && !rows.is_nothing()) memo_[place] = packed(rows);
    return rows;
  }
  Value small_value(const char*& p) {
    const char* const argument = p + 1;
    switch (static_cast<uint8_t>(*p)) {
      case 'K': p += 2; return Value::small_integer(static_cast<uint8_t>(*argument));
      case 'M': p += 3; return Value::small_integer(pickle::little_endian<uint16_t>(argument));
      case 'J': p += 5; return Value::small_integer(pickle::little_endian<int32_t>(argument));
      case 'N': ++p; return Value::none();
      case 0x88: ++p; return Value::boolean(true);
      case 0x89: ++p; return Value::boolean(false);
      case 0x8a: {   // LONG1
        const auto bytes = static_cast<uint8_t>(*argument);
        if (bytes == 0 || bytes > 8) return {};
        const int unused = 64 - 8 * bytes;
        const int64_t x = static_cast<int64_t>(pickle::little_endian<uint64_t>(argument + 1) << unused) >> unused;
        p += 2 + bytes;
        return x <= Value::kMaxInline && x >= -Value::kMaxInline ? Value::small_integer(x) : Value();
      }
      default: return known(p);
    }
  }

  // Closes what is open, from the innermost container on; a dict's last key without value goes.
  PickleRead as_far_as_built() {
    PickleRead read{{}, true, window_.position()};
    while (!marks_.empty()) {
      const size_t mark = marks_.back();
      const Value below = mark > 0 ? objects_.resolved(stack_[mark - 1]) : Value();
      const bool is_dict = below.is(PickleKind::kDict);
      if (is_dict) settle_members(mark);
      const bool holds = is_dict || below.is(PickleKind::kSequence) || below.is(PickleKind::kRows);
      if (holds && fill_from_mark(is_dict) == Step::kGoOn) continue;
      if (!holds) marks_.pop_back();
      stack_.resize(std::min(stack_.size(), mark));
    }
    if (!stack_.empty()) read.root = objects_.resolved(stack_.front());
    return read;
  }

  // Of a dict that is not complete: its keys are texts, so what follows a value and is none goes into that value, or
  // into what is between.
  void settle_members(size_t mark) {
    size_t settled = mark;
    while (settled + 1 < stack_.size() && stack_[settled].is(PickleKind::kText)) {
      size_t next = settled + 2;
      while (next < stack_.size() && !stack_[next].is(PickleKind::kText)) ++next;
      for (size_t i = next; i-- > settled + 2;) {
        const Value item = stack_[i];
        if (put(stack_[i - 1], {&item, 1}, false) != Step::kGoOn) break;
      }
      const auto begin = stack_.begin() + static_cast<ptrdiff_t>(settled);
      stack_.erase(begin + 2, begin + static_cast<ptrdiff_t>(next - settled));
      settled += 2;
    }
    stack_.resize(std::min(settled, stack_.size()));
  }

  pickle::Window window_;
  Sink& sink_;
  PickleObjects objects_;
  std::vector<Value> stack_;
  std::vector<size_t> marks_;     ///< sizes of the stack
  std::vector<Value> scratch_;
  std::vector<uint32_t> memo_;
  std::vector<Value> apart_;      ///< of the memo
  Error error_;
};

template <class Sink>
typename PickleReader<Sink>::Step PickleReader<Sink>::step() {
  const char* p = window_.at();
  const uint64_t at = window_.position();
  const auto op = static_cast<uint8_t>(*p);
  // Arguments of fixed size are within kAhead bytes, unless the text ends there.
  const size_t there = window_.ensure(1) - 1;
  const auto has = [&](size_t n) { return there >= n; };
  const auto take = [&](size_t n) { window_.skip(1 + n); };
  switch (op) {
    case 'h':   // BINGET
      if (!has(1)) return Step::kCut;
      take(1);
      return get(static_cast<uint8_t>(p[1]));
    case 'j':   // LONG_BINGET
      if (!has(4)) return Step::kCut;
      take(4);
      return get(pickle::little_endian<uint32_t>(p + 1));
    case 0x94:  // MEMOIZE
      take(0);
      return memoize(memo_.size());
    case 'q':   // BINPUT
      if (!has(1)) return Step::kCut;
      take(1);
      return memoize(static_cast<uint8_t>(p[1]));
    case 'r':   // LONG_BINPUT
      if (!has(4)) return Step::kCut;
      take(4);
      return memoize(pickle::little_endian<uint32_t>(p + 1));
    case '(':   // MARK
      take(0);
      if (marks_.size() >= PickleLimits::kDepth) return fail(pickle::too_large("deeper nesting", at));
      marks_.push_back(stack_.size());
      return Step::kGoOn;
    case '}':   // EMPTY_DICT
      if (const auto done = small_dict()) return *done;
      take(0);
      return open(true);
    case ']': take(0); return open(false);   // EMPTY_LIST
    case 'u': take(0); return fill_from_mark(true);    // SETITEMS
    case 'e': take(0); return fill_from_mark(false);   // APPENDS
    case 's': {  // SETITEM
      take(0);
      const Value value = pop(), key = pop();
      if (value.is_nothing() || key.is_nothing()) return no_value();
      const Value pair[2] = {key, value};
      return fill(pair, true);
    }
    case 'a': {  // APPEND
      take(0);
      const Value value = pop();
      if (value.is_nothing()) return no_value();
      return fill({&value, 1}, false);
    }
    case ')': take(0); return tuple(0);      // EMPTY_TUPLE
    case 0x85: take(0); return tuple(1);     // TUPLE1
    case 0x86: take(0); return tuple(2);     // TUPLE2
    case 0x87: take(0); return tuple(3);     // TUPLE3
    case 't':                                // TUPLE
    case 'l': take(0); return made_from_mark(false);   // LIST
    case 'd': take(0); return made_from_mark(true);     // DICT
    case 0x80: {  // PROTO
      if (!has(1)) return Step::kCut;
      take(1);
      constexpr uint8_t kNewest = 5;
      if (static_cast<uint8_t>(p[1]) > kNewest)
        return damaged("protocol " + std::to_string(static_cast<uint8_t>(p[1])) + " is newer than 5");
      return Step::kGoOn;
    }
    case 0x95:  // FRAME
      if (!has(8)) return Step::kCut;
      take(8);
      return Step::kGoOn;
    case '.':   // STOP
      take(0);
      return top().is_nothing() ? no_value() : Step::kStop;
    default: return scalar(op, at, there);
  }
}

template <class Sink>
typename PickleReader<Sink>::Step PickleReader<Sink>::scalar(uint8_t op, uint64_t at, size_t there) {
  const char* p = window_.at();
  const auto has = [&](size_t n) { return there >= n; };
  const auto take = [&](size_t n) { window_.skip(1 + n); };
  switch (op) {
    case 'K':   // BININT1
      if (!has(1)) return Step::kCut;
      take(1);
      return integer(static_cast<uint8_t>(p[1]));
    case 'M':   // BININT2
      if (!has(2)) return Step::kCut;
      take(2);
      return integer(pickle::little_endian<uint16_t>(p + 1));
    case 'J':   // BININT
      if (!has(4)) return Step::kCut;
      take(4);
      return integer(pickle::little_endian<int32_t>(p + 1));
    case 0x8a:  // LONG1
      if (!has(1)) return Step::kCut;
      return long_integer(static_cast<uint8_t>(p[1]), 2);
    case 0x8b:  // LONG4
      if (!has(4)) return Step::kCut;
      return long_integer(pickle::little_endian<uint32_t>(p + 1), 5);
    case 'G': {  // BINFLOAT
      if (!has(8)) return Step::kCut;
      take(8);
      return wide(pickle::big_endian_double(p + 1));
    }
    case 0x8c:  // SHORT_BINUNICODE
    case 'U':   // SHORT_BINSTRING
      if (!has(1)) return Step::kCut;
      return text(static_cast<uint8_t>(p[1]), 2);
    case 'X':   // BINUNICODE
    case 'T':   // BINSTRING
      if (!has(4)) return Step::kCut;
      return text(pickle::little_endian<uint32_t>(p + 1), 5);
    case 0x8d:  // BINUNICODE8
      if (!has(8)) return Step::kCut;
      return text(pickle::little_endian<uint64_t>(p + 1), 9);
    case 'N': take(0); return push(Value::none());            // NONE
    case 0x88: take(0); return push(Value::boolean(true));    // NEWTRUE
    case 0x89: take(0); return push(Value::boolean(false));   // NEWFALSE
    default: take(0); return of_old_protocols(op, at);
  }
}

template <class Sink>
typename PickleReader<Sink>::Step PickleReader<Sink>::of_old_protocols(uint8_t op, uint64_t at) {
  switch (op) {
    case '0': return pop().is_nothing() ? no_value() : Step::kGoOn;   // POP
    case '1':                                                         // POP_MARK
      if (marks_.empty()) return damaged("there is no mark");
      stack_.resize(marks_.back());
      marks_.pop_back();
      return Step::kGoOn;
    case '2': {   // DUP
      const Value value = top();
      refer(value);
      return value.is_nothing() ? no_value() : push(value);
    }
    case 'I': case 'L': case 'F': case 'S': case 'V': case 'g': case 'p': break;
    default: return refuse(op, at);
  }
  const auto argument = line();
  if (!argument) return Step::kCut;
  if (op == 'S') return push(Value::text(sink_.text(pickle::unquoted(*argument))));
  if (op == 'V') return push(Value::text(sink_.text(pickle::unescaped_unicode(*argument))));
  if (op == 'I' && (*argument == "00" || *argument == "01")) return push(Value::boolean(*argument == "01"));
  char* end = nullptr;
  if (op == 'F') {
    const double x = std::strtod(argument->c_str(), &end);
    return end == argument->c_str() ? damaged("a number is expected") : wide(x);
  }
  errno = 0;
  const long long x = std::strtoll(argument->c_str(), &end, 10);
  if (end == argument->c_str()) return damaged("a number is expected");
  if (op == 'g' || op == 'p') {
    if (x < 0) return damaged("the memo has no such entry");
    return op == 'g' ? get(static_cast<uint64_t>(x)) : memoize(static_cast<uint64_t>(x));
  }
  return errno == 0 ? integer(x) : wide(std::strtod(argument->c_str(), nullptr));
}

}  // namespace profgpu
