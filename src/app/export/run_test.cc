// Ranks whose events are read when they are needed give the same files as ranks whose events are there for good.
#include "app/export/run.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>

#include "analyse/job/rank_digest.h"
#include "analyse/rank/steps.h"
#include "app/export/sql_database.h"
#include "tests/support/simulator.h"
#include "tests/support/test_folder.h"
#include "trace/import/importer.h"

namespace profgpu {
namespace {

namespace fs = std::filesystem;

constexpr int kRanks = 3;

class RankRowsTest : public testing::Test {
 protected:
  RankRowsTest() {
    sim::SimOptions options;
    options.ranks = kRanks, options.steps = 3, options.layers = 2;
    const auto result = sim::simulate(options);
    std::vector<RankDigest> digests;
    for (int rank = 0; rank < kRanks; ++rank) {
      folder_.write(name_of(rank), sim::kineto_text(result->traces[static_cast<size_t>(rank)], {}));
      whole_.push_back(*read(rank));
      digests.push_back(rank_digest(rank, whole_.back()->facts));
    }
    job_ = analyse_job(digests);
    for (int rank = 0; rank < kRanks; ++rank) whole_[static_cast<size_t>(rank)]->facts.provide(job_.call_timings.at(rank));
  }

  static std::string name_of(int rank) { return std::to_string(rank) + ".json"; }
  [[nodiscard]] std::string file(int rank) const { return folder_ / name_of(rank); }
  [[nodiscard]] Result<std::unique_ptr<TraceFacts>> read(int rank) const {
    auto imported = import_file(file(rank), {});
    if (!imported) return imported.error();
    return std::make_unique<TraceFacts>(std::move(imported->trace), AnalysisOptions{});
  }

  [[nodiscard]] RunRows there(Interval part) const {
    RunRows run;
    run.job = &job_;
    for (int rank = 0; rank < kRanks; ++rank)
      run.ranks.emplace_back(rank, whole_[static_cast<size_t>(rank)]->facts, part);
    return run;
  }
  [[nodiscard]] RunRows read_when_needed(Interval part) const {
    RunRows run;
    run.job = &job_;
    for (int rank = 0; rank < kRanks; ++rank) {
      const CallTimings& timings = job_.call_timings.at(rank);
      run.ranks.emplace_back(rank, RankOutline::of(whole_[static_cast<size_t>(rank)]->facts, part), timings,
                             [this, rank, &timings] {
                               auto events = read(rank);
                               ++reads_;
                               if (events) (*events)->facts.provide(timings);
                               return events;
                             });
    }
    return run;
  }

