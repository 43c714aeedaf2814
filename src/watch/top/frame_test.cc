#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "analyse/report/text.h"
#include "view/ascii.h"
#include "watch/top/frame.h"
#include "watch/top/sample_view_test.h"

namespace profgpu {
namespace {

FrameLine line(std::string_view text, Style style = Style::kPlain, bool reversed = false) {
  return {Line(text, style), reversed};
}

std::vector<CellRun> changed(const FrameLine& before, const FrameLine& after) {
  return changed_cells(before, after, 10);
}

TEST(ChangedCells, NothingOfWhatStays) {
  EXPECT_TRUE(changed(line("abc"), line("abc")).empty());
  EXPECT_TRUE(changed(line("abc"), line("abc   ")).empty());
  EXPECT_TRUE(changed({}, {}).empty());
}

TEST(ChangedCells, OnlyWhatIsNew) {
  EXPECT_EQ(changed(line("12 % ▁▂▃"), line("13 % ▁▂▄")),
            (std::vector<CellRun>{{1, Style::kPlain, "3"}, {7, Style::kPlain, "▄"}}));
  EXPECT_EQ(changed({}, line("ab", Style::kGood)), (std::vector<CellRun>{{0, Style::kGood, "ab"}}));
}

TEST(ChangedCells, WhatIsBehindTheNewEndIsBlanked) {
  EXPECT_EQ(changed(line("abcd"), line("ab")), (std::vector<CellRun>{{2, Style::kPlain, "  "}}));
}

TEST(ChangedCells, LooksCount) {
  FrameLine two = line("ab");
  two.line.add("cd", Style::kBad);
  EXPECT_EQ(changed(line("abcd"), two), (std::vector<CellRun>{{2, Style::kBad, "cd"}}));
  EXPECT_EQ(changed(line("ab"), line("ab", Style::kPlain, true)),
            (std::vector<CellRun>{{0, Style::kPlain, "ab        "}}));
}

TEST(ChangedCells, WideCharactersAndMarksStayWhole) {
  EXPECT_EQ(changed(line("a世b"), line("axyb")), (std::vector<CellRun>{{1, Style::kPlain, "xy"}}));
  EXPECT_EQ(changed(line("axyb"), line("a世b")), (std::vector<CellRun>{{1, Style::kPlain, "世"}}));
  EXPECT_EQ(changed(line("ae"), line("ae\u0301")), (std::vector<CellRun>{{1, Style::kPlain, "e\u0301"}}));
}

TEST(ChangedCells, NothingBeyondTheScreen) {
  EXPECT_EQ(changed({}, line("0123456789ab")), (std::vector<CellRun>{{0, Style::kPlain, "0123456789"}}));
  EXPECT_EQ(changed({}, line("012345678世")), (std::vector<CellRun>{{0, Style::kPlain, "012345678"}}));
}

using sample::type;
using sample::watched;

class TopScreens : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("TZ", "UTC", 1);
    ::tzset();
  }
};

std::string text_of(const Frame& frame) {
  std::string out;
  for (const FrameLine& l : frame.lines) {
    std::string line;
    l.line.append_to(line, 0, false);
    out += line + "\n";
  }
  return out;
}

constexpr std::pair<int, int> kSizes[] = {{80, 24}, {100, 30}, {120, 40}, {200, 60}};

void expect_file(const std::string& name, const std::string& got) {
  const std::string path = "tests/screens/" + name + ".txt";
  if (std::getenv("PROFGPU_UPDATE_SCREENS")) std::ofstream(path) << got;
  std::ifstream file(path);
  std::stringstream want;
  want << file.rdbuf();
  EXPECT_EQ(got, want.str()) << path;
}

void expect_screen(const std::string& name, const TopModel& model, int width, int height) {
  expect_file(fmt::format("{}_{}x{}", name, width, height), text_of(top_frame(model, width, height)));
}

