package main

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/kapok-dev/kapok/internal/crd"
	"github.com/kapok-dev/kapok/internal/emulation"
	"github.com/kapok-dev/kapok/internal/gates"
	"github.com/kapok-dev/kapok/internal/kinds"

	"github.com/spf13/pflag"
)

// A translation sets flags of kapok up by those of a kube-apiserver.
type translation struct {
	up    *up
	flags *pflag.FlagSet // of kapok up
	notes []note
}

// ofAPIServer are the defaults of kube-apiserver where kapok up has others. A value is set unless
// one of the flags is.
var ofAPIServer = []struct {
	flag, value string
	unless      []string
}{
	{"authorization-mode", "AlwaysAllow", []string{"authorization-mode", "authorization-config"}},
	{"service-cluster-ip-range", "10.0.0.0/24", []string{"service-cluster-ip-range"}},
	{"controllers", "", nil},
	{"housekeeping", "-*", nil},
}

// always are settings of kube-apiserver that need no flag of the same name: Kapok always has them,
// or translate reads them. "*" stands for all values.
var always = map[string]string{
	"allow-privileged": "true", "storage-backend": "etcd3", "enable-garbage-collector": "true", "watch-cache": "true",
	"service-account-lookup": "true", "endpoint-reconciler-type": "lease", "storage-media-type": "*", "logging-format": "text",
	"permit-address-sharing": "*", "secure-port": "*", "bind-address": "*", "etcd-servers": "*", "v": "*",
}

// translate sets the flags of kapok up. The error is that of a value that is invalid.
func (t *translation) translate(args []string) error {
	given, order, unknown, err := apiServerValues(args)
	if err != nil {
		return err
	}
	for _, d := range ofAPIServer {
		if !slices.ContainsFunc(d.unless, func(name string) bool { return given[name] != nil }) {
			if err := t.set(d.flag, d.value); err != nil {
				return err
			}
		}
	}
	if err := t.set("listen", net.JoinHostPort(last(given["bind-address"], "0.0.0.0"), last(given["secure-port"], "6443"))); err != nil {
		return err
	}
	if err := t.store(given["etcd-servers"], given["etcd-cafile"] != nil); err != nil {
		return err
	}
	if n, err := strconv.Atoi(last(given["v"], "0")); err == nil && n >= 2 {
		level := "info"
		if n >= 4 {
			level = "debug"
		}
		if err := t.set("log-level", level); err != nil {
			return err
		}
	}
	t.note("kube-apiserver runs no controllers, so controllers and housekeeping are off: remove both fields if no kube-controller-manager runs")
	for _, name := range order {
		for _, value := range given[name] {
			if err := t.translateOne(name, value); err != nil {
				return err
			}
		}
	}
	for _, flag := range unknown {
		t.lacks("%s: kube-apiserver 1.37 has no such flag", flag)
	}
	t.dropUnsupported()
	return nil
}

func (t *translation) translateOne(name, value string) error {
	same := t.flags.Lookup(name)
	switch usual, found := always[name]; {
	case found && (usual == "*" || usual == value):
		return nil
	case same != nil && !same.Hidden:
		return t.set(name, value)
	}
	t.lacks("--%s=%s: Kapok has no equivalent", name, value)
	return nil
}

// store sets where objects are stored.
func (t *translation) store(servers []string, secured bool) error {
	var hosts []string
	for _, list := range servers {
		for server := range strings.SplitSeq(list, ",") {
			scheme, host, found := strings.Cut(server, "://")
			if !found {
				scheme, host = "http", server
			}
			if scheme == "https" && !secured {
				return fmt.Errorf("--etcd-servers=%s: https needs --etcd-cafile", server)
			}
			hosts = append(hosts, strings.TrimSuffix(host, "/"))
		}
	}
	if len(hosts) == 0 {
		t.note("there is no --etcd-servers: objects are stored in a data directory")
		return nil
	}
	return t.set("store", "etcd://"+strings.Join(hosts, ","))
}

// dropUnsupported removes values of flags that Kapok has, but not for these values. A flag that
// loses all its values counts as not set.
func (t *translation) dropUnsupported() {
	o := &t.up.options
	defer func() {
		for name, left := range map[string]int{
			"runtime-config": len(o.RuntimeConfig), "feature-gates": len(o.FeatureGates), "emulated-version": len(o.EmulatedVersion),
		} {
			t.flags.Lookup(name).Changed = left > 0
		}
	}()
	known := kinds.Selection(o.RuntimeConfig).Known(append(kinds.Definitions(), crd.Definition(true)))
	for _, key := range slices.Sorted(maps.Keys(o.RuntimeConfig)) {
		if _, found := known[key]; !found {
			t.lacks("--runtime-config=%s=%t: Kapok does not have this version", key, o.RuntimeConfig[key])
			delete(o.RuntimeConfig, key)
		}
	}
	release, err := emulation.Parse(o.EmulatedVersion)
	if err != nil {
		t.lacks("--emulated-version: %v", err)
		o.EmulatedVersion, release = "", emulation.Newest
	}
	for _, name := range slices.Sorted(maps.Keys(o.FeatureGates)) {
		if err := (gates.Settings{Release: release, Set: map[string]bool{name: o.FeatureGates[name]}}).Check(); err != nil {
			t.lacks("--feature-gates: %v", err)
			delete(o.FeatureGates, name)
		}
	}
}

// set sets a flag of kapok up, unless it has the value by default.
func (t *translation) set(name, value string) error {
	flag := t.flags.Lookup(name)
	if !flag.Changed && isDefault(flag, value) {
		return nil
	}
	if err := setFlag(t.flags, flag, value); err != nil {
		return fmt.Errorf("--%s: %w", name, err)
	}
	return nil
}

func (t *translation) note(text string) { t.notes = append(t.notes, note{text: text}) }

func (t *translation) lacks(format string, args ...any) {
	t.notes = append(t.notes, note{text: fmt.Sprintf(format, args...), missing: true})
}

// recorded are the values of a flag of kube-apiserver.
type recorded struct {
	name  string
	given map[string][]string
	order *[]string
}

func (r recorded) Type() string   { return "" }
func (r recorded) String() string { return "" }

func (r recorded) Set(text string) error {
	if r.given[r.name] == nil {
		*r.order = append(*r.order, r.name)
	}
	r.given[r.name] = append(r.given[r.name], text)
	return nil
}

// apiServerValues returns the values of the flags in a command line of kube-apiserver, the names in
// their order, and flags that kube-apiserver does not have.
func apiServerValues(args []string) (given map[string][]string, order, unknown []string, err error) {
	given = map[string][]string{}
	f := pflag.NewFlagSet(apiServerName, pflag.ContinueOnError)
	for line := range strings.Lines(apiServerFlags) {
		name, isBool := strings.CutSuffix(strings.TrimSpace(line), " bool")
		short := ""
		if name == "v" {
			short = name
		}
		flag := f.VarPF(recorded{name, given, &order}, name, short, "")
		if isBool {
			flag.NoOptDefVal = "true"
		}
	}
	known, unknown := sift(f, args)
	if err := f.Parse(known); err != nil {
		return nil, nil, nil, err
	}
	if f.NArg() > 0 {
		return nil, nil, nil, fmt.Errorf("the command line has %q, which is no flag", f.Arg(0))
	}
	return given, order, unknown, nil
}

// last returns the last value of a flag, which counts, or its default.
func last(values []string, usual string) string {
	if len(values) == 0 {
		return usual
	}
	return values[len(values)-1]
}
