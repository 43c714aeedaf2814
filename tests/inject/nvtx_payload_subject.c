/* NVTX's extended payloads as programs hand them over: a schema and an enumeration as NCCL registers its own (static
   numbers, no size), nested and packed structures, arrays, texts, events that have nothing but payloads, schemas in
   circles and ones that lie; and the same numbers in a forked child. Prints what each registration returned. */
#include <nvtx3/nvToolsExtPayload.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ENTRY_COUNT(entries) (sizeof(entries) / sizeof *(entries))
#define ALL_REDUCE (NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + 5)
#define REDUCTION (NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + 11)

static nvtxDomainHandle_t nccl;

static uint64_t schema(uint64_t type, const nvtxPayloadSchemaEntry_t* entries, size_t count, uint64_t id) {
  nvtxPayloadSchemaAttr_t a;
  memset(&a, 0xee, sizeof a); /* members that the mask does not name are not to be read */
  a.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
                NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES;
  a.type = type;
  a.entries = entries;
  a.numEntries = count;
  if (id != 0) {
    a.fieldMask |= NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE;
    a.schemaId = id;
    a.payloadStaticSize = 0;
  }
  return nvtxPayloadSchemaRegister(nccl, &a);
}

static void push(const char* name, nvtxPayloadData_t* data, int count) {
  nvtxEventAttributes_t a;
  memset(&a, 0, sizeof a);
  a.version = NVTX_VERSION;
  a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  a.messageType = NVTX_MESSAGE_TYPE_ASCII;
  a.message.ascii = name;
  a.payloadType = NVTX_PAYLOAD_TYPE_EXT;
  a.reserved0 = count;
  a.payload.ullValue = (uint64_t)(uintptr_t)data;
  nvtxDomainRangePushEx(nccl, &a);
  nvtxDomainRangePop(nccl);
}

static void push_one(const char* name, uint64_t id, const void* bytes, size_t size) {
  nvtxPayloadData_t data = {id, size, bytes};
  push(name, &data, 1);
}

struct all_reduce {
  size_t bytes;
  int reduction;
};

static void all_reduce(const char* name, size_t bytes, int reduction) {
  const struct all_reduce payload = {bytes, reduction};
  push_one(name, ALL_REDUCE, &payload, sizeof payload);
}

static void as_nccl(void) {
  static const nvtxPayloadEnum_t reductions[] = {{"Sum", 0, 0}, {"Product", 1, 0}, {"Max", 2, 0}};
  static const nvtxPayloadSchemaEntry_t entries[] = {
      {0, NVTX_PAYLOAD_ENTRY_TYPE_SIZE, "Message size [bytes]", NULL, 0, 0, NULL, NULL},
      {0, REDUCTION, "Reduction operation", NULL, 0, offsetof(struct all_reduce, reduction), NULL, NULL}};
  nvtxPayloadEnumAttr_t e;
  memset(&e, 0, sizeof e);
  e.fieldMask = NVTX_PAYLOAD_ENUM_ATTR_FIELD_ENTRIES | NVTX_PAYLOAD_ENUM_ATTR_FIELD_NUM_ENTRIES |
                NVTX_PAYLOAD_ENUM_ATTR_FIELD_SIZE | NVTX_PAYLOAD_ENUM_ATTR_FIELD_SCHEMA_ID;
  e.entries = reductions;
  e.numEntries = ENTRY_COUNT(reductions);
  e.sizeOfEnum = sizeof(int);
  e.schemaId = REDUCTION;
  printf("enum %d\n", nvtxPayloadEnumRegister(nccl, &e) == REDUCTION);
  printf("schema %d\n",
         schema(NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, entries, ENTRY_COUNT(entries), ALL_REDUCE) == ALL_REDUCE);
  all_reduce("AllReduce", 1u << 20, 0);
  all_reduce("AllReduce", 4096, 2);
  all_reduce("AllReduce", 8, 77);
}

/* No offsets are given: they follow from alignment, as the compiler has it. */
struct inner {
  int16_t low;
  double high;
};
struct outer {
  int8_t tiny;
  float part;
  int64_t large;
  unsigned char flag;
  struct inner inside;
  int32_t three[3];
  char text[8];
};

