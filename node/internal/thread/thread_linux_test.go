package thread

import (
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestRun runs functions, also while the first thread is free: none runs there, and their threads
// end.
func TestRun(t *testing.T) {
	for range 100 {
		var id int
		Run(func() {
			id = unix.Gettid()
			runtime.Gosched()
			if unix.Gettid() != id {
				t.Error("the function has changed its thread")
			}
		})
		if id == unix.Getpid() {
			t.Fatal("the function has run in the first thread")
		}
		for limit := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			if _, err := os.Stat("/proc/self/task/" + strconv.Itoa(id)); err != nil {
				break
			}
			if time.Now().After(limit) {
				t.Fatal("the thread does not end")
			}
		}
	}
}
