#include "trace/import/recording_payloads.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "base/json_quoted.h"
#include "base/text.h"

namespace profgpu {
namespace {

using wire::PayloadField;
using wire::SchemaKind;
using Layouts = std::map<std::pair<std::string_view, uint64_t>, PayloadLayout>;

// NVTX_PAYLOAD_ENTRY_TYPE_* with rules of their own, and NVTX_TYPE_PAYLOAD_SCHEMA_*.
constexpr uint64_t kPayloadAddress = 23, kPayloadByte = 32, kPayloadText = 75, kPayloadTextUtf8 = 76;
constexpr uint64_t kPayloadSelector = 100;      // which of a union's fields it is
constexpr uint64_t kPayloadReferenced = 1022;   // a payload that others point into
constexpr uint64_t kPayloadRaw = 1023;          // bytes without a layout

constexpr size_t kMaxSchemas = 4096, kMaxFields = 256;
constexpr int kMaxShown = 256;          // values of one event
constexpr size_t kLongestName = 200, kLongestText = 16 << 10;   // bytes
constexpr int kHighest = 8, kCircle = std::numeric_limits<int>::max() / 2;

// NVTX_PAYLOAD_ENTRY_FLAG_*.
constexpr uint64_t kElsewhere = 7 << 1;  // an address of the value, or an offset to it
constexpr uint64_t kArrayShift = 4, kArrayMask = 7;
enum Array : uint64_t { kNoArray = 0, kFixed = 1, kZeroTerminated = 2, kLengthInField = 3 };
constexpr uint64_t kHidden = 1 << 9, kMessage = 1 << 10;
constexpr size_t kAddressBytes = 8;

// Sizes are those of Linux on 64 bits.
enum class Form : uint8_t { kUnknown, kSigned, kUnsigned, kFloat, kDouble, kCharacter, kAddress, kBytes };
struct Type {
  Form form = Form::kUnknown;
  uint8_t bytes = 0;
};

// By NVTX_PAYLOAD_ENTRY_TYPE_*: 1 to 10 are C's integers from char to unsigned long long, 11 to 18 those with a size.
Type type_of(uint64_t number) {
  constexpr Type kBasic[] = {
      {},                   {Form::kCharacter, 1}, {Form::kUnsigned, 1}, {Form::kSigned, 2},   {Form::kUnsigned, 2},
      {Form::kSigned, 4},   {Form::kUnsigned, 4},  {Form::kSigned, 8},   {Form::kUnsigned, 8}, {Form::kSigned, 8},
      {Form::kUnsigned, 8}, {Form::kSigned, 1},    {Form::kUnsigned, 1}, {Form::kSigned, 2},   {Form::kUnsigned, 2},
      {Form::kSigned, 4},   {Form::kUnsigned, 4},  {Form::kSigned, 8},   {Form::kUnsigned, 8}, {Form::kFloat, 4},
      {Form::kDouble, 8},   {Form::kBytes, 16},    {Form::kUnsigned, 8}, {Form::kAddress, 8},  {Form::kUnsigned, 4},
      {Form::kCharacter, 1}, {Form::kUnsigned, 2}, {Form::kUnsigned, 4}};
  if (number < std::size(kBasic)) return kBasic[number];
  switch (number) {
    case 32: return {Form::kBytes, 1};
    case 33: case 34: case 45: return {Form::kBytes, 16};   // integers and floats of 128 bits
    case 42: case 50: return {Form::kBytes, 2};             // half floats
    case 43: return {Form::kFloat, 4};
    case 44: return {Form::kDouble, 8};
    case 68: return {Form::kUnsigned, 4};                   // category
    case 69: return {Form::kAddress, 4};                    // colour
    case 70: return {Form::kUnsigned, 8};                   // scope
    case 71: case 73: return {Form::kUnsigned, 4};          // process, thread
    case 72: case 74: return {Form::kUnsigned, 8};
    case 80: return {Form::kAddress, 8};                    // a registered string's handle
    case kPayloadSelector: return {Form::kUnsigned, 1};     // as CUPTI's sample reads it
    default: return {};
  }
}

template <class Float>
std::string float_text(std::string_view bytes) {
  Float value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  return std::isfinite(value) ? fmt::format("{}", value) : fmt::format("\"{}\"", value);
}

// Bytes, which is the type's alignment too; 0: it is not known.
size_t size_of(uint64_t type) { return type_of(type).bytes; }

// Lowest byte first; ignores those behind the eighth.
uint64_t unsigned_of(std::string_view bytes) {
  uint64_t value = 0;
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
  return value;
}

// Hexadecimal, lowest address first, as a JSON string.
std::string hex_text(std::string_view bytes) {
  std::string text = "\"0x";
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text + '"';
}

// As JSON. `bytes` has as many as the type.
std::string value_text(uint64_t type, std::string_view bytes) {
  const uint64_t value = unsigned_of(bytes);
  switch (type_of(type).form) {
    case Form::kSigned: {
      const unsigned unused = 64 - 8 * static_cast<unsigned>(bytes.size());
      return fmt::format("{}", static_cast<int64_t>(value << unused) >> unused);
    }
    case Form::kUnsigned: return fmt::format("{}", value);
    case Form::kFloat: return float_text<float>(bytes);
    case Form::kDouble: return float_text<double>(bytes);
    case Form::kCharacter: return json_quoted(bytes.substr(0, bytes.find('\0')));
    case Form::kAddress: return fmt::format("\"0x{:x}\"", value);
    case Form::kBytes:
    case Form::kUnknown: break;
  }
  return hex_text(bytes);
}

}  // namespace

size_t payload_type_size(uint64_t type) { return size_of(type); }

uint64_t payload_unsigned(std::string_view bytes) { return unsigned_of(bytes); }

std::string payload_value(uint64_t type, std::string_view bytes) { return value_text(type, bytes); }

namespace {

// A whole number that is not negative; nullopt for other types and values.
std::optional<uint64_t> count_in(uint64_t type, std::string_view bytes) {
  const Type t = type_of(type);
  if ((t.form != Form::kSigned && t.form != Form::kUnsigned) || bytes.size() < t.bytes) return std::nullopt;
  const uint64_t value = unsigned_of(bytes.substr(0, t.bytes));
  if (t.form == Form::kSigned && (value >> (8 * t.bytes - 1)) != 0) return std::nullopt;
  return value;
}

size_t rounded_up(size_t bytes, size_t align) { return (bytes + align - 1) / align * align; }

bool is_union(const PayloadLayout& layout) {
  return layout.schema.kind == SchemaKind::kUnion || layout.schema.kind == SchemaKind::kOwnUnion;
}
uint64_t array_of(const PayloadField& f) { return f.flags >> kArrayShift & kArrayMask; }
bool is_text(uint64_t type) { return type == kPayloadText || type == kPayloadTextUtf8; }

std::string enumerator(const RecordingFile& file, const PayloadLayout& names, std::string_view bytes) {
  const uint64_t value = unsigned_of(bytes);
  const uint64_t mask = bytes.size() >= sizeof value ? ~uint64_t{0} : (uint64_t{1} << (8 * bytes.size())) - 1;
  std::string flags;
  uint64_t rest = value;
  for (const PayloadField& f : names.fields) {
    if (value == (f.offset & mask)) return json_quoted(file.strings[f.name]);
    if (f.flags == 0 || (rest & f.offset) == 0 || (value & f.offset) != f.offset) continue;
    append_listed(flags, file.strings[f.name], "|");
    rest &= ~f.offset;
  }
  return rest == 0 && !flags.empty() ? json_quoted(flags) : std::to_string(value);
}

/// Writes the payloads of one event as text.
class EventPayloads {
 public:
  EventPayloads(const RecordingFile& file, const Layouts& layouts, PayloadText& out)
      : file_(file), layouts_(layouts), out_(out) {}

