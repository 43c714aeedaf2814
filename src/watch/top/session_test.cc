#include "watch/top/session.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <utility>

#include "devices/host_process.h"

namespace profgpu {
namespace {

/// A child that sleeps until it is ended.
class Sleeper {
 public:
  Sleeper() : pid_(::fork()) {
    if (pid_ == 0) {
      ::alarm(60);
      for (;;) ::pause();
    }
  }
  ~Sleeper() {
    if (pid_ > 0) ::kill(pid_, SIGKILL), ::waitpid(pid_, nullptr, 0);
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;
  [[nodiscard]] ProcessCommand command() const {
    return {pid_, HostProcesses("/proc").look_here(pid_).start_ns, SIGTERM, 0, "SIGTERM to a test"};
  }
  /// The signal that ended it.
  int ended_by() {
    int status = 0;
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

TEST(ProcessControl, SendsTheSignal) {
  Sleeper child;
  const Status done = carry_out(child.command());
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(child.ended_by(), SIGTERM);
}

TEST(ProcessControl, LeavesAnotherProcessWithTheNumberAlone) {
  Sleeper child;
  ProcessCommand command = child.command();
  *command.start_ns -= 3600'000'000'000;
  const Status done = carry_out(command);
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().message.find("another process may have its pid"), std::string::npos);
  EXPECT_EQ(::kill(child.pid(), 0), 0);
  command.start_ns.reset();
  EXPECT_FALSE(carry_out(command));
}

TEST(ProcessControl, ChangesNiceValues) {
  Sleeper child;
  ProcessCommand command = child.command();
  command.signal = 0;
  command.nice = 7;
  ASSERT_TRUE(carry_out(command));
  EXPECT_EQ(::getpriority(PRIO_PROCESS, static_cast<id_t>(child.pid())), 7);
}

TEST(ProcessControl, SaysThatAProcessHasEnded) {
  ProcessCommand command;
  {
    Sleeper child;
    command = child.command();
  }
  const Status done = carry_out(command);
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().message.find("has ended"), std::string::npos);
}

TEST(ProcessControl, NeverTheFirstProcess) {
  EXPECT_FALSE(carry_out({1, 0, SIGTERM, 0, "SIGTERM to init"}));
  EXPECT_FALSE(carry_out({0, 0, SIGTERM, 0, "SIGTERM to all"}));
  EXPECT_FALSE(carry_out({-5, 0, SIGTERM, 0, "SIGTERM to a group"}));
}

}  // namespace
}  // namespace profgpu
