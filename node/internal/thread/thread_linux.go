// Package thread runs functions in threads that end with them, because they change what cannot be
// changed back: namespaces, control groups, permissions and tables of descriptors are those of a
// thread in Linux.
package thread

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Run runs a function in a thread of its own, and returns when the function has returned. Processes
// that the function starts inherit what it has changed. The thread is never the first one of the
// process: that one cannot end, and what it has is shown as that of the process.
func Run(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			Run(do) // in another thread, as this goroutine holds this one
			runtime.UnlockOSThread()
			return
		}
		do() // the thread ends with this goroutine, which does not unlock it
	}()
	<-done
}
