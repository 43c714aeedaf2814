// What ran on the host.
#include "analyse/rank/threads.h"
#include "app/export/data_table.h"

namespace profgpu {
namespace {

using Kind = Datum::Kind;
using From = RowSource;

const OpArgs* op_args(const From& f, size_t row) {
  const OpArgsId args = f.trace().host.args[row];
  return args.valid() ? &f.trace().op_args[args.value] : nullptr;
}

std::vector<Stretch> threads_of_host(const From& f) {
  std::vector<Stretch> all;
  for (size_t t = 0; t < f.trace().threads.size(); ++t)
    all.push_back({f.trace().threads[t].begin.value, f.trace().threads[t].end.value, static_cast<int64_t>(t)});
  return all;
}

Datum link_of(const From& f, size_t row, bool call) {
  const HostTable& h = f.trace().host;
  return h.link[row] != 0 && h.is_call(HostId(row)) == call ? Datum(h.link[row]) : Datum();
}

std::vector<Stretch> threads_of_waits(const From& f) {
  const std::vector<ThreadWait>& waits = f.trace().thread_waits;
  std::vector<Stretch> all;
  for (size_t i = 0; i < waits.size(); ++i) {
    if (i == 0 || waits[i].thread != waits[i - 1].thread) all.push_back({i, i, waits[i].thread.value});
    all.back().end = i + 1;
  }
  return all;
}

}  // namespace

extern const DataTable kHostData, kThreadData, kThreadSampleData, kThreadWaitData, kBackwardData;

const DataTable kHostData{
    .name = "host",
    .summary = "every range on the host: operators, annotations, Python frames, calls of the driver and runtime",
    .columns = of_rank(
        {{"id", Kind::kInteger, "number of the row within its rank", row_cell},
         {"thread_id", Kind::kInteger, "row of threads",
          [](const From& f, size_t i, size_t) -> Datum { return f.trace().host.thread[i].value; }},
         {"start_ns", Kind::kInteger, "start, on the trace's clock", cell<&Trace::host, &HostTable::start_ns>},
         {"duration_ns", Kind::kInteger, "how long it took", cell<&Trace::host, &HostTable::duration_ns>},
         {"end_ns", Kind::kInteger, "end, on the trace's clock",
          [](const From& f, size_t i, size_t) -> Datum { return f.trace().host.end_ns(HostId(i)); }},
         {"kind", Kind::kText, "op, annotation, python, runtime, driver or overhead (the profiler's own)",
          [](const From& f, size_t i, size_t) -> Datum { return host_kind_name(f.trace().host.kind[i]); }},
         {"name", Kind::kText, "name as recorded",
          [](const From& f, size_t i, size_t) -> Datum { return f.trace().name(HostId(i)); }},
         {"parent_id", Kind::kInteger, "row of host: the innermost range of the same thread around it",
          cell<&Trace::host, &HostTable::parent>},
         {"correlation", Kind::kInteger, "of calls: the id that what they launched has too",
          [](const From& f, size_t i, size_t) { return link_of(f, i, true); }},
         {"external_id", Kind::kInteger, "of operators and annotations: the profiler's id",
          [](const From& f, size_t i, size_t) { return link_of(f, i, false); }},
         {"shapes", Kind::kText, "of operators: shapes of the arguments, as JSON",
          [](const From& f, size_t i, size_t) {
            return op_args(f, i) ? text_or_null(f, op_args(f, i)->shapes) : Datum();
          }},
         {"types", Kind::kText, "of operators: types of the arguments, as JSON",
          [](const From& f, size_t i, size_t) {
            return op_args(f, i) ? text_or_null(f, op_args(f, i)->types) : Datum();
          }},
         {"sequence", Kind::kInteger, "of operators: autograd's sequence number",
          [](const From& f, size_t i, size_t) -> Datum {
            const OpArgs* a = op_args(f, i);
            return a != nullptr && a->sequence >= 0 ? Datum(a->sequence) : Datum();
          }},
         {"flops", Kind::kInteger, "of operators: floating-point operations, as the profiler estimates them",
          [](const From& f, size_t i, size_t) -> Datum {
            const OpArgs* a = op_args(f, i);
            return a != nullptr && a->flops > 0 ? Datum(a->flops) : Datum();
          }},
         {"arguments", Kind::kText, "of annotations: what the program said with them, as JSON",
          [](const From& f, size_t i, size_t) { return text_or_null(f, f.trace().arguments(HostId(i))); }}}),
    .rows = rows_of<&Trace::host>,
    .sorted = "start_ns",
    .key = "thread_id",
    .stretches = threads_of_host,
};

const DataTable kThreadData{
    .name = "threads",
    .summary = "threads of the host",
    .columns = of_rank(
        {{"id", Kind::kInteger, "number of the row within its rank", row_cell},
         {"process", Kind::kText, "process id as recorded", cell<&Trace::threads, &Thread::process>},
         {"thread", Kind::kText, "thread id as recorded", cell<&Trace::threads, &Thread::id>},
         {"name", Kind::kText, "name, if one was recorded", cell<&Trace::threads, &Thread::name, kTextIfAny>},
         {"ranges", Kind::kInteger, "rows of host",
          [](const From& f, size_t i, size_t) -> Datum {
            return f.trace().threads[i].end.value - f.trace().threads[i].begin.value;
          }}}),
    .rows = rows_of<&Trace::threads>,
};

const DataTable kThreadSampleData{
    .name = "thread_samples",
    .summary = "what the kernel said of threads while profgpu recorded",
    .columns = of_rank(
        {{"time_ns", Kind::kInteger, "when, on the trace's clock",
          cell<&Trace::thread_samples, &ThreadSample::time_ns>},
         {"thread_id", Kind::kInteger, "row of threads", cell<&Trace::thread_samples, &ThreadSample::thread>},
         {"state", Kind::kText, "R running, S sleeping, D waiting for a disk, and so on, as /proc has it",
          [](const From& f, size_t i, size_t) -> Datum {
            return std::string_view(&f.trace().thread_samples[i].state, 1);
          }},
         {"system_call", Kind::kInteger, "number of the call that it was blocked in, of x86-64",
          cell<&Trace::thread_samples, &ThreadSample::system_call, kFromZero>},
         {"user_ns", Kind::kInteger, "CPU time of the program, since the thread's start",
          cell<&Trace::thread_samples, &ThreadSample::user_ns>},
         {"system_ns", Kind::kInteger, "CPU time of the kernel, since the thread's start",
          cell<&Trace::thread_samples, &ThreadSample::system_ns>},
         {"waited_ns", Kind::kInteger, "ready to run, but without a processor, since the thread's start",
          cell<&Trace::thread_samples, &ThreadSample::waited_ns>},
         {"blocked_ns", Kind::kInteger,
          "off the processor since it blocked, until it had one again; by context switches",
          cell<&Trace::thread_samples, &ThreadSample::blocked_ns, kFromZero>},
         {"preempted_ns", Kind::kInteger, "off the processor since it had to give way; by context switches",
          cell<&Trace::thread_samples, &ThreadSample::preempted_ns, kFromZero>},
         {"waits", Kind::kInteger, "how often it blocked; by context switches",
          cell<&Trace::thread_samples, &ThreadSample::waits, kFromZero>}}),
    .rows = rows_of<&Trace::thread_samples>,
};

const DataTable kThreadWaitData{
    .name = "thread_waits",
    .summary = "long waits of threads: each was blocked all the while",
    .columns = of_rank(
        {{"thread_id", Kind::kInteger, "row of threads", cell<&Trace::thread_waits, &ThreadWait::thread>},
         {"start_ns", Kind::kInteger, "start, on the trace's clock", cell<&Trace::thread_waits, &ThreadWait::start_ns>},
         {"duration_ns", Kind::kInteger, "until it had a processor again",
          cell<&Trace::thread_waits, &ThreadWait::duration_ns>},
         {"system_call", Kind::kInteger, "number of the call that it was blocked in, of x86-64, where a sample saw it",
          [](const From& f, size_t i, size_t) { return kFromZero(f.rank->facts().get<ThreadTimes>().wait_calls[i]); }}}),
    .rows = rows_of<&Trace::thread_waits>,
    .sorted = "start_ns",
    .key = "thread_id",
    .stretches = threads_of_waits,
};

const DataTable kBackwardData{
    .name = "backward_links",
    .summary = "operators of the backward pass and the forward operators that made them",
    .columns = of_rank(
        {{"forward_id", Kind::kInteger, "row of host", cell<&Trace::backward_links, &BackwardLink::forward>},
         {"backward_id", Kind::kInteger, "row of host", cell<&Trace::backward_links, &BackwardLink::backward>}}),
    .rows = rows_of<&Trace::backward_links>,
};

}  // namespace profgpu
