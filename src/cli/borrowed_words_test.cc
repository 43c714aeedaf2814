#include "cli/borrowed_words.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include "base/text.h"

namespace profgpu {
namespace {

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

std::string own(const std::string& line) { return joined(own_words_for(words_of(line)).words, " "); }

std::string first_note(const std::string& line) {
  const OwnWords own = own_words_for(words_of(line));
  return own.notes.empty() ? "" : own.notes.front();
}

TEST(BorrowedWords, OwnLinesStayAsTheyAre) {
  for (const char* line :
       {"analyze trace.json --top 5", "run --trace -o f -- python -l 1 --no-color", "log -i 1 --count 2", "stat -f",
        "run python train.py --loop 3", "--version", "nonsense -l 1", "query t.json --file a.sql", "run -- dmon",
        "log --device -l", "top --sort sm -- -m", "attach 12 start"}) {
    EXPECT_EQ(own(line), line);
    EXPECT_EQ(first_note(line), "") << line;
  }
  EXPECT_EQ(own(""), "");
  EXPECT_EQ(own_words_for({"query", "t.json", "-- all\nselect 1"}).words.back(), "-- all\nselect 1");
}

TEST(BorrowedWords, WhatThisProgramDoesNotDoIsRefused) {
  const auto refusal = [](const std::string& line) {
    const OwnWords own = own_words_for(words_of(line));
    return own.refusal + " | " + own.instead;
  };
  EXPECT_EQ(refusal("py-spy dump --pid 12"), "profgpu prints no stacks of a process | use py-spy dump --pid 12");
  EXPECT_EQ(refusal("nvidia-smi -i 0 -pl 300"), "profgpu changes no settings | use nvidia-smi -i 0 -pl 300");
  EXPECT_EQ(refusal("nvidia-smi --persistence-mode=1"), "profgpu changes no settings | use nvidia-smi --persistence-mode=1");
  EXPECT_EQ(refusal("nvidia-smi dmon -c 3"), " | ") << "a count";
  EXPECT_EQ(refusal("nvidia-smi -l 1"), " | ");
}

TEST(BorrowedWords, ALaterQOfNvidiaSmiShowsTheDevices) {
  EXPECT_EQ(own("nvidia-smi -i 0 -q -d CLOCK"), "devices --device 0");
  EXPECT_EQ(own("nvidia-smi -q -i 0"), "devices --device 0");
}

TEST(BorrowedWords, KindsOfEventsOfRocprof) {
  EXPECT_EQ(own("rocprofv3 --hip-trace --kernel-trace -d out -- ./a"), "run --trace -o out -- ./a");
}

TEST(BorrowedWords, OfNvidiaSmi) {
  EXPECT_EQ(own("log -l 1"), "log --interval 1");
  EXPECT_EQ(own("log -l1"), "log --interval 1");
  EXPECT_EQ(own("log --loop=5 --id=0"), "log --interval 5 --device 0");
  EXPECT_EQ(own("log -lms 200"), "log --interval 200ms");
  EXPECT_EQ(own("log --query-gpu=utilization.gpu,memory.used --format=csv,noheader,nounits -l 1"),
            "log --query utilization.gpu,memory.used --format csv --no-header --interval 1");
  EXPECT_EQ(own("log --query-gpu name --format csv,noheader"), "log --query name --format csv --no-header --units");
  EXPECT_EQ(own("log --format=csv"), "log --format=csv") << "our own";
  EXPECT_EQ(own("dmon -s pm -d 2 -c 3 -i 0"),
            "log --interval 2 --count 3 --device 0 --query device,power_w,temperature_c,memory_temperature_c,"
            "memory_used_bytes,bar1_used_bytes --format table");
  EXPECT_EQ(own("dmon -o T -f x.csv -s c"),
            "log --timestamps iso --output x.csv --query timestamp,device,memory_clock_mhz,sm_clock_mhz");
  EXPECT_EQ(own("dmon -s v -c 1"),
            "log --count 1 --query device,throttle_power_pct,throttle_thermal_pct --format table") << "per interval";
  EXPECT_NE(own("dmon -s q").find("-s q"), std::string::npos) << "the parser refuses it";
  EXPECT_EQ(first_note("log -l 1"), "read as: profgpu log --interval 1");
}

TEST(BorrowedWords, OfGpustatAndNvitop) {
  EXPECT_EQ(own("gpustat -cp -i --no-color"), "stat -cp --watch 1 --color never");
  EXPECT_EQ(own("stat -i 0.5"), "stat --watch 0.5");
  EXPECT_EQ(first_note("stat -i 0.5"), "");
  EXPECT_EQ(own("nvitop -m full"), "top");
  EXPECT_EQ(own("top -l 1"), "top --interval 1") << "as nvidia-smi's";
  EXPECT_EQ(own("top --loop"), "top --interval 5");
  EXPECT_EQ(own("top --no-color"), "top --color never");
  EXPECT_EQ(own("gpustat --json --watch"), "stat --format gpustat-json --watch 1");
  EXPECT_EQ(own("nvitop -o 0 -u alice --ascii --light"), "top --device 0 --filter alice");
  EXPECT_EQ(first_note("analyze x --no-color"), "");
}

TEST(BorrowedWords, FieldsAndMillisecondsOfDcgmi) {
  const std::string line = "dcgmi dmon -e 100,140,155,1005,9999 -d 500 -c 3";
  EXPECT_EQ(own(line), "log --interval 500ms --count 3 --query device,sm_clock_mhz,memory_temperature_c,power_w,dram_active_pct "
                       "--format table");
  EXPECT_NE(own_words_for(words_of(line)).notes.back().find("-e 9999: no such field"), std::string::npos);
  EXPECT_EQ(own("dcgmi dmon --list").substr(0, 16), "log --help-query");
}

TEST(BorrowedWords, FlagsOfDcgmExporter) {
  EXPECT_EQ(own("dcgm-exporter -a :9400 -c 30000 -f counters.csv -d f -n"),
            "exporter --listen :9400 --interval 30000ms -f counters.csv --no-hostname");
  EXPECT_EQ(own("exporter --address=:9400 --collect-interval 500 --devices g:0,1 --web-config-file web.yml"),
            "exporter --listen :9400 --interval 500ms --device 0,1 --web.config.file web.yml");
  EXPECT_EQ(own("exporter -r localhost:5555 -s f -p f"), "exporter");
  EXPECT_EQ(own("exporter -d i:0,1"), "exporter");
  EXPECT_NE(own_words_for(words_of("exporter -d i:0,1")).notes.back().find("--device chooses them"), std::string::npos);
  EXPECT_EQ(own("exporter -i 0.1 --listen :9400 -k --no-hostname"), "exporter -i 0.1 --listen :9400 -k --no-hostname");
}

TEST(BorrowedWords, TheToolsNameMayStayInFront) {
  EXPECT_EQ(own("nvidia-smi"), "stat");
  EXPECT_EQ(own("nvidia-smi -l 1"), "stat --watch 1");
  EXPECT_EQ(own("nvidia-smi -i 0"), "stat --device 0");
  EXPECT_EQ(own("nvidia-smi -L"), "devices");
  EXPECT_EQ(own("nvidia-smi topo -m"), "devices");
  EXPECT_EQ(own("nvidia-smi nvlink -s"), "devices");
  EXPECT_EQ(own("nvidia-smi dmon -s c -d 1"),
            "log --interval 1 --query device,memory_clock_mhz,sm_clock_mhz --format table");
  const std::string query = "--query-gpu=pstate,memory.used --format=csv -l 1 -t";
  for (const char* tool : {"nvidia-smi ", ""})
    EXPECT_EQ(own(tool + query), "log --query pstate,memory.used --format csv --units --interval 1");
  EXPECT_EQ(own("nvidia-smi --format=csv,noheader --query-gpu=name"),
            "log --format csv --no-header --units --query name --count 1") << "one row without -l";
  EXPECT_EQ(own("--query-gpu=name --format=csv,nounits -lms 200"), "log --query name --format csv --interval 200ms");
  EXPECT_EQ(own("nvidia-smi --query-compute-apps=pid,used_memory --format=csv"), "stat --full");
  EXPECT_EQ(own("nvidia-smi -q -d CLOCK -x"), "devices --json");
  EXPECT_EQ(own("nvlink -s"), "devices");
  EXPECT_EQ(own("--help-query-gpu"), "log --help-query");
  EXPECT_EQ(own("-L"), "devices");
  EXPECT_EQ(own("pmon -c 3"), "stat --full --watch 1 --count 3");
  EXPECT_EQ(own("pmon -d 5 -i 0"), "stat --full --watch 5 --device 0");
  EXPECT_EQ(own("rocm-smi --showuse --showtemp -d 1"), "stat --device 1");
  EXPECT_EQ(own("rocm-smi --showtopo"), "devices");
  EXPECT_EQ(own("rocm-smi --showmeminfo vram"), "stat");
  EXPECT_EQ(own("dcgmi diag -r 1"), "doctor");
  EXPECT_EQ(own("dcgmi discovery -l"), "devices");
  EXPECT_EQ(own("nsys export --type sqlite -o a.sqlite x.nsys-rep"), "export --to sqlite -o a.sqlite x.nsys-rep");
  EXPECT_EQ(own("nsys stats --report cuda_gpu_kern_sum x.sqlite"), "analyze x.sqlite");
  EXPECT_EQ(own("py-spy record -r 100 -d 5 -o x --pid 12"), "attach --duration 5 -o x 12 torch");
  EXPECT_EQ(own("amd-smi list"), "devices");
  EXPECT_EQ(own("nsys profile -o x --cudabacktrace=all python t.py"), "run --trace -o x python t.py");
  EXPECT_EQ(own("nsys stats x.nsys-rep"), "analyze x.nsys-rep");
  EXPECT_EQ(own("nsys-ui x.nsys-rep"), "analyze x.nsys-rep");
  EXPECT_EQ(own("py-spy record -o x -r 100 -f speedscope -- python -r t.py"), "run --trace -o x -- python -r t.py");
  EXPECT_EQ(own("py-spy top --pid 12"), "top --filter 12");
  EXPECT_EQ(own("run nvidia-smi -l 1"), "run nvidia-smi -l 1") << "a program";
  EXPECT_EQ(own("-- nvidia-smi --query-gpu=name"), "-- nvidia-smi --query-gpu=name");
  EXPECT_EQ(own("nvidia-settings -q"), "nvidia-settings -q");
}

TEST(BorrowedWords, OfNsysAndPySpy) {
  EXPECT_EQ(own("profile -o out --trace=cuda,nvtx,osrt --capture-range=cudaProfilerApi --capture-range-end=stop python t.py"),
            "run --trace -o out --capture-range cudaProfilerApi python t.py");
  EXPECT_EQ(own("profile -o out --trace=cuda,nvtx,osrt,cudnn,cublas python t.py"),
            "run --trace -o out --preload python t.py");
  EXPECT_EQ(own("run -t cuda,nvtx -d 30 -- ./a -t 1"), "run --trace --duration 30 -- ./a -t 1");
  EXPECT_EQ(own("nsys profile --trace cuda,nvtx -o a python t.py"), "run --trace -o a python t.py");
  EXPECT_EQ(own("nsys profile --trace cuda ./cuda"), "run --trace ./cuda");
  EXPECT_EQ(own("nsys profile -tcuda,cudnn python t.py"), "run --trace --preload python t.py");
  EXPECT_EQ(own("run --trace cuda,nvtx python t.py"), "run --trace python t.py");
  EXPECT_EQ(own("run --trace ./a,b cuda,nvtx"), "run --trace ./a,b cuda,nvtx") << "a program";
  EXPECT_EQ(own("nsys profile -x true --wait all --kill none --pytorch=autograd-nvtx -b dwarf ./a"), "run --trace ./a");
  EXPECT_EQ(own("nsys profile -c nvtx -p step ./a"), "run --trace --range step ./a");
  EXPECT_EQ(own("nsys profile --capture-range=none ./a"), "run --trace ./a");
  EXPECT_EQ(own("nsys profile -e A=1,B=2 python t.py"), "run --trace -- env A=1 B=2 python t.py");
  EXPECT_EQ(own("nsys profile --env-var=A=1 -- ./a"), "run --trace -- env A=1 ./a");
  EXPECT_EQ(own("nsys launch -t cuda ./a"), "run --trace --capture-range attach ./a");
  EXPECT_EQ(own("nsys profile --start-later=true ./a"), "run --trace --capture-range attach ./a");
  EXPECT_EQ(own("nsys start"), "attach");
  EXPECT_EQ(own("nsys --version"), "--version");
  EXPECT_EQ(own("record -o out -- python t.py"), "run --trace -o out -- python t.py");
  EXPECT_EQ(own("--trace=cuda -- python t.py"), "--trace -- python t.py");
  const OwnWords stopped = own_words_for(words_of("run --trace --capture-range-end=stop -- x"));
  ASSERT_EQ(stopped.notes.size(), 1U);
  EXPECT_NE(stopped.notes.front().find("--capture-range-end: recording stops"), std::string::npos);
}

TEST(BorrowedWords, ResultsOfNsysAreNamedByItsMacros) {
  ::setenv("PROFGPU_TEST_RANK", "3", 1);
  EXPECT_EQ(own("nsys profile -o a_%q{PROFGPU_TEST_RANK}_%% ./a"), "run --trace -o a_3_% ./a");
  EXPECT_EQ(own("nsys profile --output=a_%q{PROFGPU_TEST_RANK} ./a"), "run --trace --output=a_3 ./a");
  EXPECT_EQ(own("nsys profile -o /nowhere/a%n ./a"), "run --trace -o /nowhere/a1 ./a");
  EXPECT_EQ(own("nsys profile -o a%p ./a"), fmt::format("run --trace -o a{} ./a", ::getpid()));
  EXPECT_EQ(own("nsys profile -o a%q{ ./a"), "run --trace -o a%q{ ./a");
  EXPECT_EQ(own("run --trace -o a%n ./a"), "run --trace -o a%n ./a") << "ours";
}

TEST(BorrowedWords, LongNamesOfGpustat) {
  EXPECT_EQ(own("gpustat --show-pid --show-cmd --show-user --show-fan --show-power --show-codec"),
            "stat --pid --cmd --user --fan --power --codec");
  EXPECT_EQ(own("gpustat -P limit,draw -e enc,dec -p"), "stat --power --codec -p");
  EXPECT_EQ(own("gpustat --color --gpuname-width 20 --debug"), "stat --color always");
  EXPECT_EQ(own("stat -l"), "stat --watch 5") << "as nvidia-smi's";
  EXPECT_EQ(own("log --loop=2"), "log --interval 2");
}

// Letters of one tool are another's.
TEST(BorrowedWords, LettersOfAmdsTools) {
  EXPECT_EQ(own("rocm-smi -u -t -p -P -c -d 1"), "stat --device 1");
  EXPECT_EQ(own("rocm-smi -f"), "stat --fan");
  EXPECT_EQ(own("rocm-smi --showid"), "devices");
  EXPECT_EQ(own("rocm-smi --showproductname -d 0"), "devices --device 0");
  EXPECT_EQ(own("amd-smi metric -g 0 -u -p"), "stat --device 0");
  EXPECT_EQ(own("amd-smi static --gpu 0 --asic"), "devices --device 0");
  EXPECT_EQ(own("amd-smi monitor -p -t -w 2 -i 5"), "log --interval 2 --count 5");
}

TEST(BorrowedWords, AModuleIsAProgram) {
  EXPECT_EQ(own("run -m train --lr 1"), "run -- -m train --lr 1");
  EXPECT_EQ(own("run --trace -m train -m x"), "run --trace -- -m train -m x");
  EXPECT_EQ(own("run python -m train"), "run python -m train");
}

TEST(BorrowedWords, NotesHaveNoCredentials) {
  EXPECT_EQ(first_note("nsys profile python t.py --token abc"), "read as: profgpu run --trace python t.py --token ***");
}

}  // namespace
}  // namespace profgpu
