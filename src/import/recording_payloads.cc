#include "import/recording_payloads.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/json_quoted.h"
#include "import/recording_payload_values.h"

namespace profgpu {
namespace {

using wire::PayloadField;
using wire::SchemaKind;
using Layouts = std::map<std::pair<std::string_view, uint64_t>, PayloadLayout>;

constexpr size_t kMostSchemas = 4096, kMostFields = 256;
constexpr int kMostShown = 256;          // values of one event
constexpr size_t kLongestName = 200, kLongestText = 16 << 10;   // bytes
constexpr int kHighest = 8, kCircle = std::numeric_limits<int>::max() / 2;

// NVTX_PAYLOAD_ENTRY_FLAG_*.
constexpr uint64_t kElsewhere = 7 << 1;  // an address or an offset of the value
constexpr uint64_t kArrayShift = 4, kArrayMask = 7;
enum Array : uint64_t { kNoArray = 0, kFixed = 1, kZeroTerminated = 2, kLengthInField = 3 };
constexpr uint64_t kHidden = 1 << 9, kMessage = 1 << 10;
constexpr size_t kAddressBytes = 8;

bool is_text(uint64_t type) { return type == kPayloadText || type == kPayloadTextUtf8; }

std::string enumerator(const RecordingFile& file, const PayloadLayout& names, std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size() && i < sizeof value; ++i)
    value |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  const uint64_t mask = bytes.size() >= sizeof value ? ~uint64_t{0} : (uint64_t{1} << (8 * bytes.size())) - 1;
  std::string flags;
  uint64_t rest = value;
  for (const PayloadField& f : names.fields) {
    if (value == (f.offset & mask)) return json_quoted(file.strings[f.name]);
    if (f.flags == 0 || (rest & f.offset) == 0 || (value & f.offset) != f.offset) continue;
    flags += (flags.empty() ? "" : "|") + std::string(file.strings[f.name]);
    rest &= ~f.offset;
  }
  return rest == 0 && !flags.empty() ? json_quoted(flags) : std::to_string(value);
}

/// The payloads of one event on their way to text.
class EventPayloads {
 public:
  EventPayloads(const RecordingFile& file, const Layouts& layouts, PayloadText& out)
      : file_(file), layouts_(layouts), out_(out) {}

  void add(const wire::PayloadRef& payload);
  [[nodiscard]] int64_t left_out() const { return left_out_; }

 private:
  // A structure whose bytes begin `data`, which ends where the payload's do.
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
  Taken structure(const PayloadLayout& layout, std::string_view data, const std::string& prefix);
  Taken field(const Structure& in, const PayloadField& f, std::string_view data);
  Taken text(const Structure& in, const PayloadField& f, std::string_view data);
  Taken values(const Structure& in, const PayloadField& f, std::string_view data, const PayloadLayout* nested);
  [[nodiscard]] Taken length(const Structure& in, const PayloadField& f) const;
  [[nodiscard]] size_t align_of(const PayloadField& f) const;
  [[nodiscard]] std::string name_of(const Structure& in, const PayloadField& f) const {
    const std::string_view name = file_.strings[f.name].substr(0, kLongestName);
    return in.prefix + (name.empty() ? "field " + std::to_string(f.place) : std::string(name));
  }
  void say(const std::string& name, const std::string& json) {
    if (shown_ == kMostShown || out_.members.size() + name.size() + json.size() > kLongestText) {
      ++left_out_;
      return;
    }
    ++shown_;
    const int uses = ++uses_[name];
    if (!out_.members.empty()) out_.members += ", ";
    append_json_quoted(out_.members, uses == 1 ? name : fmt::format("{} ({})", name, uses));
    out_.members += ": " + json;
  }
  Taken leave_out(Taken taken) { return ++left_out_, taken; }

