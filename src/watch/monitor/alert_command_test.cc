#include "watch/monitor/alert_command.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>

#include "base/clock.h"
#include "tests/support/test_folder.h"

namespace profgpu {
namespace {

constexpr int64_t kMs = 1'000'000, kLong = 60'000 * kMs;

class AlertCommandTest : public testing::Test {
 protected:
  void TearDown() override {
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a process is left";
    EXPECT_EQ(errno, ECHILD);
  }
  AlertCommand command(const std::string& text, int64_t limit_ns = kLong) {
    return {"cd " + folder_.string() + "; " + text, limit_ns,
            [this](const std::string& line) { told_ += line + "\n"; }};
  }
  static void wait_for(AlertCommand& c) {
    while (c.tend(), c.busy()) ::usleep(2000);
  }
  static AlertNotice notice(const std::string& name = "hot") {
    AlertNotice n;
    n.name = name;
    n.device = "3";
    return n;
  }
  [[nodiscard]] std::string text_of(const std::string& name) const {
    std::ostringstream out;
    out << std::ifstream(folder_ / name).rdbuf();
    return out.str();
  }

  TestFolder folder_;
  std::string told_;
};

TEST_F(AlertCommandTest, GetsTheAlertInItsEnvironmentAndOnItsInput) {
  AlertCommand c = command(
      "echo \"$PROFGPU_ALERT $PROFGPU_ALERT_STATE $PROFGPU_ALERT_GPU\" > env; cat > in; ls /proc/self/fd > fds");
  c.run(notice());
  wait_for(c);
  EXPECT_EQ(text_of("env"), "hot raised 3\n");
  EXPECT_EQ(text_of("in"), alert_row(notice()));
  EXPECT_EQ(text_of("fds"), "0\n1\n2\n3\n") << "3 is the folder that ls reads";
  EXPECT_EQ(told_, "");
}

TEST_F(AlertCommandTest, FailuresAreTold) {
  AlertCommand c = command("exit 3");
  c.run(notice());
  wait_for(c);
  EXPECT_EQ(told_, "--on-alert: the command for hot ended with status 3\n");
  EXPECT_EQ(c.failures(), 1);
}

TEST_F(AlertCommandTest, OneThatTakesTooLongIsEnded) {
  AlertCommand c = command("sleep 1000 & sleep 1000", 100 * kMs);
  const int64_t begun = monotonic_ns();
  c.run(notice());
  wait_for(c);
  EXPECT_LT(monotonic_ns() - begun, kLong) << "it would take 1000 s";
  EXPECT_EQ(told_, "--on-alert: the command for hot takes too long; ending it\n"
                   "--on-alert: the command for hot was ended by signal 15 (Terminated)\n");
}

TEST_F(AlertCommandTest, OneThatIgnoresThatIsKilled) {
  AlertCommand c = command("trap '' TERM; while :; do sleep 0.05; done", 100 * kMs);
  const int64_t begun = monotonic_ns();
  c.run(notice());
  wait_for(c);
  EXPECT_GT(monotonic_ns() - begun, 2000 * kMs);
  EXPECT_LT(monotonic_ns() - begun, kLong);
  EXPECT_NE(told_.find("signal 9 (Killed)"), std::string::npos) << told_;
}

TEST_F(AlertCommandTest, AFewAtOnceInOrder) {
  // The first two wait for one another.
  AlertCommand c = command(
      "touch at.$$ been.$PROFGPU_ALERT; "
      "case $PROFGPU_ALERT in 0|1) until [ -e been.0 ] && [ -e been.1 ]; do sleep 0.01; done;; esac; "
      "ls at.* 2> /dev/null | wc -l >> most; sleep 0.1; rm at.$$; echo $PROFGPU_ALERT >> names");
  for (int i = 0; i < 20; ++i) c.run(notice(std::to_string(i)));
  wait_for(c);
  std::istringstream counts(text_of("most"));
  size_t most = 0;
  for (size_t n = 0; counts >> n;) most = std::max(most, n);
  EXPECT_LE(most, AlertCommand::kMaxAtOnce);
  const std::string names = text_of("names");
  EXPECT_EQ(std::count(names.begin(), names.end(), '\n'), 20);
  EXPECT_EQ(told_, "");
}

TEST_F(AlertCommandTest, TheOldestOfTooManyGivesWay) {
  AlertCommand c = command("sleep 1000");
  for (size_t i = 0; i < AlertCommand::kMaxAtOnce + AlertCommand::kMaxWaiting + 2; ++i)
    c.run(notice("n" + std::to_string(i)));
  EXPECT_EQ(told_, "--on-alert: not run for n4: 64 others wait\n--on-alert: not run for n5: 64 others wait\n");
  const int64_t begun = monotonic_ns();
  c.finish(100 * kMs);
  EXPECT_LT(monotonic_ns() - begun, kLong);
  EXPECT_FALSE(c.busy());
}

}  // namespace
}  // namespace profgpu
