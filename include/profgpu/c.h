/* profgpu's C interface: reads traces, recordings and samples, says what costs time in them, watches GPUs while a
 * program runs, and names parts of the program for the recorder. What the commands do, by the same code.
 *
 *   profgpu_error* error = NULL;
 *   const profgpu_string path = {"trace.json.gz", 13};
 *   profgpu_report* report = profgpu_analyze(&path, 1, NULL, 0, &error);
 *   if (report == NULL) {
 *     const profgpu_string said = profgpu_error_message(error);
 *     fprintf(stderr, "%.*s\n", (int)said.size, said.data);
 *     profgpu_error_free(error);
 *   }
 *
 * Text is UTF-8 with an explicit length. Text that a function takes is copied; it need not end in a zero. Text that a
 * function returns is the library's: it lives as long as the object it was asked of, and ends in a zero all the same.
 *
 * Errors: a function that can fail takes `profgpu_error** error` last, which may be NULL. It returns NULL where it
 * failed, and then *error is a new object for the caller to free; else *error is left as it was. Nothing is printed and
 * nothing ends the process. An object or structure that is needed and is NULL is such an error; a function that cannot
 * say so does nothing and returns nothing. Where memory runs out the process ends, as with C++'s std::bad_alloc.
 *
 * Ownership: an object that a function returns is the caller's, who gives it back with the function profgpu_..._free
 * of its kind, in any order. Each of these takes NULL, too.
 *
 * Threads: reports, errors and texts never change; any number of threads may read one. A run, a table and a monitor
 * may be used by several threads at once, too. Freeing an object while another thread uses it is a mistake.
 * Ranges belong to the thread that opens them.
 *
 * fork(): a child may go on reading reports and tables, and its ranges go to its own recording. A monitor does not run
 * in it, and may not be freed there: its threads are the parent's.
 *
 * Compatibility: functions stay, with what they take and mean, while PROFGPU_C_VERSION stays. Structures that begin
 * with struct_size may grow at the end; the caller sets it to its sizeof first, and no more than that is read or
 * written. */
#ifndef PROFGPU_C_H
#define PROFGPU_C_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define PROFGPU_C_API __attribute__((visibility("default")))
#else
#define PROFGPU_C_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define PROFGPU_C_VERSION 1

typedef struct profgpu_string {
  const char* data; /* NULL where size is 0 and there is no text */
  size_t size;      /* bytes */
} profgpu_string;

typedef struct profgpu_error profgpu_error;
typedef struct profgpu_text profgpu_text;
typedef struct profgpu_report profgpu_report;
typedef struct profgpu_run profgpu_run;
typedef struct profgpu_table profgpu_table;
typedef struct profgpu_monitor profgpu_monitor;

/* PROFGPU_C_VERSION of the library, which may be another than the header's. */
PROFGPU_C_API uint32_t profgpu_c_version(void);
/* "0.1.0" */
PROFGPU_C_API profgpu_string profgpu_version(void);

/* What went wrong, and what to try next; the latter may be empty. */
PROFGPU_C_API profgpu_string profgpu_error_message(const profgpu_error* error);
PROFGPU_C_API profgpu_string profgpu_error_hint(const profgpu_error* error);
PROFGPU_C_API void profgpu_error_free(profgpu_error* error);

PROFGPU_C_API profgpu_string profgpu_text_view(const profgpu_text* text);
PROFGPU_C_API void profgpu_text_free(profgpu_text* text);

/* ---- Reports ---------------------------------------------------------------------------------------------------- */

/* An option of `profgpu analyze` without its dashes, and its value: {"steps", "10:20"}. */
typedef struct profgpu_option {
  profgpu_string name;
  profgpu_string value;
} profgpu_option;

/* Reads what the paths name (files or folders: traces, recordings, samples) and analyses it, as `profgpu analyze` does.
 * Options: steps, step-pattern, gpu, peaks, model-config, tokens-per-step, samples-per-step, price-kwh, gco2-kwh, samples,
 * threshold (the last two may be repeated), and format: with
 * {"format", "html"} the report keeps what the page shows of the events (html-steps says of which steps, html-ranks of which ranks);
 * without, it has no timeline. */