// A letter for the look of each cell, so that a reader sees which figure has which color.
std::string looks_of(const Frame& frame) {
  static constexpr std::string_view kLetters = ".SfgwbncGIB";   // by Style
  std::string out;
  for (const FrameLine& l : frame.lines) {
    std::string line;
    for (const Line::Span& s : l.line.spans())
      line.append(static_cast<size_t>(display_width(s.text)),
                  l.reversed ? 'R' : s.text.find_first_not_of(' ') == std::string::npos
                                         ? ' '
                                         : kLetters[static_cast<size_t>(s.style)]);
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

TEST_F(TopScreens, OverviewsAreAsTheyWereLookedAt) {
  for (const auto& [name, devices] : {std::pair{"one", 1}, {"four", 4}, {"eight", 8}, {"sixteen", 16}})
    for (const auto& [width, height] : kSizes)
      expect_screen(name, watched(static_cast<size_t>(devices)), width, height);
}

TEST_F(TopScreens, PagesAreAsTheyWereLookedAt) {
  for (const auto& [width, height] : kSizes) {
    TopModel model(sample::kSecond_ns);
    for (int64_t s = 0; s <= 90; ++s) model.take(sample::talkative(sample::view(8, s)));
    model.press({KeyPress::Kind::kRight});
    type(model, "d");
    expect_screen("device", model, width, height);
  }
  TopModel model = watched(8);
  model.take(LiveTopology(8, std::vector<std::string>(8, "NV18")));
  for (const auto& [key, name] : {std::pair{"u", "users"}, {"l", "links"}, {"h", "help"}}) {
    type(model, key);
    expect_screen(name, model, 80, 24);
  }
  type(model, "ht");
  expect_screen("tree", model, 120, 40);
}

TEST_F(TopScreens, AHostThatWasNotReachedHasNoGpu) {
  LiveView view = sample::view(0, 0);
  view.hosts.front().trouble = "does not answer";
  TopModel model(sample::kSecond_ns);
  model.take(view);
  const std::string text = text_of(top_frame(model, 80, 24));
  EXPECT_NE(text.find("node-b  no GPU"), std::string::npos) << text;
}

TEST_F(TopScreens, NothingLeavesTheScreenAtAnySize) {
  for (const size_t devices : {1, 3, 16}) {
    TopModel model = watched(devices, 30);
    for (const std::string_view keys : {"", "d", "l", "u", "h"}) {
      type(model, keys);
      for (int width = 1; width <= 230; width += 7)
        for (int height = 1; height <= 70; height += 5) {
          const Frame frame = top_frame(model, width, height);
          EXPECT_LE(frame.next(), height);
          // A wide heading is cut where it is drawn; the rest must fit by itself.
          for (const Hit& hit : frame.hits) EXPECT_GE(hit.to, hit.from);
        }
    }
  }
}

TEST_F(TopScreens, EveryLineOfTheOverviewFitsWhereThereIsRoom) {
  for (const int width : {80, 90, 100, 120, 150, 200, 300}) {
    const Frame frame = top_frame(watched(8), width, 50);
    for (const FrameLine& l : frame.lines) EXPECT_LE(l.line.width(), width) << width;
  }
}

TEST_F(TopScreens, PrintedFramesHaveAllDevicesAndProcessesAndNoKeys) {
  const std::string text = frame_text(top_frame(watched(16, 0), 80, 0), 80, false);
  EXPECT_NE(text.find("\n15 "), std::string::npos) << text;
  EXPECT_NE(text.find("4726"), std::string::npos) << text;
  EXPECT_EQ(text.find("quit"), std::string::npos);
  EXPECT_EQ(text.find('>'), std::string::npos);
}

TEST_F(TopScreens, HostileNamesReachNoTerminal) {
  LiveView view = sample::view(2, 1);
  const std::string evil = "a\x1b[2J\x07\xff\xe2\x80\xae\n" + std::string(5000, 'x');
  view.devices[0].processes[0].host.arguments = {evil};
  view.devices[0].processes[0].host.user = evil;
  view.devices[0].processes[0].host.container = evil;
  view.devices[1].trouble = evil;
  view.devices[1].state = DeviceState::kError;
  view.hosts[0].name = evil;
  view.lines = {evil};
  TopModel model(sample::kSecond_ns);
  model.take(view);
  model.press({KeyPress::Kind::kDown});
  for (const std::string_view keys : {"", "k", "ty", "/a", "u"}) {
    type(model, keys);
    for (const FrameLine& l : top_frame(model, 120, 40).lines)
      for (const Line::Span& s : l.line.spans())
        for (const char c : s.text) EXPECT_GE(static_cast<unsigned char>(c), 0x20) << s.text;
  }
}

TEST_F(TopScreens, ColorsAreAsTheyWereLookedAt) {
  for (const auto& [name, devices] : {std::pair{"one", 1}, {"eight", 8}})
    expect_file(std::string(name) + "_100x30_looks",
                looks_of(top_frame(watched(static_cast<size_t>(devices)), 100, 30)));
}

TEST_F(TopScreens, AsciiIsAsTheyWereLookedAt) {
  for (const auto& [name, devices] : {std::pair{"one", 1}, {"eight", 8}}) {
    std::string text;
    for (const FrameLine& l : top_frame(watched(static_cast<size_t>(devices)), 100, 30).lines) {
      std::string line;
      l.line.append_to(line, 0, false);
      text += ascii_text(line) + "\n";
    }
    expect_file(std::string(name) + "_100x30_ascii", text);
  }
}

TEST_F(TopScreens, AsciiIsAsWideAndHasNothingElse) {
  TopModel model(sample::kSecond_ns);
  for (int64_t s = 0; s <= 20; ++s) model.take(sample::talkative(sample::view(8, s)));
  model.take(LiveTopology(8, std::vector<std::string>(8, "NV18")));
  for (const std::string_view keys : {"", "t", "d", "l", "u", "h"}) {
    type(model, keys);
    for (const auto& [width, height] : kSizes)
      for (const FrameLine& l : top_frame(model, width, height).lines)
        for (const Line::Span& s : l.line.spans()) {
          const std::string text = ascii_text(s.text);
          for (const char c : text) EXPECT_TRUE(c >= 0x20 && c < 0x7f) << s.text;
          EXPECT_EQ(text.find('?'), std::string::npos) << s.text;   // nothing without a likeness
          EXPECT_EQ(display_width(text), display_width(s.text)) << s.text;
        }
  }
}

TEST_F(TopScreens, WhatANarrowScreenHasNoRoomForIsLeftOutOrLooksCut) {
  for (const size_t devices : {1, 8}) {
    const TopModel model = watched(devices);
    for (int width = 30; width <= 80; ++width)
      for (const FrameLine& l : top_frame(model, width, 24).lines) {
        std::string line;
        l.line.append_to(line, 0, false);
        EXPECT_LE(display_width(line), width) << line;
        // Units tell a whole figure from half of one.
        if (line.find("GiB") == std::string::npos && line.find(" %") == std::string::npos) continue;
        const char last = line.empty() ? ' ' : line.back();
        const bool counted = line.find("  +") != std::string::npos;   // warnings that have no room
        const bool whole = counted || line.find("rank") != std::string::npos;
        EXPECT_FALSE(last >= '0' && last <= '9' && !whole) << width << ": " << line;
      }
  }
}

TEST_F(TopScreens, ViewsWithNothingInThem) {
  TopModel model(sample::kSecond_ns);
  LiveView view = sample::view(1, 0);
  view.devices[0].values = {};
  view.devices[0].time_ns = 0;
  view.devices[0].processes.clear();
  view.devices[0].has_processes = false;
  model.take(view);
  EXPECT_NE(text_of(top_frame(model, 80, 24)).find("has not answered yet"), std::string::npos);
  type(model, "d");
  EXPECT_EQ(top_frame(model, 80, 24).next(), 24);
}

}  // namespace

}  // namespace profgpu
