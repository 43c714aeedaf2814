/* <profgpu/c.h> from C99: everything is called, and what comes back is held against the report's JSON. */
#include <profgpu/c.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int failures = 0;

static void check(int holds, const char* file, int line, const char* what) {
  if (holds) return;
  ++failures;
  fprintf(stderr, "%s:%d: %s\n", file, line, what);
}
#define CHECK(condition) check((condition) != 0, __FILE__, __LINE__, #condition)

static profgpu_string text_of(const char* zero_terminated) {
  profgpu_string s;
  s.data = zero_terminated;
  s.size = strlen(zero_terminated);
  return s;
}

static int is(profgpu_string s, const char* text) { return s.size == strlen(text) && memcmp(s.data, text, s.size) == 0; }
static int holds(profgpu_string s, const char* part) { return s.data != NULL && strstr(s.data, part) != NULL; }

static void sleep_ms(long ms) {
  struct timespec t;
  t.tv_sec = ms / 1000;
  t.tv_nsec = ms % 1000 * 1000000;
  nanosleep(&t, NULL);
}

static const char kTrace[] = "examples/resnet-demo.json.gz";

static void test_versions(void) {
  CHECK(profgpu_c_version() == PROFGPU_C_VERSION);
  CHECK(profgpu_version().size >= 5);
}

static void test_errors(void) {
  profgpu_error* error = NULL;
  const profgpu_string missing = text_of("/nonexistent/trace.json");
  CHECK(profgpu_analyze(&missing, 1, NULL, 0, &error) == NULL);
  CHECK(error != NULL && holds(profgpu_error_message(error), "/nonexistent/trace.json"));
  profgpu_error_free(error);
  CHECK(profgpu_analyze(&missing, 1, NULL, 0, NULL) == NULL);
  CHECK(profgpu_open(&missing, 1, NULL, 0, NULL) == NULL);
  error = NULL;
  CHECK(profgpu_analyze(NULL, 0, NULL, 0, &error) == NULL && error != NULL);
  profgpu_error_free(error);

  const profgpu_string trace = text_of(kTrace);
  profgpu_option bad[2];
  bad[0].name = text_of("stepz");
  bad[0].value = text_of("1:2");
  error = NULL;
  CHECK(profgpu_analyze(&trace, 1, bad, 1, &error) == NULL);
  CHECK(holds(profgpu_error_message(error), "stepz") && holds(profgpu_error_hint(error), "step-pattern"));
  profgpu_error_free(error);
  bad[0].name = text_of("steps");
  bad[0].value = text_of("backwards");
  error = NULL;
  CHECK(profgpu_analyze(&trace, 1, bad, 1, &error) == NULL && holds(profgpu_error_message(error), "backwards"));
  profgpu_error_free(error);
  bad[0].name = text_of("format");
  bad[0].value = text_of("pdf");
  error = NULL;
  CHECK(profgpu_analyze(&trace, 1, bad, 1, &error) == NULL && holds(profgpu_error_hint(error), "markdown"));
  profgpu_error_free(error);
  profgpu_error_free(NULL);
  profgpu_text_free(NULL);
  profgpu_report_free(NULL);
  profgpu_run_free(NULL);
  profgpu_table_free(NULL);
  profgpu_monitor_free(NULL);
}

/* A mistake of the caller's is an error, and no crash. */
static void test_nothing(void) {
  const profgpu_string nothing = {NULL, 5};
  profgpu_error* error = NULL;
  CHECK(profgpu_analyze(NULL, 1, NULL, 1, NULL) == NULL && profgpu_open(&nothing, 1, NULL, 0, NULL) == NULL);
  CHECK(profgpu_report_write(NULL, text_of("json"), NULL, 0, &error) == NULL && holds(profgpu_error_message(error), "report"));
  profgpu_error_free(error);
  CHECK(profgpu_run_table(NULL, text_of("host"), &error) == NULL && holds(profgpu_error_message(error), "run"));
  profgpu_error_free(error);
  CHECK(profgpu_run_query(NULL, text_of("select 1"), NULL) == NULL);
  CHECK(profgpu_report_findings(NULL) == 0 && profgpu_report_finding(NULL, 0, NULL) == 0);
  CHECK(profgpu_table_rows(NULL) == 0 && profgpu_table_columns(NULL) == 0 && profgpu_table_column(NULL, 0, NULL) == 0);
  CHECK(profgpu_error_message(NULL).size == 0 && profgpu_error_hint(NULL).size == 0 && profgpu_text_view(NULL).size == 0);
  profgpu_monitor_start(NULL);
  profgpu_monitor_mark(NULL, nothing);
  profgpu_monitor_stop(NULL);
  CHECK(profgpu_monitor_problem(NULL).size > 0 && profgpu_monitor_summary(NULL) == NULL);
  CHECK(profgpu_monitor_summary_text(NULL) == NULL && profgpu_monitor_samples(NULL) == NULL);
  profgpu_range_push(nothing);
  profgpu_range_mark(nothing);
  profgpu_range_pop();
}

