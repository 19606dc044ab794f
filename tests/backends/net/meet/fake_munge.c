/* A libmunge whose credentials begin with the answer that munge_decode() gives: "16:payload" is one
   that the clock forbids. The host that made it is 400 s ahead. Those that munge_encode() makes are
   "0x:" and the payload in hexadecimal digits; there is none of a payload "secret". */
#include <stdio.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

void* munge_ctx_create(void) { return malloc(1); }
void munge_ctx_destroy(void* context) { free(context); }
const char* munge_ctx_strerror(void* context) { return context == NULL ? "" : NULL; }
const char* munge_strerror(int code) { return code == 6 ? "munged does not answer" : "failed"; }
int munge_ctx_set(void* context, int option, ...) { return context == NULL || option < 0; }

int munge_ctx_get(void* context, int option, ...) {
  va_list list;
  va_start(list, option);
  *va_arg(list, time_t*) = option == 6 ? 1400 : 1000;
  va_end(list);
  return context == NULL;
}

int munge_encode(char** credential, void* context, const void* data, int length) {
  *credential = NULL;
  if (context == NULL || data == NULL || length < 0) return 1;
  if (length == 6 && memcmp(data, "secret", 6) == 0) return 6;
  *credential = malloc(2 * (size_t)length + 4);
  char* end = stpcpy(*credential, "0x:");
  for (int i = 0; i < length; ++i) end += sprintf(end, "%02x", ((const unsigned char*)data)[i]);
  return 0;
}

int munge_decode(const char* credential, void* context, void** data, int* length, uid_t* user,
                 gid_t* group) {
  const int code = atoi(credential);
  const char* const payload = strchr(credential, ':');
  *data = payload == NULL ? NULL : strdup(payload + 1);
  *length = payload == NULL ? 0 : (int)strlen(payload + 1);
  if (credential[1] == 'x') {
    unsigned char* const bytes = *data;
    *length /= 2;
    for (int i = 0; i < *length; ++i) sscanf(payload + 1 + 2 * i, "%2hhx", &bytes[i]);
  }
  *user = code == 99 ? geteuid() + 1 : geteuid();
  *group = getegid();
  return context == NULL ? 1 : code % 99;
}
