package main

import (
	"io"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		args string
		want string // version and URL, or a part of the error
	}{
		{"", "--version is missing"},
		{"--version=", "--version is missing"},
		{"--version 0.1.0", "not a semantic version"},
		{"--version v0.1", "not a semantic version"},
		{"--version v0.1.0+build", "not a semantic version"},
		{"--version v01.0.0", "not a semantic version"},
		{"--version v0.1.0;reboot", "not a semantic version"},
		{"--version v0.1.0 --snapshot", "exclude each other"},
		{"--version v0.1.0 more", `unexpected argument "more"`},
		{"--version v0.1.0 --out=", "--out is empty"},
		{"--version v0.1.0 --nothing", "not defined"},
		{"--version v0.1.0 --targets plan9/amd64", "--targets"},
		{"--version v0.1.0 --targets linux", "--targets"},
		{"--version v0.1.0 --targets linux/amd64,linux/amd64", "listed twice"},
		{"--version v0.1.0 --base-url ftp://example.com", "--base-url"},
		{"--version v0.1.0 --base-url https://", "--base-url"},
		{"--version v0.1.0 --base-url https://example.com/$(reboot)", "--base-url"},
		{"--version v0.1.0 --base-url https://example.com/a}", "--base-url"},
		{"--version v0.1.0", "v0.1.0 https://github.com/kapok-dev/kapok/releases/download/v0.1.0"},
		{"--version v0.1.0-rc.1 --base-url http://127.0.0.1:80/x/", "v0.1.0-rc.1 http://127.0.0.1:80/x"},
		{"--snapshot", "v0.0.0-dev.20260102030405 https://github.com/kapok-dev/kapok/releases/download/v0.0.0-dev.20260102030405"},
	} {
		o, err := parse(strings.Fields(tt.args), io.Discard)
		o.complete(source{time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)})
		got := o.version + " " + o.baseURL
		if err != nil {
			got = err.Error()
		}
		if err == nil && got != tt.want || err != nil && !strings.Contains(got, tt.want) {
			t.Errorf("%q: got %q, want %q", tt.args, got, tt.want)
		}
	}
}

func TestParseTargets(t *testing.T) {
	got, err := parseTargets("windows/arm64,linux/amd64")
	if err != nil || len(got) != 2 || got[0].String() != "linux/amd64" || got[1].exe() != ".exe" {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := parseTargets(""); err != nil || len(got) != 6 {
		t.Errorf("no list: got %v, %v", got, err)
	}
}
