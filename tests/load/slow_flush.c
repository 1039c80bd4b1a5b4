/* Simulates a disk that flushes slowly, for a program with this library in LD_PRELOAD: each fdatasync
   and fsync takes FLUSH_US microseconds more. host/docs/benchmarks/method.md explains its use. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

static int later(const char *name, int file) {
  const char *us = getenv("FLUSH_US");
  long more = us ? atol(us) : 0;
  struct timespec time = {more / 1000000, more % 1000000 * 1000};
  int (*flush)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
  nanosleep(&time, NULL);
  return flush(file);
}

int fdatasync(int file) { return later("fdatasync", file); }

int fsync(int file) { return later("fsync", file); }
