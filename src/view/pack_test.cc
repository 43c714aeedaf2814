#include "view/document.h"

#include <gtest/gtest.h>

#include "analyse/report/document.h"

namespace profgpu {
namespace {

/// What a reader makes of a pack.
struct Unpacked {
  explicit Unpacked(const std::string& pack) {
    EXPECT_EQ(pack.substr(0, 4), "PGP1");
    size_t header_bytes = 0;
    for (int i = 0; i < 4; ++i)
      header_bytes |= size_t{static_cast<unsigned char>(pack.at(4 + static_cast<size_t>(i)))} << (8 * i);
    auto json = value_from_json(pack.substr(8, header_bytes));
    EXPECT_TRUE(json) << pack.substr(8, header_bytes);
    if (json) header = *json;
    body = pack.substr(8 + header_bytes);
  }
  [[nodiscard]] const Value& at(std::string_view key) const { return header.record()->at(key); }
  [[nodiscard]] std::vector<uint64_t> column(const Value& index) const {
    const List& place = *at("columns").list()->at(static_cast<size_t>(*index.integer())).list();
    std::vector<uint64_t> out;
    uint64_t value = 0;
    int shift = 0;
    for (int64_t i = *place[0].integer(); i < *place[0].integer() + *place[1].integer(); ++i) {
      const auto byte = static_cast<unsigned char>(body.at(static_cast<size_t>(i)));
      value |= uint64_t{byte & 0x7FU} << shift;
      shift += 7;
      if (byte & 0x80) continue;
      out.push_back(value);
      value = 0, shift = 0;
    }
    EXPECT_EQ(static_cast<int64_t>(out.size()), *place[2].integer());
    return out;
  }
  [[nodiscard]] std::vector<int64_t> sums(const Value& index) const {
    std::vector<int64_t> out;
    for (const uint64_t difference : column(index))
      out.push_back((out.empty() ? 0 : out.back()) + static_cast<int64_t>(difference));
    return out;
  }
  [[nodiscard]] std::vector<int64_t> zigzag(const Value& index) const {
    std::vector<int64_t> out;
    for (const uint64_t v : column(index)) out.push_back(static_cast<int64_t>(v >> 1) ^ -static_cast<int64_t>(v & 1));
    return out;
  }

