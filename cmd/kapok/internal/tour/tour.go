// Package tour guides a newcomer through the API of Kubernetes: each step shows a command, runs it,
// and shows what it prints.
//
// The commands are processes of kubectl, which Run waits for; it starts no goroutine that outlives
// it, except for one that waits for a line of the input.
package tour

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/charmbracelet/x/ansi"
)

// Options are what a tour needs.
type Options struct {
	Kubectl    []string // the command to which the arguments of each step are added
	Kubeconfig string
	Dir        string // an empty directory, where files of the steps are written
	Out        io.Writer
	// In has the answers of the user, who presses Enter before each command. If it is nil, the tour
	// does not wait.
	In io.Reader
}

// ErrQuit is the error of a tour that the user has left.
var ErrQuit = errors.New("the tour was left early")

var (
	bold   = ansi.Style{}.Bold()
	quiet  = ansi.Style{}.Faint()
	prompt = ansi.Style{}.ForegroundColor(ansi.Green).Bold()
)

// Run shows the steps. It returns [ErrQuit] if the user leaves, the error of the context if it
// ends, and an error if a command does other than its step says.
func Run(ctx context.Context, o Options, steps []Step) error {
	r := &run{Options: o}
	if o.In != nil {
		r.lines = linesOf(o.In)
	}
	for i, step := range steps {
		fmt.Fprintf(o.Out, "%s\n\n", bold.Styled(fmt.Sprintf("%d/%d  %s", i+1, len(steps), step.Title)))
		if err := r.step(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

type run struct {
	Options
	lines <-chan string
}

// linesOf returns a channel of the lines of an input. It is closed at its end.
func linesOf(in io.Reader) <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(in); s.Scan(); {
			lines <- s.Text()
		}
	}()
	return lines
}

func (r *run) step(ctx context.Context, s Step) error {
	if s.Text != "" {
		fmt.Fprintf(r.Out, "%s\n\n", s.Text)
	}
	if s.File != "" {
		if err := os.WriteFile(filepath.Join(r.Dir, s.File), []byte(s.Content), 0o600); err != nil {
			return err
		}
		fmt.Fprintf(r.Out, "%s\n", quiet.Styled(s.File+":"))
		for line := range strings.Lines(s.Content) {
			fmt.Fprintf(r.Out, "  %s\n", strings.TrimSuffix(line, "\n"))
		}
		fmt.Fprintln(r.Out)
	}
	if s.Wait != nil {
		if out, err := r.command(ctx, s.Wait).CombinedOutput(); err != nil {
			return fmt.Errorf("kubectl %s: %w: %s", strings.Join(s.Wait, " "), err, out)
		}
	}
	r.show(s.Command)
	if s.During != nil {
		r.show(s.During)
	}
	if err := r.confirm(ctx); err != nil {
		return err
	}
	if s.During != nil {
		return r.watch(ctx, s)
	}
	c := r.command(ctx, s.Command)
	c.Stdout, c.Stderr = r.Out, r.Out
	err := c.Run()
	fmt.Fprintln(r.Out)
	exit := (*exec.ExitError)(nil)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case s.Fails && errors.As(err, &exit):
		return nil
	case s.Fails && err == nil:
		return fmt.Errorf("kubectl %s did not fail", strings.Join(s.Command, " "))
	case err != nil:
		return fmt.Errorf("kubectl %s: %w", strings.Join(s.Command, " "), err)
	}
	return nil
}

// show prints a command as it would be typed.
func (r *run) show(args []string) {
	words := []string{"kubectl"}
	for _, arg := range args {
		if !plain.MatchString(arg) {
			arg = "'" + arg + "'"
		}
		words = append(words, arg)
	}
	fmt.Fprintf(r.Out, "%s %s\n", prompt.Styled("$"), bold.Styled(strings.Join(words, " ")))
}

// plain matches arguments that a shell takes as they are.
var plain = regexp.MustCompile(`^[\w@%+=:,./-]+$`)

// confirm waits until the user presses Enter.
func (r *run) confirm(ctx context.Context) error {
	if r.lines == nil {
		return nil
	}
	fmt.Fprint(r.Out, quiet.Styled("  Enter runs it, q leaves: "))
	select {
	case line, open := <-r.lines:
		if !open || strings.HasPrefix(strings.TrimSpace(strings.ToLower(line)), "q") {
			return ErrQuit
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *run) command(ctx context.Context, args []string) *exec.Cmd {
	c := exec.CommandContext(ctx, r.Kubectl[0], append(r.Kubectl[1:len(r.Kubectl):len(r.Kubectl)], args...)...)
	c.Dir, c.Env = r.Dir, append(os.Environ(), "KUBECONFIG="+r.Kubeconfig)
	return c
}

// watch runs During once Command has printed its first object, and stops Command when it has
// printed Until after that.
func (r *run) watch(ctx context.Context, s Step) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	seen := &seen{to: r.Out, changed: make(chan struct{}, 1)}
	watching := r.command(ctx, s.Command)
	watching.Stdout, watching.Stderr = seen, seen
	if err := watching.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- watching.Wait() }()
	wait := func(shown func(lines []string) bool) error {
		for !shown(seen.lines()) {
			select {
			case <-seen.changed:
			case err := <-ended:
				ended <- err
				return fmt.Errorf("kubectl %s has ended: %w", strings.Join(s.Command, " "), err)
			}
		}
		return nil
	}
	before := 0
	err := wait(func(lines []string) bool { before = len(lines); return before >= 2 }) // columns, and the object
	if err == nil {
		var out []byte
		if out, err = r.command(ctx, s.During).CombinedOutput(); err != nil {
			err = fmt.Errorf("kubectl %s: %w: %s", strings.Join(s.During, " "), err, out)
		}
	}
	if err == nil {
		err = wait(func(lines []string) bool {
			return strings.Contains(strings.Join(lines[min(before, len(lines)):], "\n"), s.Until)
		})
	}
	stop()
	<-ended
	fmt.Fprintln(r.Out)
	return err
}

// seen passes on what is written to it, and remembers it. It is safe for concurrent use.
type seen struct {
	to      io.Writer
	changed chan struct{} // has an item after a write

	mu  sync.Mutex
	all bytes.Buffer
}

func (s *seen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all.Write(p)
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return s.to.Write(p)
}

// lines returns the complete lines.
func (s *seen) lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	whole := s.all.String()
	return strings.Split(whole, "\n")[:strings.Count(whole, "\n")]
}
