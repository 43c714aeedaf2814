// The pickle reader: whatever the bytes, it ends within its bounds, does not depend on how the text comes in pieces,
// and every value that it hands out can be looked at.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/pickle.h"

namespace {

using namespace profgpu;

void require(bool holds) {
  if (!holds) std::abort();
}

class Pieces : public TextSource {
 public:
  Pieces(const uint8_t* data, size_t size, size_t piece) : data_(data), size_(size), piece_(piece) {}
  size_t read(char* buffer, size_t size) override {
    size_t done = 0;
    while (done < size && at_ < size_) {
      const size_t n = std::min({piece_, size - done, size_ - at_});
      std::copy_n(data_ + at_, n, buffer + done);
      at_ += n, done += n;
    }
    if (at_ == size_) end_ = End::kComplete;
    return done;
  }

 private:
  const uint8_t* data_;
  size_t size_, piece_, at_ = 0;
};

/// Dicts whose first key is "r" and sequences of three become rows; others stay.
struct Rows {
  std::vector<std::string> texts;
  uint32_t rows = 0, sequences = 0;

  uint32_t text(std::string_view t) {
    texts.emplace_back(t);
    return static_cast<uint32_t>(texts.size() - 1);
  }
  std::string_view text_of(uint32_t id) { return texts[id]; }
  PickleValue dict(const PickleObjects&, PickleValue, std::span<const PickleValue> pairs) {
    require(pairs.size() % 2 == 0);
    const bool row = !pairs.empty() && pairs[0].is(PickleKind::kText) && texts[pairs[0].index()] == "r";
    return row ? PickleValue::rows(1, rows++) : PickleValue();
  }
  PickleValue sequence(const PickleObjects&, PickleValue before, std::span<const PickleValue> items) {
    return before.is_nothing() && items.size() == 3 ? PickleValue::rows(2, sequences++) : PickleValue();
  }
};

constexpr int kMaxShownDepth = 12;

// A text that two readings must agree on; bounded, since values may be shared and cyclic.
void show(const PickleObjects& objects, const Rows& sink, PickleValue v, int depth, std::string& out) {
  v = objects.resolved(v);
  out += static_cast<char>('a' + static_cast<int>(v.kind()));
  if (const auto whole = objects.integer(v))
    out += std::to_string(*whole);
  else if (const auto number = objects.number(v))
    out += std::to_string(*number);
  if (v.is(PickleKind::kText)) out += sink.texts[v.index()];
  if (v.is(PickleKind::kRows)) out += std::to_string(v.row()) + "+" + std::to_string(v.count());
  if (depth > kMaxShownDepth || out.size() > 100'000) return;
  for (const PickleValue item : objects.items(v)) show(objects, sink, item, depth + 1, out);
}

std::string reading(const uint8_t* data, size_t size, size_t piece) {
  Pieces source(data, size, piece);
  Rows sink;
  PickleReader<Rows> reader(source, sink);
  auto read = reader.read();
  if (!read) {
    require(!read.error().message.empty());
    return read.error().message;
  }
  require(read->bytes <= size);
  std::string out = read->cut ? "cut " : "";
  show(reader.objects(), sink, read->root, 0, out);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string whole = reading(data, size, size + 1);
  if (size < 4096) require(reading(data, size, 1) == whole);
  return 0;
}