  Value header;
  std::string body;
};

PageData small_page() {
  PageData page;
  page.origin_ns = 1'718'000'000'000'000'123;
  page.unix_origin_ns = 5;
  page.span_ns = 1000;
  page.kept = {{0, 1000}};
  page.events = 9, page.events_kept = 2;
  page.categories = {"gemm"};
  page.args = {{}, {{"grid", "1 × 2 × 3"}}};
  PageTrack t;
  t.rank = 2, t.group = "GPU 0", t.title = "stream 7", t.kind = "stream", t.first = 300;
  t.start_ns = {5, 130, 130, 70'000};
  t.duration_ns = {1, 127, 128, 1LL << 53};
  t.name = {page.strings.of("a"), page.strings.of("</script><!--\"\n"), 0, 0};
  t.category = {0, 0, 0, 255};
  t.depth = {0, 1, 2, 300};
  t.link = {0, 1, 0, 7};
  t.density = {17, {0, 1}, {255, 0}};
  page.tracks.push_back(t);
  PageTrack counter;
  counter.kind = "counter", counter.unit = "B", counter.scale = 0.5;
  counter.start_ns = {3, 9}, counter.value = {-1, INT64_MIN};
  page.tracks.push_back(counter);
  return page;
}

TEST(Pack, IsReadBackAsItWas) {
  const PageData page = small_page();
  const Unpacked read(packed(R"({"schema": "x"})", page));
  EXPECT_EQ(*read.at("version").integer(), 1);
  EXPECT_EQ(*read.at("report").record()->at("schema").text(), "x");
  EXPECT_EQ(*read.at("origin_ns").text(), "1718000000000000123");
  EXPECT_EQ(*read.at("events_kept").integer(), 2);
  EXPECT_EQ(*read.at("strings").list()->at(1).text(), "</script><!--\"\n");
  EXPECT_EQ(*read.at("args").list()->at(1).record()->at("grid").text(), "1 × 2 × 3");
  const Record& track = *read.at("tracks").list()->at(0).record();
  EXPECT_EQ(*track.at("kind").text(), "stream");
  EXPECT_EQ(*track.at("first").integer(), 300);
  EXPECT_EQ(*track.at("events").integer(), 4);
  EXPECT_EQ(read.sums(track.at("start")), page.tracks[0].start_ns);
  EXPECT_EQ(read.column(track.at("duration")), (std::vector<uint64_t>{1, 127, 128, 1ULL << 53}));
  EXPECT_EQ(read.column(track.at("category")), (std::vector<uint64_t>{0, 0, 0, 255}));
  EXPECT_EQ(read.column(track.at("depth")), (std::vector<uint64_t>{0, 1, 2, 300}));
  EXPECT_TRUE(track.at("args").is_null());
  EXPECT_TRUE(track.at("slow").is_null());
  const Record& density = *track.at("density").record();
  EXPECT_EQ(*density.at("bin_ns").integer(), 17);
  EXPECT_EQ(read.column(density.at("busy")), (std::vector<uint64_t>{255, 0}));
  const Record& counter = *read.at("tracks").list()->at(1).record();
  EXPECT_EQ(read.sums(counter.at("time")), page.tracks[1].start_ns);
  EXPECT_EQ(read.zigzag(counter.at("value")), page.tracks[1].value);
  EXPECT_EQ(counter.at("scale").number(), 0.5);
}

TEST(Pack, RanksHaveTreesMemoryAndGaps) {
  PageData page;
  PageRank& rank = page.ranks.emplace_back();
  rank.rank = 5;
  rank.shift_ns = -7;
  rank.flame.push_back({"main", {0, 1}, {0, 0}, {0, 0}, {10, 4}, {6, 4}, {0, 9}, {1, 2}});
  rank.kernels.push_back({1, "k", 10, 100, {3, 0, 4}});
  rank.memory = PageMemory{0, {1, 5}, {100, 200}, {}, 5, {{"aten::a", "x\ny", 100, 2}}};
  rank.gaps.push_back({0, 10, 20, "host_bound", "a", "b", ""});
  page.samples.push_back({"0", std::nullopt, "power_w", "power", "W", 0.001, {0, 4}, {100, -5}});
  const Unpacked read(packed("{}", page));
  const Record& r = *read.at("ranks").list()->at(0).record();
  EXPECT_EQ(*r.at("rank").integer(), 5);
  EXPECT_EQ(*r.at("shift_ns").text(), "-7");
  const Record& flame = *r.at("flame").list()->at(0).record();
  EXPECT_EQ(read.column(flame.at("parent")), (std::vector<uint64_t>{0, 1}));
  EXPECT_EQ(read.column(flame.at("device_ns")), (std::vector<uint64_t>{0, 9}));
  EXPECT_EQ(*r.at("kernels").list()->at(0).record()->at("histogram").record()->at("counts").list()->at(2).integer(), 4);
  const Record& memory = *r.at("memory").record();
  EXPECT_EQ(read.sums(memory.at("time")), (std::vector<int64_t>{1, 5}));
  EXPECT_TRUE(read.column(memory.at("reserved")).empty());
  EXPECT_EQ(*memory.at("held").list()->at(0).record()->at("stack").text(), "x\ny");
  EXPECT_EQ(*r.at("gaps").list()->at(0).record()->at("cause").text(), "host_bound");
  const Record& series = *read.at("samples").list()->at(0).record();
  EXPECT_TRUE(series.at("rank").is_null());
  EXPECT_EQ(read.zigzag(series.at("value")), (std::vector<int64_t>{100, -5}));
}

TEST(Pack, ARankWithoutEventsHasNoPlaceInTime) {
  PageData page;
  page.ranks.emplace_back().rank = 3;
  page.without_events = {3};
  const Unpacked read(packed("{}", page));
  EXPECT_TRUE(read.at("ranks").list()->at(0).record()->at("shift_ns").is_null());
}

TEST(Pack, SnapshotsHaveLivesAndStacks) {
  PageData page;
  PageRank& rank = page.ranks.emplace_back();
  rank.utilization = {{2, 41.5, 50}};
  rank.snapshot = PageSnapshot{{{0, 1}, {0, 1}, {0, 1}, {2, 2}, {7, 0}}, {}};
  PageHistory& h = rank.snapshot->histories.emplace_back();
  h.device = -1, h.all_events = 900, h.first = 100, h.start_us = 1'700'000'000'000'001;
  h.time_us = {0, 5, 5}, h.action = {0, 1, 2}, h.addresses = {0x7f0000000000, 0x7f0000000200};
  h.allocations = {{0, 1}, {3, 0}, {512, 1LL << 40}, {1, 0}};
  h.stack = {0, 2}, h.kind = {35, 9};
  h.segments = {{0}, {0}, {2 << 20}, {0}};
  h.stream = {0}, h.streams = {"0"};
  const Unpacked read(packed("{}", page));
  const Record& r = *read.at("ranks").list()->at(0).record();
  EXPECT_EQ(*r.at("utilization").list()->at(0).record()->at("step").integer(), 2);
  EXPECT_EQ(r.at("utilization").list()->at(0).record()->at("mfu_pct").number(), 41.5);
  const Record& snapshot = *r.at("snapshot").record();
  EXPECT_EQ(read.column(snapshot.at("stacks").record()->at("parent")), (std::vector<uint64_t>{0, 1}));
  const Record& history = *snapshot.at("histories").list()->at(0).record();
  EXPECT_EQ(*history.at("device").integer(), -1);
  EXPECT_EQ(*history.at("first").integer(), 100);
  EXPECT_EQ(*history.at("start_us").text(), "1700000000000001");
  EXPECT_EQ(read.sums(history.at("time")), h.time_us);
  EXPECT_EQ(read.sums(history.at("addresses")), h.addresses);
  const Record& allocations = *history.at("allocations").record();
  EXPECT_EQ(read.sums(allocations.at("made")), h.allocations.made);
  EXPECT_EQ(read.column(allocations.at("bytes")), (std::vector<uint64_t>{512, 1ULL << 40}));
  EXPECT_EQ(read.column(history.at("kind")), (std::vector<uint64_t>{35, 9}));
  EXPECT_EQ(*history.at("streams").list()->at(0).text(), "0");
}

TEST(Pack, OfNothingIsAPack) {
  const Unpacked read(packed("{}", {}));
  EXPECT_TRUE(read.at("tracks").list()->empty());
  EXPECT_TRUE(read.at("unix_origin_ns").is_null());
}

}  // namespace
}  // namespace profgpu
