// Four tools: `weather` calls an API, `chart` draws an image, `triage` sorts the files of a folder as
// the user says, and `steps` continues from a stored state.
#include "tools.h"

const struct tool TOOLS[] = {
  {
    .name = "weather",
    .title = "Weather",
    .description = "Tells the present weather in a city.",
    .input = "{\"type\": \"object\", \"required\": [\"city\"], \"additionalProperties\": false, \"properties\": {"
             "\"city\": {\"type\": \"string\", \"minLength\": 1,"
             " \"description\": \"The name of a city, such as Oslo.\"}}}",
    .output = "{\"type\": \"object\", \"required\": [\"city\", \"celsius\", \"sky\"], \"properties\": {"
              "\"city\": {\"type\": \"string\"}, \"celsius\": {\"type\": \"number\"}, \"sky\": {\"type\": \"string\"}}}",
    .annotations = "{\"readOnlyHint\": true, \"openWorldHint\": true}",
    .call = weather,
  },
  {
    .name = "chart",
    .title = "Chart",
    .description = "Draws a bar chart of up to 24 values as a PNG image.",
    .input = "{\"type\": \"object\", \"required\": [\"title\", \"values\"], \"additionalProperties\": false,"
             "\"properties\": {\"title\": {\"type\": \"string\"},"
             "\"values\": {\"type\": \"array\", \"minItems\": 1, \"maxItems\": 24,"
             " \"description\": \"The bars, from left to right.\","
             "\"items\": {\"type\": \"object\", \"required\": [\"label\", \"value\"], \"additionalProperties\": false,"
             "\"properties\": {\"label\": {\"type\": \"string\"}, \"value\": {\"type\": \"number\", \"minimum\": 0}}}}}}",
    .annotations = "{\"readOnlyHint\": true, \"openWorldHint\": false}",
    .call = chart,
  },
  {
    .name = "triage",
    .title = "Sort the inbox",
    .description = "Asks the user what to do with each text file in the inbox, and moves the files.",
    .input = "{\"type\": \"object\", \"additionalProperties\": false, \"properties\": {}}",
    .output = "{\"type\": \"object\", \"required\": [\"moved\"], \"properties\": {\"moved\": {\"type\": \"array\","
              "\"items\": {\"type\": \"object\", \"required\": [\"file\", \"to\"], \"properties\": {"
              "\"file\": {\"type\": \"string\"},"
              "\"to\": {\"type\": \"string\", \"description\": \"The folder in the inbox.\"}}}}}}",
    .annotations = "{\"readOnlyHint\": false, \"destructiveHint\": false, \"openWorldHint\": true}",
    .call = triage,
  },
  {
    .name = "steps",
    .title = "Work in parts",
    .description = "Does a number of parts, and continues in a fresh run after every two of them.",
    .input = "{\"type\": \"object\", \"required\": [\"parts\"], \"additionalProperties\": false, \"properties\": {"
             "\"parts\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 1000,"
             " \"description\": \"The number of parts.\"}}}",
    .output = "{\"type\": \"object\", \"required\": [\"done\", \"runs\"], \"properties\": {"
              "\"done\": {\"type\": \"array\", \"items\": {\"type\": \"integer\"},"
              " \"description\": \"The numbers of the parts that are done.\"},"
              "\"runs\": {\"type\": \"integer\", \"description\": \"The number of runs so far.\"}}}",
    .annotations = "{\"readOnlyHint\": true, \"openWorldHint\": false}",
    .call = steps,
  },
};

const size_t TOOL_COUNT = sizeof TOOLS / sizeof *TOOLS;
