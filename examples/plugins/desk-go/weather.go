package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"desk/toolyard"
)

// Place is the arguments of the tool weather.
type Place struct {
	City string `json:"city" description:"The name of the city." min:"1"`
}

// Weather is the answer of the service, and the structured result.
type Weather struct {
	City    string  `json:"city"`
	Celsius float64 `json:"celsius"`
	Sky     string  `json:"sky"`
}

var client = http.Client{Timeout: 10 * time.Second}

func weather(call *toolyard.Call, place Place) (toolyard.Reply[Weather], error) {
	var reply toolyard.Reply[Weather]
	// The host adds the key to the request.
	response, err := client.Get(os.Getenv("WEATHER_URL") + "/v1/now?city=" + url.QueryEscape(place.City))
	if err != nil {
		return reply, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1000))
		return reply, fmt.Errorf("the weather service answered %d: %s", response.StatusCode, strings.TrimSpace(string(text)))
	}
	if err := json.NewDecoder(response.Body).Decode(&reply.Structured); err != nil {
		return reply, fmt.Errorf("the answer of the weather service is not valid: %w", err)
	}
	now := reply.Structured
	reply.Text = fmt.Sprintf("%s: %g °C, %s", now.City, now.Celsius, now.Sky)
	return reply, nil
}