  const RecordingFile& file_;
  const Layouts& layouts_;
  PayloadText& out_;
  std::string_view domain_;
  std::map<std::string, int> uses_;   // of a name
  int shown_ = 0;
  int64_t looks_ = 0;                 // at fields, that are left
  int64_t left_out_ = 0;
};

void EventPayloads::add(const wire::PayloadRef& payload) {
  domain_ = file_.strings[payload.domain];
  looks_ = 2 * int64_t{payload.length} + 16;
  const std::string_view data(payload.text, payload.length);
  if (payload.schema == kPayloadReferenced) return;
  if (payload.schema == kPayloadRaw) return say("payload", payload_bytes(data));
  if (is_text(payload.schema)) return say("payload", json_quoted(data.substr(0, data.find('\0'))));
  if (const size_t bytes = payload_type_size(payload.schema); bytes > 0 && data.size() >= bytes)
    return say("payload", payload_value(payload.schema, data.substr(0, bytes)));
  const PayloadLayout* const known = layout(payload.schema);
  if (known == nullptr) {
    ++left_out_;
    if (!data.empty()) say("payload", payload_bytes(data));
  } else if (known->schema.kind == SchemaKind::kEnumeration) {
    say("payload", enumerator(file_, *known, data.substr(0, known->schema.size)));
  } else {
    structure(*known, data, "");
  }
}

EventPayloads::Taken EventPayloads::structure(const PayloadLayout& layout, std::string_view data,
                                              const std::string& prefix) {
  const bool sized = layout.schema.size > 0;
  if (layout.schema.kind == SchemaKind::kUnion || layout.schema.kind == SchemaKind::kOwnUnion)
    return leave_out(sized ? Taken(layout.schema.size) : std::nullopt);
  Structure in{layout, data, prefix, {}};
  Taken next = 0;
  for (const PayloadField& f : layout.fields) {
    // A field has a byte at least; others would let a few schemas ask for much work.
    if (--looks_ < 0) return leave_out(std::nullopt);
    const size_t align = layout.schema.pack > 0 ? std::min<size_t>(align_of(f), layout.schema.pack) : align_of(f);
    Taken begin = next ? Taken((*next + align - 1) / align * align) : std::nullopt;
    if (f.offset > 0 || f.place == 0) begin = f.offset;
    in.begins.push_back(begin && *begin < data.size() ? begin : std::nullopt);
    const Taken taken = in.begins.back() ? field(in, f, data.substr(*begin)) : leave_out(std::nullopt);
    next = taken && *taken <= data.size() - *begin ? Taken(*begin + *taken) : std::nullopt;
  }
  if (sized) return layout.schema.size;
  return next ? Taken((*next + layout.align - 1) / layout.align * layout.align) : std::nullopt;
}

EventPayloads::Taken EventPayloads::field(const Structure& in, const PayloadField& f, std::string_view data) {
  if ((f.flags & kElsewhere) != 0) return leave_out(kAddressBytes);
  if (is_text(f.type)) return text(in, f, data);
  const PayloadLayout* const nested = payload_type_size(f.type) == 0 ? layout(f.type) : nullptr;
  if (payload_type_size(f.type) == 0 && nested == nullptr) return leave_out(std::nullopt);
  return values(in, f, data, nested);
}

EventPayloads::Taken EventPayloads::text(const Structure& in, const PayloadField& f, std::string_view data) {
  const uint64_t array = f.flags >> kArrayShift & kArrayMask;
  if (array == kNoArray && f.detail == 0) return leave_out(kAddressBytes);   // a pointer to characters
  const size_t end = data.find('\0');
  Taken taken = array == kZeroTerminated && end != data.npos ? Taken(end + 1) : std::nullopt;
  if (array == kNoArray || array == kFixed) taken = f.detail;
  if (array == kLengthInField) taken = length(in, f);
  if (!taken || *taken > data.size()) return leave_out(std::nullopt);
  const std::string_view value = data.substr(0, std::min(*taken, end));
  if ((f.flags & kMessage) != 0)
    out_.message = value;
  else if ((f.flags & kHidden) == 0)
    say(name_of(in, f), json_quoted(value));
  return taken;
}

// The number in the field of the same structure that has the length.
EventPayloads::Taken EventPayloads::length(const Structure& in, const PayloadField& f) const {
  for (size_t i = 0; i + 1 < in.begins.size(); ++i) {
    const PayloadField& other = in.layout.fields[i];
    if (other.place != f.detail || !in.begins[i] || (other.flags >> kArrayShift & kArrayMask) != kNoArray) continue;
    return payload_count(other.type, in.data.substr(*in.begins[i]));
  }
  return std::nullopt;
}

EventPayloads::Taken EventPayloads::values(const Structure& in, const PayloadField& f, std::string_view data,
                                           const PayloadLayout* nested) {
  const bool is_enumeration = nested != nullptr && nested->schema.kind == SchemaKind::kEnumeration;
  const std::string name = name_of(in, f);
  const uint64_t array = f.flags >> kArrayShift & kArrayMask;
  if (nested != nullptr && !is_enumeration)
    return array == kNoArray ? structure(*nested, data, name + ".") : leave_out(std::nullopt);
  const size_t element = is_enumeration ? nested->schema.size : payload_type_size(f.type);
  Taken count = 1;
  if (array == kFixed) count = f.detail;
  if (array == kLengthInField) count = length(in, f);
  if (array == kZeroTerminated) {
    count = 0;
    while ((*count + 1) * element <= data.size() &&
           data.substr(*count * element, element).find_first_not_of('\0') != data.npos)
      ++*count;
  }
  if (array > kLengthInField) count.reset();
  // A length that lies, or data that was cut.
  if (!count || element == 0 || *count > data.size() / element) return leave_out(std::nullopt);
  const size_t taken = (*count + (array == kZeroTerminated ? 1 : 0)) * element;
  if ((f.flags & kHidden) != 0) return taken;
  const auto one = [&](size_t i) {
    const std::string_view bytes = data.substr(i * element, element);
    return is_enumeration ? enumerator(file_, *nested, bytes) : payload_value(f.type, bytes);
  };
  if (array == kNoArray) {
    say(name, one(0));
  } else if (is_payload_character(f.type)) {
    say(name, payload_value(f.type, data.substr(0, *count)));
  } else if (f.type == kPayloadByte) {
    say(name, payload_bytes(data.substr(0, *count)));
  } else {
    std::string all = "[";
    for (size_t i = 0; i < *count; ++i) all += (i > 0 ? ", " : "") + one(i);
    say(name, all + "]");
  }
  return taken;
}

size_t EventPayloads::align_of(const PayloadField& f) const {
  if ((f.flags & kElsewhere) != 0) return kAddressBytes;
  if (is_text(f.type)) return f.detail == 0 && (f.flags >> kArrayShift & kArrayMask) == kNoArray ? kAddressBytes : 1;
  if (const size_t bytes = payload_type_size(f.type); bytes > 0) return bytes;
  const PayloadLayout* const nested = layout(f.type);
  return nested != nullptr ? nested->align : 1;
}

}  // namespace

// Alignments and heights come from the inside out; a schema that is met within itself has no end.
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
      } else if (const size_t bytes = payload_type_size(f.type); bytes > 0) {
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
  std::vector<PayloadLayout*> by_id(std::min(file.schemas.size(), kMostSchemas + 1));
  for (size_t id = 1; id < by_id.size(); ++id) {
    const wire::PayloadSchema& schema = file.schemas[static_cast<uint32_t>(id)];
    if (schema.id == 0) continue;
    PayloadLayout& layout = layouts_[{file.strings[schema.domain], schema.schema}];
    layout = {schema, {}};
    by_id[id] = &layout;
  }
  for (const PayloadField& f : file.schema_fields)
    if (f.of < by_id.size() && by_id[f.of] != nullptr && by_id[f.of]->schema.id == f.of &&
        by_id[f.of]->fields.size() < kMostFields)
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
    out.members = fmt::format("\"payload\": {}", payload_double(event.payload));
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
