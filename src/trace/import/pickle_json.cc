#include "trace/import/pickle_json.h"

#include <fmt/format.h>

#include <deque>
#include <unordered_map>

#include "base/json_quoted.h"
#include "base/pickle.h"

namespace profgpu {
namespace {

constexpr size_t kMostJson = size_t{512} << 20;
constexpr int kDeepest = 64;

/// Keeps every text once, and no rows.
struct TextSink {
  std::deque<std::string> texts;  // which stay where they are
  std::unordered_map<std::string_view, uint32_t> ids;

  uint32_t text(std::string_view t) {
    if (const auto at = ids.find(t); at != ids.end()) return at->second;
    const auto id = static_cast<uint32_t>(texts.size());
    ids.emplace(texts.emplace_back(t), id);
    return id;
  }
  std::string_view text_of(uint32_t id) { return texts[id]; }
  PickleValue dict(const PickleObjects&, PickleValue, std::span<const PickleValue>) { return {}; }
  PickleValue sequence(const PickleObjects&, PickleValue, std::span<const PickleValue>) { return {}; }
};

class JsonOfPickle {
 public:
  JsonOfPickle(const PickleObjects& objects, TextSink& sink) : objects_(objects), sink_(sink) {}

  std::string text(PickleValue root) {
    value(root, 0);
    return std::move(out_);
  }
  [[nodiscard]] bool too_large() const { return too_large_; }

 private:
  void value(PickleValue v, int depth) {
    v = objects_.resolved(v);
    if (out_.size() > kMostJson || depth > kDeepest) {
      too_large_ = true;
      out_ += "null";
      return;
    }
    switch (v.kind()) {
      case PickleKind::kBool:
        out_ += v.index() != 0 ? "true" : "false";
        return;
      case PickleKind::kInteger:
        out_ += std::to_string(v.inline_integer());
        return;
      case PickleKind::kWide:
        number(v);
        return;
      case PickleKind::kText:
        quoted(sink_.text_of(v.index()));
        return;
      case PickleKind::kSequence:
        sequence(v, depth);
        return;
      case PickleKind::kDict:
        dict(v, depth);
        return;
      default:
        out_ += "null";
        return;
    }
  }
  void number(PickleValue v) {
    if (const auto whole = objects_.integer(v)) {
      out_ += std::to_string(*whole);
      return;
    }
    const double x = objects_.number(v).value_or(0);
    out_ += std::isfinite(x) ? fmt::format("{}", x) : "null";
  }
  void sequence(PickleValue v, int depth) {
    out_ += '[';
    bool first = true;
    for (const PickleValue item : objects_.items(v)) {
      if (!std::exchange(first, false)) out_ += ',';
      value(item, depth + 1);
    }
    out_ += ']';
  }
  void dict(PickleValue v, int depth) {
    out_ += '{';
    const auto items = objects_.items(v);
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      if (i > 0) out_ += ',';
      const PickleValue key = items[i];
      if (key.is(PickleKind::kText))
        quoted(sink_.text_of(key.index()));
      else
        quoted(std::to_string(objects_.integer(key).value_or(0)));
      out_ += ':';
      value(items[i + 1], depth + 1);
    }
    out_ += '}';
  }
  void quoted(std::string_view text) { append_json_quoted(out_, text); }

  const PickleObjects& objects_;
  TextSink& sink_;
  std::string out_;
  bool too_large_ = false;
};

}  // namespace

Result<PickleText> pickle_as_json(TextSource& source) {
  TextSink sink;
  PickleReader reader(source, sink);
  auto read = reader.read();
  if (!read) return read.error();
  JsonOfPickle json(reader.objects(), sink);
  PickleText text{json.text(read->root), read->cut};
  text.cut |= json.too_large();
  return text;
}

bool looks_like_pickle(std::string_view head) {
  return head.size() > 3 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5;
}

}  // namespace profgpu