  void add(const wire::PayloadRef& payload);
  [[nodiscard]] int64_t left_out() const { return left_out_; }

 private:
  // A structure at the start of `data`, which reaches to the end of the payload.
  struct Structure {
    const PayloadLayout& layout;
    std::string_view data;
    std::string prefix;
    std::vector<std::optional<size_t>> begins;   // of the fields so far
  };
  using Taken = std::optional<size_t>;           // bytes; nothing: not known

  [[nodiscard]] const PayloadLayout* layout(uint64_t number) const {
    const auto it = layouts_.find({domain_, number});
    return it != layouts_.end() && it->second.height <= kHighest ? &it->second : nullptr;
  }
  static Taken whole_size(const PayloadLayout& layout, Taken fields) {
    if (layout.schema.size > 0) return layout.schema.size;
    return fields ? Taken(rounded_up(*fields, layout.align)) : std::nullopt;
  }
  // `chosen`: index of a union's field, if the structure around it has one.
  Taken structure(const PayloadLayout& layout, std::string_view data, const std::string& prefix, Taken chosen = {});
  Taken one_of(const PayloadLayout& layout, std::string_view data, const std::string& prefix, Taken chosen);
  Taken field(const Structure& in, const PayloadField& f, std::string_view data);
  Taken address(const Structure& in, const PayloadField& f, std::string_view data);
  Taken text(const Structure& in, const PayloadField& f, std::string_view data);
  Taken structures(const Structure& in, const PayloadField& f, std::string_view data, const PayloadLayout& nested);
  Taken unshown_size(const PayloadLayout& layout, std::string_view data);
  Taken values(const Structure& in, const PayloadField& f, std::string_view data, const PayloadLayout* enumeration);
  [[nodiscard]] Taken number_of(uint64_t type, std::string_view bytes) const;
  [[nodiscard]] Taken number_beside(const Structure& in, const PayloadField& f) const;
  // Elements of an array that states how many it has.
  [[nodiscard]] Taken stated_count(const Structure& in, const PayloadField& f) const {
    const uint64_t array = array_of(f);
    return array == kFixed ? Taken(f.detail) : array == kLengthInField ? number_beside(in, f) : std::nullopt;
  }
  [[nodiscard]] size_t align_of(const PayloadField& f) const;
  [[nodiscard]] std::string name_of(const Structure& in, const PayloadField& f) const {
    const std::string_view name = file_.strings[f.name].substr(0, kLongestName);
    return in.prefix + (name.empty() ? "field " + std::to_string(f.place) : std::string(name));
  }
  void say(const std::string& name, const std::string& json) {
    if (unshown_ > 0) return;
    if (shown_ == kMaxShown || out_.members.size() + name.size() + json.size() > kLongestText) {
      ++left_out_;
      return;
    }
    ++shown_;
    const int uses = ++uses_[name];
    if (!out_.members.empty()) out_.members += ", ";
    append_json_quoted(out_.members, uses == 1 ? name : fmt::format("{} ({})", name, uses));
    out_.members += ": " + json;
  }
  Taken leave_out(Taken taken) { return left_out_ += unshown_ == 0, taken; }

