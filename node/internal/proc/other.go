//go:build !linux && !darwin

package proc

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/kapok-dev/kapok/node/internal/podnet"
)

// Main does nothing on this system.
func Main() {}

// Options configure a Runtime.
type Options struct {
	Dir     string
	Tether  bool
	Changed func(pod string)
	Lost    func()
}

// Streams are those of a command.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Terminal bool
	Resize   <-chan Size
}

// A Size is that of a terminal.
type Size struct{ Rows, Cols uint16 }

// An ExitError is that of a command that has ended with an exit code other than 0.
type ExitError struct{ Code int }

// Error implements error.
func (e *ExitError) Error() string { return "command terminated with a non-zero exit code" }

// A NotFoundError is that of a command that does not exist.
type NotFoundError struct{ Message string }

// Error implements error.
func (e *NotFoundError) Error() string { return e.Message }

// A Runtime cannot be opened on this system.
type Runtime struct{}

// Open returns ErrUnsupported.
func Open(Options) (*Runtime, error) { return nil, ErrUnsupported }

// Pods returns no pods.
func (*Runtime) Pods() []string { return nil }

// Runs returns no runs.
func (*Runtime) Runs(string) []Run { return nil }

// Root returns nil.
func (*Runtime) Root() *os.Root { return nil }

// Mounts returns ErrUnsupported.
func (*Runtime) Mounts(context.Context) error { return ErrUnsupported }

// Isolates returns ErrUnsupported.
func (*Runtime) Isolates(context.Context) error { return ErrUnsupported }

// Network returns ErrUnsupported.
func (*Runtime) Network(context.Context, podnet.Options) (outside, err error) {
	return nil, ErrUnsupported
}

// Socket returns ErrUnsupported.
func (*Runtime) Socket(context.Context, podnet.Socket) (*os.File, error) { return nil, ErrUnsupported }

// Leave returns ErrUnsupported.
func (*Runtime) Leave(context.Context, string) error { return ErrUnsupported }

// Limit returns ErrUnsupported.
func (*Runtime) Limit() error { return ErrUnsupported }

// Usage returns nothing.
func (*Runtime) Usage() map[ID]Usage { return nil }

// PodDir returns "".
func (*Runtime) PodDir(string) string { return "" }

// LogPath returns "".
func (*Runtime) LogPath(ID) string { return "" }

// Start returns ErrUnsupported.
func (*Runtime) Start(context.Context, Spec) (Run, error) { return Run{}, ErrUnsupported }

// Terminate returns ErrUnsupported.
func (*Runtime) Terminate(ID) error { return ErrUnsupported }

// Kill returns ErrUnsupported.
func (*Runtime) Kill(ID) error { return ErrUnsupported }

// Remove returns ErrUnsupported.
func (*Runtime) Remove(string) error { return ErrUnsupported }

// Exec returns ErrUnsupported.
func (*Runtime) Exec(context.Context, ID, []string, Streams) error { return ErrUnsupported }

// Attach returns ErrUnsupported.
func (*Runtime) Attach(context.Context, ID, Streams) error { return ErrUnsupported }

// Close does nothing.
func (*Runtime) Close(time.Duration) {}
