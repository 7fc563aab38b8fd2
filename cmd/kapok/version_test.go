package main

import (
	"runtime/debug"
	"testing"
)

func TestVersionOf(t *testing.T) {
	const commit = "3f2921f4a1b2c3d4e5f60718293a4b5c6d7e8f90"
	built := func(version string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: version}, Settings: settings}
	}
	revision := debug.BuildSetting{Key: "vcs.revision", Value: commit}
	for _, tt := range []struct {
		name     string
		released string
		info     *debug.BuildInfo
		want     string
	}{
		{"a release", "v0.1.0", built("(devel)"), "v0.1.0"},
		{"a release, of a commit", "v0.1.0", built("v0.1.1-0.20260102030405-3f2921f4a1b2", revision), "v0.1.0"},
		{"a module", "", built("v0.2.0"), "v0.2.0"},
		{"a commit", "", built("(devel)", revision), "3f2921f4a1b2"},
		{"a work tree with changes", "", built("", revision, debug.BuildSetting{Key: "vcs.modified", Value: "true"}), "3f2921f4a1b2+changes"},
		{"without git", "", built("(devel)"), "devel"},
		{"without build information", "", nil, "unknown"},
	} {
		if got := versionOf(tt.released, tt.info); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}
