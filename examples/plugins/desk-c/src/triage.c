// Reads and moves files, asks the user with a form, and reports progress.
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools.h"

// The path of the folder in the manifest.
#define INBOX "/inbox"

static int by_name(const void *a, const void *b) {
  return strcmp(((const struct text *)a)->ptr, ((const struct text *)b)->ptr);
}

// The names of the text files in the inbox, sorted, without `.txt`. False if it cannot be read.
static bool read_names(struct text **names, size_t *count) {
  DIR *folder = opendir(INBOX);
  if (!folder) return false;
  *names = NULL;
  *count = 0;
  for (struct dirent *entry; (entry = readdir(folder));) {
    const char *dot = strrchr(entry->d_name, '.');
    struct stat about;
    if (!dot || strcmp(dot, ".txt") != 0) continue;
    if (stat(text_format(INBOX "/%s", entry->d_name).ptr, &about) != 0 || !S_ISREG(about.st_mode)) continue;
    struct text *more = allocate(*count + 1, sizeof *more);
    if (*count) memcpy(more, *names, *count * sizeof *more);
    more[(*count)++] = text_format("%.*s", (int)(dot - entry->d_name), entry->d_name);
    *names = more;
  }
  closedir(folder);
  if (*count) qsort(*names, *count, sizeof **names, by_name);
  return true;
}

// The fields of the form: a choice for each file.
static struct text fields(const struct text *names, size_t count) {
  struct buffer properties = {0};
  put(&properties, TEXT("{"));
  for (size_t i = 0; i < count; i++) {
    if (i) put(&properties, TEXT(","));
    put_json(&properties, names[i]);
    put(&properties, TEXT(":{\"type\":\"string\",\"enum\":[\"keep\",\"later\",\"trash\"]}"));
  }
  put(&properties, TEXT("}"));
  return buffer_text(&properties);
}

static struct result cannot(const char *what, struct text path) {
  return failure(text_format("cannot %s %s: %s", what, path.ptr, strerror(errno)));
}

struct result triage(const struct json *arguments) {
  (void)arguments;
  struct text *names;
  size_t count;
  if (!read_names(&names, &count)) return cannot("read", TEXT(INBOX));
  if (count == 0) return reply(TEXT("the inbox is empty"), TEXT("{\"moved\":[]}"));

  struct answer answer = ask("triage", TEXT("What shall become of these files?"), fields(names, count).ptr);
  if (answer.kind == ANSWER_IMPOSSIBLE) return failure(answer.why);
  if (answer.kind == ANSWER_DECLINED) return failure(TEXT("nothing was sorted: you gave no answer"));
  if (!effects()) return failure(TEXT("the call is being stopped"));

  struct buffer moved = {0};
  put(&moved, TEXT("{\"moved\":["));
  for (size_t i = 0; i < count; i++) {
    struct text to = json_text(json_get(answer.content, names[i].ptr), TEXT("keep"));
    struct text folder = text_format(INBOX "/%s", to.ptr), file = text_format("%s.txt", names[i].ptr);
    struct text from = text_format(INBOX "/%s", file.ptr), target = text_format("%s/%s", folder.ptr, file.ptr);
    if (access(target.ptr, F_OK) == 0)
      return failure(text_format("%s exists already; %s stays in the inbox", target.ptr, file.ptr));
    if (mkdir(folder.ptr, 0777) != 0 && errno != EEXIST) return cannot("make", folder);
    if (rename(from.ptr, target.ptr) != 0) return cannot("move", from);
    put_format(&moved, "%s{\"file\":", i ? "," : "");
    put_json(&moved, file);
    put(&moved, TEXT(",\"to\":"));
    put_json(&moved, to);
    put(&moved, TEXT("}"));
    progress((double)(i + 1), (double)count, text_format("%s: %s", names[i].ptr, to.ptr));
  }
  put(&moved, TEXT("]}"));
  return reply(text_format("%zu files sorted", count), buffer_text(&moved));
}