static void structures(void) {
  static const nvtxPayloadSchemaEntry_t inner[] = {{0, NVTX_PAYLOAD_ENTRY_TYPE_INT16, "low", NULL, 0, 0, NULL, NULL},
                                                   {0, NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE, "high", NULL, 0, 0, NULL, NULL}};
  const uint64_t nested = schema(NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, inner, ENTRY_COUNT(inner), 0);
  const nvtxPayloadSchemaEntry_t outer[] = {
      {0, NVTX_PAYLOAD_ENTRY_TYPE_INT8, "tiny", NULL, 0, 0, NULL, NULL},
      {0, NVTX_PAYLOAD_ENTRY_TYPE_FLOAT, "part", NULL, 0, 0, NULL, NULL},
      {0, NVTX_PAYLOAD_ENTRY_TYPE_LONGLONG, "large", NULL, 0, 0, NULL, NULL},
      {NVTX_PAYLOAD_ENTRY_FLAG_HIDE, NVTX_PAYLOAD_ENTRY_TYPE_UCHAR, "flag", NULL, 0, 0, NULL, NULL},
      {0, nested, "inside", NULL, 0, 0, NULL, NULL},
      {NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE, NVTX_PAYLOAD_ENTRY_TYPE_INT32, "three", NULL, 3, 0, NULL, NULL},
      {0, NVTX_PAYLOAD_ENTRY_TYPE_CSTRING, "text", NULL, 8, 0, NULL, NULL}};
  const uint64_t id = schema(NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, outer, ENTRY_COUNT(outer), 0);
  const struct outer payload = {-3, 0.5f, -5000000000, 9, {-7, 2.25}, {1, -2, 3}, "a \"b\""};
  printf("dynamic %d\n", id >= NVTX_PAYLOAD_SCHEMA_ID_DYNAMIC_START && id != nested);
  push_one("structure", id, &payload, sizeof payload);
  push_one("cut", id, &payload, 12);
}

static void lengths(void) {
  static const nvtxPayloadSchemaEntry_t entries[] = {
      {0, NVTX_PAYLOAD_ENTRY_TYPE_UINT32, "count", NULL, 0, 0, NULL, NULL},
      {NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_LENGTH_INDEX, NVTX_PAYLOAD_ENTRY_TYPE_UINT16, "values", NULL, 0, 0, NULL, NULL},
      {NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_ZERO_TERMINATED, NVTX_PAYLOAD_ENTRY_TYPE_CSTRING, "rest", NULL, 0, 0, NULL, NULL}};
  const uint64_t id = schema(NVTX_PAYLOAD_SCHEMA_TYPE_DYNAMIC, entries, ENTRY_COUNT(entries), 0);
  push_one("lengths", id, "\2\0\0\0\7\0\10\0words", 14);
  push_one("lying length", id, "\377\377\377\377\7\0\10\0words", 14);
}

/* What a program may say of a tagged value: the tag beside the union, or in it. */
struct point {
  int16_t x;
  int16_t y;
};
struct shapes {
  uint8_t kind;
  union {
    int64_t whole;
    double part;
  } value;
  struct point corners[2];
  const char* name;
};
struct tagged {
  uint8_t kind;
  union {
    int32_t whole;
    float part;
  } value;
};

static void unions_and_arrays(void) {
  static const nvtxPayloadSchemaEntry_t members[] = {
      {0, NVTX_PAYLOAD_ENTRY_TYPE_INT64, "whole", NULL, 0, 0, NULL, NULL},
      {0, NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE, "part", NULL, 0, 0, NULL, NULL}};
  static const nvtxPayloadSchemaEntry_t of_point[] = {{0, NVTX_PAYLOAD_ENTRY_TYPE_INT16, "x", NULL, 0, 0, NULL, NULL},
                                                      {0, NVTX_PAYLOAD_ENTRY_TYPE_INT16, "y", NULL, 0, 0, NULL, NULL}};
  static const nvtxPayloadSchemaEntry_t own[] = {
      {0, NVTX_PAYLOAD_ENTRY_TYPE_UNION_SELECTOR, "kind", NULL, 0, 0, NULL, NULL},
      {0, NVTX_PAYLOAD_ENTRY_TYPE_INT32, "whole", NULL, 0, offsetof(struct tagged, value), NULL, NULL},
      {0, NVTX_PAYLOAD_ENTRY_TYPE_FLOAT, "part", NULL, 0, offsetof(struct tagged, value), NULL, NULL}};
  const uint64_t value = schema(NVTX_PAYLOAD_SCHEMA_TYPE_UNION, members, ENTRY_COUNT(members), 0);
  const uint64_t point = schema(NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, of_point, ENTRY_COUNT(of_point), 0);
  const uint64_t tagged = schema(NVTX_PAYLOAD_SCHEMA_TYPE_UNION_WITH_INTERNAL_SELECTOR, own, ENTRY_COUNT(own), 0);
  const nvtxPayloadSchemaEntry_t of_shapes[] = {
      {0, NVTX_PAYLOAD_ENTRY_TYPE_UINT8, "kind", NULL, 0, 0, NULL, NULL},
      {0, value, "value", NULL, 0, 0, NULL, NULL},
      {NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE, point, "corners", NULL, 2, 0, NULL, NULL},
      {NVTX_PAYLOAD_ENTRY_FLAG_POINTER, NVTX_PAYLOAD_ENTRY_TYPE_CSTRING, "name", NULL, 0, 0, NULL, NULL}};
  const nvtxPayloadSchemaEntry_t several[] = {
      {NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE, tagged, "values", NULL, 2, 0, NULL, NULL}};
  const uint64_t shapes = schema(NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, of_shapes, ENTRY_COUNT(of_shapes), 0);
  const uint64_t values = schema(NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, several, ENTRY_COUNT(several), 0);
  struct shapes payload = {1, {.part = 0.25}, {{1, -2}, {3, 4}}, NULL};
  const struct tagged two[2] = {{2, {.part = 1.5f}}, {1, {.whole = -9}}};
  push_one("beside", shapes, &payload, sizeof payload);
  push_one("within", values, two, sizeof two);
}