static void test_findings(const profgpu_report* report, profgpu_string json) {
  profgpu_finding finding;
  size_t i;
  CHECK(profgpu_report_findings(report) > 0);
  for (i = 0; i < profgpu_report_findings(report); ++i) {
    memset(&finding, 0, sizeof finding);
    finding.struct_size = sizeof finding;
    CHECK(profgpu_report_finding(report, i, &finding) == 1);
    CHECK(finding.struct_size == sizeof finding && finding.rule.size > 0 && finding.what.size > 0 && finding.why.size > 0);
    CHECK(finding.severity >= PROFGPU_INFO && finding.severity <= PROFGPU_CRITICAL);
    CHECK(holds(json, finding.rule.data));
    CHECK(!finding.has_cost || finding.cost_ns >= 0);
  }
  CHECK(profgpu_report_finding(report, i, &finding) == 0);
  /* A caller from before `why` was there. */
  memset(&finding, 7, sizeof finding);
  finding.struct_size = offsetof(profgpu_finding, why);
  CHECK(profgpu_report_finding(report, 0, &finding) == 1);
  CHECK(finding.struct_size == offsetof(profgpu_finding, why) && finding.rule.size > 0);
  CHECK(finding.has_cost == 0x07070707);
}

static void test_report(void) {
  const profgpu_string trace = text_of(kTrace);
  profgpu_error* error = NULL;
  profgpu_option top;
  profgpu_report* report = profgpu_analyze(&trace, 1, NULL, 0, &error);
  CHECK(report != NULL && error == NULL);
  if (report == NULL) return;
  profgpu_text* json = profgpu_report_write(report, text_of("json"), NULL, 0, &error);
  CHECK(json != NULL && holds(profgpu_text_view(json), "profgpu.analysis.v1"));
  test_findings(report, profgpu_text_view(json));
  profgpu_text_free(json);
  top.name = text_of("section");
  top.value = text_of("kernels");
  profgpu_text* terminal = profgpu_report_write(report, text_of("terminal"), &top, 1, &error);
  CHECK(terminal != NULL && holds(profgpu_text_view(terminal), "gemm"));
  profgpu_text_free(terminal);
  profgpu_text* html = profgpu_report_write(report, text_of("html"), NULL, 0, &error);
  CHECK(html != NULL && holds(profgpu_text_view(html), "<!doctype html>"));
  profgpu_text_free(html);
  CHECK(profgpu_report_write(report, text_of("pdf"), NULL, 0, &error) == NULL && error != NULL);
  profgpu_error_free(error);
  profgpu_option section;
  section.name = text_of("section");
  section.value = text_of("kernelz");
  CHECK(profgpu_report_write(report, text_of("terminal"), &section, 1, &error) == NULL && holds(profgpu_error_hint(error), "kernels"));
  profgpu_error_free(error);
  profgpu_report_free(report);
}

static profgpu_column column_of(profgpu_table* table, const char* name) {
  profgpu_column column;
  size_t i;
  for (i = 0; i < profgpu_table_columns(table); ++i) {
    memset(&column, 0, sizeof column);
    column.struct_size = offsetof(profgpu_column, data);
    CHECK(profgpu_table_column(table, i, &column) == 1);
    CHECK(column.data == NULL);
    if (!is(column.name, name)) continue;
    column.struct_size = sizeof column;
    CHECK(profgpu_table_column(table, i, &column) == 1);
    return column;
  }
  memset(&column, 0, sizeof column);
  CHECK(!"there is such a column");
  return column;
}

static void test_texts(const profgpu_column* names) {
  const int32_t* codes = (const int32_t*)names->data;
  size_t i;
  CHECK(names->type == PROFGPU_TEXT && names->dictionary_size > 0 && names->dictionary_size < names->length);
  for (i = 0; i < names->length; ++i) CHECK(codes[i] >= 0 && (size_t)codes[i] < names->dictionary_size);
  for (i = 0; i < names->dictionary_size; ++i) CHECK(names->dictionary_offsets[i] < names->dictionary_offsets[i + 1]);
  CHECK(strlen(names->dictionary_text) == names->dictionary_offsets[names->dictionary_size]);
}

