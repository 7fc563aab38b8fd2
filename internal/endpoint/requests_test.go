package endpoint

import (
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/fairness"
)

func TestRequestOptions(t *testing.T) {
	for _, tc := range []struct {
		o   RequestOptions
		err string // part of the error; "" for none
	}{
		{RequestOptions{}, ""},
		{RequestOptions{Timeout: time.Second, MinWatch: -1, GoawayChance: 0.02}, ""},
		{RequestOptions{TransportSecurity: []string{"max-age=31536000", "includeSubDomains", "preload"}}, ""},
		{RequestOptions{AllowedOrigins: []string{`//example\.com(:|$)`, `^http://localhost:8080$`}}, ""},
		{RequestOptions{Timeout: -1}, "Options.Requests.Timeout is -1ns"},
		{RequestOptions{GoawayChance: 0.03}, "Options.Requests.GoawayChance is 0.03"},
		{RequestOptions{GoawayChance: -0.01}, "Options.Requests.GoawayChance is -0.01"},
		{RequestOptions{GoawayChance: math.NaN()}, "Options.Requests.GoawayChance is NaN"},
		{RequestOptions{TransportSecurity: []string{"max-age"}}, `TransportSecurity has "max-age"`},
		{RequestOptions{TransportSecurity: []string{"max-age=1; preload\r\nA: b"}}, "TransportSecurity has"},
		{RequestOptions{TransportSecurity: []string{""}}, `TransportSecurity has ""`},
		{RequestOptions{AllowedOrigins: []string{"//["}}, "not a regular expression"},
		{RequestOptions{AllowedOrigins: []string{"example.com"}}, "mark the start of the host"},
		{RequestOptions{AllowedOrigins: []string{"//example.com"}}, "mark the start of the host"},
		{RequestOptions{AllowedOrigins: []string{"example.com$"}}, "mark the start of the host"},
		{RequestOptions{AllowedOrigins: []string{""}}, "mark the start of the host"},
	} {
		switch err := tc.o.Validate(); {
		case tc.err == "" && err != nil:
			t.Errorf("%+v: %v", tc.o, err)
		case tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)):
			t.Errorf("%+v: %v, want %s", tc.o, err, tc.err)
		}
	}
}

// TestTransportSecurity checks the header of all responses, failures included.
func TestTransportSecurity(t *testing.T) {
	s := newServer(t, func(o *Options) { o.Requests.TransportSecurity = []string{"max-age=60", "preload"} })
	for _, path := range []string{"/api", "/healthz", "/nothing"} {
		if got := s.do("GET", path, "").Header().Get("Strict-Transport-Security"); got != "max-age=60; preload" {
			t.Errorf("%s: %q", path, got)
		}
	}
	if got := newServer(t).do("GET", "/api", "").Header().Values("Strict-Transport-Security"); got != nil {
		t.Errorf("without the option: %q", got)
	}
}

func TestOrigins(t *testing.T) {
	s := newServer(t, func(o *Options) { o.Requests.AllowedOrigins = []string{`//([a-z]+\.)?example\.com(:|$)`} })
	for _, tc := range []struct {
		method, origin, bearer string
		code                   int
		shared                 bool
	}{
		{"GET", "https://example.com", token, 200, true},
		{"GET", "https://www.example.com:8443", token, 200, true},
		{"GET", "https://example.com", "wrong", 401, true}, // so that the page sees why
		{"GET", "https://example.com.evil.org", token, 200, false},
		{"GET", "", token, 200, false},
		{"OPTIONS", "https://example.com", "", 204, true}, // preflights have no credentials
		{"OPTIONS", "https://evil.org", "", 403, false},
	} {
		w := s.do(tc.method, configMapPath, "", "Origin", tc.origin, "Authorization", strings.TrimSuffix("Bearer "+tc.bearer, "Bearer "))
		header := w.Header()
		if w.Code != tc.code || (header.Get("Access-Control-Allow-Origin") == tc.origin && tc.origin != "") != tc.shared ||
			(header.Get("Access-Control-Allow-Credentials") == "true") != tc.shared {
			t.Errorf("%s from %q: %d, %v", tc.method, tc.origin, w.Code, header)
		}
	}
}

// TestGoaway checks that HTTP/2 connections are closed by chance, and others are not.
func TestGoaway(t *testing.T) {
	for _, tc := range []struct {
		chance float64
		major  int
		closed bool
	}{{1, 2, true}, {1, 1, false}, {0, 2, false}} {
		s := newServer(t, func(o *Options) { o.Requests.GoawayChance = tc.chance })
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/api", http.NoBody)
		r.Header.Set("Authorization", "Bearer "+token)
		r.ProtoMajor = tc.major
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if closed := w.Header().Get("Connection") == "close"; w.Code != 200 || closed != tc.closed {
			t.Errorf("chance %v, HTTP/%d: %d, closed %t", tc.chance, tc.major, w.Code, closed)
		}
	}
}

// TestRequestTimeout checks that a request waits for a seat for a quarter of its timeout.
func TestRequestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := fairness.New(fairness.Config{Options: fairness.Options{MaxRequestsInFlight: 10, MaxMutatingRequestsInFlight: 10}})
		defer limiter.Close()
		s := newServer(t, func(o *Options) {
			o.Limiter, o.Authorizer, o.Requests.Timeout = limiter, permitAll{}, 20*time.Second
		})
		seats := holdSeats(t, limiter)
		begun := time.Now()
		w := s.do("GET", configMapPath, "", "Impersonate-User", "bob")
		if took := time.Since(begun); w.Code != http.StatusTooManyRequests || took != 5*time.Second {
			t.Errorf("%d after %v: %s", w.Code, took, w.Body)
		}
		for _, p := range seats {
			p.Leave()
		}
	})
	for timeout, want := range map[time.Duration]time.Duration{0: writeTimeout, time.Hour: writeTimeout, time.Second: time.Second} {
		o := RequestOptions{Timeout: timeout}.withDefaults()
		if got := o.writeTimeout(); got != want {
			t.Errorf("timeout %v: writes have %v, want %v", timeout, got, want)
		}
	}
}

// TestMinWatch checks how long watches last whose clients do not say.
func TestMinWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, func(o *Options) { o.Requests.MinWatch = time.Minute })
		w := s.watchStream(s.client(), configMapPath+"?watch=1")
		began := time.Now()
		w.want("end")
		if lasted := time.Since(began); lasted < time.Minute || lasted > 2*time.Minute {
			t.Errorf("a watch lasted %v", lasted)
		}
	})
	for minWatch, least := range map[time.Duration]time.Duration{-1: forever, math.MaxInt64: forever, 0: minWatch, time.Hour: time.Hour} {
		o := RequestOptions{MinWatch: minWatch}.withDefaults()
		for range 100 {
			if got := o.watchTime(); got < least || got > 2*least {
				t.Errorf("minimum %v: %v", minWatch, got)
			}
		}
	}
}
