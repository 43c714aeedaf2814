#include "watch/top/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>

#include "watch/top/sample_view_test.h"

namespace profgpu {
namespace {

using sample::type;
using sample::watched;
using Kind = KeyPress::Kind;

std::vector<int64_t> pids(const TopModel& model) {
  std::vector<int64_t> out;
  for (const ProcessEntry& e : model.processes())
    out.push_back(e.process ? e.process->sample.pid : -e.parent->visible_pid);
  return out;
}

TEST(TopModel, OrdersByColumnsBothWays) {
  TopModel model = watched(3);
  EXPECT_EQ(pids(model), (std::vector<int64_t>{4712, 4711, 4713, 902}));   // by device memory
  type(model, "P");
  EXPECT_EQ(pids(model), (std::vector<int64_t>{902, 4711, 4712, 4713}));
  type(model, "P");
  EXPECT_EQ(pids(model), (std::vector<int64_t>{4713, 4712, 4711, 902}));
  type(model, "U");
  EXPECT_EQ(pids(model).back(), 902);   // bob
  type(model, "r");
  EXPECT_EQ(pids(model).front(), 902);
}

TEST(TopModel, FiltersAsTyped) {
  TopModel model = watched(3);
  type(model, "/JUPYTER");
  EXPECT_EQ(pids(model), (std::vector<int64_t>{902}));
  model.press({Kind::kEnter});
  EXPECT_EQ(model.question(), Question::kNone);
  EXPECT_EQ(pids(model), (std::vector<int64_t>{902}));
  model.press({Kind::kEscape});
  EXPECT_EQ(pids(model).size(), 4u);
  type(model, "/gpu 2");
  EXPECT_EQ(pids(model), (std::vector<int64_t>{4713}));
  model.press({Kind::kBackspace});
  EXPECT_EQ(pids(model).size(), 4u);   // "gpu "
  model.press({Kind::kEscape});
  EXPECT_TRUE(model.order().filter.empty());
  type(model, "/job 815q");   // letters are no keys meanwhile
  EXPECT_TRUE(pids(model).empty());
}

TEST(TopModel, TheIntervalGoesByStepsAndToAnyTime) {
  TopModel model(sample::kSecond_ns);
  type(model, "+");
  EXPECT_EQ(model.interval_ns(), 2 * sample::kSecond_ns);
  type(model, "=+++");
  EXPECT_EQ(model.interval_ns(), 10 * sample::kSecond_ns);
  EXPECT_FALSE(model.message().empty());
  type(model, "-------");
  EXPECT_EQ(model.interval_ns(), sample::kSecond_ns / 10);
  type(model, "s25");
  EXPECT_EQ(model.interval_ns(), sample::kSecond_ns / 10) << "not before Enter";
  model.press({Kind::kBackspace});
  type(model, "0ms");
  model.press({Kind::kEnter});
  EXPECT_EQ(model.interval_ns(), sample::kSecond_ns / 50);
  type(model, "-");
  EXPECT_EQ(model.interval_ns(), sample::kSecond_ns / 50) << "no step is shorter";
  type(model, "+");
  EXPECT_EQ(model.interval_ns(), sample::kSecond_ns / 10);
  for (const std::string_view wrong : {"s0", "s", "sfast", "s25h", "s-1"}) {
    type(model, wrong);
    model.press({Kind::kEnter});
    EXPECT_EQ(model.interval_ns(), sample::kSecond_ns / 10) << wrong;
    EXPECT_EQ(model.message().empty(), wrong == "s") << wrong;
    EXPECT_EQ(model.question(), Question::kNone);
  }
  type(model, "s3");
  model.press({Kind::kEscape});
  EXPECT_EQ(model.interval_ns(), sample::kSecond_ns / 10);
}

TEST(TopModel, TreeHasProcessesBelowWhatStartedThem) {
  TopModel model = watched(2);
  type(model, "t");
  EXPECT_EQ(pids(model), (std::vector<int64_t>{-4700, 4712, 4711, 902}));
  EXPECT_EQ(model.processes()[1].depth, 1);
  EXPECT_EQ(model.processes()[3].depth, 0);
}

TEST(TopModel, TheChosenProcessStaysChosen) {
  TopModel model = watched(3);
  EXPECT_FALSE(model.selected());
  model.press({Kind::kDown});
  model.press({Kind::kDown});
  EXPECT_EQ(model.selected(), 1u);
  EXPECT_EQ(model.device(), 0u);
  type(model, "P");
  EXPECT_EQ(model.processes()[*model.selected()].process->sample.pid, 4711);
  LiveView without = sample::view(3, 91);
  std::erase_if(without.devices[0].processes, [](const LiveProcess& p) { return p.sample.pid == 4711; });
  model.take(without);
  EXPECT_EQ(model.processes()[model.selected().value()].process->sample.pid, 4712);   // its place
  model.press({Kind::kEscape});
  EXPECT_FALSE(model.selected());
}

TEST(TopModel, SignalsOnlyAfterYes) {
  TopModel model = watched(1);
  type(model, "k");
  EXPECT_NE(model.message().find("choose a process"), std::string::npos);
  model.press({Kind::kDown});
  type(model, "kt");
  EXPECT_EQ(model.question(), Question::kSure);
  EXPECT_FALSE(model.next_command());
  model.press({Kind::kEnter});   // no yes
  EXPECT_FALSE(model.next_command());
  type(model, "kty");
  const auto command = model.next_command();
  ASSERT_TRUE(command);
  EXPECT_EQ(command->signal, SIGTERM);
  EXPECT_EQ(command->pid, 4711);
  EXPECT_EQ(command->start_ns, sample::kBegin_ns - 3'725 * sample::kSecond_ns);
  EXPECT_FALSE(model.next_command());   // once
  type(model, "kt");
  model.press({Kind::kEscape});
  type(model, "y");
  EXPECT_FALSE(model.next_command());
}

TEST(TopModel, NobodyTakesThePlaceOfAProcessThatIsAskedAbout) {
  TopModel model = watched(1);
  model.press({Kind::kDown});
  type(model, "kk");
  LiveView empty = sample::view(1, 91);
  empty.devices[0].processes.erase(empty.devices[0].processes.begin());
  model.take(empty);
  type(model, "y");
  EXPECT_EQ(model.next_command()->pid, 4711);   // who carries it out sees that it has ended
}

TEST(TopModel, NiceValues) {
  TopModel model = watched(1);
  model.press({Kind::kDown});
  type(model, "n-5x");
  model.press({Kind::kEnter});
  EXPECT_EQ(model.question(), Question::kSure);
  type(model, "y");
  const auto command = model.next_command();
  ASSERT_TRUE(command);
  EXPECT_EQ(command->signal, 0);
  EXPECT_EQ(command->nice, -5);
  type(model, "n99");
  model.press({Kind::kEnter});
  EXPECT_EQ(model.question(), Question::kNone);
  EXPECT_NE(model.message().find("-20 to 19"), std::string::npos);
}

TEST(TopModel, ProcessesOfOtherMachinesAndUncertainOnesAreLeftAlone) {
  for (const bool here : {true, false}) {
    TopModel model(sample::kSecond_ns);
    LiveView view = sample::view(1, 1);
    view.hosts[0].here = here;
    view.devices[0].processes[0].host.inferred = here;
    model.take(view);
    model.press({Kind::kDown});
    type(model, "k");
    EXPECT_EQ(model.question(), Question::kNone);
    EXPECT_FALSE(model.message().empty());
  }
}

TEST(TopModel, PagesOfDevices) {
  TopModel model = watched(8);
  model.press({Kind::kLeft});
  EXPECT_EQ(model.device(), 7u);
  model.press({Kind::kEnter});
  EXPECT_EQ(model.page(), TopPage::kDevice);
  EXPECT_EQ(pids(model), (std::vector<int64_t>{4718}));
  model.press({Kind::kRight});
  EXPECT_EQ(pids(model), (std::vector<int64_t>{4711, 902}));
  model.press({Kind::kEscape});
  EXPECT_EQ(model.page(), TopPage::kOverview);
  EXPECT_FALSE(model.press({Kind::kCharacter, 'q'}));
}

TEST(TopModel, HoldsTheScreenButNotItsMemory) {
  TopModel model = watched(1, 10);
  type(model, " ");
  model.take(sample::view(1, 11));
  EXPECT_EQ(model.view().time_ns, sample::kBegin_ns + 10 * sample::kSecond_ns);
  EXPECT_EQ(model.histories().device(0).curve(Track::kUtilization).size(), 12u);
}

TEST(TopModel, ClicksChooseWhatIsThere) {
  TopModel model = watched(8);
  const Frame frame = top_frame(model, 120, 40);
  const auto find = [&](Hit::What what, auto&& is) {
    const auto it =
        std::find_if(frame.hits.begin(), frame.hits.end(), [&](const Hit& h) { return h.what == what && is(h); });
    return it == frame.hits.end() ? nullptr : frame.hit(it->from, it->y);
  };
  const Hit* process = find(Hit::What::kProcess, [](const Hit& h) { return h.process.pid == 4713; });
  ASSERT_TRUE(process);
  model.click(*process);
  EXPECT_EQ(model.processes()[model.selected().value()].process->sample.pid, 4713);
  const Hit* column = find(Hit::What::kColumn, [](const Hit& h) { return h.column == ProcessColumn::kPid; });
  ASSERT_TRUE(column);
  model.click(*column);
  EXPECT_EQ(model.order().column, ProcessColumn::kPid);
  const Hit* device = find(Hit::What::kDevice, [](const Hit& h) { return h.device == 5; });
  ASSERT_TRUE(device);
  model.click(*device);
  EXPECT_EQ(model.page(), TopPage::kDevice);
  EXPECT_EQ(model.device(), 5u);
  const Hit* quit = find(Hit::What::kKey, [](const Hit& h) { return h.key.character == 'q'; });
  ASSERT_TRUE(quit);
  EXPECT_FALSE(model.click(*quit));
}

TEST(TopModel, AdviceNamesWhatIsWrongAndTheWayOut) {
  const TopModel model = watched(8);
  const auto said = [&](size_t device, std::string_view text) {
    return std::any_of(model.advice().begin(), model.advice().end(), [&](const DeviceAdvice& a) {
      return a.device == device && a.what.find(text) != std::string::npos && !a.fix.empty();
    });
  };
  EXPECT_TRUE(said(1, "clocks reduced by temperature, 62 %"));
  EXPECT_TRUE(said(1, "memory is 98 % full"));
  EXPECT_TRUE(said(2, "idle for the last minute, while process 4713 of alice holds 40.8 GiB"));
  EXPECT_TRUE(said(3, "GPU is lost"));
  EXPECT_TRUE(said(4, "fewer lanes"));
  for (const size_t quiet : {0u, 5u, 6u, 7u}) EXPECT_FALSE(said(quiet, "")) << quiet;
}

TEST(TopModel, AdviceWaitsForAMinuteToJudge) {
  const TopModel model = watched(3, 5);
  for (const DeviceAdvice& a : model.advice()) EXPECT_EQ(a.what.find("minute"), std::string::npos) << a.what;
}

TEST(TopModel, APowerLimitThatSomebodyLoweredIsAFaultAndTheUsualOneIsNot) {
  for (const double limit : {700.0, 400.0}) {
    TopModel model(sample::kSecond_ns);
    for (int64_t s = 0; s < 60; ++s) {
      LiveView view = sample::view(1, s);
      view.devices[0].values[static_cast<size_t>(Metric::kPowerLimit)] = limit;
      view.devices[0].values[static_cast<size_t>(Metric::kThrottlePower)] = 0.9e9 * static_cast<double>(s);
      model.take(view);
    }
    ASSERT_EQ(model.advice().size(), 1u);
    EXPECT_EQ(model.advice()[0].severity, limit < 700 ? Severity::kWarning : Severity::kInfo);
    EXPECT_EQ(model.advice()[0].fix.find("-pl 700") != std::string::npos, limit < 700);
  }
}

}  // namespace
}  // namespace profgpu
