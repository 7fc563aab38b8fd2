//go:build linux || darwin

package proc

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"sync"

	"github.com/creack/pty"
)

// Streams are those of a command or of an attached container. Nil ones are empty, or what is
// written is discarded.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	// Terminal gives a command a terminal, whose output goes to Out.
	Terminal bool
	// Resize has the sizes of the terminal. Nil: it has none.
	Resize <-chan Size
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

// Exec runs a command in a container, and returns when it has ended; an *ExitError if that was not
// with the exit code
// 0. The command is killed when ctx ends.
func (r *Runtime) Exec(ctx context.Context, id ID, args []string, s Streams) error {
	q := request{Do: "exec", Args: args, Terminal: s.Terminal}
	var files []*os.File // for the command
	var p pump
	defer p.close()
	if s.Terminal {
		own, tty, err := pty.Open()
		if err != nil {
			return err
		}
		files = append(files, tty)
		p.own = append(p.own, own)
		p.input(own, s.In, false)
		p.output(own, s.Out)
		p.resize(ctx, s.Resize, func(z Size) { _ = pty.Setsize(own, &pty.Winsize{Rows: z.Rows, Cols: z.Cols}) })
	} else {
		for _, stream := range []struct {
			has *bool
			in  io.Reader
			out io.Writer
		}{{&q.In, s.In, nil}, {&q.Out, nil, s.Out}, {&q.Err, nil, s.Err}} {
			if stream.in == nil && stream.out == nil {
				continue
			}
			from, to, err := os.Pipe()
			if err != nil {
				closeAll(files)
				return err
			}
			*stream.has = true
			if stream.in != nil {
				files, p.own = append(files, from), append(p.own, to)
				p.input(to, stream.in, true)
			} else {
				files, p.own = append(files, to), append(p.own, from)
				p.output(from, stream.out)
			}
		}
	}
	c, answer, err := r.ask(id, q, files...)
	closeAll(files)
	if err != nil {
		return err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	if answer.Error != "" {
		if answer.Path {
			return &NotFoundError{answer.Error}
		}
		return errors.New(answer.Error)
	}
	if _, err := receive(c, &answer); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &ExitError{137} // it was killed with the container
	}
	p.drain(ctx)
	if answer.Code != 0 {
		return &ExitError{answer.Code}
	}
	return nil
}

// Attach connects streams with those of a container, until it ends or ctx does.
func (r *Runtime) Attach(ctx context.Context, id ID, s Streams) error {
	q := request{Do: "attach"}
	var files []*os.File
	var p pump
	defer p.close()
	for _, stream := range []struct {
		has *bool
		in  io.Reader
		out io.Writer
	}{{&q.In, s.In, nil}, {&q.Out, nil, s.Out}, {&q.Err, nil, s.Err}} {
		if stream.in == nil && stream.out == nil {
			continue
		}
		from, to, err := os.Pipe()
		if err != nil {
			closeAll(files)
			return err
		}
		*stream.has = true
		if stream.in != nil {
			files, p.own = append(files, from), append(p.own, to)
			p.input(to, stream.in, true)
		} else {
			files, p.own = append(files, to), append(p.own, from)
			p.output(from, stream.out)
		}
	}
	c, _, err := r.ask(id, q, files...)
	closeAll(files)
	if err != nil {
		return err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	p.resize(ctx, s.Resize, func(z Size) { _ = send(c, z) })
	var end response
	_, err = receive(c, &end) // nothing comes: the end of the connection is that of the container
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) && ctx.Err() == nil {
		p.drain(ctx)
		return nil
	}
	p.drain(ctx)
	return ctx.Err()
}

// A pump copies between streams and files.
type pump struct {
	own     []*os.File
	outputs sync.WaitGroup
	resizes sync.WaitGroup
	cancel  context.CancelFunc
}

// input copies a stream to a file. The goroutine ends with the stream, whose owner ends it when the
// request ends.
func (p *pump) input(to *os.File, from io.Reader, closes bool) {
	if from == nil {
		return
	}
	go func() {
		_, _ = io.Copy(to, from)
		if closes {
			to.Close()
		}
	}()
}

func (p *pump) output(from *os.File, to io.Writer) {
	if to == nil {
		to = io.Discard
	}
	p.outputs.Go(func() {
		_, err := io.Copy(to, from)
		if err != nil && !errors.Is(err, fs.ErrClosed) {
			_, _ = io.Copy(io.Discard, from) // the client has gone, and the command goes on
		}
	})
}

func (p *pump) resize(ctx context.Context, sizes <-chan Size, set func(Size)) {
	ctx, p.cancel = context.WithCancel(ctx)
	if sizes == nil {
		return
	}
	p.resizes.Go(func() {
		for {
			select {
			case z, ok := <-sizes:
				if !ok {
					return
				}
				set(z)
			case <-ctx.Done():
				return
			}
		}
	})
}

// drain waits for the end of the output, which other processes may have inherited, but not for
// long.
func (p *pump) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { closeAll(p.own) })
	defer stop()
	p.outputs.Wait()
}

func (p *pump) close() {
	if p.cancel != nil {
		p.cancel()
	}
	closeAll(p.own)
	p.outputs.Wait()
	p.resizes.Wait()
}
