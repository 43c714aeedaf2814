#include "trace/import/kineto_shapes.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace profgpu {
namespace {

constexpr size_t kMaxNodes = 1024;     // a text without any order fills them once and is then read key by key
constexpr size_t kMaxSiblings = 16;
constexpr size_t kMaxLiteral = 255;
constexpr size_t kMaxKnown = 1024;     // longer lists are not remembered

bool begins_with(const char* at, const char* literal, size_t size) {
  for (; size > TextBlock::kBytes; at += TextBlock::kBytes, literal += TextBlock::kBytes, size -= TextBlock::kBytes)
    if (!TextBlock(at).begins_as(literal, TextBlock::kBytes)) return false;
  return TextBlock(at).begins_as(literal, size);
}

// The next quote or backslash; and whether there is a byte from 0x80 before it.
const char* end_of_text(const char* at, const char* end, bool& non_ascii) {
  for (; at < end; at += TextBlock::kBytes) {
    const TextBlock block(at);
    const unsigned hits = TextBlock::bits(block.is('"') | block.is('\\')), high = TextBlock::bits(block.high());
    non_ascii |= (high & (hits ^ (hits - 1))) != 0;   // without hits: all of the block
    if (hits != 0) return at + __builtin_ctz(hits);
  }
  return end;
}

}  // namespace

KinetoShapes::KinetoShapes() : nodes_(1) {}

// What follows a node. A child that fits moves one place ahead of its siblings: the most frequent come first.
KinetoShapes::Node* KinetoShapes::next(Node& node, const char* at, const char* end) {
  uint16_t *link = &node.child, *before = nullptr;
  for (; *link != 0; before = link, link = &nodes_[*link].sibling) {
    Node& n = nodes_[*link];
    if (n.size > end - at || !begins_with(at, literals_.data() + n.literal, n.size)) continue;
    if (before != nullptr) {
      const uint16_t overtaken = *before;
      *before = std::exchange(*link, n.sibling);
      n.sibling = overtaken;
    }
    return &n;
  }
  return nullptr;
}

bool KinetoShapes::read(JsonReader& reader, KinetoValues& values) {
  const char* const event = reader.position();
  const char* at = event;
  lists_ = 0;
  for (Node* node = &nodes_.front();;) {
    node = next(*node, at, reader.end());
    if (node == nullptr) break;
    at += node->size;
    if (node->written == Written::kEnd) {
      values.phase = node->phase;
      values.event_class = node->event_class;
      values.has_category = node->has_category;
      reader.seek(at);
      return true;
    }
    if (node->argument && node->slot != nullptr) values.given.push_back(node->slot);
    at = read_value(*node, reader, at, values);
    if (at == nullptr) break;
  }
  reader.seek(event);
  return false;
}

// Where the list that comes next is remembered; null: nowhere.
KnownText* KinetoShapes::known_text(const KinetoValues& values) {
  if (lists_ == 0) {
    const std::string_view name = values.name.raw;
    of_name_ = nullptr;
    if (name.empty()) return nullptr;   // it comes later
    uint64_t first = 0, last = 0;   // "aten::" is of most
    const size_t some = std::min<size_t>(name.size(), 8);
    std::memcpy(&first, name.data(), some);
    std::memcpy(&last, name.data() + name.size() - some, some);
    const uint64_t hash = (first ^ (last << 1) ^ name.size()) * 0x9E3779B97F4A7C15;
    of_name_ = &known_[(hash >> 32) % kNames * kLists];
  }
  return of_name_ == nullptr || lists_ == kLists ? nullptr : of_name_ + lists_++;
}

// A text that begins with a whole list or object is that value. An empty one: it is malformed.
RawValue KinetoShapes::read_nested(JsonReader& reader, const char* at, const KinetoValues& values) {
  KnownText* const known = known_text(values);
  if (known != nullptr && !known->text.empty() && known->text.size() < static_cast<size_t>(reader.end() - at) &&
      std::memcmp(at, known->text.data(), known->text.size()) == 0)
    return {{at, known->text.size()}, known};
  reader.seek(at);
  if ((*at != '[' && *at != '{') || !reader.skip_value()) return {};
  const std::string_view text(at, static_cast<size_t>(reader.position() - at));
  if (known == nullptr || text.size() > kMaxKnown) return {text};
  known->text = text;
  known->id = StringId();
  return {text, known};
}

// The place behind the value; null: it is not written as it was before.
const char* KinetoShapes::read_value(const Node& node, JsonReader& reader, const char* at, KinetoValues& values) {
  const KinetoSlot* slot = node.slot;
  switch (node.written) {
    case Written::kText: {
      bool non_ascii = false;
      const char* const to = end_of_text(at, reader.end(), non_ascii);
      if (to >= reader.end() || *to != '"') return nullptr;
      const std::string_view text(at, static_cast<size_t>(to - at));
      if (slot != nullptr && slot->number != nullptr) values.*slot->number = text;
      if (slot != nullptr && slot->text != nullptr) values.*slot->text = {.raw = text, .non_ascii = non_ascii};
      return to;
    }
    case Written::kBare: {
      const char* const to = find(at, reader.end(), JsonReader::ends_scalar);
      if (to >= reader.end() || to == at) return nullptr;
      if (slot != nullptr) values.*slot->number = {at, static_cast<size_t>(to - at)};
      return to;
    }
    case Written::kNested: {
      const RawValue value = read_nested(reader, at, values);
      if (slot != nullptr) values.*slot->raw = value;
      return value.empty() ? nullptr : at + value.text.size();
    }
    case Written::kTriple:
      reader.seek(at);
      return read_triple(reader, values.*slot->triple) ? reader.position() : nullptr;
    case Written::kEnd: break;
  }
  return nullptr;
}

// The child that is so, which is added where there is none; 0: there is no room.
uint16_t KinetoShapes::child_of(uint16_t parent, std::string_view literal, const Node& wanted) {
  size_t siblings = 0;
  uint16_t* link = &nodes_[parent].child;
  for (; *link != 0; link = &nodes_[*link].sibling, ++siblings) {
    const Node& n = nodes_[*link];
    if (n.size != literal.size() || std::string_view(literals_).substr(n.literal, n.size) != literal) continue;
    return n.written == wanted.written && n.slot == wanted.slot ? *link : 0;
  }
  if (siblings == kMaxSiblings || nodes_.size() == kMaxNodes || literal.size() > kMaxLiteral) return 0;
  *link = static_cast<uint16_t>(nodes_.size());
  Node& node = nodes_.emplace_back(wanted);
  node.literal = static_cast<uint32_t>(literals_.size());
  node.size = static_cast<uint16_t>(literal.size());
  literals_.append(literal);
  literals_.resize((literals_.size() + TextBlock::kBytes - 1) / TextBlock::kBytes * TextBlock::kBytes, '\0');
  return static_cast<uint16_t>(nodes_.size() - 1);
}

void KinetoShapes::learn(const char* end, const KinetoValues& values) {
  if (event_ == nullptr) return;
  uint16_t node = 0;
  const char* from = event_;
  for (const Value& v : values_) {
    const std::string_view literal(from, static_cast<size_t>(v.text.data() - from));
    node = child_of(node, literal, {.written = v.written, .argument = v.argument, .slot = v.slot});
    if (node == 0) return;
    from = v.text.data() + v.text.size();
  }
  child_of(node, {from, static_cast<size_t>(end - from)},
           {.phase = values.phase, .event_class = values.event_class, .has_category = values.has_category});
}

}  // namespace profgpu
