package main

import "testing"

// TestFlagValues checks that /flagz shows what is in effect: values that are set, and defaults,
// also those that are not the default of the flag.
func TestFlagValues(t *testing.T) {
	c := newUp()
	if err := c.ParseFlags([]string{"--audit-log-maxage=7", "--authorization-mode=RBAC", "--listen=127.0.0.1:0"}); err != nil {
		t.Fatal(err)
	}
	values := flagValues(c.Flags())
	for name, want := range map[string]string{
		"listen":                       "127.0.0.1:0",
		"audit-log-maxage":             "7",
		"audit-log-maxsize":            "100",
		"audit-webhook-batch-max-wait": "30s",
		"authorization-mode":           "[RBAC]",
		"node-cidr-mask-size-ipv4":     "24",
		"scheduler":                    "false",
		"history-age":                  "5m0s",
	} {
		if values[name] != want {
			t.Errorf("%s is %q, want %q", name, values[name], want)
		}
	}
	if got := flagValues(newUp().Flags())["authorization-mode"]; got != "Node,RBAC" {
		t.Errorf("authorization-mode is %q by default", got)
	}
	if _, ok := values["help"]; ok {
		t.Error("help is no setting")
	}
}