  static std::string written(const Exporter& exporter, const RunRows& run) {
    const int fd = ::memfd_create("export", 0);
    ByteWriter out(fd);
    const Status status = exporter.write(run, {Weight::kHost, "activity"}, out);
    EXPECT_TRUE(status) << status.error().message;
    EXPECT_EQ(out.flush(), 0);
    std::string text(static_cast<size_t>(::lseek(fd, 0, SEEK_END)), '\0');
    EXPECT_EQ(::pread(fd, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    ::close(fd);
    return text;
  }

  TestFolder folder_;
  std::vector<std::unique_ptr<TraceFacts>> whole_;
  Job job_;
  mutable int reads_ = 0;
};

TEST_F(RankRowsTest, ReadWhenNeededTheyGiveTheSameBytes) {
  const Interval second = whole_.front()->facts.get<Steps>().steps.at(1).interval();
  for (const Interval part : {RankRows::kAllTime, second})
    for (const Exporter* exporter : exporters()) {
      if (exporter->write == nullptr) continue;
      const std::string text = written(*exporter, there(part));
      EXPECT_GT(text.size(), 10'000U) << exporter->name;
      EXPECT_EQ(text, written(*exporter, read_when_needed(part))) << exporter->name;
    }
}

TEST_F(RankRowsTest, AnOutlineIsEnoughForWhatComesBeforeTheEvents) {
  const Interval second = whole_.front()->facts.get<Steps>().steps.at(1).interval();
  const RunRows there_run = there(second), run = read_when_needed(second);
  for (size_t i = 0; i < kRanks; ++i) {
    EXPECT_EQ(run.ranks[i].extent(), there_run.ranks[i].extent());
    EXPECT_EQ(run.clock(run.ranks[i])(7), there_run.clock(there_run.ranks[i])(7));
    int64_t host = 0;
    for (uint32_t h = 0; h < there_run.ranks[i].trace().host.size(); ++h) host += there_run.ranks[i].shows(HostId(h));
    EXPECT_GT(host, 0);
    EXPECT_GT(run.ranks[i].outline().events, host);
  }
}

TEST_F(RankRowsTest, EachIsReadInItsTurnAndDropped) {
  const RunRows run = read_when_needed(RankRows::kAllTime);
  int seen = 0;
  EXPECT_TRUE(run.each_rank([&](const RankRows&) { EXPECT_EQ(reads_, ++seen); }));
  EXPECT_EQ(seen, kRanks);
  EXPECT_TRUE(run.ranks.front().load());
  EXPECT_EQ(reads_, kRanks + 1) << "it was dropped";
  EXPECT_TRUE(run.ranks.front().load());
  EXPECT_EQ(reads_, kRanks + 1);
}

TEST_F(RankRowsTest, AFileThatIsGoneIsAnError) {
  const RunRows run = read_when_needed(RankRows::kAllTime);
  fs::remove(file(1));
  int seen = 0;
  const Status status = run.each_rank([&](const RankRows&) { ++seen; });
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("1.json"), std::string::npos);
  EXPECT_EQ(seen, 1);
}

std::string answer(const RunRows& run, const std::string& sql) {
  const auto database = SqlDatabase::open(run, 0);   // no room for a rank that is not read just now
  SqlError error;
  const auto rows = (*database)->query(sql, error);
  if (!rows) return error.message;
  std::string text;
  auto more = rows->next();
  for (; more && *more; more = rows->next())
    for (const Datum& cell : rows->row())
      text +=
          cell.kind() == Datum::Kind::kText
              ? std::string(cell.text()) + '\t'
              : std::to_string(cell.kind() == Datum::Kind::kReal ? cell.real() : static_cast<double>(cell.integer())) +
                    '\t';
  return more ? text : more.error().message;
}

TEST_F(RankRowsTest, AQueryReadsRanksOneAfterAnother) {
  const RunRows whole = there(RankRows::kAllTime);
  for (const char* sql :
       {"SELECT rank, min(name), max(name), count(*), sum(duration_ns) FROM activity GROUP BY 1",
        "SELECT * FROM host WHERE id < 20", "SELECT name, total_ns FROM kernels_by_name ORDER BY 2 DESC, 1",
        "SELECT a.rank, h.name, count(*) FROM activity a JOIN host h ON h.rank = a.rank AND h.id = a.op_id GROUP BY 1, "
        "2"}) {
    reads_ = 0;
    EXPECT_EQ(answer(read_when_needed(RankRows::kAllTime), sql), answer(whole, sql)) << sql;
    EXPECT_EQ(reads_, kRanks) << sql;
  }
  reads_ = 0;
  constexpr const char* kOne = "SELECT count(*) FROM activity WHERE rank = 2";
  EXPECT_EQ(answer(read_when_needed(RankRows::kAllTime), kOne), answer(whole, kOne));
  EXPECT_LE(reads_, 2) << "the first rank's, for a plan, and the one that is asked for";
}

TEST_F(RankRowsTest, RanksThatAQuerySetsBesideEachOtherStay) {
  constexpr const char* kBeside = "SELECT count(*) FROM host a, host b WHERE a.id < 50 AND b.id < 5";
  EXPECT_EQ(answer(read_when_needed(RankRows::kAllTime), kBeside), answer(there(RankRows::kAllTime), kBeside));
  EXPECT_LE(reads_, ResidentRanks::kOftenRead * kRanks);
}

TEST_F(RankRowsTest, ARankThatIsGoneEndsAQuery) {
  const RunRows run = read_when_needed(RankRows::kAllTime);
  fs::remove(file(1));
  EXPECT_NE(answer(run, "SELECT count(*) FROM activity").find("1.json"), std::string::npos);
}

}  // namespace
}  // namespace profgpu
