package endpoint

import "runtime"

// growStack makes the stack of the goroutine 32 KiB large, which is enough for a write. Each
// request has a goroutine of its own that starts with a small stack. Otherwise, Go would double and
// copy it several times, in the depths of the request, where there are many frames to adjust: that
// takes a twelfth of the processor time of a create.
//
// Call it when the body has arrived: the stacks of clients that hold back their bodies are to be
// small.
//
//go:noinline
func growStack() {
	var frame [17 << 10]byte // with what is in use, more than 16 KiB
	runtime.KeepAlive(&frame)
}
