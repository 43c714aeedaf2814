// Windows, with a device that only notes when it is turned on and off. Each in a process of its own: a process has one
// recorder.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

#include "record/inject/core.h"

extern "C" void profgpu_step_ended();

namespace profgpu::inject {
namespace {

// The device is turned on and off on the recorder's own thread too.
std::mutex seeing;
std::string* seen;
bool opens = true;

void see(const std::string& what) {
  const std::lock_guard held(seeing);
  *seen += what;
}

constexpr Source kSource{
    .open = [](const char* reason) {
      see(opens ? std::string("+") + reason + " " : "refused ");
      return opens;
    },
    .close = [](const char* reason) { see(std::string("-") + reason + " "); },
    .flush = [](bool) {},
    .device_clock = []() -> int64_t { return 0; },
};

std::string folder() {
  char path[] = "/tmp/profgpu-windows-XXXXXX";
  return mkdtemp(path);
}

[[noreturn]] void finish(const std::string& expected, const std::string& where) {
  std::filesystem::remove_all(where);
  const std::lock_guard held(seeing);
  if (*seen != expected) fprintf(stderr, "saw \"%s\", not \"%s\"\n", seen->c_str(), expected.c_str());
  _exit(*seen == expected ? 0 : 1);
}

template <class Act>
[[noreturn]] void play(const char* options, Act act, const std::string& expected) {
  const std::string where = folder();
  setenv("PROFGPU_RECORD", where.c_str(), 1);
  setenv("PROFGPU_RECORD_OPTIONS", options, 1);
  seen = new std::string;
  if (!start_recorder("test")) _exit(2);
  act();
  finish(expected, where);
}

void event(wire::RangeOp op, const char* name, uint64_t number = 0) {
  wire::RangeEvent row;
  row.thread = thread_id();
  row.name = intern(name);
  row.op = op;
  row.range = number;
  row.payload = number;
  post(row);
}
void steps(int count) {
  for (int i = 0; i < count; ++i) {
    see(std::to_string(i) + " ");
    event(wire::RangeOp::kStep, nullptr, static_cast<uint64_t>(i));
  }
}
void push(const char* name) { event(wire::RangeOp::kPush, name); }
void pop() { event(wire::RangeOp::kPop, nullptr); }

#define EXPECT_PLAY(options, act, expected) EXPECT_EXIT(play(options, act, expected), testing::ExitedWithCode(0), "")

TEST(Windows, AllOfTheRunOpensWhereTheDeviceComes) {
  EXPECT_PLAY("", [] { set_source(&kSource); }, "+start ");
  EXPECT_PLAY("window=manual", [] { set_source(&kSource); }, "");
}

TEST(Windows, Steps) {
  EXPECT_PLAY("window=steps:2:4", [] { set_source(&kSource); steps(6); }, "0 1 +steps 2 3 -steps 4 5 ");
  EXPECT_PLAY("window=steps:0:1", [] { set_source(&kSource); steps(3); }, "+steps 0 -steps 1 2 ");
  // The device is first used in the middle of the window.
  EXPECT_PLAY("window=steps:1:9", [] { steps(3); set_source(&kSource); }, "0 1 2 +steps ");
}

TEST(Windows, StepsThatTheProgramMarksItself) {
  const auto own = [] {
    set_source(&kSource);
    steps(1);   // before the program marked any
    for (int i = 1; i < 6; ++i) {
      see(std::to_string(i) + " ");
      push("ProfilerStep#700");   // its numbers count for nothing
      pop();
      profgpu_step_ended();
    }
  };
  EXPECT_PLAY("window=steps:2:4", own, "0 1 +steps 2 3 -steps 4 5 ");
}

TEST(Windows, OccurrencesOfARange) {
  const auto iterations = [] {
    set_source(&kSource);
    for (int i = 0; i < 4; ++i) {
      see(std::to_string(i) + " ");
      push("it");
      push("inner");
      push("it's inner");
      pop();
      pop();
      see("end ");
      pop();
    }
  };
  EXPECT_PLAY("window=range:it:1:3", iterations, "0 end 1 +range end 2 end -range 3 end ");
  EXPECT_PLAY("window=range:other:0:1", iterations, "0 end 1 end 2 end 3 end ");
  const auto started = [] {
    set_source(&kSource);
    event(wire::RangeOp::kStart, "it", 7);
    event(wire::RangeOp::kEnd, nullptr, 6);
    see("in ");
    std::thread([] { event(wire::RangeOp::kEnd, nullptr, 7); }).join();
  };
  EXPECT_PLAY("window=range:it:0:1", started, "+range in -range ");
}

void sleep_ms(int ms) { usleep(static_cast<useconds_t>(ms) * 1000); }

/// Until the device was told this, a minute at most.
void wait_to_see(const std::string& what) {
  for (int i = 0; i < 60'000; ++i, sleep_ms(1)) {
    const std::lock_guard held(seeing);
    if (seen->find(what) != seen->npos) return;
  }
}

TEST(Windows, Time) {
  const auto wait = [] {
    set_source(&kSource);
    see("before ");
    wait_to_see("+time ");
    see("in ");
    wait_to_see("-time ");
  };
  EXPECT_PLAY("window=time:1000:1000,flush_ms=60000", wait, "before +time in -time ");
}

void order(wire::ControlOrder what, uint64_t counter) {
  wire::ControlPage& page = *the_core.load()->control;
  set_word(page.request, counter << 8 | static_cast<uint64_t>(what));
  for (int i = 0; i < 60'000 && get_word(page.answered) != get_word(page.request); ++i) sleep_ms(1);
  if (get_word(page.answered) != get_word(page.request)) see("no answer ");
}

TEST(Windows, Orders) {
  const auto obey = [] {
    set_source(&kSource);
    order(wire::ControlOrder::kStart, 1);
    order(wire::ControlOrder::kStart, 2);
    order(wire::ControlOrder::kStop, 3);
  };
  EXPECT_PLAY("window=manual,flush_ms=10", obey, "+attach -attach ");
}

TEST(Windows, ADeviceThatRefuses) {
  const auto refuse = [] {
    opens = false;
    set_source(&kSource);
    open_window("again");
    close_window("nothing");
    opens = true;
    open_window("now");
  };
  EXPECT_PLAY("window=all", refuse, "refused refused +now ");
}

TEST(Windows, ManyThreadsTurnItOnAndOff) {
  const auto toggle = [] {
    set_source(&kSource);
    std::thread threads[4];
    for (std::thread& thread : threads)
      thread = std::thread([] {
        for (int i = 0; i < 500; ++i) i % 2 == 0 ? open_window("o") : close_window("c");
      });
    for (std::thread& thread : threads) thread.join();
    close_window("c");
    // Never twice the same, whatever the order was.
    bool on = false;
    for (const char c : *seen)
      if (c == '+' || c == '-') {
        if (on == (c == '+')) *seen = "twice ";
        on = c == '+';
      }
    if (on) *seen = "still on ";
    if (*seen != "twice " && *seen != "still on ") *seen = "good";
  };
  EXPECT_PLAY("window=manual", toggle, "good");
}

}  // namespace
}  // namespace profgpu::inject
