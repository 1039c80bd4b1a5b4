package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
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
	now, err := weatherIn(place.City)
	return toolyard.Reply[Weather]{
		Text:       fmt.Sprintf("%s: %g °C, %s", now.City, now.Celsius, now.Sky),
		Structured: now,
	}, err
}

func weatherIn(city string) (now Weather, err error) {
	// The host adds the key to the request.
	response, err := client.Get(os.Getenv("WEATHER_URL") + "/v1/now?city=" + url.QueryEscape(city))
	if err != nil {
		return now, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1000))
		return now, fmt.Errorf("the weather service answered %d: %s", response.StatusCode, strings.TrimSpace(string(text)))
	}
	if err := json.NewDecoder(response.Body).Decode(&now); err != nil {
		return now, fmt.Errorf("the answer of the weather service is not valid: %w", err)
	}
	return now, nil
}

// Places is the arguments of the tool compare.
type Places struct {
	A string `json:"a" min:"1"`
	B string `json:"b" min:"1"`
}

func compare(call *toolyard.Call, places Places) (string, error) {
	var warm, cold Weather
	var errA, errB error
	var both sync.WaitGroup
	both.Go(func() { warm, errA = weatherIn(places.A) })
	both.Go(func() { cold, errB = weatherIn(places.B) })
	both.Wait()
	if err := cmp.Or(errA, errB); err != nil {
		return "", err
	}
	if warm.Celsius < cold.Celsius {
		warm, cold = cold, warm
	}
	return fmt.Sprintf("%s is warmer than %s, by %g °C", warm.City, cold.City, warm.Celsius-cold.Celsius), nil
}