static void test_tables(void) {
  const profgpu_string trace = text_of(kTrace);
  profgpu_error* error = NULL;
  profgpu_run* run = profgpu_open(&trace, 1, NULL, 0, &error);
  size_t i;
  CHECK(run != NULL);
  if (run == NULL) return;
  for (i = 0; profgpu_table_name(i).size > 0; ++i) {
    profgpu_table* any = profgpu_run_table(run, profgpu_table_name(i), &error);
    CHECK(any != NULL && profgpu_table_columns(any) > 0);
    profgpu_table_free(any);
  }
  CHECK(i > 20 && profgpu_table_name(i).data == NULL);
  profgpu_table* activity = profgpu_run_table(run, text_of("activity"), &error);
  profgpu_table* sum = profgpu_run_query(
      run, text_of("select count(*) as n, sum(duration_ns) as total_ns, 0.5 as half, null as none from activity"), &error);
  CHECK(activity != NULL && sum != NULL);
  CHECK(profgpu_run_table(run, text_of("activty"), &error) == NULL && holds(profgpu_error_hint(error), "activity"));
  profgpu_error_free(error);
  CHECK(profgpu_run_query(run, text_of("drop table activity"), &error) == NULL);
  profgpu_error_free(error);
  profgpu_run_free(run); /* tables keep it */

  const profgpu_column durations = column_of(activity, "duration_ns");
  CHECK(durations.type == PROFGPU_INT64 && is(durations.unit, "ns") && durations.meaning.size > 0);
  CHECK(durations.length == profgpu_table_rows(activity) && durations.valid == NULL);
  int64_t total = 0;
  for (i = 0; i < durations.length; ++i) total += ((const int64_t*)durations.data)[i];
  const profgpu_column n = column_of(sum, "n"), total_ns = column_of(sum, "total_ns");
  CHECK(profgpu_table_rows(sum) == 1 && ((const int64_t*)n.data)[0] == (int64_t)durations.length);
  CHECK(((const int64_t*)total_ns.data)[0] == total);
  CHECK(((const double*)column_of(sum, "half").data)[0] == 0.5);
  const double none = ((const double*)column_of(sum, "none").data)[0];
  CHECK(none != none);
  const profgpu_column names = column_of(activity, "name");
  test_texts(&names);
  /* Copies have bytes, kernels none. */
  const profgpu_column bytes = column_of(activity, "bytes");
  CHECK(bytes.type == PROFGPU_INT64 && bytes.valid != NULL);
  CHECK(column_of(activity, "duration_ns").data == durations.data);
  profgpu_table_free(activity);
  profgpu_table_free(sum);
}

static void test_child(profgpu_monitor* monitor) {
  const pid_t child = fork();
  if (child == 0) {
    (void)monitor;
    profgpu_range_push(text_of("in the child"));
    profgpu_range_pop();
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
}

static void test_monitor(void) {
  const profgpu_string all = text_of("all");
  profgpu_monitor_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.devices = &all;
  options.device_count = 1;
  options.interval_s = 0.02;
  options.backend = text_of("replay:examples/replay.jsonl,loop,speed=50");
  options.keep_samples = 7;
  profgpu_monitor* monitor = profgpu_monitor_open(&options);
  CHECK(profgpu_monitor_problem(monitor).size == 0);
  profgpu_range_push(text_of("outer"));
  profgpu_monitor_start(monitor);
  profgpu_step_push(1);
  sleep_ms(100);
  profgpu_range_pop();
  sleep_ms(50);
  profgpu_monitor_mark(monitor, text_of("by hand"));
  test_child(monitor);
  sleep_ms(50);
  profgpu_range_pop();
  profgpu_range_pop(); /* none is open */
  profgpu_monitor_stop(monitor);
  profgpu_text* summary = profgpu_monitor_summary(monitor);
  const profgpu_string json = profgpu_text_view(summary);
  CHECK(holds(json, "\"energy_method\": \"counter\"") && holds(json, "\"utilization_pct\""));
  CHECK(holds(json, "\"outer\"") && holds(json, "\"step\"") && holds(json, "\"by hand\"") && holds(json, "\"other\""));
  CHECK(!holds(json, "in the child"));
  profgpu_text_free(summary);
  profgpu_text* text = profgpu_monitor_summary_text(monitor);
  CHECK(holds(profgpu_text_view(text), "busy"));
  profgpu_text_free(text);
  profgpu_table* samples = profgpu_monitor_samples(monitor);
  CHECK(profgpu_table_rows(samples) == 7);
  const profgpu_column t = column_of(samples, "t_s"), busy = column_of(samples, "utilization_pct");
  CHECK(t.type == PROFGPU_DOUBLE && busy.length == 7 && ((const double*)t.data)[6] >= ((const double*)t.data)[0]);
  profgpu_monitor_free(monitor);
  profgpu_table_free(samples);
}

static void test_no_device(void) {
  profgpu_monitor_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.backend = text_of("none");
  profgpu_monitor* monitor = profgpu_monitor_open(&options);
  CHECK(profgpu_monitor_problem(monitor).size > 0);
  profgpu_monitor_start(monitor);
  profgpu_monitor_stop(monitor);
  profgpu_text* summary = profgpu_monitor_summary(monitor);
  CHECK(is(profgpu_text_view(summary), "[]"));
  profgpu_text_free(summary);
  profgpu_table* samples = profgpu_monitor_samples(monitor);
  CHECK(profgpu_table_rows(samples) == 0 && profgpu_table_columns(samples) == 4);
  profgpu_table_free(samples);
  profgpu_monitor_free(monitor);
}

static void test_unrecorded(void) {
  CHECK(profgpu_is_recorded() == 0);
  profgpu_range_pop();
  profgpu_range_push(text_of("x"));
  profgpu_range_mark(text_of("y"));
  profgpu_range_pop();
}

int main(void) {
  unsetenv("PROFGPU_RECORD");
  test_versions();
  test_errors();
  test_nothing();
  test_report();
  test_tables();
  test_monitor();
  test_no_device();
  test_unrecorded();
  if (failures == 0) puts("the C interface works");
  return failures != 0;
}
