#include "cli/output.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/support/test_folder.h"

namespace profgpu {
namespace {

TEST(Printable, ShowsControlCharactersInsteadOfSendingThem) {
  EXPECT_EQ(printable("a\x1b[31mb\r\x7f"), "a\\x1b[31mb\\x0d\\x7f");
  EXPECT_EQ(printable("one\ntwo µ"), "one\ntwo µ");
  EXPECT_EQ(printable("\xC2\x9B" "31m"), "\\x9b31m") << "the one-character form of an escape sequence";
  EXPECT_EQ(printable("\x9B\xFF"), "\uFFFD\uFFFD");
  EXPECT_EQ(printable("a\tb\n\n"), "a\\x09b\n\n");
  EXPECT_EQ(printable("fdp.\u202Egpj"), "fdp.\\u202egpj") << "what turns the text behind it around";
}

class WriteFile : public testing::Test {
 protected:
  static std::string content(const std::filesystem::path& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  const TestFolder folder_;
};

TEST_F(WriteFile, ReplacesAndLeavesNothingElse) {
  ASSERT_TRUE(write_file(folder_ / "report", "old"));
  ASSERT_TRUE(write_file(folder_ / "report", "new"));
  EXPECT_EQ(content(folder_ / "report"), "new");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.string()), {}), 1);
}

TEST_F(WriteFile, LeavesNothingWhenItsTerminalIsClosed) {
  const auto write_until_closed = [this] {
    install_interrupt_handler();
    const auto file = OutputFile::open(folder_ / "report");
    ::raise(SIGHUP);
  };
  EXPECT_EXIT(write_until_closed(), testing::ExitedWithCode(129), "");
  EXPECT_TRUE(std::filesystem::is_empty(folder_.string()));
}

TEST_F(WriteFile, FollowsLinks) {
  ASSERT_TRUE(write_file(folder_ / "report", "old"));
  std::filesystem::create_symlink("report", folder_ / "link");
  ASSERT_TRUE(write_file(folder_ / "link", "new"));
  EXPECT_EQ(content(folder_ / "report"), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "link"));
}

TEST_F(WriteFile, NamesTheFileInErrors) {
  const std::string path = folder_ / "absent" / "report";
  auto written = write_file(path, "text");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().message, path + ": cannot be written: No such file or directory");
  EXPECT_FALSE(write_file("/dev/full", "text"));
}

}  // namespace

}  // namespace profgpu
