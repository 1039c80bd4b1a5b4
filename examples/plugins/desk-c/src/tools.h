// The tools of this plugin.
#pragma once

#include "toolyard.h"

struct result weather(const struct json *arguments);
struct result chart(const struct json *arguments);
struct result triage(const struct json *arguments);
struct result steps(const struct json *arguments);
