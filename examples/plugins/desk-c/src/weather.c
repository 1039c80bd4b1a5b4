// Calls an API. The host adds the key to the request.
#include <stdlib.h>

#include "tools.h"

struct result weather(const struct json *arguments) {
  struct text city = json_text(json_get(arguments, "city"), TEXT(""));
  const char *service = getenv("WEATHER_URL");
  if (!service) return failure(TEXT("WEATHER_URL in [env] of the manifest is not set"));

  struct text url = text_format("%s/v1/now?city=%s", service, url_encode(city).ptr);
  struct http_response response = http((struct http_request){.url = url});
  if (response.error) return failure(response.why);
  if (response.status != 200)
    return failure(text_format("the weather service answered %d: %s", response.status, text_trim(response.body).ptr));

  const struct json *now = json_read(response.body);
  if (!now) return failure(TEXT("the weather service did not answer with JSON"));
  struct text name = json_text(json_get(now, "city"), city), sky = json_text(json_get(now, "sky"), TEXT(""));
  double celsius = json_number(json_get(now, "celsius"), 0);
  struct buffer structured = {0};
  put(&structured, TEXT("{\"city\":"));
  put_json(&structured, name);
  put_format(&structured, ",\"celsius\":%g,\"sky\":", celsius);
  put_json(&structured, sky);
  put(&structured, TEXT("}"));
  return reply(text_format("%s: %g °C, %s", name.ptr, celsius, sky.ptr), buffer_text(&structured));
}
