package bench

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestProcesses(t *testing.T) {
	if runtime.GOOS != "linux" {
		if err := (&Options{Processes: []int{1}}).Check(); err == nil || !strings.Contains(err.Error(), "/proc of Linux") {
			t.Error(err)
		}
		t.Skip("no /proc")
	}
	own := os.Getpid()
	before, err := processes{own}.use()
	if err != nil {
		t.Fatal(err)
	}
	after := before
	for begin := time.Now(); after.cpu == before.cpu; { // until the work is visible in /proc
		if after, err = (processes{own}).use(); err != nil {
			t.Fatal(err)
		}
		if time.Since(begin) > 30*time.Second {
			t.Fatal("30 s of work took no time")
		}
	}
	if used := after.cpu - before.cpu; used < 0 || used > time.Minute {
		t.Errorf("a little work took %v", used)
	}
	if after.rssAnon < 1<<20 || after.rssFiles < 1<<20 {
		t.Errorf("%+v", after)
	}
	for want, pids := range map[string][]int{"there is no process 99999999": {own, 99999999}, "is set twice": {own, own}} {
		if err := (&Options{Processes: pids}).Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", pids, err)
		}
	}
}
