package main

import "testing"

func TestReachable(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:6443": "https://127.0.0.1:6443",
		"[::1]:6443":     "https://[::1]:6443",
		"[::]:6443":      "https://127.0.0.1:6443, and all other addresses of this machine",
		"0.0.0.0:1":      "https://127.0.0.1:1, and all other addresses of this machine",
	} {
		if got := reachable(address); got != want {
			t.Errorf("%s is reached at %q", address, got)
		}
	}
}
