#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "app/export/run.h"
#include "app/export/sql_database.h"
#include "tests/support/sample_recording.h"
#include "trace/import/recording.h"

namespace profgpu {

extern const Exporter kChromeExport, kPerfettoExport;

namespace {

// What the NCCL range of the made-up recording says.
constexpr std::string_view kSaid = R"({"Message size [bytes]": 4194304})";

class RangeArguments : public testing::Test {
 protected:
  RangeArguments() { run_.ranks.emplace_back(0, facts_); }

  std::string exported(const Exporter& exporter) {
    const int fd = ::memfd_create("export", 0);
    ByteWriter out(fd);
    EXPECT_TRUE(exporter.write(run_, {}, out));
    EXPECT_EQ(out.flush(), 0);
    std::string text(static_cast<size_t>(::lseek(fd, 0, SEEK_END)), '\0');
    EXPECT_EQ(::pread(fd, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    ::close(fd);
    return text;
  }

  RecordingFile file_ = *recording_of(sample_recording({.steps = 1, .kernels = 2}).bytes(), "one.pgt");
  Trace trace_ = recorded_trace({{&file_}, {}, {}}, {});
  Facts facts_{trace_, {}};
  RunRows run_;
};

TEST_F(RangeArguments, AreAColumn) {
  const auto database = SqlDatabase::open(run_);
  ASSERT_TRUE(database);
  SqlError error;
  const auto rows = (*database)->query("SELECT name, arguments FROM host WHERE arguments IS NOT NULL", error);
  ASSERT_TRUE(rows) << error.message;
  ASSERT_TRUE(*rows->next());
  EXPECT_EQ(rows->row()[0].text(), "NCCL: ncclAllReduce");
  EXPECT_EQ(rows->row()[1].text(), kSaid);
  EXPECT_FALSE(*rows->next());
}

TEST_F(RangeArguments, AreInTimelines) {
  EXPECT_NE(exported(kChromeExport).find(R"("args": {"arguments": )" + std::string(kSaid)), std::string::npos);
  EXPECT_NE(exported(kPerfettoExport).find(kSaid), std::string::npos);
}

}  // namespace
}  // namespace profgpu