PROFGPU_C_API profgpu_report* profgpu_analyze(const profgpu_string* paths, size_t path_count,
                                              const profgpu_option* options, size_t option_count,
                                              profgpu_error** error);
/* The report as "json" (all of it), "terminal", "markdown" or "html". Options: top, section, width, color, verbose. */
PROFGPU_C_API profgpu_text* profgpu_report_write(const profgpu_report* report, profgpu_string format,
                                                 const profgpu_option* options, size_t option_count,
                                                 profgpu_error** error);

typedef enum profgpu_severity {
  PROFGPU_INFO = 0,
  PROFGPU_WARNING = 1,
  PROFGPU_CRITICAL = 2
} profgpu_severity;

/* What costs time and why. What to change, and on what evidence, is in the JSON. */
typedef struct profgpu_finding {
  size_t struct_size;
  profgpu_string rule;
  profgpu_string what;
  profgpu_string why;
  int32_t severity; /* a profgpu_severity */
  int32_t has_cost; /* 0: cost_ns and cost_pct are not known */
  int64_t cost_ns;  /* wall time of the measured steps that would not have been */
  double cost_pct;  /* of the wall time of those steps */
} profgpu_finding;

PROFGPU_C_API size_t profgpu_report_findings(const profgpu_report* report);
/* The dearest is 0. Returns 1, or 0 where there is no such finding. */
PROFGPU_C_API int profgpu_report_finding(const profgpu_report* report, size_t index, profgpu_finding* finding);
PROFGPU_C_API void profgpu_report_free(profgpu_report* report);

/* ---- Tables ----------------------------------------------------------------------------------------------------- */

/* Reads the same, and keeps every event. Options: step-pattern. */
PROFGPU_C_API profgpu_run* profgpu_open(const profgpu_string* paths, size_t path_count, const profgpu_option* options,
                                        size_t option_count, profgpu_error** error);
PROFGPU_C_API void profgpu_run_free(profgpu_run* run);

/* The names that profgpu_run_table() takes, as `profgpu query --tables` lists them; {NULL, 0} after the last. */
PROFGPU_C_API profgpu_string profgpu_table_name(size_t index);
/* A table keeps its run: either may be freed first. */
PROFGPU_C_API profgpu_table* profgpu_run_table(profgpu_run* run, profgpu_string name, profgpu_error** error);
/* The rows that a query in SQLite's SQL gives. */
PROFGPU_C_API profgpu_table* profgpu_run_query(profgpu_run* run, profgpu_string sql, profgpu_error** error);

typedef enum profgpu_type {
  PROFGPU_INT64 = 0,  /* data: int64_t[length] */
  PROFGPU_DOUBLE = 1, /* data: double[length]; NaN where there is no value */
  PROFGPU_TEXT = 2    /* data: int32_t[length], places in the dictionary; -1 where there is no value */
} profgpu_type;

/* Everything it points to lives as long as the table, and never moves. */
typedef struct profgpu_column {
  size_t struct_size;
  profgpu_string name;
  profgpu_string unit;    /* "ns", "bytes", "pct" ...; empty: none */
  profgpu_string meaning; /* one clause; empty: of a query */
  int32_t type;           /* a profgpu_type */
  size_t length;          /* rows */
  const void* data;
  const uint8_t* valid;   /* of PROFGPU_INT64: a byte a row, 0 where there is no value; NULL: all rows have one */
  /* Of PROFGPU_TEXT: entry i is dictionary_text[dictionary_offsets[i]] up to dictionary_offsets[i + 1]. */
  size_t dictionary_size;
  const char* dictionary_text;
  const uint64_t* dictionary_offsets;
} profgpu_column;