  const RecordingFile& file_;
  const Layouts& layouts_;
  PayloadText& out_;
  std::string_view domain_;
  std::map<std::string, int> uses_;   // of a name
  int shown_ = 0;
  int unshown_ = 0;                   // levels that are walked for their size alone
  int64_t looks_ = 0;                 // at fields, that are left
  int64_t left_out_ = 0;
};

void EventPayloads::add(const wire::PayloadRef& payload) {
  domain_ = file_.strings[payload.domain];
  looks_ = 4 * int64_t{payload.length} + 16;
  const std::string_view data(payload.text, payload.length);
  if (payload.schema == kPayloadReferenced) return;
  if (payload.schema == kPayloadRaw) return say("payload", hex_text(data));
  if (is_text(payload.schema)) return say("payload", json_quoted(data.substr(0, data.find('\0'))));
  if (const size_t bytes = size_of(payload.schema); bytes > 0 && data.size() >= bytes)
    return say("payload", value_text(payload.schema, data.substr(0, bytes)));
  const PayloadLayout* const known = layout(payload.schema);
  if (known == nullptr) {
    ++left_out_;
    if (!data.empty()) say("payload", hex_text(data));
  } else if (known->schema.kind == SchemaKind::kEnumeration) {
    say("payload", enumerator(file_, *known, data.substr(0, known->schema.size)));
  } else {
    structure(*known, data, "");
  }
}

EventPayloads::Taken EventPayloads::structure(const PayloadLayout& layout, std::string_view data,
                                              const std::string& prefix, Taken chosen) {
  if (is_union(layout)) return one_of(layout, data, prefix, chosen);
  Structure in{layout, data, prefix, {}};
  Taken next = 0;
  for (const PayloadField& f : layout.fields) {
    // Bounds the work: fields without bytes would let a few schemas cause a lot of it.
    if (--looks_ < 0) return leave_out(std::nullopt);
    const size_t align = layout.schema.pack > 0 ? std::min<size_t>(align_of(f), layout.schema.pack) : align_of(f);
    Taken begin = next ? Taken(rounded_up(*next, align)) : std::nullopt;
    if (f.offset > 0 || f.place == 0) begin = f.offset;
    in.begins.push_back(begin && *begin < data.size() ? begin : std::nullopt);
    const Taken taken = in.begins.back() ? field(in, f, data.substr(*begin)) : leave_out(std::nullopt);
    next = taken && *taken <= data.size() - *begin ? Taken(*begin + *taken) : std::nullopt;
  }
  return whole_size(layout, next);
}

// The chosen field; all of them, if nothing selects one.
EventPayloads::Taken EventPayloads::one_of(const PayloadLayout& layout, std::string_view data,
                                           const std::string& prefix, Taken chosen) {
  const auto selects = [](const PayloadField& f) { return f.type == kPayloadSelector; };
  const auto selector = std::find_if(layout.fields.begin(), layout.fields.end(), selects);
  if (selector != layout.fields.end() && selector->offset < data.size())
    chosen = number_of(selector->type, data.substr(selector->offset));
  const auto is_shown = [&](const PayloadField& f) { return !selects(f) && (!chosen || f.place == *chosen); };
  if (std::none_of(layout.fields.begin(), layout.fields.end(), is_shown)) leave_out(std::nullopt);
  Structure in{layout, data, prefix, {}};
  Taken bytes = 0;
  for (const PayloadField& f : layout.fields) {
    if (--looks_ < 0) return leave_out(std::nullopt);
    const bool shown = is_shown(f);
    unshown_ += shown ? 0 : 1;
    in.begins.push_back(f.offset < data.size() ? Taken(f.offset) : std::nullopt);
    const Taken taken = in.begins.back() ? field(in, f, data.substr(f.offset)) : leave_out(std::nullopt);
    unshown_ -= shown ? 0 : 1;
    const bool fits = taken && *taken <= data.size() - f.offset;
    bytes = bytes && fits ? Taken(std::max<size_t>(*bytes, f.offset + *taken)) : std::nullopt;
  }
  return whole_size(layout, bytes);
}

EventPayloads::Taken EventPayloads::field(const Structure& in, const PayloadField& f, std::string_view data) {
  if ((f.flags & kElsewhere) != 0) return address(in, f, data);
  if (is_text(f.type)) return text(in, f, data);
  const bool basic = size_of(f.type) > 0;
  const PayloadLayout* const nested = basic ? nullptr : layout(f.type);
  if (!basic && nested == nullptr) return leave_out(std::nullopt);
  if (basic || nested->schema.kind == SchemaKind::kEnumeration) return values(in, f, data, nested);
  const bool hidden = (f.flags & kHidden) != 0;
  unshown_ += hidden ? 1 : 0;
  const bool alone = array_of(f) == kNoArray, chosen_here = alone && nested->schema.kind == SchemaKind::kUnion;
  const Taken taken = alone ? structure(*nested, data, name_of(in, f) + ".",
                                        chosen_here ? number_beside(in, f) : std::nullopt)
                            : structures(in, f, data, *nested);
  unshown_ -= hidden ? 1 : 0;
  return taken;
}

// The target of the address was not recorded.
EventPayloads::Taken EventPayloads::address(const Structure& in, const PayloadField& f, std::string_view data) {
  if (data.size() < kAddressBytes) return leave_out(std::nullopt);
  if ((f.flags & (kHidden | kMessage)) == 0)
    say(name_of(in, f), value_text(kPayloadAddress, data.substr(0, kAddressBytes)));
  return kAddressBytes;
}

EventPayloads::Taken EventPayloads::text(const Structure& in, const PayloadField& f, std::string_view data) {
  const uint64_t array = array_of(f);
  if (array == kNoArray && f.detail == 0) return address(in, f, data);
  const size_t end = data.find('\0');
  Taken taken = array == kNoArray ? Taken(f.detail) : stated_count(in, f);
  if (array == kZeroTerminated && end != data.npos) taken = end + 1;
  if (!taken || *taken > data.size()) return leave_out(std::nullopt);
  const std::string_view value = data.substr(0, std::min(*taken, end));
  if ((f.flags & kMessage) == 0) {
    if ((f.flags & kHidden) == 0) say(name_of(in, f), json_quoted(value));
  } else if (unshown_ == 0) {
    out_.message = value;
  }
  return taken;
}

EventPayloads::Taken EventPayloads::number_of(uint64_t type, std::string_view bytes) const {
  if (size_of(type) > 0) return count_in(type, bytes);
  const PayloadLayout* const known = layout(type);
  const size_t size = known != nullptr && known->schema.kind == SchemaKind::kEnumeration ? known->schema.size : 0;
  if (size == 0 || size > sizeof(uint64_t) || size > bytes.size()) return std::nullopt;
  return unsigned_of(bytes.substr(0, size));
}

// The value of the field of the same structure that has the length of `f`, or the index of its union's field.
EventPayloads::Taken EventPayloads::number_beside(const Structure& in, const PayloadField& f) const {
  for (size_t i = 0; i < in.layout.fields.size(); ++i) {
    const PayloadField& other = in.layout.fields[i];
    if (other.place != f.detail || &other == &f || array_of(other) != kNoArray || (other.flags & kElsewhere) != 0)
      continue;
    const Taken begin = i < in.begins.size() ? in.begins[i] : other.offset > 0 ? Taken(other.offset) : std::nullopt;
    if (begin && *begin < in.data.size()) return number_of(other.type, in.data.substr(*begin));
  }
  return std::nullopt;
}

EventPayloads::Taken EventPayloads::unshown_size(const PayloadLayout& layout, std::string_view data) {
  if (layout.schema.size > 0) return layout.schema.size;
  ++unshown_;
  const Taken taken = structure(layout, data, "");
  --unshown_;
  return taken;
}

// One after the other, up to the end of the data.
EventPayloads::Taken EventPayloads::structures(const Structure& in, const PayloadField& f, std::string_view data,
                                               const PayloadLayout& nested) {
  const uint64_t array = array_of(f);
  const Taken count = array == kZeroTerminated ? Taken(data.size() + 1) : stated_count(in, f);
  if (!count) return leave_out(std::nullopt);
  const std::string name = name_of(in, f);
  size_t at = 0;
  for (size_t i = 0; i < *count; ++i) {
    if (at >= data.size() || --looks_ < 0) return leave_out(std::nullopt);
    const std::string_view rest = data.substr(at);
    Taken taken = array == kZeroTerminated ? unshown_size(nested, rest) : std::nullopt;
    if (taken && *taken <= rest.size() && rest.substr(0, *taken).find_first_not_of('\0') == rest.npos)
      return at + *taken;
    taken = structure(nested, rest, fmt::format("{}[{}].", name, i));
    if (!taken || *taken == 0 || *taken > rest.size()) return i + 1 < *count ? leave_out(std::nullopt) : taken;
    at += *taken;
  }
  return at;
}

EventPayloads::Taken EventPayloads::values(const Structure& in, const PayloadField& f, std::string_view data,
                                           const PayloadLayout* enumeration) {
  const uint64_t array = array_of(f);
  const size_t element = enumeration != nullptr ? enumeration->schema.size : size_of(f.type);
  Taken count = array == kNoArray ? Taken(1) : stated_count(in, f);
  if (array == kZeroTerminated) {
    count = 0;
    while ((*count + 1) * element <= data.size() &&
           data.substr(*count * element, element).find_first_not_of('\0') != data.npos)
      ++*count;
  }
  // A wrong length, or truncated data.
  if (!count || element == 0 || *count > data.size() / element) return leave_out(std::nullopt);
  const size_t taken = (*count + (array == kZeroTerminated ? 1 : 0)) * element;
  if ((f.flags & kHidden) != 0 || unshown_ > 0) return taken;
  const std::string name = name_of(in, f);
  const auto one = [&](size_t i) {
    const std::string_view bytes = data.substr(i * element, element);
    return enumeration != nullptr ? enumerator(file_, *enumeration, bytes) : value_text(f.type, bytes);
  };
  if (array == kNoArray) {
    say(name, one(0));
  } else if (type_of(f.type).form == Form::kCharacter) {
    say(name, value_text(f.type, data.substr(0, *count)));
  } else if (f.type == kPayloadByte) {
    say(name, hex_text(data.substr(0, *count)));
  } else {
    std::string all = "[";
    for (size_t i = 0; i < *count; ++i) all += (i > 0 ? ", " : "") + one(i);
    say(name, all + "]");
  }
  return taken;
}

size_t EventPayloads::align_of(const PayloadField& f) const {
  if ((f.flags & kElsewhere) != 0) return kAddressBytes;
  if (is_text(f.type)) return f.detail == 0 && array_of(f) == kNoArray ? kAddressBytes : 1;
  if (const size_t bytes = size_of(f.type); bytes > 0) return bytes;
  const PayloadLayout* const nested = layout(f.type);
  return nested != nullptr ? nested->align : 1;
}

}  // namespace

// Computes alignments and heights from the inside out; a schema within itself has no end.
void PayloadDecoder::measure(PayloadLayout& layout) {
  if (layout.height != 0) return;
  layout.height = kCircle;
  int inside = 0;
  size_t align = 1;
  if (layout.schema.kind == SchemaKind::kEnumeration) {
    align = layout.schema.size;
  } else {
    for (const PayloadField& f : layout.fields) {
      if ((f.flags & kElsewhere) != 0) {
        align = std::max(align, kAddressBytes);
      } else if (const size_t bytes = size_of(f.type); bytes > 0) {
        align = std::max(align, bytes);
      } else if (const auto it = layouts_.find({file_.strings[layout.schema.domain], f.type}); it != layouts_.end()) {
        measure(it->second);
        inside = std::max(inside, it->second.height);
        align = std::max(align, it->second.align);
      }
    }
  }
  constexpr size_t kWidest = 16;
  layout.align = std::clamp<size_t>(align, 1, kWidest);
  if (layout.schema.pack > 0) layout.align = std::min<size_t>(layout.align, layout.schema.pack);
  layout.height = std::min(inside + 1, kCircle);
}

PayloadDecoder::PayloadDecoder(const RecordingFile& file) : file_(file) {
  std::vector<PayloadLayout*> by_id(std::min(file.schemas.size(), kMaxSchemas + 1));
  for (size_t id = 1; id < by_id.size(); ++id) {
    const wire::PayloadSchema& schema = file.schemas[static_cast<uint32_t>(id)];
    if (schema.id == 0) continue;
    PayloadLayout& layout = layouts_[{file.strings[schema.domain], schema.schema}];
    layout = {schema, {}};
    by_id[id] = &layout;
  }
  for (const PayloadField& f : file.schema_fields)
    if (f.of < by_id.size() && by_id[f.of] != nullptr && by_id[f.of]->schema.id == f.of &&
        by_id[f.of]->fields.size() < kMaxFields)
      by_id[f.of]->fields.push_back(f);
  for (auto& [key, layout] : layouts_)
    std::stable_sort(layout.fields.begin(), layout.fields.end(),
                     [](const PayloadField& a, const PayloadField& b) { return a.place < b.place; });
  for (auto& [key, layout] : layouts_) measure(layout);
  for (const wire::PayloadRef& p : file.payloads) by_event_.emplace_back(p.event, &p);
  std::stable_sort(by_event_.begin(), by_event_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
}

PayloadText PayloadDecoder::of(const wire::RangeEvent& event) {
  PayloadText out;
  if (event.payload_type == wire::PayloadType::kInteger)
    out.members = fmt::format("\"payload\": {}", static_cast<int64_t>(event.payload));
  if (event.payload_type == wire::PayloadType::kDouble)
    out.members = fmt::format(
        "\"payload\": {}", float_text<double>({reinterpret_cast<const char*>(&event.payload), sizeof event.payload}));
  if (event.payload_type != wire::PayloadType::kExtended) return out;
  EventPayloads payloads(file_, layouts_, out);
  auto it = std::lower_bound(by_event_.begin(), by_event_.end(), event.payload,
                             [](const auto& payload, uint64_t number) { return payload.first < number; });
  for (; it != by_event_.end() && it->first == event.payload && it->second != nullptr; ++it)
    payloads.add(*std::exchange(it->second, nullptr));
  left_out_ += payloads.left_out();
  return out;
}

}  // namespace profgpu
