#include "watch/live/child_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "devices/nvidia_smi_child.h"

namespace profgpu {

namespace {

CommandEnd run(CommandRunner& runner, const std::string& script) {
  const auto failure = runner.start({"sh", "-c", script});
  EXPECT_FALSE(failure) << failure->error.message;
  return failure ? CommandEnd{} : runner.wait();
}

std::string temporary_file(const std::string& name, const std::string& text, mode_t mode) {
  const std::string path = testing::TempDir() + "/" + std::to_string(::getpid()) + name;
  std::ofstream(path) << text;
  ::chmod(path.c_str(), mode);
  return path;
}

/// Until a script has made this file: from then on its traps are set.
void wait_for_file(const std::string& path) {
  for (int i = 0; i < 6000 && ::access(path.c_str(), F_OK) != 0; ++i) ::usleep(10'000);
}

TEST(CommandRunner, GivesExitCodesAsAShellDoes) {
  CommandRunner runner(false);
  EXPECT_EQ(run(runner, "exit 0").exit_code, 0);
  EXPECT_EQ(run(runner, "exit 200").exit_code, 200);
  const CommandEnd killed = run(runner, "kill -9 $$");
  EXPECT_EQ(killed.exit_code, 137);
  EXPECT_EQ(killed.signal, 9);
  EXPECT_FALSE(killed.interrupted);
  const CommandEnd slow = run(runner, "sleep 0.1");
  EXPECT_GE(slow.wall_ns, 100'000'000);
  EXPECT_LT(slow.wall_ns, 60'000'000'000);
}

TEST(CommandRunner, SaysWhyACommandDoesNotStart) {
  CommandRunner runner(false);
  const auto code_of = [&](const std::string& name) {
    const auto failure = runner.start({name});
    return failure ? failure->exit_code : -1;
  };
  EXPECT_EQ(code_of("no-such-program-anywhere"), 127);
  EXPECT_EQ(code_of("/no/such/program"), 127);
  EXPECT_EQ(code_of(""), 127);
  EXPECT_EQ(code_of("/"), 126);
  EXPECT_EQ(code_of("/etc/passwd/x"), 127);
  EXPECT_EQ(code_of(temporary_file("plain", "exit 0\n", 0644)), 126);
  EXPECT_EQ(code_of(temporary_file("lost", "#!/no/such/interpreter\n", 0755)), 127);
  EXPECT_EQ(code_of(std::string(300'000, 'x')), 126);
  // And the next one starts all the same.
  EXPECT_EQ(run(runner, "exit 3").exit_code, 3);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child was not waited for";
}

TEST(CommandRunner, RunsScriptsWithoutAFirstLine) {
  CommandRunner runner(false);
  ASSERT_FALSE(runner.start({temporary_file("bare", "exit $#\n", 0755), "a", "b"}));
  EXPECT_EQ(runner.wait().exit_code, 2);
}

TEST(CommandRunner, PassesSignalsOnAndNotesThatAnEndWasWanted) {
  CommandRunner runner(false);
  const std::string ready = temporary_file("term", "", 0644);
  ::unlink(ready.c_str());
  ASSERT_FALSE(runner.start({"sh", "-c", "trap 'exit 44' TERM; : > " + ready + "; while :; do sleep 0.02; done"}));
  std::thread sender([&ready] {
    wait_for_file(ready);
    ::kill(::getpid(), SIGTERM);
  });
  const CommandEnd end = runner.wait();
  sender.join();
  EXPECT_EQ(end.exit_code, 44);
  EXPECT_TRUE(end.interrupted);
  EXPECT_FALSE(run(runner, "true").interrupted) << "the next run begins anew";
}

TEST(CommandRunner, PassesOnWhatFewSend) {
  for (const int signal : {SIGPROF, SIGVTALRM, SIGIO, SIGPWR, SIGSYS, SIGSTKFLT, SIGABRT, SIGRTMIN + 3}) {
    CommandRunner runner(false);
    const std::string ready = temporary_file("signal", "", 0644);
    ::unlink(ready.c_str());
    const std::string trap = "trap 'exit 44' " + std::to_string(signal) + "; : > " + ready;
    ASSERT_FALSE(runner.start({"bash", "-c", trap + "; while :; do sleep 0.02; done"}));
    std::thread sender([&ready, signal] {
      wait_for_file(ready);
      ::kill(::getpid(), signal);
    });
    const CommandEnd end = runner.wait();
    sender.join();
    EXPECT_EQ(end.exit_code, 44) << signal;
    EXPECT_FALSE(end.interrupted) << signal;
  }
}

TEST(CommandRunner, KeepsDescriptorsOpenedLaterToItself) {
  const int early = ::open("/dev/null", O_RDONLY);
  CommandRunner runner(false);
  const int late = ::open("/dev/null", O_RDONLY);
  const auto is_there = [&](int fd) {
    return run(runner, "test -e /proc/self/fd/" + std::to_string(fd)).exit_code == 0;
  };
  EXPECT_TRUE(is_there(early));
  EXPECT_FALSE(is_there(late));
  ::close(early);
  ::close(late);
}

TEST(CommandRunner, LeavesTheMaskAsItWas) {
  sigset_t before, during, after;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &before);
  {
    CommandRunner runner(false);
    ::pthread_sigmask(SIG_BLOCK, nullptr, &during);
    EXPECT_EQ(sigismember(&during, SIGTERM), 1);
  }
  ::pthread_sigmask(SIG_BLOCK, nullptr, &after);
  for (const int s : {SIGINT, SIGTERM, SIGCHLD, SIGUSR1}) EXPECT_EQ(sigismember(&before, s), sigismember(&after, s));
}

TEST(Processes, OfTheCommandAtAnyDistance) {
  EXPECT_EQ(descends_from(::getpid(), ::getppid()), std::optional(true));
  EXPECT_EQ(descends_from(::getppid(), ::getpid()), std::optional(false));
  EXPECT_EQ(descends_from(4'000'000'000, ::getpid()), std::nullopt);
  EXPECT_EQ(descends_from(-5, 1), std::optional(false));
  CommandRunner runner(false);
  // An orphan: its parent has ended, we have adopted it.
  const std::string file = temporary_file("pid", "", 0644);
  run(runner, "sh -c 'sleep 600 >/dev/null 2>&1 & echo $! > " + file + "'");
  int64_t pid = 0;
  std::ifstream(file) >> pid;
  EXPECT_EQ(descends_from(pid, ::getpid()), std::optional(true));
  EXPECT_EQ(processes_left(), 1u);
  ::kill(static_cast<pid_t>(pid), SIGKILL);
  ::waitpid(static_cast<pid_t>(pid), nullptr, 0);
  EXPECT_EQ(processes_left(), 0u);
}

TEST(Processes, TheBackendsOwnIsNotLeftByTheCommandWhateverItsName) {
  SmiChild child;
  ASSERT_TRUE(child.start({"/bin/sleep", "600"}));
  EXPECT_EQ(processes_left(), 0u);
  child.end();
  const std::string pids = temporary_file("pids", "", 0644), ready = temporary_file("ready", "", 0644);
  ::unlink(ready.c_str());
  const std::string program = temporary_file(
      "nvidia-smi",
      "sleep 600 & echo $! > " + pids + "; setsid sleep 600 & echo $! >> " + pids + "; : > " + ready + "; wait\n",
      0755);
  CommandRunner runner(false);
  run(runner, program + " >/dev/null 2>&1 & until test -e " + ready + "; do sleep 0.01; done");
  EXPECT_GE(processes_left(), 2u) << "one that the command started counts";
  std::ifstream started(pids);
  for (pid_t pid = 0; started >> pid;) ::kill(pid, SIGKILL);
  while (::waitpid(-1, nullptr, 0) > 0) {
  }
}

}  // namespace

}  // namespace profgpu