static void predefined(void) {
  static char big[1000];
  const double half = 0.5;
  nvtxPayloadData_t several[] = {{NVTX_PAYLOAD_ENTRY_TYPE_CSTRING, SIZE_MAX, "unbounded"},
                                 {NVTX_TYPE_PAYLOAD_SCHEMA_RAW, 3, "\1\2\xff"},
                                 {NVTX_TYPE_PAYLOAD_SCHEMA_REFERENCED, 3, "xyz"},
                                 {NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE, sizeof half, &half}};
  push("several", several, 4);
  push_one("null", NVTX_TYPE_PAYLOAD_SCHEMA_RAW, NULL, 8);
  push_one("unknown schema", NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + 999, "ab", 2);
  push_one("big", NVTX_TYPE_PAYLOAD_SCHEMA_RAW, big, sizeof big);
  push("no payloads", NULL, 3);
  push("negative", several, -1);
}

static void events_of_payloads(void) {
  static const nvtxPayloadSchemaEntry_t entries[] = {
      {NVTX_PAYLOAD_ENTRY_FLAG_EVENT_MESSAGE, NVTX_PAYLOAD_ENTRY_TYPE_CSTRING, "message", NULL, 16, 0, NULL, NULL},
      {0, NVTX_PAYLOAD_ENTRY_TYPE_INT32, "number", NULL, 0, 0, NULL, NULL}};
  static const nvtxPayloadSchemaEntry_t at_end[] = {
      {0, NVTX_PAYLOAD_ENTRY_TYPE_INT32, "result", NULL, 0, 0, NULL, NULL}};
  const uint64_t id = schema(NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, entries, ENTRY_COUNT(entries), 0);
  const uint64_t end_id = schema(NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, at_end, 1, 0);
  struct {
    char message[16];
    int32_t number;
  } payload = {"from payload", 1};
  const int32_t result = 42;
  const nvtxPayloadData_t begin = {id, sizeof payload, &payload}, end = {end_id, sizeof result, &result};
  nvtxRangePushPayload(nccl, &begin, 1);
  nvtxRangePopPayload(nccl, &end, 1);
  payload.number = 2;
  nvtxRangeEndPayload(nccl, nvtxRangeStartPayload(nccl, &begin, 1), &end, 1);
  payload.number = 3;
  nvtxMarkPayload(nccl, &begin, 1);
}

static void hostile(void) {
  const uint64_t first = NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + 100;
  const nvtxPayloadSchemaEntry_t to_second[] = {{0, first + 1, "second", NULL, 0, 0, NULL, NULL}};
  const nvtxPayloadSchemaEntry_t to_first[] = {{0, first, "first", NULL, 0, 0, NULL, NULL}};
  const nvtxPayloadSchemaEntry_t far[] = {{0, NVTX_PAYLOAD_ENTRY_TYPE_INT32, "here", NULL, 0, 0, NULL, NULL},
                                          {0, NVTX_PAYLOAD_ENTRY_TYPE_INT32, "far", NULL, 0, 4000, NULL, NULL}};
  nvtxPayloadSchemaEntry_t many[300];
  uint64_t id;
  size_t i;
  schema(NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, to_second, 1, first);
  schema(NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, to_first, 1, first + 1);
  push_one("circle", first, "12345678", 8);
  id = schema(NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, far, ENTRY_COUNT(far), 0);
  push_one("far", id, "\5\0\0\0", 4);
  memset(many, 0, sizeof many);
  for (i = 0; i < ENTRY_COUNT(many); ++i) many[i].type = NVTX_PAYLOAD_ENTRY_TYPE_UINT8;
  id = schema(NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, many, ENTRY_COUNT(many), 0);
  push_one("many", id, "\1", 1);
  printf("refused %d %d\n", schema(99, far, 2, 0) == 0, schema(NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, NULL, 2, 0) == 0);
  for (i = 0; i < 600; ++i) id = schema(NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, far, ENTRY_COUNT(far), 0);
  printf("full %d\n", id == 0);
}

int main(int argc, char** argv) {
  nccl = nvtxDomainCreateA("NCCL");
  as_nccl();
  structures();
  lengths();
  unions_and_arrays();
  predefined();
  events_of_payloads();
  if (argc > 1 && strcmp(argv[1], "hostile") == 0) hostile();
  fflush(stdout);
  if (argc > 1 && strcmp(argv[1], "fork") == 0) {
    const pid_t child = fork();
    if (child == 0) {
      all_reduce("AllReduce of the child", 512, 1);
      exit(0);
    }
    waitpid(child, NULL, 0);
  }
  return 0;
}
