#include "trace/import/kineto_shapes.h"

#include <utility>

namespace profgpu {
namespace {

constexpr size_t kMaxNodes = 1024;     // a text without any order fills them once and is then read key by key
constexpr size_t kMaxSiblings = 16;
constexpr size_t kMaxLiteral = 255;

bool begins_with(const char* at, const char* literal, size_t size) {
  for (; size > TextBlock::kBytes; at += TextBlock::kBytes, literal += TextBlock::kBytes, size -= TextBlock::kBytes)
    if (!TextBlock(at).begins_as(literal, TextBlock::kBytes)) return false;
  return TextBlock(at).begins_as(literal, size);
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

// The place behind the value; null: it is not written as it was before.
const char* KinetoShapes::read_value(const Node& node, JsonReader& reader, const char* at, KinetoValues& values) const {
  const KinetoSlot* slot = node.slot;
  switch (node.written) {
    case Written::kText: {
      const char* const to = find(at, reader.end(), [](const TextBlock& b) { return b.is('"') | b.is('\\'); });
      if (to >= reader.end() || *to != '"') return nullptr;
      if (slot != nullptr && slot->number != nullptr) values.*slot->number = {at, static_cast<size_t>(to - at)};
      if (slot != nullptr && slot->text != nullptr)
        values.*slot->text = {.raw = {at, static_cast<size_t>(to - at)},
                              .non_ascii = find(at, to, [](const TextBlock& b) { return b.high(); }) != to};
      return to;
    }
    case Written::kBare: {
      const char* const to = find(at, reader.end(), JsonReader::ends_scalar);
      if (to >= reader.end() || to == at) return nullptr;
      if (slot != nullptr) values.*slot->number = {at, static_cast<size_t>(to - at)};
      return to;
    }
    case Written::kNested: {
      reader.seek(at);
      if ((*at != '[' && *at != '{') || !reader.skip_value()) return nullptr;
      if (slot != nullptr) values.*slot->raw = {at, static_cast<size_t>(reader.position() - at)};
      return reader.position();
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
