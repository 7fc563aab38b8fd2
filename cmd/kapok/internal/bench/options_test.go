package bench

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestCheck(t *testing.T) {
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		o    Options
		want string
	}{
		{Options{}, ""},
		{Options{Measures: []string{"get", "lists"}}, `--measure "lists" is unknown: must be some of connect,memory,get,`},
		{Options{Measures: []string{"memory"}}, "--measure memory needs --pid"},
		{Options{Scale: "big"}, `--scale "big" is unknown: must be small or full`},
		{Options{Duration: time.Millisecond}, "--duration 1ms is too short: must be at least 100ms"},
		{Options{Duration: -time.Second}, "--duration -1s is too short"},
		{Options{FsyncDir: file}, "is not a directory"},
		{Options{FsyncDir: file + "s"}, "--fsync-dir: stat"},
	} {
		if err := tc.o.Check(); (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: %v, want %q", tc.o, err, tc.want)
		}
	}
}