PROFGPU_C_API size_t profgpu_table_rows(const profgpu_table* table);
PROFGPU_C_API size_t profgpu_table_columns(const profgpu_table* table);
/* Returns 1, or 0 where there is no such column. A column's values are laid out when it is first asked for; one with
 * struct_size up to `type` alone, or smaller, is described without them. */
PROFGPU_C_API int profgpu_table_column(profgpu_table* table, size_t index, profgpu_column* column);
PROFGPU_C_API void profgpu_table_free(profgpu_table* table);

/* ---- Monitors --------------------------------------------------------------------------------------------------- */

typedef struct profgpu_monitor_options {
  size_t struct_size;
  const profgpu_string* devices; /* indices, UUIDs, PCI ids, "cuda:N", "all" */
  size_t device_count;           /* 0: what the process can see */
  double interval_s;             /* 0.001 to 86400; 0: 0.2 */
  profgpu_string backend;        /* auto, nvml, smi, amdgpu, intel, replay:FILE, none; empty: auto */
  double warmup_s;               /* what comes before is left out of the summary */
  size_t keep_samples;           /* profgpu_monitor_samples() has the newest so many, over all devices */
} profgpu_monitor_options;

/* Finds the devices; samples nothing yet. NULL takes the defaults. Never NULL: where no device can be watched, the
 * monitor does nothing and profgpu_monitor_problem() says why. */
PROFGPU_C_API profgpu_monitor* profgpu_monitor_open(const profgpu_monitor_options* options);
PROFGPU_C_API profgpu_string profgpu_monitor_problem(const profgpu_monitor* monitor);
/* Sampling has threads of its own. From here to the stop, time is counted to the calling thread's innermost range as a
 * phase, and to "other" between ranges. */
PROFGPU_C_API void profgpu_monitor_start(profgpu_monitor* monitor);
/* From now on is phase `name`, until the next mark or stop. */
PROFGPU_C_API void profgpu_monitor_mark(profgpu_monitor* monitor, profgpu_string name);
PROFGPU_C_API void profgpu_monitor_stop(profgpu_monitor* monitor);
/* JSON, an array with an object a device: what profgpu::MonitorSummary has, by the same names, "phases", and "steps":
 * all steps together, as if they were one phase. What a device cannot say is absent, and "steps" where there was none.
 * Works while the monitor runs. */
PROFGPU_C_API profgpu_text* profgpu_monitor_summary(const profgpu_monitor* monitor);
/* The same for a person. */
PROFGPU_C_API profgpu_text* profgpu_monitor_summary_text(const profgpu_monitor* monitor);
/* The samples that are kept, the oldest first: t_s (since the start), time_ns (Unix), device (its place in the
 * summary), utilization_age_s (how long ago its utilization, new or not, began to hold), then a column for each metric
 * that any of them has. */
PROFGPU_C_API profgpu_table* profgpu_monitor_samples(const profgpu_monitor* monitor);
PROFGPU_C_API void profgpu_monitor_free(profgpu_monitor* monitor);

/* ---- Ranges ----------------------------------------------------------------------------------------------------- */

/* Parts of the program, which nest on each thread. They reach the recording, where `profgpu run --trace` records the
 * process, and the monitors that the thread has started. Where there is neither, they cost some nanoseconds.
 * "data_loading", "forward", "backward", "optimizer" and "checkpoint" are the phases that reports know. */
PROFGPU_C_API void profgpu_range_push(profgpu_string name);
/* The innermost range of the thread ends; nothing happens where none is open. */
PROFGPU_C_API void profgpu_range_pop(void);
/* A range that is a step of the training loop; to monitors, all steps are phase "step". It ends with
 * profgpu_range_pop(). */
PROFGPU_C_API void profgpu_step_push(int64_t number);
/* An instant in the recording. */
PROFGPU_C_API void profgpu_range_mark(profgpu_string name);
/* 1: this process is recorded. */
PROFGPU_C_API int profgpu_is_recorded(void);

#ifdef __cplusplus
}
#endif

#endif
